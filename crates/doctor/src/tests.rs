//! What the doctor must find in the seeds, what it must not, and one broken report per identity.

use super::*;
use tokometer_compat::model::Field;
use tokometer_compat::parse;

const SEEDS: [(&str, &str); 5] = [
    ("000", include_str!("../../../fixtures/seeds/000_659e43dd1329acd2.txt")),
    ("001", include_str!("../../../fixtures/seeds/001_64bb5876f73a2969.txt")),
    ("002", include_str!("../../../fixtures/seeds/002_902df92d1b3a4732.txt")),
    ("003", include_str!("../../../fixtures/seeds/003_8b5b9f497242493f.txt")),
    ("004", include_str!("../../../fixtures/seeds/004_8163290e84c3957c.txt")),
];

pub(crate) fn text(name: &str) -> &'static str {
    SEEDS.iter().find(|(seed, _)| *seed == name).unwrap().1
}

fn examined(name: &str) -> Examination {
    examine(&parse(text(name)))
}

/// The findings of these levels, as (block from one, rule).
fn found(name: &str, level: Level) -> Vec<(usize, Rule)> {
    let blocks = examined(name).blocks.into_iter().enumerate();
    blocks
        .flat_map(|(block, findings)| findings.into_iter().map(move |finding| (block + 1, finding)))
        .filter(|(_, finding)| finding.level == level)
        .map(|(block, finding)| (block, finding.rule))
        .collect()
}

#[test]
fn what_is_wrong_with_the_seeds_is_found_and_nothing_else() {
    let worse = |name| (found(name, Level::Inconsistent), found(name, Level::Misleading));
    assert_eq!(worse("000"), (vec![], vec![]));
    assert_eq!(worse("001"), (vec![], vec![(2, Rule::SERVER_LIMIT)]));
    assert_eq!(worse("002"), (vec![], vec![]));
    let stalls = vec![(2, Rule::RISING_WITH_LOAD), (6, Rule::RISING_WITH_LOAD)];
    assert_eq!(worse("003"), (vec![(13, Rule::ALL_ACCOUNTED)], stalls));
    let miscounted = vec![
        (1, Rule::EVENTS_PER_TOKEN),
        (1, Rule::TOKEN_WEIGHTED_TPOT),
        (1, Rule::TPOT_AGAINST_ITL),
        (1, Rule::RETOKENIZED),
        (1, Rule::END_TO_END_SUM),
        (3, Rule::RETOKENIZED),
    ];
    let capped = (1..=3).map(|block| (block, Rule::RATE_REACHED)).collect();
    assert_eq!(worse("004"), (miscounted, capped));
}

#[test]
fn remarks_on_the_seeds_are_those_that_the_study_lists() {
    let remarks = |name, rule: Rule| -> Vec<usize> {
        found(name, Level::Remark)
            .into_iter()
            .filter(|(_, of)| *of == rule)
            .map(|(at, _)| at)
            .collect()
    };
    assert_eq!(remarks("002", Rule::WHOLE_GAPS), [1, 13]);
    assert_eq!(remarks("002", Rule::GAPS_PER_TOKEN), [1, 13, 22, 23]);
    assert_eq!(remarks("003", Rule::GAPS_PER_TOKEN), [1]);
    assert_eq!(remarks("002", Rule::RISING_WITH_LOAD), [7]);
    assert_eq!(remarks("001", Rule::BACKLOG), [1, 2]);
    assert_eq!(remarks("001", Rule::PINNED_LENGTH), [1, 2]);
    assert_eq!(remarks("000", Rule::PERCENTILE_SUPPORT), [0_usize; 0]);
    assert!(found("000", Level::Remark).is_empty());
    let file_rules =
        |name| examined(name).file.iter().map(|finding| finding.rule).collect::<Vec<_>>();
    assert_eq!(file_rules("002"), [Rule::QUANTUM]);
    assert_eq!(file_rules("003"), [Rule::STATED_LENGTH]);
}

/// Changes a figure of a seed and says which rule must fail in the first block, and how badly.
fn check(name: &str, from: &str, to: &str, rule: Rule, level: Level) {
    assert!(text(name).contains(from), "{from}");
    let changed = text(name).replacen(from, to, 1);
    let findings = &examine(&parse(&changed)).blocks[0];
    let has = findings.iter().any(|finding| finding.rule == rule && finding.level == level);
    assert!(has, "{from} → {to}: {findings:#?}");
}

#[test]
fn a_wrong_digit_breaks_the_arithmetic() {
    let check = |name, from, to, rule| check(name, from, to, rule, Level::Inconsistent);
    check("000", "2.84 ", "2.86 ", Rule::THROUGHPUT);
    check("000", "1900.04", "1900.60", Rule::THROUGHPUT);
    check("000", "2560.58", "2650.58", Rule::THROUGHPUT);
    check("004", "471.48", "471.84", Rule::THROUGHPUT);
    check(
        "000",
        "P50 TTFT (ms):                           124.74",
        "P50 TTFT (ms):                           125.74",
        Rule::MEDIAN_IS_P50,
    );
    check(
        "002",
        "P99 TTFT (ms):                           314.58",
        "P99 TTFT (ms):                           315.58",
        Rule::SINGLE_REQUEST,
    );
    check("002", "4.53 ", "4.03 ", Rule::SINGLE_REQUEST);
    check("004", "16.42", "16.52", Rule::LITTLE);
    // Truncated instead of rounded is no contradiction.
    crate::tests::check("004", "16.42", "16.43", Rule::LITTLE, Level::Remark);
}

#[test]
fn an_impossible_sample_breaks_the_shape() {
    let check = |name, from, to, rule| check(name, from, to, rule, Level::Inconsistent);
    check("000", "3035.43", "30.43  ", Rule::PERCENTILE_ORDER);
    check("000", "463.85", "103.85", Rule::MEAN_WITHIN_BOUNDS);
    check("000", "73790.91 ", "1073790.91", Rule::LATENCY_WITHIN_RUN);
    check("000", "61938.89", "61.89   ", Rule::END_AFTER_FIRST);
    check(
        "004",
        "concurrency:                 20",
        "concurrency:                 16",
        Rule::WITHIN_CAP,
    );
    check("001", "512.00", "513.00", Rule::PEAK_ABOVE_MEAN);
}

#[test]
fn other_ways_of_streaming_and_loading_are_named() {
    check("001", "11.00", "9.00 ", Rule::PEAK_ABOVE_MEAN, Level::Misleading);
    check("004", "25.85", "95.85", Rule::DECODING_WITHIN_FLIGHT, Level::Misleading);
    check(
        "000",
        "Mean ITL (ms):                           65.71",
        "Mean ITL (ms):                           131.42",
        Rule::EVENTS_PER_TOKEN,
        Level::Misleading,
    );
    check(
        "000",
        "Mean ITL (ms):                           65.71",
        "Mean ITL (ms):                           131.42",
        Rule::TPOT_AGAINST_ITL,
        Level::Misleading,
    );
    check(
        "001",
        "Failed requests:                         0 ",
        "Failed requests:                         90",
        Rule::ALL_ACCOUNTED,
        Level::Misleading,
    );
    check(
        "001",
        "# Prefill",
        "vllm bench serve --num-prompts 600",
        Rule::ALL_ACCOUNTED,
        Level::Inconsistent,
    );
}

/// Findings of the first block as (rule, level), without remarks about sample sizes.
fn first(text: &str) -> Vec<(Rule, Level)> {
    let findings = examine(&parse(text)).blocks.remove(0);
    findings.iter().map(|finding| (finding.rule, finding.level)).collect()
}

#[test]
fn forks_with_other_definitions_are_named_and_not_called_inconsistent() {
    let check = |name: &str, text: &str| {
        let found = first(text);
        assert!(found.contains(&(Rule::OTHER_DEFINITION, Level::Misleading)), "{name}: {found:?}");
        let worst = found.iter().filter(|(_, level)| *level == Level::Inconsistent).count();
        assert_eq!(worst, 0, "{name}: {found:?}");
    };
    let (v2, s2) = (text("000"), &text("004")[text("004").find("## Rust").unwrap()..]);
    check("the duration includes warm-up", &v2.replace("1055.18", "1102.47"));
    check("the duration leaves warm-up out", &v2.replace("1055.18", "1001.02"));
    check("latencies in seconds", &in_seconds(s2));
    check("latencies of a single request in seconds", &in_seconds(text("002")));
    check(
        "failed requests counted",
        &v2.replace(
            "Benchmark duration (s):",
            "Failed requests:                         300       \nBenchmark duration (s):",
        )
        .replace("2.84 ", "3.13 "),
    );
    check("total without the input", &v2.replace("2560.58", "1900.04"));
    check("per device", &v2.replace("1900.04", "237.51 ").replace("2560.58", "320.07 "));
    check("retokenized", &s2.replace("686.35", "678.84"));
}

/// Every latency of a text a thousandth of itself, with the same labels.
fn in_seconds(text: &str) -> String {
    let scaled = |line: &str| match line.split_once("(ms):") {
        Some((label, value)) => {
            let value: f64 = value.trim().parse().unwrap();
            format!("{label}(ms): {:.5}\n", value / 1e3)
        }
        None => format!("{line}\n"),
    };
    text.lines().map(scaled).collect()
}

#[test]
fn a_finding_states_the_distance_and_blames_nobody() {
    let reports = parse(&text("000").replace("1900.04", "1905.60"));
    let examination = examine(&reports);
    let finding = &examination.blocks[0][0];
    assert_eq!(
        finding.what,
        "output token throughput 1905.60 is not what this block's other lines give: 2004890 / 1055.18 s \
         = 1900.05 (0.3 % apart)"
    );
    let page =
        doctor_text(ExaminedFile { name: "x", reports: &reports, examination: &examination });
    for word in ["altered", "mistyped", "wrong", "silently", "fake"] {
        assert!(!page.contains(word), "{word}: {page}");
    }
    let truncated = examine(&parse(&text("000").replace("2.84 ", "2.85 "))).blocks.remove(0);
    assert_eq!((truncated[0].rule, truncated[0].level), (Rule::THROUGHPUT, Level::Remark));
}

#[test]
fn values_that_cannot_be_read_are_remarks() {
    let damaged = text("000").replace("463.85", "N/A   ").replace("1900.04", "nan    ");
    let found = first(&damaged);
    assert_eq!(found, [(Rule::READABLE_VALUES, Level::Remark); 2], "{found:?}");
    let below = text("000").replace("124.74", "-24.74");
    assert!(first(&below).contains(&(Rule::LATENCY_WITHIN_RUN, Level::Inconsistent)));
}

/// The mean TPOT of one request was explained by short answers among long ones.
#[test]
fn one_request_has_no_answers_of_other_lengths() {
    let text = text("002");
    let block = &text[text.find("=====").unwrap()..];
    let mean = "Mean TPOT (ms):                          ";
    let at = block.find(mean).unwrap() + mean.len();
    let forged = format!("{}99{}", &block[..at], &block[at + 2..]);
    let findings = examine(&parse(&forged)).blocks.remove(0);
    let found = findings.iter().find(|finding| finding.rule == Rule::TPOT_AGAINST_ITL).unwrap();
    assert!(!found.meaning.contains("short answers"), "{}", found.meaning);
}

#[test]
fn two_requests_must_be_two_numbers() {
    let reports = parse(&text("002").replace("373.27", "973.27"));
    let rules: Vec<Rule> = examine(&reports).blocks[1].iter().map(|finding| finding.rule).collect();
    assert!(rules.contains(&Rule::TWO_REQUESTS), "{rules:?}");
}

#[test]
fn a_cut_block_is_inconsistent_and_one_without_its_footer_is_not() {
    let whole = text("000");
    assert_eq!(examine(&parse(&whole[..900])).worst(), Some(Level::Inconsistent));
    let without = &whole[..whole.trim_end().rfind('\n').unwrap()];
    let mut expected = first(whole);
    expected.push((Rule::WHOLE_BLOCK, Level::Remark));
    let mut found = first(without);
    let order = |(rule, level): &(Rule, Level)| (rule.position(), *level);
    expected.sort_by_key(order);
    found.sort_by_key(order);
    assert_eq!(found, expected);
}

#[test]
fn a_block_without_values_is_not_called_consistent() {
    let empty = format!("==== Serving Benchmark Result ====\n{}\n", "=".repeat(50));
    assert_eq!(first(&empty), [(Rule::WHOLE_BLOCK, Level::Misleading)]);
}

#[test]
fn a_report_without_figures_has_no_findings() {
    let mut report = Report::default();
    assert_eq!(examine(&[report.clone()]).worst(), None);
    report.set_count(Field::Successful, 0);
    report.set_number(Field::Duration, 0.0);
    assert_eq!(examine(&[report]).worst(), None);
}

/// Figures with all their digits, as result files hold them, pass the same checks.
#[test]
fn exact_figures_do_not_fail_by_rounding() {
    let mut report = Report::default();
    report.set_count(Field::Successful, 3);
    report.set_count(Field::OutputTokens, 100);
    report.set_number(Field::Duration, 0.7);
    report.set_number(Field::RequestThroughput, 3.0 / 0.7);
    report.set_number(Field::OutputThroughput, 100.0 / 0.7);
    assert_eq!(examine(&[report]).worst(), None);
}

/// What each of the seeds is, for a reader who does not know their numbers.
const TITLES: [&str; 5] = [
    "3,000 requests in vLLM's layout, percentiles 50 to 99 (000; server and model not stated)",
    "vLLM, prefill of 8,191 tokens, then decode of 128 (001; model not stated)",
    "vLLM, a 405B-class model, bursts of growing size (002)",
    "TGI, Llama 3.1 405B, bursts of growing size (003)",
    "SGLang behind a Python, a Rust and a Go front end (004; model not stated)",
];

#[track_caller]
fn check_page(name: &str, page: &str) {
    let path = format!("{}/../../{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("TOKOMETER_WRITE_PAGES").is_some() {
        std::fs::write(&path, page).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == page, "{name} is out of date: run with TOKOMETER_WRITE_PAGES=1");
}

#[test]
fn the_page_in_docs_is_up_to_date() {
    let page = include_str!("../../../docs/doctor.md");
    let table = identities_markdown();
    assert!(page.ends_with(&table), "docs/doctor.md does not end with\n{table}");
}

#[test]
fn the_page_in_lab_is_up_to_date_and_names_all_42_blocks() {
    let titled = TITLES.iter().zip(SEEDS);
    let files: Vec<_> =
        titled.map(|(title, (_, text))| ((*title).to_owned(), parse(text))).collect();
    let page = outcomes_markdown(&files);
    assert_eq!(page.lines().filter(|line| line.contains(" per prompt |")).count(), 42);
    check_page("lab/data/doctor.md", &page);
}

/// Runs of a few requests were told that the server cannot keep up, and runs below their cap that the
/// cap limits them.
#[test]
fn a_short_run_or_a_low_rate_is_not_called_overloaded() {
    let check = |lines: &str| {
        let rows = lines.replace("; ", "\n");
        let block = format!("==== Serving Benchmark Result ====\n{rows}\n{}\n", "=".repeat(50));
        let found = first(&block);
        assert!(found.iter().all(|(_, level)| *level == Level::Remark), "{lines}: {found:?}");
    };
    check(
        "Successful requests: 1; Request rate configured (RPS): 50.00; Benchmark duration (s): 0.33; \
         Total generated tokens: 1; Mean TTFT (ms): 301.00; Mean TPOT (ms): 0.00",
    );
    check(
        "Successful requests: 10; Request rate configured (RPS): 5.00; Benchmark duration (s): 13.89; \
         Total generated tokens: 3439; Mean TTFT (ms): 90.00; Mean TPOT (ms): 22.03",
    );
    check(
        "Successful requests: 200; Maximum request concurrency: 1000; \
         Request rate configured (RPS): 5.00; Benchmark duration (s): 46.20; \
         Total generated tokens: 200; Mean TTFT (ms): 90.00; Mean TPOT (ms): 0.00",
    );
    check(
        "Successful requests: 20; Benchmark duration (s): 40.00; Total generated tokens: 320; \
         Output token throughput (tok/s): 8.00; Peak concurrent requests: 5.00; \
         Mean TTFT (ms): 800.00; Mean TPOT (ms): 6.00; Mean ITL (ms): 6.00",
    );
    check(
        "Successful requests: 10; Benchmark duration (s): 2.00; Total generated tokens: 10; \
         Total generated tokens (retokenized): 7",
    );
}

/// 1,000 conversations that vLLM answered in one burst (published in vllm#18566). Short answers decode while
/// prompts are still processed, so the mean TPOT is twice the mean ITL; it was called a wrong count.
#[test]
fn a_burst_of_conversations_is_not_called_inconsistent() {
    let block = |end: &str, output: u32| {
        let rows = format!(
            "Successful requests: 1000; Benchmark duration (s): 30.85; Total generated tokens: {output}; \
             Mean TTFT (ms): 9626.13; Median TTFT (ms): 9459.70; P99 TTFT (ms): 12666.73; \
             Mean TPOT (ms): 77.86; Median TPOT (ms): 48.84; P99 TPOT (ms): 211.21; \
             Mean ITL (ms): 38.13; Median ITL (ms): 25.44; P99 ITL (ms): 214.35{end}"
        );
        format!(
            "==== Serving Benchmark Result ====\n{}\n{}\n",
            rows.replace("; ", "\n"),
            "=".repeat(50)
        )
    };
    let end = "; Mean E2EL (ms): 17330.98; P99 E2EL (ms): 29800.00";
    let rules = |text: &str, level| -> Vec<Rule> {
        first(text).into_iter().filter(|(_, of)| *of == level).map(|(rule, _)| rule).collect()
    };
    let (short, whole) = (block("", 203_068), block(end, 203_068));
    assert_eq!(rules(&short, Level::Inconsistent), []);
    assert_eq!(rules(&short, Level::Misleading), [Rule::TPOT_AGAINST_ITL]);
    assert_eq!(rules(&whole, Level::Inconsistent), []);
    assert_eq!(rules(&whole, Level::Misleading), [Rule::TPOT_AGAINST_ITL, Rule::END_TO_END_SUM]);
    // Answers of one length leave no such explanation, and a wrong count of tokens does not either.
    assert_eq!(rules(&block("", 203_000), Level::Inconsistent), [Rule::TPOT_AGAINST_ITL]);
    let miscounted = rules(&block(end, 103_068), Level::Inconsistent);
    assert!(miscounted.contains(&Rule::TPOT_AGAINST_ITL), "{miscounted:?}");
}
