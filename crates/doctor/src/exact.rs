//! Arithmetic, which holds whatever the server did.

use crate::definitions::{self, Throughput, apart};
use crate::figures::{ALL_METRICS, Figures, PER_REQUEST, QUEUED};
use crate::interval::Interval;
use crate::rule::{Finding, Level, Rule};
use tokometer_compat::model::{Field, Metric, Percentile, Stat};

const OTHER_SOURCE: &str = "these lines have different definitions or come from different sources; \
                            the block does not show which line differs";

const TRUNCATED: &str = "the difference is less than one unit of the last digit: probably truncated \
                         instead of rounded";

pub(crate) fn findings(figures: &Figures<'_>) -> Vec<Finding> {
    let mut found = throughputs(figures);
    found.extend(median_is_p50(figures));
    found.extend(single_request(figures));
    found.extend(two_requests(figures));
    found.extend(little(figures));
    found.extend(queue_sum(figures));
    found.extend(input_sum(figures));
    found
}

fn throughputs(figures: &Figures<'_>) -> Vec<Finding> {
    let Some(duration) = figures.rate_duration() else { return Vec::new() };
    let all = definitions::throughputs(figures).into_iter();
    all.filter(|one| !one.printed.overlaps(one.expected(duration)))
        .map(|one| throughput(figures, &one, duration))
        .collect()
}

/// A throughput that is not its count over its time.
fn throughput(figures: &Figures<'_>, found: &Throughput, duration: Interval) -> Finding {
    let Throughput { name, printed, count } = *found;
    let expected = found.expected(duration);
    let what = format!(
        "{name} {:.2} is not what this block's other lines give: {:.0} / {:.2} s = {:.2} ({})",
        printed.mid(),
        count.mid(),
        duration.mid(),
        expected.mid(),
        apart(printed.mid(), expected.mid())
    );
    if let Some(words) = definitions::other_count(figures, found, duration) {
        let level = definitions::level(printed.mid() / expected.mid());
        return Finding::new(level, Rule::OTHER_DEFINITION, what, words);
    }
    let is_of_tokens = name != definitions::REQUEST_THROUGHPUT;
    if let Some(devices) = definitions::devices(figures, duration).filter(|_| is_of_tokens) {
        let meaning = format!("it is 1/{devices} of it: probably per device or per replica");
        return Finding::new(Level::Misleading, Rule::OTHER_DEFINITION, what, meaning);
    }
    if expected.overlaps(printed.twice_as_wide()) {
        return Finding::new(Level::Remark, Rule::THROUGHPUT, what, TRUNCATED);
    }
    Finding::inconsistent(Rule::THROUGHPUT, what, OTHER_SOURCE)
}

fn median_is_p50(figures: &Figures<'_>) -> Vec<Finding> {
    let p50 = Stat::Percentile(Percentile::whole(50));
    let wrong = |(metric, name): (Metric, &str)| {
        let median = figures.seconds(metric, Stat::Median)?;
        let p50 = figures.seconds(metric, p50)?;
        (!median.overlaps(p50)).then(|| {
            let what = format!(
                "median {name} {:.2} ms is not this block's P50, {:.2} ms ({})",
                median.mid() * 1e3,
                p50.mid() * 1e3,
                apart(median.mid(), p50.mid())
            );
            Finding::inconsistent(Rule::MEDIAN_IS_P50, what, OTHER_SOURCE)
        })
    };
    ALL_METRICS.into_iter().chain(QUEUED).filter_map(wrong).collect()
}

fn is_count(figures: &Figures<'_>, count: f64) -> bool {
    figures.requests().is_some_and(|requests| (requests - count).abs() < 0.5)
}

fn single_request(figures: &Figures<'_>) -> Vec<Finding> {
    if !is_count(figures, 1.0) {
        return Vec::new();
    }
    let spread = |(metric, name): (Metric, &str)| {
        let mean = figures.seconds(metric, Stat::Mean)?;
        let quantiles = figures.quantiles(metric);
        quantiles.iter().any(|(_, value)| !value.overlaps(mean)).then(|| {
            let what =
                format!("mean, median and percentiles of {name} differ, with a single request");
            Finding::inconsistent(Rule::SINGLE_REQUEST, what, OTHER_SOURCE)
        })
    };
    PER_REQUEST.into_iter().filter_map(spread).chain(single_duration(figures)).collect()
}

/// A single request fills the whole run, to within 0.2 % for what the client does around it.
fn single_duration(figures: &Figures<'_>) -> Option<Finding> {
    let later_tokens = figures.answer_tokens()? - 1.0;
    let ttft = figures.mean(Metric::Ttft)?;
    let tpot = figures.seconds(Metric::Tpot, Stat::Mean)?;
    let (duration, latency) = (figures.duration()?, ttft + tpot * later_tokens);
    if duration.widened(0.002).overlaps(latency) {
        return None;
    }
    let what = format!(
        "the run took {:.2} s, its only request {:.2} s (TTFT + TPOT × {later_tokens})",
        duration.mid(),
        latency.mid()
    );
    let with_first = tpot * (later_tokens + 1.0);
    Some(if duration.widened(0.002).overlaps(with_first) {
        let meaning = "TPOT × all tokens is the duration: TPOT probably includes the first token";
        Finding::new(Level::Misleading, Rule::OTHER_DEFINITION, what, meaning)
    } else if latency.is_above(duration) {
        Finding::inconsistent(Rule::SINGLE_REQUEST, what, OTHER_SOURCE)
    } else {
        let meaning =
            "the duration includes work outside the request, so throughput is understated";
        Finding::new(Level::Remark, Rule::SINGLE_REQUEST, what, meaning)
    })
}

fn two_requests(figures: &Figures<'_>) -> Vec<Finding> {
    if !is_count(figures, 2.0) {
        return Vec::new();
    }
    let wrong = |(metric, name): (Metric, &str)| {
        let mean = figures.seconds(metric, Stat::Mean)?;
        let median = figures.seconds(metric, Stat::Median)?;
        // P99 of two values lies 0.49 of their distance above the mean: both can be worked out.
        let smaller = figures
            .seconds(metric, Stat::P99)
            .map(|p99| mean - (p99 - mean) * (0.5 / 0.49))
            .filter(|smaller| smaller.high < 0.0);
        (!mean.overlaps(median) || smaller.is_some()).then(|| {
            let what = format!("mean, median and P99 of {name} cannot come from two requests");
            Finding::inconsistent(Rule::TWO_REQUESTS, what, OTHER_SOURCE)
        })
    };
    PER_REQUEST.into_iter().filter_map(wrong).collect()
}

fn little(figures: &Figures<'_>) -> Option<Finding> {
    let printed = figures.field(Field::Concurrency)?;
    let expected = figures.in_flight()?;
    (!printed.overlaps(expected)).then(|| {
        let what = format!(
            "concurrency {:.2} is not what this block's other lines give: requests × mean E2E / \
             duration = {:.2} ({})",
            printed.mid(),
            expected.mid(),
            apart(printed.mid(), expected.mid())
        );
        if expected.overlaps(printed.twice_as_wide()) {
            return Finding::new(Level::Remark, Rule::LITTLE, what, TRUNCATED);
        }
        Finding::inconsistent(Rule::LITTLE, what, OTHER_SOURCE)
    })
}

/// Each request waits in the client and is then served. Failed requests may be in one of the means only.
fn queue_sum(figures: &Figures<'_>) -> Option<Finding> {
    if figures.report.number(Field::Failed).is_some_and(|failed| failed > 0.0) {
        return None;
    }
    let printed = figures.seconds(Metric::QueuedE2el, Stat::Mean)?;
    let queue = figures.seconds(Metric::ClientQueue, Stat::Mean)?;
    let served = figures.mean(Metric::E2el)?;
    let expected = queue + served;
    (!printed.overlaps(expected)).then(|| {
        let what = format!(
            "mean E2E with client queue time {:.2} ms is not {:.2} ms in the queue + {:.2} ms = {:.2} ms ({})",
            printed.mid() * 1e3,
            queue.mid() * 1e3,
            served.mid() * 1e3,
            expected.mid() * 1e3,
            apart(printed.mid(), expected.mid())
        );
        if expected.overlaps(printed.twice_as_wide()) {
            return Finding::new(Level::Remark, Rule::QUEUE_SUM, what, TRUNCATED);
        }
        Finding::inconsistent(Rule::QUEUE_SUM, what, OTHER_SOURCE)
    })
}

/// Tokens of text and of images are all tokens of the prompts. A run without images has no line for them.
fn input_sum(figures: &Figures<'_>) -> Option<Finding> {
    let input = figures.field(Field::InputTokens)?;
    let text = figures.field(Field::InputTextTokens)?;
    let vision = figures.field(Field::InputVisionTokens);
    let sum = text + vision.unwrap_or(Interval::exact(0.0));
    let is_wrong = sum.is_above(input) || (vision.is_some() && !sum.overlaps(input));
    is_wrong.then(|| {
        let what = format!(
            "{:.0} text tokens and {:.0} vision tokens are not the {:.0} input tokens",
            text.mid(),
            vision.map_or(0.0, Interval::mid),
            input.mid()
        );
        Finding::inconsistent(Rule::INPUT_SUM, what, OTHER_SOURCE)
    })
}
