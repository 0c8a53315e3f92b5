//! The report against the requested load, and what the sample can carry.

use crate::figures::{Figures, PER_REQUEST};
use crate::interval::Interval;
use crate::rule::{Finding, Level, Rule};
use crate::stated;
use crate::stream::FAR;
use tokometer_compat::model::{Field, Metric, Percentile, Stat};

pub(crate) fn findings(figures: &Figures<'_>) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    found.extend(rate_reached(figures));
    found.extend(rate_exceeded(figures));
    found.extend(all_accounted(figures));
    found.extend(failures(figures));
    found.extend(server_limit(figures));
    found.extend(backlog(figures));
    found.extend(pinned_length(figures));
    found.extend(percentile_support(figures));
    found
}

/// A run lasts as long as its arrivals and then some: twice the mean latency is allowed for the
/// requests that are still running after the last arrival, and three standard deviations for random
/// arrivals, which only some tools stretch to the stated rate.
fn rate_reached(figures: &Figures<'_>) -> Option<Finding> {
    let rate = stated::rate(figures.report)?;
    let (requests, duration) = (figures.requests()?, figures.duration()?);
    let achieved = requests / duration.mid();
    if achieved >= 0.9 * rate {
        return None;
    }
    let latency = figures.latency().map_or(0.0, Interval::mid);
    let arrivals = (requests + 3.0 * requests.sqrt()) / rate;
    let is_only_drain = duration.low <= (arrivals + 2.0 * latency) / 0.9;
    let what = format!("{achieved:.2} requests/s were served, {rate:.2} are stated");
    if is_only_drain {
        let meaning = "the run is so short that its last requests, or its random arrivals, decide \
                       the duration";
        return Some(Finding::new(Level::Remark, Rule::RATE_REACHED, what, meaning));
    }
    let in_flight = requests * latency / duration.mid();
    let is_full = |cap: &Interval| cap.low < requests && in_flight > 0.5 * cap.mid();
    let meaning = match figures.positive(Field::MaxConcurrency).filter(is_full) {
        Some(cap) => format!(
            "the cap of {} in flight limits the load, not the rate: a closed loop, whose latencies \
             exclude waiting in the client",
            cap.mid()
        ),
        None => "the server cannot keep up and latencies grow with the length of the run, or the \
                 client sends late"
            .to_owned(),
    };
    Some(Finding::new(Level::Misleading, Rule::RATE_REACHED, what, meaning))
}

/// The last of so many random arrivals is not this early, by three standard deviations.
fn rate_exceeded(figures: &Figures<'_>) -> Option<Finding> {
    let rate = stated::rate(figures.report)?;
    let (requests, duration) = (figures.requests()?, figures.duration()?);
    let earliest = (requests - 1.0 - 3.0 * requests.sqrt()) / rate;
    (earliest > duration.high).then(|| {
        let achieved = requests / duration.mid();
        let what = format!("{achieved:.2} requests/s were served, only {rate:.2} are stated");
        let meaning =
            "the requests did not come at the stated rate, or the rate is that of another run";
        Finding::new(Level::Misleading, Rule::RATE_REACHED, what, meaning)
    })
}

fn all_accounted(figures: &Figures<'_>) -> Option<Finding> {
    let asked = stated::requests(figures.report)?;
    let failed = figures.report.number(Field::Failed);
    let (things, seen) = match stated::sequences(figures.report) {
        Some(sequences) => ("prompts", sequences),
        None => ("requests", figures.report.number(Field::Successful)? + failed.unwrap_or(0.0)),
    };
    ((asked - seen).abs() > 0.5).then(|| {
        let what = format!("{asked} {things} are stated, {seen} are reported");
        let meaning = if seen < asked {
            format!("{} are in neither count, and the figures cover only the others", asked - seen)
        } else {
            "the block does not belong to this command".to_owned()
        };
        Finding::inconsistent(Rule::ALL_ACCOUNTED, what, meaning)
    })
}

fn failures(figures: &Figures<'_>) -> Option<Finding> {
    let failed = figures.report.number(Field::Failed).filter(|failed| *failed > 0.0)?;
    let all = failed + figures.report.number(Field::Successful)?;
    let level = if failed > 0.01 * all { Level::Misleading } else { Level::Remark };
    let what = format!("{failed} of {all} requests failed");
    let meaning = "latencies cover successful requests only: an overloaded server that rejects requests looks fast";
    Some(Finding::new(level, Rule::ALL_ACCOUNTED, what, meaning))
}

fn server_limit(figures: &Figures<'_>) -> Option<Finding> {
    let decoding = figures.decoding()?;
    // Where an event holds several tokens, the time between events is not that between tokens.
    let tpot = figures.mean(Metric::Tpot)?;
    let is_merged = (tpot / figures.mean(Metric::Itl)?).high < 1.0 - FAR;
    let merged = figures.positive(Field::OutputThroughput).filter(|_| is_merged);
    let (by, decoding) = merged.map_or(("ITL", decoding), |rate| ("TPOT", rate * tpot));
    let in_flight = figures
        .positive(Field::PeakConcurrency)
        .or_else(|| figures.positive(Field::MaxConcurrency))?;
    let is_decode_run = figures.answer_tokens()? >= 8.0;
    if !is_decode_run || decoding.high > 0.5 * in_flight.low {
        return None;
    }
    // A peak that was short, as at a low rate, says nothing about a limit.
    let usual = figures.latency()?.mid() * figures.requests()? / figures.duration()?.mid();
    if usual < 0.5 * in_flight.mid() {
        return None;
    }
    let ttft = figures.mean(Metric::Ttft)?.mid();
    let stream = figures.mean(Metric::Tpot)?.mid() * (figures.answer_tokens()? - 1.0);
    let waiting = ttft / (ttft + stream);
    // A batch may be small because requests are short of time, not because the server limits them:
    // only when most of a request's life is spent before its first token was it made to wait.
    (waiting > 0.5).then(|| {
        let what = format!(
            "output throughput × {by} = {:.1} requests were decoding, {} were in flight",
            decoding.mid(),
            in_flight.mid()
        );
        let meaning = format!(
            "the server ran about {:.0} requests at once; {:.0} % of the latency is queueing",
            decoding.mid().ceil(),
            waiting * 100.0
        );
        Finding::new(Level::Misleading, Rule::SERVER_LIMIT, what, meaning)
    })
}

/// All requests sent at once and served at a steady pace have a mean TTFT of half the run.
fn backlog(figures: &Figures<'_>) -> Option<Finding> {
    let _enough = figures.requests().filter(|requests| *requests >= 32.0)?;
    let duration = figures.duration()?.mid();
    let share = |stat| Some(figures.seconds(Metric::Ttft, stat)?.mid() / duration);
    let (mean, median) = (share(Stat::Mean)?, share(Stat::Median)?);
    let last = share(Stat::P99)?;
    let is_half = |share: f64| (0.33..=0.55).contains(&share);
    (is_half(mean) && is_half(median) && last > 0.75).then(|| {
        let what = format!(
            "mean TTFT is {:.0} % of the duration, P99 {:.0} %",
            mean * 100.0,
            last * 100.0
        );
        let meaning = "all requests were sent at once: TTFT measures the backlog, not the engine";
        Finding::new(Level::Remark, Rule::BACKLOG, what, meaning)
    })
}

fn pinned_length(figures: &Figures<'_>) -> Option<Finding> {
    // A mean of a few answers is a whole number by chance often enough.
    let requests = figures.requests().filter(|requests| *requests >= 32.0)?;
    let length = figures.answer_tokens().filter(|length| *length >= 1.0)?;
    ((length - length.round()).abs() < 0.5 / requests).then(|| {
        let what = format!("output tokens / requests is exactly {length:.0}");
        let meaning = "the output length was fixed (EOS ignored) or hit a limit";
        Finding::new(Level::Remark, Rule::PINNED_LENGTH, what, meaning)
    })
}

/// Values needed for a two-sided 95 % interval of this percentile from order statistics: the chance
/// that all lie below it, or all above it, must not exceed 2.5 %.
fn values_needed(percentile: Percentile) -> f64 {
    let tail = (1.0 - percentile.share()).min(percentile.share());
    if tail <= 0.0 { f64::INFINITY } else { (0.025_f64.ln() / (-tail).ln_1p()).ceil() }
}

fn percentile_support(figures: &Figures<'_>) -> Option<Finding> {
    let requests = figures.requests()?;
    let highest = PER_REQUEST
        .iter()
        .flat_map(|(metric, _)| figures.report.percentiles(*metric))
        .filter(|percentile| values_needed(*percentile) > requests)
        .max()?;
    let what = format!(
        "P{highest} of {requests} request{}; its confidence interval needs {}",
        if requests > 1.5 { "s" } else { "" },
        values_needed(highest)
    );
    let meaning = "the value depends on the few slowest requests and will differ in the next run";
    Some(Finding::new(Level::Remark, Rule::PERCENTILE_SUPPORT, what, meaning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p99_needs_368_values() {
        assert!((values_needed(Percentile::whole(99)) - 368.0).abs() < 0.5);
        assert!((values_needed(Percentile::parse("99.9").unwrap()) - 3_688.0).abs() < 1.5);
    }
}
