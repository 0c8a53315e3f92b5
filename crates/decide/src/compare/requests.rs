//! The requests of a record, reduced to the values that blocks are made of.
//!
//! In: timelines in any order. Out: the compared figures per block. Only the measured phase counts,
//! and of a retried request only the last attempt. A failed request is infinitely slow, as
//! everywhere.

use std::collections::BTreeMap;

use tokometer_base::Nanos;
use tokometer_base::units::nearest_count;
use tokometer_figures::attempts;
use tokometer_figures::blocks::FEWEST_BLOCKS;
use tokometer_figures::figure::{Figure, Quantity, Statistic};
use tokometer_figures::statistics;
use tokometer_figures::windows::BLOCKS;
use tokometer_record::{Outcome, Phase, Timeline};

/// One request, reduced to what is compared. Latencies are in milliseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedRequest {
    pub index: u64,
    attempt: u32,
    pub target: u16,
    /// When its first byte was sent.
    pub start: Nanos,
    /// Of its last byte or its failure.
    pub end: Nanos,
    /// A failed request is infinitely slow; a cancelled one has latencies up to its first token.
    pub is_success: bool,
    prompt_tokens: u32,
    output_tokens: u32,
    /// One list per row of [`Quantity::LATENCIES`].
    latencies: [Vec<f64>; 4],
}

impl ComparedRequest {
    /// `None` for a request that is not measured or was abandoned by the client.
    pub fn of(timeline: &Timeline) -> Option<Self> {
        let is_counted =
            timeline.identity.phase == Phase::Measure && timeline.outcome != Outcome::Abandoned;
        let (start, end) =
            (timeline.times.first_byte_sent.unwrap_or(timeline.times.admitted), timeline.times.end);
        let is_success = timeline.is_success();
        let latencies = |quantity: Quantity| match timeline.outcome {
            Outcome::Success => values(quantity, timeline),
            // It counts as far as it came.
            Outcome::Cancelled if quantity.metric().is_of_first_token() => {
                values(quantity, timeline)
            }
            Outcome::Cancelled => Vec::new(),
            _ => vec![f64::INFINITY],
        };
        is_counted.then(|| Self {
            index: timeline.identity.index,
            attempt: timeline.identity.attempt,
            target: timeline.identity.target,
            start,
            end: end.unwrap_or(start),
            is_success,
            prompt_tokens: timeline.prompt_tokens().unwrap_or(0),
            output_tokens: timeline.output_tokens().map_or(0, |(tokens, _)| tokens),
            latencies: Quantity::LATENCIES.map(latencies),
        })
    }
}

/// Blocks that a single run is divided into, as for throughputs.
#[expect(clippy::cast_possible_truncation, reason = "sixteen")]
const MOST_BLOCKS: usize = BLOCKS as usize;

/// The values of a quantity in one timeline in its own unit, by the definitions of all reports.
fn values(quantity: Quantity, timeline: &Timeline) -> Vec<f64> {
    let unit = quantity.unit().divisor();
    let mut found = Vec::new();
    quantity.metric().each(timeline, &mut |nanos, weight| {
        found.extend((0..weight).map(|_| nanos / unit));
    });
    found
}

/// Requests in the order of the plan, each once.
pub fn last_attempts(timelines: impl Iterator<Item = Timeline>) -> Vec<ComparedRequest> {
    let mut requests: Vec<ComparedRequest> =
        timelines.filter_map(|timeline| ComparedRequest::of(&timeline)).collect();
    attempts::keep_last(&mut requests, |request| (request.index, request.attempt));
    requests
}

/// The value of a figure over some requests. A throughput counts from the first send to the last end.
/// `None` where there are no values, or where a percentile lies among failed requests.
pub(super) fn value(figure: Figure, requests: &[&ComparedRequest]) -> Option<f64> {
    let at = Quantity::LATENCIES.iter().position(|quantity| *quantity == figure.quantity);
    let Some(at) = at else { return throughput(figure.quantity, requests) };
    let mut values: Vec<f64> =
        requests.iter().flat_map(|request| request.latencies[at].iter().copied()).collect();
    match figure.statistic {
        Statistic::Whole | Statistic::Std | Statistic::Min | Statistic::Max => None,
        Statistic::Mean => {
            values.retain(|value| value.is_finite());
            statistics::mean(&values)
        }
        Statistic::Percentile(percent) => {
            tokometer_base::sort_numbers(&mut values);
            statistics::percentile(&values, percent.percent()).filter(|value| value.is_finite())
        }
    }
}

fn throughput(quantity: Quantity, requests: &[&ComparedRequest]) -> Option<f64> {
    let begin = requests.iter().map(|request| request.start).min()?;
    let end = requests.iter().map(|request| request.end).max()?;
    let seconds = (end - begin).as_secs_f64();
    let weight = |request: &ComparedRequest| match quantity {
        Quantity::Output => u64::from(request.output_tokens),
        Quantity::Total => u64::from(request.output_tokens) + u64::from(request.prompt_tokens),
        _ => 1,
    };
    let done: u64 =
        requests.iter().filter(|request| request.is_success).map(|request| weight(request)).sum();
    (seconds > 0.0).then(|| done as f64 / seconds)
}

/// Requests that a block needs for a statistic.
pub(super) fn needed(statistic: Statistic) -> usize {
    // Rounding must not require an eleventh request for p90.
    let least = |tail: f64| nearest_count((1.0 / tail - 1e-9).ceil());
    let needed = statistic.percentile().map_or(1, |percentile| least(percentile.tail()));
    usize::try_from(needed).unwrap_or(usize::MAX)
}

/// The latencies of a single run in blocks of neighbouring requests. A percentile gets as many blocks
/// as have at least one value beyond it; with fewer than eight it is left out.
pub fn block_values(
    requests: &[ComparedRequest],
    figures: &[Figure],
) -> BTreeMap<Figure, Vec<f64>> {
    let mut ordered: Vec<&ComparedRequest> = requests.iter().collect();
    ordered.sort_by_key(|request| request.start);
    let is_latency = |figure: &Figure| figure.statistic != Statistic::Whole;
    let of_figure = |figure: Figure| {
        let count = (ordered.len() / needed(figure.statistic)).min(MOST_BLOCKS);
        if count < FEWEST_BLOCKS {
            return None;
        }
        let bound = |at: usize| at * ordered.len() / count;
        let blocks = (0..count).map(|at| &ordered[bound(at)..bound(at + 1)]);
        let values: Option<Vec<f64>> = blocks.map(|block| value(figure, block)).collect();
        values.map(|values| (figure, values))
    };
    figures.iter().copied().filter(is_latency).filter_map(of_figure).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::figures::compared;
    use super::*;

    /// A request sent at `start` ms with this TTFT and an output of ten tokens.
    pub(crate) fn request(index: u64, target: u16, start: u64, ttft: f64) -> ComparedRequest {
        ComparedRequest {
            index,
            attempt: 0,
            target,
            start: Nanos::from_millis(start),
            end: Nanos::from_millis(start + 500),
            is_success: ttft.is_finite(),
            prompt_tokens: 5,
            output_tokens: 10,
            latencies: [vec![ttft], vec![2.0], vec![1.0, 3.0], vec![500.0]],
        }
    }

    fn named(words: &str) -> Figure {
        Figure::parse(words).unwrap()
    }

    #[test]
    fn figures_of_a_block_follow_from_its_requests() {
        let requests =
            [request(0, 0, 0, 10.0), request(1, 0, 500, 20.0), request(2, 0, 500, f64::INFINITY)];
        let requests: Vec<&ComparedRequest> = requests.iter().collect();
        let check = |words: &str, expected: Option<f64>| {
            assert_eq!(value(named(words), &requests), expected, "{words}");
        };
        check("requests", Some(2.0));
        check("output", Some(20.0));
        check("total", Some(30.0));
        check("ttft mean", Some(15.0));
        check("ttft p50", Some(20.0));
        check("ttft p99", None);
        check("itl mean", Some(2.0));
    }

    #[test]
    fn a_percentile_is_cut_into_fewer_blocks_than_a_mean() {
        let requests: Vec<ComparedRequest> = (0..900).map(|at| request(at, 0, at, 10.0)).collect();
        let found = block_values(&requests, &compared([]));
        assert_eq!(found[&named("ttft mean")].len(), 16);
        assert_eq!(found[&named("ttft p99")].len(), 9);
        assert!(!block_values(&requests[..500], &compared([])).contains_key(&named("ttft p99")));
        assert!(block_values(&requests[..5], &compared([])).is_empty());
    }

    #[test]
    fn a_block_must_have_a_request_beyond_its_percentile() {
        let check = |words: &str, expected: usize| {
            assert_eq!(needed(named(words).statistic), expected, "{words}");
        };
        check("ttft mean", 1);
        check("ttft p50", 2);
        check("ttft p90", 10);
        check("ttft p99", 100);
        check("ttft p99.9", 1_000);
        check("ttft p1", 100);
    }
}
