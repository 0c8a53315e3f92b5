//! Forks that print this block with other definitions.
//!
//! Where all lines of a block agree once one of them is understood differently, that definition is
//! named, and the other checks use it. Only definitions that the block's own lines single out are
//! taken: a block in which nothing agrees stays inconsistent.

use crate::figures::Figures;
use crate::interval::Interval;
use crate::rule::{Finding, Level, Rule};
use tokometer_compat::model::{Field, Key, Metric, Report, Scalar};

/// A report in the definitions that its lines agree on.
pub(crate) struct Understood {
    pub(crate) report: Report,
    /// The time over which throughputs were computed, where it is not the printed duration.
    pub(crate) rate_duration: Option<Interval>,
    pub(crate) findings: Vec<Finding>,
}

pub(crate) fn understood(report: &Report) -> Understood {
    let mut report = report.clone();
    let mut findings: Vec<Finding> = Vec::new();
    if let Some(finding) = in_seconds(&Figures::new(&report, None)) {
        scale_latencies(&mut report, 1e3);
        findings.push(finding);
    }
    let found = other_duration(&Figures::new(&report, None));
    let (rate_duration, finding) = found.unzip();
    findings.extend(finding);
    Understood { report, rate_duration, findings }
}

fn scale_latencies(report: &mut Report, factor: f64) {
    for (key, value) in report.values.iter_mut() {
        if let (Key::Latency(..), Scalar::Number(number)) = (key, &mut value.scalar) {
            *number *= factor;
            value.half_unit *= factor;
        }
    }
}

/// Latencies below this many milliseconds a token are faster than any server streams to a client.
const FASTEST_TOKEN_S: f64 = 5e-4;

/// Latencies in seconds under the label of milliseconds: requests in flight are then a thousandth of
/// what the other lines say.
fn in_seconds(figures: &Figures<'_>) -> Option<Finding> {
    let requests = figures.requests()?;
    let latency = figures.latency()?;
    let in_flight = latency * requests / figures.duration()?;
    let as_seconds = in_flight * 1e3;
    let printed = figures.positive(Field::Concurrency);
    let is_one = requests < 1.5;
    let expected = printed.or_else(|| is_one.then(|| Interval::exact(1.0)));
    let is_seconds = match expected {
        Some(expected) => as_seconds.widened(0.05).overlaps(expected),
        None => in_flight.high < 0.02 && is_plausible(figures, as_seconds.mid(), requests),
    };
    let is_millis = expected.is_some_and(|expected| in_flight.widened(0.05).overlaps(expected));
    (is_seconds && !is_millis).then(|| {
        let beside = printed.map_or(String::new(), |value| format!("; {:.2} is printed", value.mid()));
        let what = format!(
            "requests × mean E2E / duration is {:.3} with latencies in milliseconds and {:.1} with \
             latencies in seconds{beside}",
            in_flight.mid(),
            as_seconds.mid()
        );
        let meaning = "the latencies are probably in seconds, under labels that say `(ms)`; the other \
                       checks take them as seconds";
        Finding::new(Level::Misleading, Rule::OTHER_DEFINITION, what, meaning)
    })
}

/// Whether so many requests may have been in flight, in a run without a stated rate whose tokens
/// would otherwise come impossibly fast.
fn is_plausible(figures: &Figures<'_>, in_flight: f64, requests: f64) -> bool {
    let token = figures.mean(Metric::Tpot).or_else(|| figures.mean(Metric::Itl));
    let is_fast = token.is_some_and(|token| token.high < FASTEST_TOKEN_S);
    let cap = figures.report.max_concurrency().map_or(requests, f64::from);
    let has_rate = figures.report.request_rate().is_some_and(f64::is_finite);
    is_fast && !has_rate && in_flight >= 0.5 && in_flight <= 1.05 * cap.min(requests)
}

/// The time that all throughputs agree on, where it is not the printed duration.
fn other_duration(figures: &Figures<'_>) -> Option<(Interval, Finding)> {
    let printed = figures.duration()?;
    let implied: Vec<Interval> = throughputs(figures)
        .into_iter()
        .map(|one| one.count / one.printed)
        .filter(|time| time.low > 0.0 && time.high.is_finite())
        .collect();
    let low = implied.iter().map(|time| time.low).fold(f64::MIN, f64::max);
    let high = implied.iter().map(|time| time.high).fold(f64::MAX, f64::min);
    let agreed = Interval { low, high };
    let longest = [Metric::Ttft, Metric::E2el]
        .into_iter()
        .filter_map(|metric| Some(figures.quantiles(metric).last()?.1.low))
        .fold(0.0, f64::max);
    let is_agreed = implied.len() >= 2 && low <= high && high >= longest;
    // A single line off by one digit is no definition: at least one throughput must be far.
    let is_other = !agreed.widened(1e-3).overlaps(printed);
    (is_agreed && is_other).then(|| (agreed, duration_finding(printed, agreed)))
}

/// A warm-up is at most this many times as long as the run that follows it.
const LONGEST_WARM_UP: f64 = 2.0;

/// A factor of ten is a lost or an added digit rather than ten devices.
const SLIP: u32 = 10;

fn duration_finding(printed: Interval, agreed: Interval) -> Finding {
    let ratio = printed.mid() / agreed.mid();
    let what = format!(
        "all throughputs agree on {:.2} s; the printed duration is {:.2} s ({})",
        agreed.mid(),
        printed.mid(),
        apart(printed.mid(), agreed.mid())
    );
    if let Some(replicas) = whole_factor(agreed / printed).filter(|factor| *factor != SLIP) {
        let meaning = format!(
            "the throughputs are 1/{replicas} of counts / duration: probably per device or per replica"
        );
        return Finding::new(Level::Misleading, Rule::OTHER_DEFINITION, what, meaning);
    }
    let meaning = if (990.0..1010.0).contains(&ratio) {
        "the duration is probably in milliseconds"
    } else if !(1.0 / (1.0 + LONGEST_WARM_UP)..=1.0 + LONGEST_WARM_UP).contains(&ratio) {
        let meaning = "no warm-up explains it: the duration comes from another run, or its digits are \
                       not those of the run";
        return Finding::inconsistent(Rule::THROUGHPUT, what, meaning);
    } else if ratio > 1.0 {
        "the duration probably includes time that throughputs leave out, such as warm-up; the other \
         checks use the shorter time"
    } else {
        "the throughputs were probably computed over a longer time than the printed one, such as one \
         with warm-up"
    };
    Finding::new(level(ratio), Rule::OTHER_DEFINITION, what, meaning)
}

/// A definition that moves a figure by less than this share misleads nobody.
const SLIGHT: f64 = 0.01;

/// How bad another definition is that gives this ratio.
pub(crate) fn level(ratio: f64) -> Level {
    if (ratio - 1.0).abs() < SLIGHT { Level::Remark } else { Level::Misleading }
}

/// How far two numbers are from each other, in words.
pub(crate) fn apart(one: f64, other: f64) -> String {
    let percent = (one / other - 1.0).abs() * 100.0;
    if other.abs() < f64::MIN_POSITIVE {
        return "one of them is zero".to_owned();
    }
    if !percent.is_finite() || percent > 1e4 {
        return "more than 100 times apart".to_owned();
    }
    let decimals = usize::from(percent < 10.0) + usize::from(percent < 0.1);
    format!("{percent:.decimals$} % apart")
}

pub(crate) const REQUEST_THROUGHPUT: &str = "request throughput";

/// A throughput that is printed together with what it counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Throughput {
    pub(crate) name: &'static str,
    pub(crate) printed: Interval,
    pub(crate) count: Interval,
}

impl Throughput {
    /// What the count gives over this time.
    pub(crate) fn expected(&self, duration: Interval) -> Interval {
        self.count / duration
    }
}

pub(crate) fn throughputs(figures: &Figures<'_>) -> Vec<Throughput> {
    let (input, output) = (figures.field(Field::InputTokens), figures.field(Field::OutputTokens));
    let total = input.zip(output).map(|(input, output)| input + output);
    let of = |name, field, count: Option<Interval>| {
        Some(Throughput { name, printed: figures.field(field)?, count: count? })
    };
    let requests = figures.field(Field::Successful);
    let found = [
        of(REQUEST_THROUGHPUT, Field::RequestThroughput, requests),
        of("input token throughput", Field::InputThroughput, input),
        of("output token throughput", Field::OutputThroughput, output),
        of("total token throughput", Field::TotalThroughput, total),
    ];
    found.into_iter().flatten().collect()
}

/// The definition by which a throughput is what the other lines give, in words.
pub(crate) fn other_count(
    figures: &Figures<'_>,
    throughput: &Throughput,
    duration: Interval,
) -> Option<&'static str> {
    let count = |field| figures.field(field);
    let sum = |one, other| Some(count(one)? + count(other)?);
    let retokenized = "it probably counts the tokens of the text, counted again";
    let with_failed = sum(Field::Successful, Field::Failed);
    let all_retokenized = sum(Field::InputTokens, Field::RetokenizedTokens);
    let all = sum(Field::InputTokens, Field::OutputTokens);
    let ways: &[(Option<Interval>, &str)] = match throughput.name {
        REQUEST_THROUGHPUT => &[(with_failed, "it probably counts failed requests too")],
        "output token throughput" => &[
            (count(Field::RetokenizedTokens), retokenized),
            (all, "it probably counts input tokens too"),
        ],
        "total token throughput" => &[
            (all_retokenized, retokenized),
            (count(Field::OutputTokens), "it probably counts output tokens only"),
        ],
        _ => &[],
    };
    let is_it = |count: Interval| throughput.printed.overlaps(count / duration);
    ways.iter().find(|(count, _)| count.is_some_and(is_it)).map(|(_, words)| *words)
}

/// The number of devices that token throughputs were divided by; `None` when their digits single out
/// none, or another throughput of tokens was not divided: a single one is a slip and no definition.
pub(crate) fn devices(figures: &Figures<'_>, duration: Interval) -> Option<u32> {
    let of_tokens = throughputs(figures).into_iter().filter(|one| one.name != REQUEST_THROUGHPUT);
    let ratios: Vec<Interval> = of_tokens.map(|one| one.expected(duration) / one.printed).collect();
    let devices = whole_factor(*ratios.first()?)?;
    let is_shared = ratios.iter().all(|ratio| whole_factor(*ratio) == Some(devices));
    (ratios.len() >= 2 && is_shared).then_some(devices)
}

/// The number of devices, from 2 on, that this ratio singles out.
fn whole_factor(ratio: Interval) -> Option<u32> {
    (2..=72).find(|factor| {
        let is_sharp = ratio.high - ratio.low < 0.01 * f64::from(*factor);
        is_sharp && ratio.overlaps(Interval::exact(f64::from(*factor)))
    })
}
