//! `docs/faults.md`: one table per group, each row as the run of its case gave it.

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use super::GROUPS;
use super::case::Case;
use crate::program::{ProgramExit, root};

/// Characters of a message that a row shows.
const MESSAGE_LONGEST: usize = 260;

/// Equal characters in a row that a message shows.
const EQUAL_LONGEST: usize = 12;

pub(super) struct Row {
    fault: String,
    outcome: String,
    message: String,
    exit: String,
}

impl Row {
    pub(super) fn new(
        case: &Case,
        ended: &ProgramExit,
        counts: Option<String>,
        folder: &Path,
    ) -> Self {
        let printed = format!("{}{}", ended.stderr, ended.stdout);
        let message = case.says.first().map(|part| message(&printed, part));
        Self {
            fault: case.fault.to_owned(),
            outcome: counts.unwrap_or_else(|| case.outcome.to_owned()),
            message: message.map(|text| normalised(&text, folder)).unwrap_or_default(),
            exit: ended.code.map_or("signal".to_owned(), |code| code.to_string()),
        }
    }

    fn line(&self) -> String {
        let message = match self.message.as_str() {
            "" => "–".to_owned(),
            text => format!("`` {} ``", text.replace('|', "\\|")),
        };
        format!("| {} | {} | {message} | {} |", self.fault, self.outcome, self.exit)
    }
}

/// The line that has `part`, with the advice below it.
fn message(printed: &str, part: &str) -> String {
    // The first line says what will be measured, whatever becomes of it.
    let lines = printed.lines().filter(|line| !line.starts_with("measuring "));
    let mut lines = lines.skip_while(|line| !line.contains(part));
    let first = lines.next().unwrap_or_default();
    if !first.starts_with("error:") {
        // A long line of the summary goes on below, further in than other lines.
        let rest = lines.take_while(|line| line.starts_with("    "));
        let words = std::iter::once(first).chain(rest).flat_map(str::split_whitespace);
        return words.collect::<Vec<_>>().join(" ");
    }
    let advice = lines.next().filter(|next| next.starts_with("  ") && next.trim() != "|");
    let words = first.split_whitespace().chain(advice.map(|_| "–"));
    words.chain(advice.unwrap_or_default().split_whitespace()).collect::<Vec<_>>().join(" ")
}

/// The same without what differs from run to run: ports, folders, times.
fn normalised(message: &str, folder: &Path) -> String {
    let text = message.replace(&folder.display().to_string(), "DIR");
    let mut parts = text.split("127.0.0.1:");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|digit: char| digit.is_ascii_digit());
        shown.push_str("127.0.0.1:PORT");
        shown.push_str(rest);
    }
    let words: Vec<&str> = shown.split(' ').collect();
    let mut kept: Vec<&str> = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let unit = words.get(index + 1).map(|next| next.trim_end_matches([',', ';', ')', ':']));
        let is_time =
            matches!(unit, Some("s" | "ms")) && word.parse::<f64>().is_ok() && word.contains('.');
        kept.push(if is_time { "N" } else { word });
    }
    let shown = shortened(&kept.join(" "));
    match shown.char_indices().nth(MESSAGE_LONGEST) {
        Some((end, _)) => format!("{}…", &shown[..end]),
        None => shown,
    }
}

/// The same with long rows of one character cut.
fn shortened(text: &str) -> String {
    let mut shown = String::new();
    let mut last = (' ', 0);
    for letter in text.chars() {
        last = if letter == last.0 { (letter, last.1 + 1) } else { (letter, 1) };
        match last.1 {
            count if count < EQUAL_LONGEST => shown.push(letter),
            EQUAL_LONGEST => shown.push('…'),
            _ => {}
        }
    }
    shown
}

/// Compares the rows with the page, or writes them there when that is asked for.
pub(super) fn compare(group: &str, rows: &[Row]) {
    // Tests of one process may run at the same time.
    static PAGE: Mutex<()> = Mutex::new(());
    let _guard = PAGE.lock();
    let path = root().join("docs/faults.md");
    let page = fs::read_to_string(&path).unwrap_or_default();
    let section = section(group, rows);
    if std::env::var_os("TOKOMETER_WRITE_PAGES").is_some() {
        fs::write(&path, with_section(&page, group, &section)).unwrap();
        return;
    }
    let found = sections(&page).into_iter().find(|(name, _)| name == group);
    let found = found.map(|(_, text)| text).unwrap_or_default();
    let missing: Vec<&str> =
        section.lines().filter(|line| !found.lines().any(|has| has == *line)).collect();
    assert!(
        found.trim_end() == section.trim_end(),
        "docs/faults.md is out of date in `{group}`: run with TOKOMETER_WRITE_PAGES=1\n{}",
        missing.join("\n")
    );
}

fn section(group: &str, rows: &[Row]) -> String {
    let lines: Vec<String> = rows.iter().map(Row::line).collect();
    format!(
        "## {group}\n\n| fault | outcome | message | exit code |\n|---|---|---|---|\n{}\n",
        lines.join("\n")
    )
}

/// The page's sections by name. What stands before the first has an empty name.
fn sections(page: &str) -> Vec<(String, String)> {
    let mut sections = vec![(String::new(), String::new())];
    for line in page.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            sections.push((name.to_owned(), String::new()));
        }
        if let Some((_, text)) = sections.last_mut() {
            text.push_str(line);
            text.push('\n');
        }
    }
    sections
}

fn with_section(page: &str, group: &str, section: &str) -> String {
    let old = sections(page);
    let text_of =
        |name: &str| old.iter().find(|(has, _)| has == name).map(|(_, text)| text.as_str());
    let mut parts = vec![text_of("").unwrap_or_default().trim_end()];
    for name in GROUPS {
        parts.extend(if name == group {
            Some(section.trim_end())
        } else {
            text_of(name).map(str::trim_end)
        });
    }
    parts.join("\n\n") + "\n"
}
