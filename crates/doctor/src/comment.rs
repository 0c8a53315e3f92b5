//! The doctor's findings as a comment for an issue.
//!
//! Everything in it may come from a stranger's file: nothing becomes a mention, a link, an image or
//! markup.

use crate::page::described;
use crate::rule::{ExaminedFile, Finding};

pub fn doctor_comment(files: &[ExaminedFile<'_>]) -> String {
    let mut text: String = files.iter().map(|file| section(*file)).collect();
    text.push_str(
        "\nChecked with `tokometer doctor`. *inconsistent*: lines of the block do not agree. *misleading*: \
         they agree, but are easily misread. *remark*: for information.\n",
    );
    text
}

fn section(file: ExaminedFile<'_>) -> String {
    let mut text = format!(
        "**Report check: {}**\n\n| block | outcome | check | finding |\n|---|---|---|---|\n",
        escaped(file.name)
    );
    for (number, report, findings) in file.blocks() {
        let block = format!("{number}{}", escaped(&described(report)));
        if findings.is_empty() {
            text.extend(["| ", &block, " | consistent | | |\n"]);
        }
        text.extend(findings.iter().map(|finding| row(&block, finding)));
    }
    text.extend(file.examination.file.iter().map(|finding| row("all", finding)));
    text
}

fn row(block: &str, finding: &Finding) -> String {
    let Finding { level, rule, what, meaning } = finding;
    format!(
        "| {block} | **{level}** | `{}` | {}; {} |\n",
        rule.code,
        escaped(what),
        escaped(meaning)
    )
}

fn escaped(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            // An entity is still a mention to some sites; this sign looks alike and is none.
            '@' => clean.push('＠'),
            '&' => clean.push_str("&amp;"),
            '<' => clean.push_str("&lt;"),
            '>' => clean.push_str("&gt;"),
            // A reference to an issue needs the plain sign before a number.
            '#' => clean.push_str("&#35;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '!' => {
                clean.push('\\');
                clean.push(letter);
            }
            _ if letter.is_control() => clean.push(' '),
            _ => clean.push(letter),
        }
    }
    // Addresses become links without any markup.
    clean.replace("://", "&#58;//").replace("www.", "www&#46;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examine;
    use tokometer_compat::parse;

    #[test]
    fn a_stranger_s_words_stay_words() {
        let text = "# @everyone [x](http://evil) <img src=x> #12 www.evil.org\n\
                    ============ Serving Benchmark Result ============\n\
                    Successful requests:                     @team|x\n\
                    Benchmark duration (s):                  1.00\n\
                    ==================================================\n";
        let reports = parse(text);
        let comment = doctor_comment(&[ExaminedFile {
            name: "a@b|c.txt",
            reports: &reports,
            examination: &examine(&reports),
        }]);
        assert!(!comment.contains('@'), "{comment}");
        for raw in ["<img", "http:", "www.", "#12"] {
            assert!(!comment.contains(raw), "{raw}: {comment}");
        }
        assert!(comment.contains("＠team\\|x"), "{comment}");
        assert!(comment.contains("| **remark** | `readable-values` |"), "{comment}");
    }
}
