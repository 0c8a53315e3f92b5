//! `docs/cli.md`: the help of every command, as the program prints it.

use std::collections::BTreeSet;
use std::fs;

use crate::help::commands;
use crate::program::{root, run};

/// How the possible values of a flag are indented.
const VALUES_INDENT: &str = "          ";

/// A help text in sections: a heading, which may be empty, and paragraphs.
fn sections(help: &str) -> Vec<(String, Vec<String>)> {
    let mut sections: Vec<(String, Vec<String>)> = vec![(String::new(), Vec::new())];
    for paragraph in help.split("\n\n") {
        let paragraph = paragraph.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        let (heading, rest) = paragraph.split_once('\n').unwrap_or((&paragraph, ""));
        let flag = sections.last_mut().and_then(|(_, paragraphs)| paragraphs.last_mut());
        if let Some(flag) = flag.filter(|_| paragraph.starts_with(VALUES_INDENT)) {
            // Values and default belong to the flag above them.
            flag.extend(["\n\n", &paragraph]);
        } else if heading.ends_with(':') && rest.starts_with(' ') {
            sections.push((heading.to_owned(), vec![rest.to_owned()]));
        } else if let Some((_, paragraphs)) = sections.last_mut() {
            paragraphs.push(paragraph);
        }
    }
    sections
}

/// A help text without the flags that `bench` has too.
fn without(help: &str, bench: &str) -> String {
    let known: BTreeSet<String> =
        sections(bench).into_iter().flat_map(|(_, paragraphs)| paragraphs).collect();
    let is_own = |paragraph: &String| !paragraph.contains("--") || !known.contains(paragraph);
    let mut text = Vec::new();
    for (heading, mut paragraphs) in sections(help) {
        paragraphs.retain(is_own);
        let Some(first) = paragraphs.first_mut() else { continue };
        if !heading.is_empty() {
            *first = format!("{heading}\n{first}");
        }
        text.extend(paragraphs);
    }
    text.join("\n\n")
}

fn page() -> String {
    let folder = tempfile::tempdir().unwrap();
    let help_of = |command: &str| {
        let help = run(folder.path(), &format!("{command} --help")).succeeded().stdout;
        help.trim_end().to_owned()
    };
    let bench = help_of("bench");
    let mut page = String::from(
        "# Command line\n\n\
         Which commands and flags are there? Generated from the program; do not edit by hand. `-h` shows the most used\n\
         flags, `--help` all of them. Flags of other tools: [Coming from another tool](migrating.md).\n\
         [Exit codes](#exit-codes) are at the end.\n",
    );
    for command in std::iter::once(String::new()).chain(commands()) {
        let (help, remark) = match command.as_str() {
            "capacity" | "dataset" | "predict" => {
                let remark =
                    "\nFlags that [`tokometer bench`](#tokometer-bench) has too are left out.\n";
                (without(&help_of(&command), &bench), remark)
            }
            _ => (without(&help_of(&command), ""), ""),
        };
        let title = format!("tokometer {command}");
        let title = title.trim_end();
        page.extend(["\n## ", title, "\n", remark, "\n```text\n", &help, "\n```\n"]);
    }
    page + &super::lists::exit_codes()
}

#[test]
fn the_page_of_the_command_line_is_up_to_date() {
    let path = root().join("docs/cli.md");
    let page = page();
    if std::env::var_os("TOKOMETER_WRITE_PAGES").is_some() {
        fs::write(&path, &page).unwrap();
        return;
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == page, "docs/cli.md is out of date: run with TOKOMETER_WRITE_PAGES=1");
}
