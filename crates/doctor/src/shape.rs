//! Shape, which any sample of any server obeys.

use crate::figures::{ALL_METRICS, Figures, QUEUED};
use crate::interval::Interval;
use crate::rule::{Finding, Level, Rule};
use crate::stream::FAR;
use tokometer_compat::model::{Field, Key, Metric, Stat};

pub(crate) fn findings(figures: &Figures<'_>) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    for (metric, name) in ALL_METRICS.into_iter().chain(QUEUED) {
        found.extend(percentile_order(figures, metric, name));
        found.extend(mean_bounds(figures, metric, name));
        found.extend(within_run(figures, metric, name));
    }
    found.extend(answer_within_run(figures));
    found.extend(end_after_first(figures));
    found.extend(within_cap(figures));
    found.extend(peak_throughput(figures));
    found.extend(peak_concurrency(figures));
    found.extend(decoding_within_flight(figures));
    found
}

fn percentile_order(figures: &Figures<'_>, metric: Metric, name: &str) -> Option<Finding> {
    let quantiles = figures.quantiles(metric);
    let falling = quantiles.windows(2).find(|pair| pair[0].1.is_above(pair[1].1))?;
    let what = format!(
        "{name} falls from {:.2} ms at P{} to {:.2} ms at P{}",
        falling[0].1.mid() * 1e3,
        falling[0].0 * 100.0,
        falling[1].1.mid() * 1e3,
        falling[1].0 * 100.0
    );
    let meaning = "these lines come from different samples, or their labels are mixed up";
    Some(Finding::inconsistent(Rule::PERCENTILE_ORDER, what, meaning))
}

/// The values between two percentiles lie between them, so the mean cannot lie outside the two sums.
/// One sample at either side of each percentile may fall out of the count, hence the slack.
fn mean_bounds(figures: &Figures<'_>, metric: Metric, name: &str) -> Option<Finding> {
    let mean = figures.seconds(metric, Stat::Mean)?;
    let quantiles = figures.quantiles(metric);
    if let Some(finding) = zero_mean(figures, metric, name) {
        return Some(finding);
    }
    let requests = figures.requests().filter(|requests| *requests >= 20.0)?;
    let slack = 2.0 / requests;
    let (mut below, mut lowest) = (0.0, 0.0);
    let mut highest = 0.0;
    let mut before = 0.0;
    for (share, value) in &quantiles {
        lowest += (share - below) * before;
        highest += (share - below) * value.high;
        (below, before) = (*share, value.low);
    }
    lowest += (1.0 - below) * quantiles.last()?.1.low;
    let has_max = (1.0 - below).abs() < 1e-9;
    let is_low = mean.high < lowest * (1.0 - slack);
    let is_high = has_max && mean.low > highest * (1.0 + slack);
    (is_low || is_high).then(|| {
        let what = format!(
            "mean {name} {:.2} ms lies outside what its percentiles allow ({:.2} to {})",
            mean.mid() * 1e3,
            lowest * 1e3,
            if has_max { format!("{:.2}", highest * 1e3) } else { "any".to_owned() }
        );
        Finding::inconsistent(
            Rule::MEAN_WITHIN_BOUNDS,
            what,
            "mean and percentiles come from different samples",
        )
    })
}

/// A mean of zero, whatever the number of values: one of them is at least as large as any percentile.
fn zero_mean(figures: &Figures<'_>, metric: Metric, name: &str) -> Option<Finding> {
    let mean = figures.seconds(metric, Stat::Mean).filter(|mean| mean.low <= 0.0)?;
    let tokens = figures.report.number(Field::OutputTokens).filter(|_| metric == Metric::Itl);
    let values = figures.requests()?.max(tokens.unwrap_or(0.0));
    let (share, highest) = figures.quantiles(metric).into_iter().next_back()?;
    let least = highest * (1.0 / values);
    (mean.high >= 0.0 && least.is_above(mean)).then(|| {
        let what = format!(
            "mean {name} is {:.2} ms, but P{} is {:.2} ms",
            mean.mid() * 1e3,
            share * 100.0,
            highest.mid() * 1e3
        );
        let meaning =
            "mean and percentiles come from different samples, or the mean was not filled in";
        Finding::inconsistent(Rule::MEAN_WITHIN_BOUNDS, what, meaning)
    })
}

fn within_run(figures: &Figures<'_>, metric: Metric, name: &str) -> Option<Finding> {
    if let Some(finding) = negative(figures, metric, name) {
        return Some(finding);
    }
    let duration = figures.duration()?;
    let longest = figures.quantiles(metric).into_iter().next_back().map(|(_, value)| value);
    let is_longer = |value: &Interval| value.is_above(duration);
    let mean = figures.mean(metric).filter(is_longer).map(|mean| ("has a mean of", mean));
    let found = longest.filter(is_longer).map(|longest| ("reaches", longest)).or(mean);
    found.map(|(verb, value)| {
        let what =
            format!("{name} {verb} {:.2} s in a run of {:.2} s", value.mid(), duration.mid());
        let meaning = "the two have different definitions or come from different runs";
        Finding::inconsistent(Rule::LATENCY_WITHIN_RUN, what, meaning)
    })
}

fn negative(figures: &Figures<'_>, metric: Metric, name: &str) -> Option<Finding> {
    let quantiles = figures.quantiles(metric).into_iter().map(|(_, value)| value);
    let lowest =
        quantiles.chain(figures.seconds(metric, Stat::Mean)).find(|value| value.high < 0.0)?;
    let what = format!("{name} of {:.2} ms is below zero", lowest.mid() * 1e3);
    let meaning =
        "the client's clock was set back, or the difference of two times was taken wrongly";
    Some(Finding::inconsistent(Rule::LATENCY_WITHIN_RUN, what, meaning))
}

/// A mean answer takes no longer than the run. Long answers may have a smaller TPOT than short ones, so that
/// the product of the two means is too large.
fn answer_within_run(figures: &Figures<'_>) -> Option<Finding> {
    let (tpot, duration) = (figures.mean(Metric::Tpot)?, figures.duration()?);
    let later_tokens = figures.answer_tokens()? - 1.0;
    let is_equal = figures.has_equal_lengths();
    let least = if is_equal { duration } else { duration * (1.0 + FAR) };
    let _several = figures.requests().filter(|requests| *requests > 1.5)?;
    (tpot * later_tokens).is_above(least).then(|| {
        let what = format!(
            "TPOT × {later_tokens:.1} tokens after the first = {:.2} s in a run of {:.2} s",
            (tpot * later_tokens).mid(),
            duration.mid()
        );
        let meaning =
            "TPOT or the number of tokens has another definition or comes from another run";
        let level = if is_equal { Level::Inconsistent } else { Level::Misleading };
        Finding::new(level, Rule::LATENCY_WITHIN_RUN, what, meaning)
    })
}

fn end_after_first(figures: &Figures<'_>) -> Option<Finding> {
    let stats = figures.report.values.iter().filter_map(|(key, _)| match key {
        Key::Latency(Metric::E2el, stat) if stat != Stat::Std => Some(stat),
        _ => None,
    });
    let earlier = |stat: Stat| {
        let first = figures.seconds(Metric::Ttft, stat)?;
        let end = figures.seconds(Metric::E2el, stat)?;
        first.is_above(end).then_some((stat, first, end))
    };
    let (stat, first, end) = stats.into_iter().find_map(earlier)?;
    let what = format!(
        "{} TTFT {:.2} ms exceeds {} E2E {:.2} ms",
        stat.label(),
        first.mid() * 1e3,
        stat.label(),
        end.mid() * 1e3
    );
    let meaning = "the two come from different requests, or failed requests count as zero in one";
    Some(Finding::inconsistent(Rule::END_AFTER_FIRST, what, meaning))
}

fn within_cap(figures: &Figures<'_>) -> Option<Finding> {
    let cap = figures.positive(Field::MaxConcurrency)?;
    let in_flight = figures.in_flight()?;
    in_flight.is_above(cap).then(|| {
        let what = format!(
            "{:.2} requests were in flight on average, the cap is {}",
            in_flight.mid(),
            cap.mid()
        );
        let meaning = "latencies include waiting in the client, or the cap was not enforced";
        Finding::inconsistent(Rule::WITHIN_CAP, what, meaning)
    })
}

/// Times the tokens that streams at their mean pace give, above which a second held others too.
const SUDDEN: f64 = 10.0;

/// More tokens in one second than all streams give at their pace.
fn sudden_peak(figures: &Figures<'_>) -> Option<Finding> {
    let peak = figures.positive(Field::PeakOutputThroughput)?;
    let mean = figures.positive(Field::OutputThroughput)?;
    let in_flight = figures
        .positive(Field::PeakConcurrency)
        .or_else(|| figures.positive(Field::MaxConcurrency))
        .map_or(figures.requests()?, Interval::mid);
    let gap = figures.mean(Metric::Itl).or_else(|| figures.mean(Metric::Tpot))?;
    let pace = Interval::exact(in_flight) / gap;
    peak.is_above(pace * SUDDEN).then(|| {
        let what = format!(
            "peak output throughput {:.0} tok/s is {:.0} times the mean; {in_flight:.0} requests with a token every \
             {:.2} ms give {:.0}",
            peak.mid(),
            (peak / mean).mid(),
            gap.mid() * 1e3,
            pace.mid()
        );
        let meaning = "tokens that had waited were read at once, as after a stall of the client or of a proxy, or \
                       the peak is of another run";
        Finding::new(Level::Misleading, Rule::PEAK_ABOVE_MEAN, what, meaning)
    })
}

fn peak_throughput(figures: &Figures<'_>) -> Option<Finding> {
    let peak = figures.positive(Field::PeakOutputThroughput)?;
    let mean = figures.positive(Field::OutputThroughput)?;
    let duration = figures.duration()?;
    let tokens = figures.positive(Field::OutputTokens);
    if let Some(tokens) = tokens.filter(|tokens| peak.is_above(*tokens)) {
        let what = format!(
            "peak output throughput {:.2} tok/s, in a run of {:.0} tokens",
            peak.mid(),
            tokens.mid()
        );
        let meaning = "the counts have different definitions or come from different runs";
        return Some(Finding::inconsistent(Rule::PEAK_ABOVE_MEAN, what, meaning));
    }
    if let Some(finding) = sudden_peak(figures) {
        return Some(finding);
    }
    // The last bucket of a second is only partly filled, so the mean per bucket is a little lower.
    let per_bucket = mean * (duration.low / duration.low.ceil());
    per_bucket.is_above(peak).then(|| {
        let what = format!(
            "peak output throughput {:.2} is below the mean of {:.2} tok/s",
            peak.mid(),
            mean.mid()
        );
        let meaning = "the peak counts events, and an event holds several tokens (speculative \
                       decoding or merged reads)";
        Finding::new(Level::Misleading, Rule::PEAK_ABOVE_MEAN, what, meaning)
    })
}

fn peak_concurrency(figures: &Figures<'_>) -> Option<Finding> {
    let peak = figures.positive(Field::PeakConcurrency)?;
    let failed = figures.report.number(Field::Failed).unwrap_or(0.0);
    if peak.low > figures.requests()? + failed {
        let what = format!(
            "peak of {} requests in flight, in a run of {}",
            peak.mid(),
            figures.requests()?
        );
        let meaning = "the counts have different definitions or come from different runs";
        return Some(Finding::inconsistent(Rule::PEAK_ABOVE_MEAN, what, meaning));
    }
    let in_flight = figures.in_flight().filter(|in_flight| in_flight.is_above(peak));
    if let Some(in_flight) = in_flight {
        let what = format!(
            "{:.2} requests in flight on average, but a peak of {}",
            in_flight.mid(),
            peak.mid()
        );
        let meaning = "latencies and counts come from different requests";
        return Some(Finding::inconsistent(Rule::PEAK_ABOVE_MEAN, what, meaning));
    }
    let cap = figures.positive(Field::MaxConcurrency).filter(|cap| peak.is_above(*cap))?;
    let what = format!("peak concurrent requests {} above the cap of {}", peak.mid(), cap.mid());
    let meaning = "the peak counts all requests active during one second, not at one instant";
    Some(Finding::new(Level::Remark, Rule::PEAK_ABOVE_MEAN, what, meaning))
}

fn decoding_within_flight(figures: &Figures<'_>) -> Option<Finding> {
    let decoding = figures.decoding()?;
    let in_flight = figures.in_flight()?;
    // Tokens after the first have a gap before them, the first has none: three percent cover the
    // difference for answers of a few dozen tokens.
    decoding.is_above(in_flight.widened(0.03)).then(|| {
        let what = format!(
            "output throughput × ITL = {:.2} requests decoding, only {:.2} in flight",
            decoding.mid(),
            in_flight.mid()
        );
        let meaning =
            "more tokens are counted than were streamed, or an event holds several tokens";
        Finding::new(Level::Misleading, Rule::DECODING_WITHIN_FLIGHT, what, meaning)
    })
}
