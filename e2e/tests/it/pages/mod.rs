//! The commands of the documentation, run as they are written.
//!
//! `console` blocks are run by a shell against the simulated server, page by page, in a folder of
//! the page's own; what they print is compared with the page. Outputs that take too long are compared
//! with those of a shorter command, in shape. Other commands in blocks are run once with a small load, and
//! Python with a run folder; so are complete commands between backticks in a text, and the others are
//! parsed. `CONTRIBUTING.md` says how to write each kind under *Job 5*.
//!
//! `TOKOMETER_WRITE_PAGES=1 cargo test -p tokometer-e2e pages` writes the outputs that differ.

mod block;
mod cli;
mod compare;
mod gateway;
mod in_text;
mod lists;
mod mask;
mod python;
mod session;
mod shape;
mod shards;
mod small;

use std::fs;

use block::Page;
use session::Session;

use crate::program::root;

/// Pages of one part of the book, in its order.
fn pages_of(part: &str) -> Vec<Page> {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let lines = summary.lines().skip_while(|line| *line != format!("# {part}")).skip(1);
    let lines = lines.take_while(|line| !line.starts_with("# "));
    let names = lines.filter_map(|line| line.split_once("](")?.1.strip_suffix(')'));
    let pages: Vec<Page> = names.map(|name| Page::open(&format!("docs/{name}"))).collect();
    assert!(!pages.is_empty(), "docs/SUMMARY.md has no part `{part}`");
    pages
}

/// Every page of the book with README.md.
fn all_pages() -> Vec<Page> {
    let parts = ["Tutorials", "How-to guides", "Reference", "Explanation"];
    let pages = parts.into_iter().flat_map(pages_of);
    pages.chain([Page::open("README.md")]).collect()
}

/// Runs the pages, and fails with every difference that was found.
fn check(pages: Vec<Page>) {
    let is_written = std::env::var_os("TOKOMETER_WRITE_PAGES").is_some();
    let (mut differences, mut problems) = (Vec::new(), Vec::new());
    for mut page in pages {
        differences.extend(run(&mut page, &mut problems));
        if is_written {
            page.save();
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    let advice = "run with TOKOMETER_WRITE_PAGES=1 to write what is printed now";
    assert!(
        differences.is_empty() || is_written,
        "{advice}, then read the difference\n\n{}",
        differences.join("\n\n")
    );
}

/// Runs the examples of a page in order, and puts what they print into it where it differs. Problems
/// are what cannot be written into the page.
fn run(page: &mut Page, problems: &mut Vec<String>) -> Vec<String> {
    let mut session = Session::new(page);
    let mut differences = Vec::new();
    let mut changes = Vec::new();
    for example in page.examples() {
        let shown: Vec<&str> = example.shown.iter().map(String::as_str).collect();
        if example.is_shorter {
            let found = shorter(&mut session, &example.command, &shown);
            let advice = "run the command that the page shows, and copy its output";
            problems.extend(
                found.err().map(|why| format!("{}:{}: {advice}\n{why}", page.name, example.line)),
            );
            continue;
        }
        let printed = session.run(&example.command);
        let rule = mask::Rule::of(&example.command);
        if let Err(why) = compare::shows(&shown, &printed, rule) {
            differences.push(format!("{}:{}: {}\n{why}", page.name, example.line, example.command));
            changes.push((example.range.clone(), compare::updated(&shown, &printed, rule)));
        }
    }
    problems.extend(session.problems());
    // From the last to the first, so that a longer output moves no line that is still to change.
    for (range, lines) in changes.into_iter().rev() {
        page.replace(range, lines);
    }
    differences
}

/// Compares the shape of a measured output. A machine that stalls withholds figures and adds lines, so
/// a difference must show each time.
fn shorter(session: &mut Session, command: &str, shown: &[&str]) -> Result<(), String> {
    const ATTEMPTS: usize = 4;
    let mut found = Ok(());
    for _ in 0..ATTEMPTS {
        let printed = session.run_shorter(command);
        // A server or a step before the compared command shows nothing.
        found = if shown.is_empty() { Ok(()) } else { shape::is_same(shown, &printed) };
        if found.is_ok() {
            break;
        }
    }
    found
}

#[test]
fn commands_of_the_tutorials_print_what_the_pages_show() {
    check(pages_of("Tutorials"));
}

#[test]
fn commands_of_the_how_to_guides_print_what_the_pages_show() {
    check(pages_of("How-to guides"));
}

#[test]
fn commands_of_the_other_pages_print_what_the_pages_show() {
    let mut pages = Vec::new();
    for part in ["Reference", "Explanation"] {
        pages.extend(pages_of(part));
    }
    pages.push(Page::open("README.md"));
    check(pages);
}

fn check_small(pages: &[Page]) {
    let failures = small::failures(pages);
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// A page had a command that was parsed, and that the program refused when it was run.
#[test]
fn commands_without_output_work_in_the_tutorials() {
    check_small(&pages_of("Tutorials"));
}

#[test]
fn commands_without_output_work_in_the_how_to_guides() {
    check_small(&pages_of("How-to guides"));
}

#[test]
fn commands_without_output_work_in_the_reference() {
    check_small(&pages_of("Reference"));
}

#[test]
fn commands_without_output_work_in_the_other_pages() {
    let pages = pages_of("Explanation").into_iter();
    check_small(&pages.chain([Page::open("README.md")]).collect::<Vec<_>>());
}

/// Commands that need a server, a GPU or another machine cannot be run here. The program knows their
/// flags all the same.
#[test]
fn commands_that_are_not_run_are_parsed() {
    let mut problems = Vec::new();
    for page in all_pages() {
        problems.extend(session::unparsed(&page));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// A page showed a label that the program had not printed for weeks.
#[test]
fn an_output_is_compared_or_says_why_not() {
    // These two are compared as a whole by tests of their own.
    let is_generated =
        |page: &Page| ["docs/cli.md", "docs/faults.md"].contains(&page.name.as_str());
    let pages = all_pages().into_iter().filter(|page| !is_generated(page));
    let problems: Vec<String> = pages.flat_map(|page| page.outputs_without_command()).collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn a_block_that_is_not_run_says_why() {
    let mut problems = Vec::new();
    for page in all_pages() {
        problems.extend(page.blocks_without_reason());
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
