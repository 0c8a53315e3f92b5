//! The five seed reports, damaged text, and the laws of parsing.

mod damage;

use proptest::prelude::*;

use crate::model::{Field, Metric, Percentile, Problem, Stat, Title};
use crate::print::print_same;
use crate::{Layout, Report, parse};

pub(super) const SEEDS: [(&str, &str); 5] = [
    ("000", include_str!("../../../../fixtures/seeds/000_659e43dd1329acd2.txt")),
    ("001", include_str!("../../../../fixtures/seeds/001_64bb5876f73a2969.txt")),
    ("002", include_str!("../../../../fixtures/seeds/002_902df92d1b3a4732.txt")),
    ("003", include_str!("../../../../fixtures/seeds/003_8b5b9f497242493f.txt")),
    ("004", include_str!("../../../../fixtures/seeds/004_8163290e84c3957c.txt")),
];

fn print(report: &Report, layout: Layout) -> String {
    crate::print(report, layout).unwrap()
}

/// The blocks of a text cut out with nothing but a search for their first and last line.
pub(super) fn raw_blocks(text: &str) -> Vec<String> {
    let header = "============ Serving Benchmark Result ============";
    let footer = "=".repeat(50);
    text.split(header)
        .skip(1)
        .map(|rest| format!("{header}{}{footer}\n", rest.split(&footer).next().unwrap()))
        .collect()
}

fn seed(name: &str) -> Vec<Report> {
    let (_, text) = SEEDS.iter().find(|(seed, _)| *seed == name).unwrap();
    parse(text)
}

fn stripped(text: &str) -> String {
    text.lines().flat_map(|line| [line.trim_end(), "\n"]).collect()
}

#[test]
fn all_42_blocks_of_the_seeds_come_back_byte_for_byte() {
    let mut blocks = 0;
    for (name, text) in SEEDS {
        let reports = parse(text);
        let raw = raw_blocks(text);
        assert_eq!(reports.len(), raw.len(), "{name}");
        for (report, raw) in reports.iter().zip(&raw) {
            assert_eq!(&print_same(report).unwrap(), raw, "{name}");
            assert!(report.problems.is_empty(), "{name}");
            blocks += 1;
        }
    }
    assert_eq!(blocks, 42);
}

/// The stronger form: the layout's own formats, not the texts that were kept.
#[test]
fn the_seeds_layouts_print_the_seeds_values_as_the_tools_did() {
    for (name, text) in SEEDS {
        for (report, raw) in parse(text).iter().zip(raw_blocks(text)) {
            let printed = print(report, report.layout.unwrap());
            let printed = printed.trim_start_matches('\n');
            if name == "004" {
                assert_eq!(stripped(printed), raw);
            } else {
                assert_eq!(printed, raw, "{name}");
            }
        }
    }
}

#[test]
fn the_seeds_are_read_in_the_layouts_they_were_printed_in() {
    for (name, layout) in [
        ("000", Layout::V2),
        ("001", Layout::V4),
        ("002", Layout::V2),
        ("003", Layout::V2),
        ("004", Layout::S2),
    ] {
        assert!(seed(name).iter().all(|report| report.layout == Some(layout)), "{name}");
    }
}

#[test]
fn headings_and_commands_reach_their_blocks() {
    let headings =
        |name| seed(name).into_iter().map(|report| report.context.heading).collect::<Vec<_>>();
    assert_eq!(headings("001"), [Some("Prefill".to_owned()), Some("Decode".to_owned())]);
    assert_eq!(headings("004"), [None, Some("Rust".to_owned()), Some("golang".to_owned())]);
    let sweep = seed("003");
    let last = &sweep[12].context;
    assert_eq!(last.ordinal, 12);
    assert!(last.command.as_ref().unwrap().ends_with("--num-prompt=1,2,...,4096"));
    let long = &seed("002")[12].context;
    assert_eq!(long.settings[1], ("seq_length".to_owned(), "10000".to_owned()));
}

/// A report that fills every row of every table.
fn full_report(layout: Layout) -> Report {
    let mut report = Report { layout: Some(layout), ..Report::default() };
    let mut key_number = 0_u32;
    for key in crate::layout::table::keys(layout.table().unwrap()) {
        key_number += 1;
        let number = f64::from(key_number) * 10.25;
        report.set(key.0, key.1.example(number));
    }
    report
}

#[test]
fn every_layout_reads_what_it_prints() {
    for layout in Layout::all().filter(|layout| layout.table().is_some()) {
        let text = print(&full_report(layout), layout);
        let reports = parse(&format!("noise\n{text}more noise\n"));
        assert_eq!(reports.len(), 1, "{layout:?}\n{text}");
        assert_eq!(reports[0].layout, Some(layout), "{text}");
        assert_eq!(reports[0].problems, []);
        assert_eq!(print(&reports[0], layout), text);
        let same = print_same(&reports[0]).unwrap();
        assert_eq!(same, text.trim_start_matches('\n'), "{layout:?}");
    }
}

/// Values that a layout has no line for are lost, but what it prints can be read.
#[test]
fn every_seed_can_be_shown_in_every_layout() {
    for (name, text) in SEEDS {
        let text =
            text.replace("concurrency:                 20", "concurrency:                 not set");
        let report = parse(&text).remove(0);
        for layout in Layout::all().filter(|layout| layout.table().is_some()) {
            let shown = print(&report, layout);
            let again = parse(&shown).remove(0);
            assert_eq!(again.number(Field::Duration), report.number(Field::Duration), "{name}");
            let layout = again.layout.unwrap();
            assert_eq!(print(&again, layout).trim(), shown.trim(), "{name}");
        }
    }
}

#[test]
fn unknown_lines_keep_their_place_and_foreign_ones_tell_their_value() {
    let text = SEEDS[0].1.replace(
        "Benchmark duration (s):",
        "Energy (J):                              12.5      \nConcurrency:                             \
         16.42     \nBenchmark duration (s):",
    );
    let report = &parse(&text)[0];
    assert_eq!(report.layout, Some(Layout::V2));
    assert_eq!(print_same(report).unwrap(), text);
    assert_eq!(report.number(Field::Concurrency), Some(16.42));
}

#[test]
fn line_ends_progress_bars_and_prefixes_do_not_matter() {
    let plain = &seed("001")[0];
    let text = SEEDS[1].1;
    let check = |changed: &str| {
        let report = &parse(changed)[0];
        assert_eq!(report.values, plain.values);
        assert_eq!(report.layout, plain.layout);
    };
    check(&text.replace('\n', "\r\n"));
    check(&stripped(text));
    check(
        &text.replace("# Prefill\n\n", "  0%|  | 0/9\r 50%|██| 5/9\r100%|████| 9/9 [00:01<00:00]"),
    );
    check(&text.lines().flat_map(|line| ["12:00:01 INFO ", line, "\n"]).collect::<String>());
    let crlf = text.replace('\n', "\r\n");
    let first = &parse(&crlf)[0];
    assert_eq!(print_same(first).unwrap(), raw_blocks(text)[0].replace('\n', "\r\n"));
}

#[test]
fn a_value_that_cannot_be_read_is_named_with_its_place_and_costs_only_itself() {
    let whole = &seed("000")[0];
    let check = |from: &str, to: &str, line: usize, label: &str| {
        let text = SEEDS[0].1.replacen(from, to, 1);
        let report = &parse(&text)[0];
        let [unread] = &report.unread[..] else { panic!("{:?}", report.unread) };
        assert_eq!(unread.line, line, "{to}");
        assert_eq!((unread.label.as_str(), unread.text.as_str()), (label, to.trim()));
        assert_eq!(report.layout, whole.layout);
        assert_eq!(report.values.iter().count(), whole.values.iter().count() - 1);
        assert_eq!(print_same(report).unwrap(), text);
    };
    check("463.85", "fast  ", 10, "Mean TTFT (ms)");
    check(" 3000      ", " 3 of 9    ", 2, "Successful requests");
    check("463.85    ", "", 10, "Mean TTFT (ms)");
}

#[test]
fn a_block_cut_by_the_end_of_the_text_is_returned_as_far_as_it_goes() {
    let text = SEEDS[0].1;
    let whole = &seed("000")[0];
    // A stride that is prime to the width of a line meets every column.
    for length in (60..text.len() - 51).step_by(23) {
        let report = &parse(&text[..length])[0];
        let ends_a_section = matches!(report.problems[..], [Problem::NoFooter { .. }]);
        assert!(report.is_cut() || ends_a_section, "{length}");
        // What there is must be right: a half number would be a wrong one.
        for (key, value) in report.values.iter() {
            assert_eq!(whole.values.get(key), Some(value), "{length}");
        }
    }
    let cut = &parse(&text[..700])[0];
    assert_eq!(cut.problems, [Problem::Cut { line: 13 }]);
    assert!(text.starts_with(&print_same(cut).unwrap()));
}

/// People copy the lines with figures. Such a block was truncated, and what it held not used; without the end
/// of its last line it lost that value too.
#[test]
fn a_block_that_lacks_only_its_footer_is_whole() {
    for (_, text) in SEEDS {
        let block = raw_blocks(text).remove(0);
        let lines: Vec<&str> = block.trim_end().lines().collect();
        let body = lines[..lines.len() - 1].join("\n");
        for copied in [format!("{body}\n"), body.clone(), body.trim_end().to_owned()] {
            let report = &parse(&copied)[0];
            assert!(
                matches!(report.problems[..], [Problem::NoFooter { .. }]),
                "{:?} of {copied}",
                report.problems
            );
            assert_eq!(report.values, parse(&block)[0].values);
        }
        let cut = format!("{}\n", lines[..lines.len() - 2].join("\n"));
        assert!(parse(&cut)[0].is_cut(), "{cut}");
    }
}

#[test]
fn a_block_cut_by_another_header_leaves_the_other_whole() {
    let raw = raw_blocks(SEEDS[2].1);
    let text = format!("{}\nsomething broke\n# Again\n{}", &raw[0][..408], raw[1]);
    let reports = parse(&text);
    assert_eq!(reports.len(), 2);
    assert!(reports[0].is_cut() && reports[1].problems.is_empty());
    assert_eq!(reports[1].context.heading.as_deref(), Some("Again"));
}

#[test]
fn two_blocks_that_are_mixed_are_reported() {
    let (first, second) = (&raw_blocks(SEEDS[2].1)[3], &raw_blocks(SEEDS[4].1)[1]);
    let mixed: String =
        first.lines().zip(second.lines()).flat_map(|(a, b)| [a, "\n", b, "\n"]).collect();
    let reports = parse(&mixed);
    assert!(!reports.is_empty());
    let is_mixed = |report: &Report| {
        report.problems.iter().any(|problem| matches!(problem, Problem::Interleaved { .. }))
    };
    assert!(reports.iter().all(|report| is_mixed(report) || report.is_cut()), "{reports:#?}");
    assert!(reports.iter().any(is_mixed));
}

#[test]
fn a_predicted_block_is_not_taken_for_a_measurement() {
    let report = Report { title: Title::Predicted, ..seed("002").remove(0) };
    let text = print(&report, Layout::V4);
    assert!(text.starts_with("======= Predicted Serving Benchmark Result =======\n"), "{text}");
    assert_eq!(parse(&text)[0].title, Title::Predicted);
}

#[test]
fn a_text_without_a_block_has_no_reports() {
    assert_eq!(parse(""), []);
    assert_eq!(parse("nothing to see\n=====\n"), []);
}

fn any_layout() -> impl Strategy<Value = Layout> {
    let layouts: Vec<_> = Layout::all().filter(|layout| layout.table().is_some()).collect();
    prop::sample::select(layouts)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn printing_parsing_and_printing_again_is_the_identity(
        layout in any_layout(),
        numbers in prop::collection::vec(0.0_f64..1e9, 80),
        kept in prop::collection::vec(0_u8..10, 80),
        percent in 1_u32..1000,
    ) {
        let mut report = Report { layout: Some(layout), ..Report::default() };
        let keys = crate::layout::table::keys(layout.table().unwrap());
        for (index, (key, format)) in keys.into_iter().enumerate() {
            if kept[index] > 1 {
                report.set(key, format.example(numbers[index]));
            }
        }
        let percentile = Percentile::from_percent(f64::from(percent) / 10.0).unwrap();
        report.set_latency(Metric::Ttft, Stat::Percentile(percentile), numbers[0]);
        report.set_count(Field::Successful, 5);
        let text = print(&report, layout);
        let reports = parse(&text);
        prop_assert_eq!(reports.len(), 1);
        prop_assert_eq!(print(&reports[0], layout), text.clone());
        prop_assert_eq!(print_same(&reports[0]).unwrap(), text.trim_start_matches('\n'));
    }

    #[test]
    fn no_text_makes_the_parser_panic(
        lines in prop::collection::vec("[ -~\r█é]{0,60}", 0..30),
        cuts in prop::collection::vec(0_usize..40, 0..10),
    ) {
        let mut all: Vec<&str> = SEEDS[4].1.lines().collect();
        for (line, at) in lines.iter().zip(cuts) {
            all.insert(at.min(all.len()), line);
        }
        let _reports = parse(&all.join("\n"));
        let _noise = parse(&lines.join("\n"));
    }
}

/// Such a block was called consistent.
#[test]
fn a_block_with_unknown_labels_says_so() {
    let head = "============ Serving Benchmark Result ============";
    let foot = "=".repeat(50);
    let lines = "Requêtes réussies :   200\nDurée (s) :   40.00\nJetons :   25600\n";
    let check = |text: &str, expected: &[Problem]| {
        let [report] = &parse(text)[..] else { panic!("one report: {text}") };
        assert_eq!(report.problems, expected, "{text}");
    };
    check(&format!("{head}\n{lines}{foot}\n"), &[Problem::Unknown { lines: 3, line: 2 }]);
    let some = "Failed requests: 0\nMean TTFT (ms): 5.0\n";
    check(&format!("{head}\n{some}{lines}{foot}\n"), &[Problem::Unknown { lines: 3, line: 4 }]);
    // A fork with a few lines more.
    let more = "Successful requests: 5\nP99 TTFT (ms): 5.0\n";
    check(&format!("{head}\n{some}{more}{lines}{foot}\n"), &[]);
    // Times and line numbers of a log are no labels.
    let logged = "2026-11-16T12:00:01.1Z\nbench.go:12\n12:00:01\n[a.py:7]\nnote: see below\n";
    check(&format!("{head}\n{some}{logged}{foot}\n"), &[]);
}
