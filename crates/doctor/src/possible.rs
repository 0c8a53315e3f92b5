//! Values that no run has: below zero, or zero beside others that are not.
//!
//! The tools print 0.00 for what they did not measure, so a section of zeros is no contradiction. A zero
//! among other values is one: the other lines say what it must at least be.

use crate::definitions;
use crate::figures::{ALL_METRICS, Figures, PER_REQUEST};
use crate::interval::Interval;
use crate::rule::{Finding, Level, Rule};
use tokometer_compat::model::{Key, Metric, Stat, Value};

pub(crate) fn findings(figures: &Figures<'_>) -> Vec<Finding> {
    let mut found = negative_fields(figures);
    found.extend(empty_duration(figures));
    if figures.requests().is_some() {
        found.extend(PER_REQUEST.into_iter().filter_map(|metric| zero_percentile(figures, metric)));
        found.extend(ALL_METRICS.into_iter().filter_map(|metric| empty_section(figures, metric)));
    }
    found
}

/// Latencies below zero are found by the check of their bounds.
fn negative_fields(figures: &Figures<'_>) -> Vec<Finding> {
    let negative = |(key, value): (Key, &Value)| {
        let number = Interval::of(value).filter(|number| number.high < 0.0)?;
        let Key::Field(_) = key else { return None };
        let what = format!("{} {:.2} is below zero", figures.report.label(key), number.mid());
        let meaning = "no count, time or rate is; checks that need it are not made";
        Some(Finding::inconsistent(Rule::POSSIBLE_VALUES, what, meaning))
    };
    figures.report.values.iter().filter_map(negative).collect()
}

/// A duration of zero, as far as its digits go, although the other lines take longer.
fn empty_duration(figures: &Figures<'_>) -> Option<Finding> {
    let requests = figures.requests()?;
    let duration = figures.printed_duration().filter(|time| is_zero(*time))?;
    let throughputs = definitions::throughputs(figures);
    let implied =
        throughputs
            .into_iter()
            .filter(|one| one.printed.low > 0.0)
            .map(|one| (format!("{} and its count give", one.name), one.count / one.printed))
            .chain(ALL_METRICS.into_iter().filter_map(|(metric, name)| {
                Some((format!("mean {name} is"), figures.mean(metric)?))
            }))
            .find(|(_, time)| time.is_above(duration));
    let what = format!("the run took {:.2} s with {requests} requests", duration.mid());
    Some(if let Some((words, time)) = implied {
        let what = format!("{what}; {words} {:.2} s", time.mid());
        let meaning = "the duration is missing or of another run; throughputs are not checked";
        Finding::inconsistent(Rule::POSSIBLE_VALUES, what, meaning)
    } else {
        let meaning = "it has too few digits to check throughputs";
        Finding::new(Level::Remark, Rule::POSSIBLE_VALUES, what, meaning)
    })
}

/// Whether a printed number is zero, as far as its digits go.
fn is_zero(value: Interval) -> bool {
    value.low <= 0.0 && value.high >= 0.0
}

/// No server answers within this time.
const SHORTEST_ANSWER_S: f64 = 1e-4;

/// Requests with a first token or an end in no time, beside others.
fn zero_percentile(figures: &Figures<'_>, (metric, name): (Metric, &str)) -> Option<Finding> {
    // An answer of one token has no time per token, which some tools count as zero.
    if metric == Metric::Tpot {
        return None;
    }
    let quantiles = figures.quantiles(metric);
    let is_none = |value: Interval| is_zero(value) && value.high < SHORTEST_ANSWER_S;
    let (share, _) = quantiles.iter().rev().find(|(_, value)| is_none(*value))?;
    let mean = figures.mean(metric);
    let other =
        mean.or_else(|| quantiles.last().map(|(_, value)| *value)).filter(|it| it.low > 0.0)?;
    let what = format!(
        "{name} is 0.00 ms at P{}, but {} {:.2} ms",
        share * 100.0,
        if mean.is_some() { "its mean is" } else { "it reaches" },
        other.mid() * 1e3
    );
    let meaning = "requests without an answer count as zero, or the line was not filled in";
    Some(Finding::new(Level::Misleading, Rule::POSSIBLE_VALUES, what, meaning))
}

fn empty_section(figures: &Figures<'_>, (metric, name): (Metric, &str)) -> Option<Finding> {
    let is_between_tokens = matches!(metric, Metric::Tpot | Metric::Itl);
    // A single token has none after it.
    if is_between_tokens && figures.answer_tokens().is_none_or(|tokens| tokens <= 1.0) {
        return None;
    }
    let mean = figures.seconds(metric, Stat::Mean)?;
    let quantiles = figures.quantiles(metric).into_iter().map(|(_, value)| value);
    quantiles.chain([mean]).all(is_zero).then(|| {
        let what = format!("all figures of {name} are zero");
        let meaning = "it was not measured, as in a run that does not stream; checks that need it \
                       are not made";
        Finding::new(Level::Remark, Rule::POSSIBLE_VALUES, what, meaning)
    })
}
