//! Blocks with the numbers, units and sections of other places.

use super::tests::{SEEDS, raw_blocks};
use crate::doctor::{Level, examine};
use crate::model::{Field, Key};
use crate::{Report, parse};

/// 3,000 requests in vLLM's layout.
fn block() -> String {
    raw_blocks(SEEDS[0].1).remove(0)
}

/// Every number of a block as it is written in German: `1.055,18`, `696.991`.
fn in_german(block: &str) -> String {
    let line = |line: &str| match line.split_once(":  ") {
        Some((label, value)) => {
            let (whole, decimals) = value.trim().split_once('.').unwrap_or((value.trim(), ""));
            let mut groups: Vec<&str> = Vec::new();
            let mut rest = whole;
            while rest.len() > 3 {
                let (before, group) = rest.split_at(rest.len() - 3);
                groups.insert(0, group);
                rest = before;
            }
            groups.insert(0, rest);
            let comma = if decimals.is_empty() { "" } else { "," };
            format!("{label}:    {}{comma}{decimals}\n", groups.join("."))
        }
        None => format!("{line}\n"),
    };
    block.lines().map(line).collect()
}

fn numbers(report: &Report) -> Vec<(Key, f64)> {
    let number = |(key, value): (Key, &crate::model::Value)| Some((key, value.scalar.as_f64()?));
    let mut found: Vec<(Key, f64)> = report.values.iter().filter_map(number).collect();
    found.sort_by_key(|(key, _)| *key);
    found
}

/// `3.000` requests were read as three beside `1.055,18` seconds, and the block was called
/// inconsistent; `696.991` could not be read.
#[test]
fn the_decimal_mark_of_a_block_decides_what_its_points_are() {
    let german = in_german(&block());
    assert!(german.contains("requests:    3.000\n") && german.contains(" 696.991\n"), "{german}");
    let reports = parse(&german);
    assert_eq!(reports[0].unread, []);
    assert_eq!(numbers(&reports[0]), numbers(&parse(&block())[0]));
    assert_ne!(examine(&reports).worst(), Some(Level::Inconsistent));
    let table: String = german
        .lines()
        .filter_map(|line| line.split_once(":  "))
        .map(|(label, value)| format!("| {label} | {} |\n", value.trim()))
        .collect();
    let tabled = parse(&format!("| Metric | Value |\n|---|---|\n{table}"));
    assert_eq!(numbers(&tabled[0]), numbers(&reports[0]), "{table}");
}

#[test]
fn a_count_that_may_be_thousands_is_named_and_not_read() {
    let text = "==== Serving Benchmark Result ====\nSuccessful requests: 3.000\n\
                Total input tokens: 696.991\nTotal generated tokens: 12\n====================\n";
    let report = &parse(text)[0];
    assert_eq!(report.number(Field::Successful), None);
    let unread: Vec<&str> = report.unread.iter().map(|value| value.text.as_str()).collect();
    assert_eq!(unread, ["3.000", "696.991"]);
    let decided = text.replace("tokens: 12", "tokens: 12\nMean TTFT (ms): 1.25");
    assert_eq!(parse(&decided)[0].number(Field::Successful), Some(3.0));
}
