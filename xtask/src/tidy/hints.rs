//! What a message or a page advises exists: flags, commands and pages.
//!
//! `docs/cli.md` is generated from the program and has every flag and command. A message that names a
//! flag of the past sends its reader to the next error.

use std::collections::BTreeSet;

use super::SourceFile;

/// Sources that are about the flags of other tools.
const FOREIGN_SOURCES: [&str; 4] = [
    "crates/compat/",
    "crates/doctor/",
    "crates/cli/src/args/compat",
    "crates/plan/src/resolve/secrets.rs",
];

/// Pages about the project's tasks and other servers' flags.
const FOREIGN_PAGES: [&str; 8] = [
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "docs/building.md",
    "docs/faults.md",
    "docs/real-servers.md",
    "docs/verdict.md",
    "lab/README.md",
];

/// Flags of other programs that messages and pages name, and one that no help shows.
const FOREIGN_FLAGS: [&str; 6] =
    ["--api-server-count", "--features", "--follow-stdin", "--install", "--release", "--runner"];

/// Commands that the help does not list.
const UNLISTED_COMMANDS: [&str; 3] = ["docs", "help", "man"];

/// Programs whose flags are not ours.
const FOREIGN_PROGRAMS: [&str; 8] =
    ["cargo ", "docker ", "openssl ", "pip ", "podman ", "python", "srun ", "ssh "];

struct Known<'a> {
    flags: BTreeSet<&'a str>,
    commands: BTreeSet<&'a str>,
    pages: BTreeSet<&'a str>,
}

impl<'a> Known<'a> {
    fn new(pages: &'a [(String, String)]) -> Self {
        let text = |name: &str| pages.iter().find(|(page, _)| page == name).map(|(_, text)| text);
        let help = text("docs/cli.md").map_or("", String::as_str);
        let migrating = text("docs/migrating.md").map_or("", String::as_str);
        let headings = help.lines().filter_map(|line| line.strip_prefix("## tokometer "));
        Self {
            flags: flags(help).chain(flags(migrating)).chain(FOREIGN_FLAGS).collect(),
            commands: headings.chain(UNLISTED_COMMANDS).collect(),
            pages: pages.iter().map(|(name, _)| name.as_str()).collect(),
        }
    }

    /// What a text names and does not exist.
    fn missing(&self, text: &str) -> Vec<String> {
        // `--shard-tls-…` and `--profile-*` stand for several.
        let is_known = |flag: &&str| {
            self.flags.contains(flag)
                || (flag.ends_with('-') && self.flags.iter().any(|known| known.starts_with(*flag)))
        };
        let flags = flags(text).filter(|flag| !is_known(flag)).map(|flag| format!("flag `{flag}`"));
        let named = text.split("`tokometer ").skip(1).filter_map(|rest| {
            let end = rest.find(|letter: char| !letter.is_ascii_lowercase())?;
            let is_word = end > 0 && rest[end..].starts_with([' ', '`']);
            is_word.then(|| &rest[..end])
        });
        let commands = named.filter(|name| !self.commands.contains(name));
        let commands = commands.map(|name| format!("command `tokometer {name}`"));
        let pages = text.split("docs/").skip(1).filter_map(|rest| {
            let end = rest.find(".md")? + ".md".len();
            let is_name =
                rest[..end].chars().all(|one| one.is_ascii_lowercase() || "-.".contains(one));
            is_name.then(|| format!("docs/{}", &rest[..end]))
        });
        let pages = pages.filter(|page| !self.pages.contains(page.as_str()));
        flags.chain(commands).chain(pages.map(|page| format!("page `{page}`"))).collect()
    }
}

/// Words of a text that look like a flag.
fn flags(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("--").filter_map(|(at, _)| {
        let is_start = !text[..at].ends_with(|one: char| one.is_alphanumeric() || one == '-');
        let rest = &text[at + 2..];
        let is_letter = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '-';
        let length = rest.find(|one| !is_letter(one)).unwrap_or(rest.len());
        let is_flag = is_start && rest.starts_with(|one: char| one.is_ascii_lowercase());
        is_flag.then(|| &text[at..at + 2 + length])
    })
}

/// Advice of the program and of the pages that cannot be followed.
pub(super) fn missing(sources: &[SourceFile], pages: &[(String, String)]) -> Vec<String> {
    let known = Known::new(pages);
    let mut findings = Vec::new();
    for source in sources.iter().filter(|source| is_shown(source)) {
        for (number, line) in (1..).zip(source.code().lines()) {
            if line.trim_start().starts_with("//") {
                continue;
            }
            let line_of = format!("{}:{number}", source.show());
            findings.extend(known.missing(line).iter().map(|what| say(&line_of, what)));
        }
    }
    for (page, text) in pages.iter().filter(|(page, _)| !FOREIGN_PAGES.contains(&page.as_str())) {
        let mut is_output = false;
        for (number, line) in (1..).zip(text.lines()) {
            // Blocks are run by tests; what they print may name what does not exist.
            is_output ^= line.starts_with("```");
            if is_output {
                continue;
            }
            for span in line.split('`').skip(1).step_by(2) {
                let is_foreign = FOREIGN_PROGRAMS.iter().any(|program| span.starts_with(program));
                let code = format!("`{span}`");
                let missing = if is_foreign { Vec::new() } else { known.missing(&code) };
                findings.extend(missing.iter().map(|what| say(&format!("{page}:{number}"), what)));
            }
        }
    }
    findings
}

fn say(line_of: &str, what: &str) -> String {
    format!("{line_of}: names the {what}, which does not exist")
}

/// Sources whose strings a user reads.
fn is_shown(source: &SourceFile) -> bool {
    let path = source.show();
    let is_foreign = FOREIGN_SOURCES.iter().any(|start| path.starts_with(start));
    path.starts_with("crates/") && !path.ends_with("/build.rs") && !is_foreign && !source.is_test()
}

#[cfg(test)]
mod tests {
    use super::super::root;
    use super::*;

    fn pages() -> Vec<(String, String)> {
        let page = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        vec![
            page(
                "docs/cli.md",
                "## tokometer bench\n\n  --run-dir <DIR>\n  --shard-tls-cert <FILE>\n",
            ),
            page("docs/migrating.md", "| `--backend` | kept |\n"),
        ]
    }

    #[test]
    fn a_message_that_advises_what_does_not_exist_is_found() {
        let check = |line: &str, expected: &[&str]| {
            let source =
                SourceFile { path: root().join("crates/a/src/x.rs"), text: line.to_owned() };
            let found = missing(&[source], &pages());
            assert_eq!(found.len(), expected.len(), "{line}: {found:?}");
            for (finding, part) in found.iter().zip(expected) {
                assert!(finding.contains(part), "{finding}");
            }
        };
        check(r#""use `--run-dir`, `--backend` or `--shard-tls-…`""#, &[]);
        check(r#""use `--run-folder DIR`""#, &["x.rs:1: names the flag `--run-folder`"]);
        check(r#""try `tokometer bench`, `tokometer help` or `tokometer http://HOST`""#, &[]);
        check(r#""try `tokometer measure URL`""#, &["command `tokometer measure`"]);
        check(r#""see docs/cli.md and docs/gone.md""#, &["page `docs/gone.md`"]);
        check("// `--an-old-flag`", &[]);
    }

    #[test]
    fn a_page_that_names_a_flag_of_the_past_is_found() {
        let check = |text: &str, expected: usize| {
            let mut pages = pages();
            pages.push(("docs/a.md".to_owned(), text.to_owned()));
            let found = missing(&[], &pages);
            assert_eq!(found.len(), expected, "{text}: {found:?}");
        };
        check("Use `--run-dir DIR`, or --anything without code, or `cargo x --y`.", 0);
        check("Use `--run-folder DIR`.", 1);
        check("```console\nerror: unknown flag `--run-folder`\n```\nUse `--run-folder`.", 1);
    }
}
