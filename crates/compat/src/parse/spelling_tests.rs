//! Blocks with the numbers, units and sections of other tools.

use super::tests::{SEEDS, raw_blocks};
use crate::model::{Field, Key, Metric, Problem, Stat};
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
    let cells = german.lines().filter_map(|line| line.split_once(":  "));
    let table: String =
        cells.flat_map(|(label, value)| ["| ", label, " | ", value.trim(), " |\n"]).collect();
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

/// Latencies in seconds or microseconds were converted without a word; glued to the rule of the next
/// section they were lost.
#[test]
fn latencies_in_another_unit_are_converted_and_the_unit_is_named() {
    let in_unit = |unit: &str, factor: f64, end: &str| -> String {
        let line = |line: &str| match line.split_once(" (ms):") {
            Some((label, value)) => {
                let number = value.trim().parse::<f64>().unwrap() * factor;
                format!("{label} ({unit}): {number:.4}{end}")
            }
            None => format!("{line}\n"),
        };
        block().lines().map(line).collect()
    };
    for (unit, factor) in [("s", 1e-3), ("us", 1e3)] {
        let report = parse(&in_unit(unit, factor, "\n")).remove(0);
        let mean = report.latency(Metric::E2el, Stat::Mean).unwrap();
        assert!((mean - 44_313.7).abs() < 0.1, "{unit}: {mean}");
        let named = Problem::OtherUnit { unit: unit.to_owned(), lines: 28, line: 10 };
        assert_eq!(report.problems, [named]);
    }
    let glued = parse(&in_unit("s", 1e-3, "")).remove(0);
    assert_eq!(glued.unread.len(), 4, "{:?}", glued.unread);
}

/// The line below a table's head was taken for the title of an unknown section: all values were lost.
#[test]
fn a_table_below_the_header_line_is_read() {
    let rows = "| Metric | Value |\n|---|---|\n| Successful requests | 100 |\n\
                | Benchmark duration (s) | 10.00 |\n| Mean TTFT (ms) | 50.00 |\n";
    let header = "============ Serving Benchmark Result ============\n";
    for text in [format!("{header}\n{rows}"), format!("{header}{rows}{}\n", "=".repeat(50))] {
        let report = &parse(&text)[0];
        assert_eq!(report.number(Field::Successful), Some(100.0), "{text}");
        assert_eq!(report.latency(Metric::Ttft, Stat::Mean), Some(50.0), "{text}");
    }
}

/// A section of a fork's own before the throughputs cost all of them.
#[test]
fn rows_of_the_run_below_an_unknown_section_are_read() {
    let title = "--------------------GPU Power---------------------\nMean power (W): 512.00\n";
    let row = "Request throughput (req/s):";
    let with_section = |at: &str| block().replacen(at, &format!("{title}{at}"), 1);
    let report = parse(&with_section(row)).remove(0);
    assert_eq!(numbers(&report), numbers(&parse(&block())[0]));
    assert!(matches!(report.problems[..], [Problem::OtherSection { line: 8 }]), "{report:?}");
    // What the run has itself is not taken from the section of a warm-up, whichever comes first.
    let warm = "----------------Warm-up Phase-----------------\nRequest throughput (req/s): 9.99\n";
    let rule = "---------------Time to First Token----------------";
    let report = parse(&block().replacen(rule, &format!("{warm}{rule}"), 1)).remove(0);
    assert_eq!(numbers(&report), numbers(&parse(&block())[0]));
    assert_eq!(report.problems, []);
}

/// A copied block without padding, sections and footer lost all rows with short labels, because one long
/// label reached the column of the values.
#[test]
fn a_copied_block_without_footer_keeps_its_rows() {
    let text = "Before change\n==== Serving Benchmark Result ====\nRequest throughput (req/s): 12.50\n\
                Output token throughput (tok/s): 768.00\nMean TTFT (ms): 42.10\nP99 TPOT (ms): 31.70\n\
                Failed requests: 0\n\nAfter change\n";
    let report = &parse(text)[0];
    assert_eq!(report.latency(Metric::Ttft, Stat::Mean), Some(42.1));
    assert_eq!(report.latency(Metric::Tpot, Stat::P99), Some(31.7));
    assert_eq!(report.number(Field::Failed), Some(0.0));
}
