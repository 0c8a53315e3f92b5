//! Values that are impossible, slips of single lines, and the words that name them.

use crate::tests::text;
use crate::{ExaminedFile, Finding, Level, doctor_comment, doctor_html, examine};
use proptest::prelude::*;
use tokometer_compat::files::read;
use tokometer_compat::parse;

/// Findings of a text's first block at this level or above, as words.
fn said(text: &str, level: Level) -> Vec<String> {
    let findings = examine(&parse(text)).blocks.remove(0);
    let is_it = |finding: &Finding| finding.level >= level;
    let words = |finding: &Finding| format!("{}: {}", finding.rule.code, finding.what);
    findings.iter().filter(|finding| is_it(finding)).map(words).collect()
}

#[track_caller]
fn check_said(text: &str, level: Level, expected: &str) {
    let found = said(text, level);
    assert!(found.iter().any(|words| words.contains(expected)), "{expected}: {found:#?}");
}

/// Zeros and values below zero passed as consistent, because each check left out what it cannot divide by.
#[test]
fn impossible_values_are_found() {
    let check = |from: &str, to: &str, expected: &str| {
        assert!(text("000").contains(from), "{from}");
        check_said(&text("000").replacen(from, to, 1), Level::Inconsistent, expected);
    };
    check("1055.18", "0.00   ", "possible-values: the run took 0.00 s with 3000 requests");
    check("1055.18", "-1055.18", "possible-values: Benchmark duration (s) -1055.18 is below zero");
    check("2.84 ", "0.00 ", "throughput: request throughput 0.00 is not");
    check("1900.04", "0.00   ", "throughput: output token throughput 0.00 is not");
    check(
        "1900.04",
        "-1900.04",
        "possible-values: Output token throughput (tok/s) -1900.04 is below",
    );
    check("463.85", "0.00  ", "mean-bounds: mean TTFT is 0.00 ms, but P99 is");
    check("65.71", "0.00 ", "mean-bounds: mean ITL 0.00 ms lies outside");
    check(
        "44313.70",
        "1055999.00",
        "latency-within-run: E2E has a mean of 1056.00 s in a run of 1055.18 s",
    );
    let median = text("000").replace("124.74", "0.00  ");
    check_said(&median, Level::Misleading, "possible-values: TTFT is 0.00 ms at P50, but its mean");
    let few = "==== Serving Benchmark Result ====\nSuccessful requests: 4\nMean TTFT (ms): 0.00\n\
               Median TTFT (ms): 124.00\n====================\n";
    check_said(few, Level::Inconsistent, "mean-bounds: mean TTFT is 0.00 ms, but P50 is 124.00 ms");
}

/// A run that does not stream has no gaps, and answers of one token neither.
#[test]
fn a_section_of_zeros_is_a_remark_at_most() {
    let without_gaps: String = text("000")
        .lines()
        .map(|line| match line.split_once(" ITL (ms):") {
            Some((stat, _)) => format!("{stat} ITL (ms): 0.00\n"),
            None => format!("{line}\n"),
        })
        .collect();
    assert_eq!(said(&without_gaps, Level::Misleading), [""; 0]);
    check_said(&without_gaps, Level::Remark, "possible-values: all figures of ITL are zero");
    let short = "==== Serving Benchmark Result ====\nSuccessful requests: 4\nBenchmark duration (s): 2.00\n\
                 Total generated tokens: 4\nMean TTFT (ms): 10.00\nMean TPOT (ms): 0.00\n\
                 Mean ITL (ms): 0.00\n====================\n";
    assert_eq!(said(short, Level::Remark), [""; 0]);
}

/// Times that include waiting in the client were read and not checked, and neither were the kinds of
/// input tokens.
#[test]
fn queue_times_and_kinds_of_input_add_up() {
    let block = |lines: &str| {
        let rows = lines.replace("; ", "\n");
        format!("==== Serving Benchmark Result ====\n{rows}\n{}\n", "=".repeat(50))
    };
    let queued = "Successful requests: 20; Benchmark duration (s): 2.67; Mean E2EL (ms): 486.77; \
                  Mean Client queue time (ms): 698.43; Median Client queue time (ms): 802.05; \
                  P99 Client queue time (ms): 1265.20; Mean E2EL incl. client queue (ms): 1185.20; \
                  P99 E2EL incl. client queue (ms): 1674.69";
    assert_eq!(said(&block(queued), Level::Misleading), [""; 0]);
    let wrong = block(&queued.replace("1185.20", "1285.20"));
    check_said(
        &wrong,
        Level::Inconsistent,
        "queue-sum: mean E2E with client queue time 1285.20 ms",
    );
    let wrong = block(&queued.replace("802.05", "1802.05"));
    check_said(
        &wrong,
        Level::Inconsistent,
        "percentile-order: client queue time falls from 1802.05",
    );
    let input = "Successful requests: 2; Total input tokens: 100; Total input text tokens: 60; \
                 Total input vision tokens: 40; Benchmark duration (s): 2.00";
    assert_eq!(said(&block(input), Level::Remark), [""; 0]);
    let wrong = block(&input.replace(": 40", ": 41"));
    check_said(&wrong, Level::Inconsistent, "input-sum: 60 text tokens and 41 vision tokens");
}

/// The concurrency was named where only the duration differs, and a duration ten times too long passed as
/// one with warm-up.
#[test]
fn a_wrong_duration_is_named_and_not_what_agrees_with_the_others() {
    let second = &text("004")[text("004").find("## Rust").unwrap()..];
    assert!(second.contains("37.71"));
    for other in ["36.96", "38.46"] {
        let found = said(&second.replacen("37.71", other, 1), Level::Misleading);
        let of_duration = |words: &&String| words.contains("all throughputs agree on 37.71 s");
        assert_eq!(found.iter().filter(of_duration).count(), 1, "{found:?}");
        assert!(!found.iter().any(|words| words.starts_with("little")), "{found:?}");
    }
    for (name, printed, other) in [("000", "1055.18", "10551.80"), ("000", "1055.18", "105.52 ")] {
        let text = text(name).replacen(printed, other, 1);
        check_said(&text, Level::Inconsistent, "throughput: all throughputs agree on 1055.18 s");
    }
    check_said(&second.replacen("37.71", "377.10", 1), Level::Inconsistent, "agree on 37.71 s");
}

/// A throughput with a lost digit was excused as one of ten devices.
#[test]
fn a_single_divided_throughput_is_not_per_device() {
    let check = |text: &str| check_said(text, Level::Inconsistent, "throughput: output token");
    check(&text("000").replace("1900.04", "190.00 "));
    check(&text("000").replace("1900.04", "237.51 "));
}

/// An E2E below TTFT gave -146 events and -55 tok/s; a rate that cannot be read lost its check silently.
#[test]
fn numbers_in_findings_make_sense() {
    let early = text("000").replace("44313.70", "13.70   ");
    let found = said(&early, Level::Remark);
    assert!(!found.iter().any(|words| words.contains("about -")), "{found:?}");
    let zero = text("000").replace("2004890", "0      ").replace("696991", "0     ");
    let found = said(&zero, Level::Remark);
    assert!(!found.iter().any(|words| words.contains("inf")), "{found:?}");
    let second = &text("004")[text("004").find("## Rust").unwrap()..];
    let rate = "Traffic request rate:                    20.0";
    assert!(second.contains(rate), "{second}");
    check_said(second, Level::Misleading, "rate-reached");
    let text = second.replacen(rate, "Traffic request rate: N/A", 1);
    check_said(&text, Level::Remark, "readable-values: `N/A` is not a rate");
}

/// A vLLM result with these numbers, each rounded to so many decimals.
fn rounded(decimals: usize, duration: f64, requests: f64) -> String {
    let round = |number: f64| -> f64 { format!("{number:.decimals$}").parse().unwrap() };
    let (input, output) = (requests * 32.0, requests * 16.0);
    format!(
        r#"{{"num_prompts": {requests}, "duration": {:?}, "completed": {requests}, "failed": 0,
        "total_input_tokens": {input}, "total_output_tokens": {output}, "request_throughput": {:?},
        "output_throughput": {:?}, "total_token_throughput": {:?}, "mean_e2el_ms": {:?}, "concurrency": 1}}"#,
        round(duration),
        round(requests / duration),
        round(output / duration),
        round((input + output) / duration),
        round(1e3 * duration / requests),
    )
}

/// A script that rounds what it saves made every throughput inconsistent: 7.50 was not 7.50.
#[test]
fn rounding_alone_violates_no_identity() {
    for decimals in 1..=6 {
        for duration in [2.665_852_689, 12.149_87, 0.777_777, 1_055.181_81] {
            let text = rounded(decimals, duration, 20.0);
            let findings = examine(&read(&text).unwrap());
            assert_ne!(findings.worst(), Some(Level::Inconsistent), "{text}: {findings:?}");
        }
    }
    // Beyond its digits a number is as wrong as before.
    let text = rounded(6, 2.665_852_689, 20.0).replace("120.03664", "120.03764");
    assert_eq!(examine(&read(&text).unwrap()).worst(), Some(Level::Inconsistent), "{text}");
}

/// Prompts that share requests were called missing: 20 stated, 10 requests reported.
#[test]
fn prompts_that_share_requests_are_all_accounted_for() {
    let file = |sequences: u32| {
        format!(
            r#"{{"num_prompts": 20, "duration": 2.0, "completed": 10, "total_input_tokens": 1280,
            "total_input_sequences": {sequences}, "request_throughput": 5.0, "total_token_throughput": 640.0}}"#
        )
    };
    assert_eq!(examine(&read(&file(20)).unwrap()).worst(), None);
    let missing = examine(&read(&file(18)).unwrap());
    assert_eq!(missing.blocks[0][0].what, "20 prompts are stated, 18 are reported");
}

fn block(lines: &str) -> String {
    let rows = lines.replace("; ", "\n");
    format!("==== Serving Benchmark Result ====\n{rows}\n{}\n", "=".repeat(50))
}

/// What is said of the first block under this rule.
fn meaning(text: &str, code: &str) -> Option<(Level, String)> {
    let findings = examine(&parse(text)).blocks.remove(0);
    let found = findings.into_iter().find(|finding| finding.rule.code == code);
    found.map(|finding| (finding.level, finding.meaning))
}

/// All of these were called a wrong count of tokens, which nearly none of them was.
#[test]
fn a_high_tpot_has_the_cause_that_the_other_lines_show() {
    let check = |lines: &str, level: Level, expected: &str| {
        let (found, words) = meaning(&block(lines), "tpot-itl").unwrap();
        assert!(found == level && words.contains(expected), "{lines}: {found} {words}");
    };
    let run =
        "Successful requests: 100; Benchmark duration (s): 30.00; Total generated tokens: 5000";
    // E2E / tokens, with and without the line of E2E.
    let whole =
        format!("{run}; Mean TTFT (ms): 1000.00; Mean TPOT (ms): 40.00; Mean ITL (ms): 20.41");
    check(&whole, Level::Misleading, "TPOT probably includes the time to the first token");
    check(&format!("{whole}; Mean E2EL (ms): 2000.00"), Level::Misleading, "TPOT × all tokens");
    let late = format!(
        "{run}; Mean TTFT (ms): 100.00; Mean TPOT (ms): 30.00; Mean ITL (ms): 20.00; Mean E2EL (ms): 4000.00"
    );
    check(&late, Level::Misleading, "E2E holds time in which nothing streams");
    // TPOT and ITL agree with each other, and both are a seventh below the streaming time per token.
    let alike = late.replace("30.00; Mean ITL (ms): 20.00", "68.00; Mean ITL (ms): 68.00");
    let (level, words) = meaning(&block(&alike), "weighted-tpot").unwrap();
    assert!(level == Level::Remark && words.contains("nothing streams"), "{level} {words}");
    let (level, words) = meaning(&block(&late), "events-per-token").unwrap();
    assert!(level == Level::Misleading && words.contains("nothing streams"), "{words}");
    let low = format!(
        "{run}; Mean TTFT (ms): 100.00; Mean TPOT (ms): 30.00; Mean ITL (ms): 20.00; Mean E2EL (ms): 1570.00"
    );
    check(&low, Level::Inconsistent, "more events than counted tokens");
    let apart =
        format!("{run}; Mean TTFT (ms): 100.00; Mean TPOT (ms): 30.00; Mean ITL (ms): 20.00");
    check(&apart, Level::Inconsistent, "the block does not show which line differs");
}

/// 0.085 % was called misleading.
#[test]
fn a_definition_that_moves_a_figure_by_less_than_a_hundredth_is_a_remark() {
    let run = "Successful requests: 10000; Failed requests: 9; Benchmark duration (s): 100.00; \
               Request throughput (req/s): ";
    let said = |rate: &str| meaning(&block(&format!("{run}{rate}")), "other-definition");
    assert_eq!(said("100.09").unwrap().0, Level::Remark);
    let many = format!("{run}109.00").replace("Failed requests: 9;", "Failed requests: 900;");
    assert_eq!(meaning(&block(&many), "other-definition").unwrap().0, Level::Misleading);
}

/// With four tokens per event, four times as many requests were said to decode.
#[test]
fn a_server_s_limit_does_not_count_events_as_tokens() {
    let text = block(
        "Successful requests: 400; Maximum request concurrency: 200; Benchmark duration (s): 100.00; \
         Total generated tokens: 40000; Output token throughput (tok/s): 400.00; Mean TTFT (ms): 40000.00; \
         Mean TPOT (ms): 20.00; Mean ITL (ms): 80.00",
    );
    let findings = examine(&parse(&text)).blocks.remove(0);
    let limit = findings.iter().find(|finding| finding.rule.code == "server-limit").unwrap();
    assert!(limit.what.starts_with("output throughput × TPOT = 8.0 requests"), "{limit:?}");
}

#[test]
fn answers_longer_than_the_run_sudden_peaks_and_higher_rates_are_found() {
    let check = |lines: &str, code: &str, expected: Option<Level>| {
        let found = meaning(&block(lines), code).map(|(level, _)| level);
        assert_eq!(found, expected, "{lines}");
    };
    let tokens = |tpot: &str, output: u32| {
        format!(
            "Successful requests: 100; Benchmark duration (s): 30.00; Total generated tokens: {output}; \
             Mean TPOT (ms): {tpot}"
        )
    };
    check(&tokens("700.00", 5_000), "latency-within-run", Some(Level::Inconsistent));
    check(&tokens("600.00", 5_000), "latency-within-run", None);
    check(&tokens("700.00", 5_001), "latency-within-run", None);
    check(&tokens("800.00", 5_001), "latency-within-run", Some(Level::Misleading));
    let peak = |peak: u32| {
        format!(
            "Successful requests: 1000; Benchmark duration (s): 300.00; Total generated tokens: 300000; \
             Output token throughput (tok/s): 1000.00; Peak output token throughput (tok/s): {peak}.00; \
             Peak concurrent requests: 40.00; Mean ITL (ms): 30.00"
        )
    };
    check(&peak(1_500), "peak-above-mean", None);
    check(&peak(200_000), "peak-above-mean", Some(Level::Misleading));
    check(&peak(400_000), "peak-above-mean", Some(Level::Inconsistent));
    let rate = |duration: u32| {
        format!(
            "Successful requests: 1000; Request rate configured (RPS): 5.00; Benchmark duration (s): {duration}.00"
        )
    };
    check(&rate(190), "rate-reached", None);
    check(&rate(150), "rate-reached", Some(Level::Misleading));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_text_makes_the_reader_or_the_doctor_panic(text in "(\\PC|[|:=\\-\n\r\t\u{1b}]){0,400}") {
        let reports = read(&text).unwrap_or_default();
        let examination = examine(&reports);
        let file = [ExaminedFile { name: "x", reports: &reports, examination: &examination }];
        let _comment = doctor_comment(&file);
        let _page = doctor_html(&file);
    }
}
