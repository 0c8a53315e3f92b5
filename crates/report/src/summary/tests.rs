//! The summary of a fixed run, and its special cases.

use tokometer_base::Nanos;
use tokometer_compat::{Layout, Selection, from_summary};
use tokometer_figures::Distribution;
use tokometer_figures::anatomy::{Part, PartSource, PartStage};
use tokometer_figures::define::TURN_WAIT;
use tokometer_figures::sessions::{SessionSummary, TurnDepth};

use super::*;
use crate::testing::{info, summary};

/// The classic block printed before the summary.
fn block(layout: Layout) -> Report {
    from_summary(&summary(), &info(), layout, &Selection::default()).unwrap()
}

#[test]
fn a_fixed_run_s_summary() {
    let text = print_summary(&summary(), &info(), Some(&block(Layout::V4)), Style::default());
    insta::assert_snapshot!("summary", text);
}

/// vLLM's second layout has no peaks, and its E2E only on demand.
#[test]
fn what_the_block_above_does_not_show_is_not_explained() {
    let mut run = summary();
    for figures in run.families.values_mut() {
        figures.e2el.mean *= 2.0;
    }
    let explained = |layout: Layout| {
        let text = print_summary(&run, &info(), Some(&block(layout)), Style::default());
        let lines = text.lines().filter_map(|line| line.strip_prefix("block above  "));
        lines.map(|line| line.split(',').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(explained(Layout::V2), ["mean TTFT 120.5 ms"]);
    assert_eq!(explained(Layout::V4)[1..], ["peak output 3", "peak concurrency 71 requests"]);
}

/// The queue of a burst is in no figure of the block, and connecting is in its TTFT.
#[test]
fn the_client_s_own_time_in_a_burst_is_said_below_the_block() {
    let mut run = summary();
    let waits = Distribution { mean: Some(3.6), ..run.distributions["ttft_ms"].clone() };
    run.distributions.insert("send_lateness_ms".to_owned(), waits);
    let says = |run: &Summary, words: &str| {
        let text = print_summary(run, &info(), Some(&block(Layout::V4)), Style::default());
        text.split_whitespace().collect::<Vec<_>>().join(" ").contains(words)
    };
    let queue = "before that, requests waited 3.60 ms (3.0 %) in this client's queue";
    assert!(!says(&run, queue), "the intended times of an open loop show it");
    run.load_class = LoadClass::Burst;
    run.ttft_parts.retain(|part| part.name != "connect");
    assert!(says(&run, &format!("its TTFT begins when a request is sent; {queue}")));
    let connect = Part {
        name: "connect".to_owned(),
        mean_ms: 2.4,
        stage: PartStage::Before,
        known: PartSource::Measured,
    };
    run.ttft_parts.push(connect);
    assert!(says(&run, &format!("2.40 ms (2.0 %) of its mean TTFT is connecting; {queue}")));
}

#[test]
fn the_embedded_simulator_is_named_as_the_target() {
    let mut info = info();
    info.targets[0].is_simulated = true;
    let text = print_summary(&summary(), &info, None, Style::default());
    assert!(text.contains("\ntarget: embedded simulator (vllm, org/model-8b)\n"), "{text}");
}

#[test]
fn the_rules_of_a_tool_that_the_backend_does_not_tell_are_named() {
    let check = |family: Conventions, backend: &str, expected: Option<&str>| {
        let mut info = info();
        info.family = family;
        backend.clone_into(&mut info.targets[0].backend);
        let text = print_summary(&summary(), &info, None, Style::default());
        let found = text.lines().find_map(|line| line.strip_prefix("conventions: "));
        let whose = found.and_then(|line| line.split_whitespace().next());
        assert_eq!(whose, expected, "{family:?} {backend}");
    };
    check(Conventions::Vllm, "vllm", None);
    check(Conventions::Sglang, "vllm-chat", Some("SGLang's"));
    check(Conventions::Sglang, "sglang", Some("SGLang's"));
    check(Conventions::Vllm, "sglang-oai", Some("vLLM's"));
}

#[test]
fn colours_and_the_instrument_s_error_come_from_the_style() {
    let style = Style { is_coloured: true, error: Some(Nanos::from_millis(2)), ..Style::default() };
    let text = print_summary(&summary(), &info(), None, style);
    assert!(text.contains("\x1b[33mSUSPECT\x1b[0m"), "{text}");
    assert!(text.contains("TTFT               150~"), "{text}");
}

#[test]
fn what_was_not_measured_has_no_line() {
    let text =
        print_summary(&Summary::default(), &info(), Some(&block(Layout::S3)), Style::default());
    for word in ["TTFT", "goodput", "tokens", "throughput", "failed", "NaN"] {
        assert!(!text.contains(word), "{word} in {text}");
    }
    assert!(text.ends_with("verdict: VALID\n"));
}

#[test]
fn a_run_that_ended_early_says_so() {
    let partial = Summary { ended: Ended::Killed, ..summary() };
    let text = print_summary(&partial, &info(), None, Style::default());
    let said = "\npartial: the program was killed; the figures cover the requests until then\n";
    assert!(text.contains(said), "{text}");
    let interrupted = Ended::Early(tokometer_record::Stop::Interrupted);
    let unmeasured = Summary { ended: interrupted, ..Summary::default() };
    let text = print_summary(&unmeasured, &info(), None, Style::default());
    assert!(text.contains("\npartial: interrupted; nothing was measured\n"), "{text}");
}

/// "5 req/s" stood beside 14.17, and nothing said that each next turn waited four seconds.
#[test]
fn a_rate_of_conversations_is_called_so_and_their_times_are_said() {
    let (mut run, mut info) = (summary(), info());
    run.load_class = LoadClass::Open;
    (info.load.request_rate, info.load.max_concurrency) = (Some(5.0), None);
    info.load.stages.clear();
    let screen = |run: &Summary| print_screen(run, &info, Style::default());
    assert!(screen(&run).contains("open loop 5 req/s"), "{}", screen(&run));
    run.figures.insert(TURN_WAIT.to_owned(), Some(4_000.0));
    run.sessions = Some(SessionSummary {
        finished: 38,
        failed: 2,
        unfinished: 8,
        model_s: 62.0,
        tools_s: 35.0,
        client_s: 3.0,
        depths: vec![TurnDepth { from: 3, to: 4, turns: 9, ..TurnDepth::default() }],
    });
    let text = screen(&run);
    let times = "\nsessions     38 of 48 · model 62 %, tools 35 %, client 3 %\n";
    assert!(text.contains("open loop 5 conversations/s") && text.contains(times), "{text}");
    let text = print_summary(&run, &info, None, Style::default());
    let wait = "\nnext turns   waited 4.00 s in this client before they were sent (mean)\n";
    assert!(text.contains(wait) && text.contains("\n3–4              9"), "{text}");
}

/// The interval was "too short", and the value had no mark.
#[test]
fn a_value_whose_interval_the_run_is_too_short_for_has_its_mark_on_the_screen() {
    use tokometer_figures::{ConfidenceInterval, NoInterval};
    let mut run = summary();
    run.figure_verdicts.clear();
    let row = |run: &Summary| {
        let text = print_screen(run, &info(), Style::default());
        let found = text.lines().find(|line| line.starts_with("TTFT")).map(str::to_owned);
        found.unwrap().matches('?').count()
    };
    for one in &mut run.distributions.get_mut("ttft_ms").unwrap().percentiles {
        one.is_supported = true;
        one.interval = ConfidenceInterval::Known { low: 1.0, high: 2.0 };
    }
    assert_eq!(row(&run), 0);
    for one in &mut run.distributions.get_mut("ttft_ms").unwrap().percentiles {
        one.interval = ConfidenceInterval::Unknown(NoInterval::TooShort);
    }
    assert!(row(&run) >= 2);
}

#[test]
fn counts_are_grouped_by_three_digits() {
    assert_eq!(count(1_234_567), "1,234,567");
}
