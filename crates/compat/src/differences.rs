//! Where another tool's figure for the same run differs from ours, and why.
//!
//! A classic block and our summary stand one above the other; two figures of one name that differ
//! must be explained.

use tokometer_figures::steady::LoadClass;
use tokometer_figures::{Family, FamilyFigures, ListStats, Quantity, Summary};

use crate::layout::Layout;
use crate::model::{Field, Key, Metric, Report, Stat};
use crate::print::shows;

/// Differences up to this share are not worth a line.
const WORTH_SAYING: f64 = 0.01;

/// One figure that another tool's block shows otherwise.
#[derive(Debug, Clone, PartialEq)]
pub struct FigureDifference {
    pub key: Key,
    pub label: &'static str,
    pub unit: &'static str,
    pub theirs: f64,
    pub ours: f64,
    pub why: &'static str,
}

fn is_apart(theirs: f64, ours: f64) -> bool {
    (theirs - ours).abs() > WORTH_SAYING * ours.abs().max(theirs.abs())
}

/// The figures of this run that `block` shows and that differ from ours by more than one percent.
pub fn differences(summary: &Summary, block: &Report) -> Vec<FigureDifference> {
    let family = block.layout.and_then(Layout::family);
    let mut found = family.map(|family| all(summary, family)).unwrap_or_default();
    found.retain(|difference| shows(block, difference.key));
    found
}

/// Whether `block` prints percentiles of gaps that we withhold, because too many events shared a read.
pub fn prints_withheld_gaps(summary: &Summary, block: &Report) -> bool {
    let is_withheld = summary.distribution(Quantity::Itl).is_some_and(|gaps| gaps.is_withheld);
    is_withheld && shows(block, ITL.0)
}

/// Time of a burst's requests that passed in the client, on average.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClientTime {
    pub ttft_ms: f64,
    pub connecting_ms: f64,
    /// From the start of the burst to the beginning of TTFT.
    pub queue_ms: f64,
}

/// What of a burst's TTFT in `block`, and of the time before it, is the client's own. `None` for other
/// loads, whose lateness the intended times show.
pub fn client_time(summary: &Summary, block: &Report) -> Option<ClientTime> {
    let family = block.layout.and_then(Layout::family)?;
    let figures = summary.families.get(&family).filter(|figures| figures.ttft.count > 0)?;
    let is_meant = summary.load_class == LoadClass::Burst && shows(block, TTFT.0);
    let queue = summary.mean("send_lateness_ms")?;
    let connecting = summary.ttft_parts.iter().filter(|part| part.name == "connect");
    is_meant.then(|| ClientTime {
        ttft_ms: figures.ttft.mean,
        connecting_ms: connecting.map(|part| part.mean_ms).sum(),
        queue_ms: queue,
    })
}

/// All differences between our figures and those of `family`. Statistics of an empty list, which the
/// tools print as zero, are not compared.
fn all(summary: &Summary, family: Family) -> Vec<FigureDifference> {
    let Some(figures) = summary.families.get(&family) else { return Vec::new() };
    let mut found = Vec::new();
    let mut compare = |figure: Named, theirs: f64, ours: Option<f64>, why| {
        if let Some(ours) = ours.filter(|ours| is_apart(theirs, *ours)) {
            let (key, label, unit) = figure;
            found.push(FigureDifference { key, label, unit, theirs, ours, why });
        }
    };
    let has = |stats: &ListStats| stats.count > 0;
    let output = summary.figure("total_output_tokens");
    let output_differs = output.is_some_and(|ours| is_apart(figures.total_output as f64, ours));
    compare(OUTPUT_TOKENS, figures.total_output as f64, output, output_reason(family));
    let input = summary.figure("total_prompt_tokens");
    compare(INPUT_TOKENS, figures.total_input as f64, input, INPUT);
    if has(&figures.ttft) {
        compare(
            TTFT,
            figures.ttft.mean,
            summary.mean(Quantity::Ttft),
            ttft_reason(summary, figures),
        );
    }
    if has(&figures.tpot) {
        let why = if output_differs { TPOT_COUNT } else { TPOT_SPAN };
        compare(TPOT, figures.tpot.mean, summary.mean(Quantity::Tpot), why);
    }
    if has(&figures.itl) {
        compare(ITL, figures.itl.mean, summary.mean(Quantity::Itl), itl_reason(family));
    }
    if has(&figures.e2el) {
        compare(E2EL, figures.e2el.mean, summary.mean(Quantity::E2e), E2E);
    }
    let peak = summary.figure(Quantity::PeakOutput);
    compare(PEAK_OUTPUT, figures.peak_output_throughput, peak, peak_reason(output, figures));
    let peak = summary.figure("peak_in_flight");
    let theirs = figures.peak_concurrent_requests as f64;
    compare(PEAK_IN_FLIGHT, theirs, peak, PEAK_CONCURRENCY);
    found
}

/// A figure, what the block calls it, and its unit.
type Named = (Key, &'static str, &'static str);

const OUTPUT_TOKENS: Named = (Key::Field(Field::OutputTokens), "output tokens", "");
const INPUT_TOKENS: Named = (Key::Field(Field::InputTokens), "input tokens", "");
const TTFT: Named = (Key::Latency(Metric::Ttft, Stat::Mean), "mean TTFT", "ms");
const TPOT: Named = (Key::Latency(Metric::Tpot, Stat::Mean), "mean TPOT", "ms");
const ITL: Named = (Key::Latency(Metric::Itl, Stat::Mean), "mean ITL", "ms");
const E2EL: Named = (Key::Latency(Metric::E2el, Stat::Mean), "mean E2E", "ms");
const PEAK_OUTPUT: Named = (Key::Field(Field::PeakOutputThroughput), "peak output", "tok/s");
const PEAK_IN_FLIGHT: Named = (Key::Field(Field::PeakConcurrency), "peak concurrency", "requests");

const INPUT: &str = "it uses the workload's prompt token counts, ours are the server's";
const TPOT_COUNT: &str = "it divides by its own token count";
const TPOT_SPAN: &str = "it divides by all tokens but one and ends at a later event; ours excludes the first event's tokens";
const E2E: &str = "its latency ends at an event after the last content";
const PEAK_CONCURRENCY: &str =
    "it counts all requests active during one second, not at one instant";

/// Where every event is one token both count the same, in seconds that begin at different instants.
fn peak_reason(output: Option<f64>, figures: &FamilyFigures) -> &'static str {
    if output.is_some_and(|tokens| is_apart(figures.chunks as f64, tokens)) {
        "it counts events per second, not tokens"
    } else {
        "its one-second buckets start with the first request, ours with the run"
    }
}

fn output_reason(family: Family) -> &'static str {
    match family {
        Family::Sglang => "it reports the requested length where it sees no usage",
        Family::OldVllm => "it retokenizes the text",
        Family::Vllm => "it tokenizes the text where it sees no usage",
        Family::VllmRust => "it counts events where it sees no usage",
    }
}

fn itl_reason(family: Family) -> &'static str {
    match family {
        Family::Sglang => "it divides an ITL by the tokens of its event",
        _ => "it times every event that has a choice, including empty ones",
    }
}

/// A tool that counts the opening event as the first token has our first event as its TTFT.
fn ttft_reason(summary: &Summary, figures: &FamilyFigures) -> &'static str {
    let first_event = summary.mean("first_event_ms");
    if first_event.is_some_and(|ours| !is_apart(figures.ttft.mean, ours)) {
        "it counts the opening event, which has no text, as the first token"
    } else {
        "it starts or stops the clock at another event"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::summary;

    #[test]
    fn a_role_event_taken_for_the_first_token_is_named() {
        let found = all(&summary(), Family::Vllm);
        let labels: Vec<&str> = found.iter().map(|one| one.label).collect();
        assert_eq!(labels, ["mean TTFT", "peak output", "peak concurrency"]);
        assert!(found[0].why.contains("opening event"), "{found:?}");
    }

    /// Two grids of seconds were once explained as events against tokens.
    #[test]
    fn a_peak_differs_by_its_events_only_where_events_are_not_tokens() {
        let mut summary = summary();
        let mut reason = |chunks: u64| {
            summary.families.get_mut(&Family::Vllm).unwrap().chunks = chunks;
            let found = all(&summary, Family::Vllm);
            found.iter().find(|one| one.label == "peak output").unwrap().why
        };
        assert!(reason(90_000).contains("events per second"));
        assert!(reason(126_464).contains("one-second buckets start"));
    }

    #[test]
    fn figures_within_a_percent_and_missing_ones_are_not_compared() {
        let mut summary = summary();
        summary.figures.insert("total_output_tokens".to_owned(), None);
        let figures = summary.families.get_mut(&Family::Sglang).unwrap();
        figures.total_output *= 3;
        figures.ttft.mean = 150.25 * 1.009;
        let found = all(&summary, Family::Sglang);
        assert!(
            found.iter().all(|one| !one.label.contains("TTFT") && !one.label.contains("output t"))
        );
    }

    #[test]
    fn a_wrong_token_count_explains_its_tpot() {
        let mut summary = summary();
        let figures = summary.families.get_mut(&Family::Sglang).unwrap();
        figures.total_output /= 4;
        figures.tpot.mean *= 4.0;
        let found = all(&summary, Family::Sglang);
        assert_eq!(found[0].why, output_reason(Family::Sglang));
        assert!(found.iter().any(|one| one.label == "mean TPOT" && one.why == TPOT_COUNT));
    }
}
