//! Parses and judges service-level objectives: `p99 ttft < 2s, p99 tpot < 100ms, goodput > 99%`.
//!
//! In: the text, and a [`Summary`]. Out: for each objective its value, whether it is met, how close it is
//! to its limit, and whether the run can tell. An objective without a value is neither met nor violated.

use serde::{Deserialize, Serialize};
use tokometer_base::units::nearest_count;
use tokometer_base::{Nanos, units};
use tokometer_figures::define::Unit;
use tokometer_figures::figure::{Better, Figure, Percentile, Quantity, Statistic};
use tokometer_figures::{
    ConfidenceInterval, Distribution, NoInterval, Objectives, Summary, Verdict, statistics,
};

use crate::Error;

#[derive(Debug, Clone, PartialEq)]
pub struct Objective {
    /// As typed.
    pub text: String,
    /// The value that is compared with the limit.
    pub figure: Figure,
    /// In the unit of the figure: the most that is good, or the least where higher is better.
    pub limit: f64,
}

/// All objectives of a text.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Slo {
    pub objectives: Vec<Objective>,
}

/// What a run shows of an objective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ObjectiveOutcome {
    /// The whole interval is on the good side of the limit.
    Pass,
    /// The interval holds the limit, there is none, or the figure is INVALID.
    CannotTell,
    /// The whole interval is on the wrong side of the limit.
    Fail,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ObjectiveResult {
    /// As typed.
    pub text: String,
    /// `None` when the run has no value, or when it lies among failed requests.
    pub value: Option<f64>,
    /// In the unit of the figure.
    pub limit: f64,
    pub is_met: Option<bool>,
    /// Share of the limit that is used: above one is a violation. `None` without a value.
    pub use_of_limit: Option<f64>,
    /// Whether the sample is large enough for the percentile.
    pub is_supported: bool,
    /// Ends of the value's 95 % confidence interval. `None` where it has none; an upper end that is missing
    /// beside a lower one is infinite.
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// Why there is no interval.
    pub no_interval: Option<NoInterval>,
    pub outcome: ObjectiveOutcome,
}

/// Whether an objective would be missed if requests waited ever longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitLimit {
    Limited,
    /// None would: all are about the speed of tokens, or requests wait in the client for a slot.
    Free,
}

/// Chance beyond one end of a 95 % interval.
const ONE_SIDE: f64 = 0.025;

impl Slo {
    /// Parses objectives separated by commas.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let objectives =
            text.split(',').map(|part| Objective::parse(part.trim())).collect::<Result<_, _>>()?;
        Ok(Self { objectives })
    }

    /// Whether any of them is about the share of good requests.
    pub fn has_goodput(&self) -> bool {
        self.objectives.iter().any(|one| one.figure.quantity == Quantity::Goodput)
    }

    /// The limits for a single request to count as good: those of the latencies named here.
    pub fn request_limits(&self) -> Objectives {
        let limit = |quantity: Quantity| {
            let is_of = |one: &&Objective| one.figure.quantity == quantity;
            self.objectives
                .iter()
                .filter(is_of)
                .map(|objective| objective.limit)
                .min_by(f64::total_cmp)
        };
        Objectives {
            ttft_ms: limit(Quantity::Ttft),
            tpot_ms: limit(Quantity::Tpot),
            e2el_ms: limit(Quantity::E2e),
        }
    }

    /// Whether an objective limits the wait for a first token, which begins before the send where a cap
    /// holds requests back.
    pub fn wait_limit(&self, max_concurrency: Option<u32>) -> WaitLimit {
        let is_wait = |one: &Objective| match one.figure.quantity {
            Quantity::TtftFromIntended | Quantity::E2eFromIntended => true,
            Quantity::Ttft | Quantity::E2e => max_concurrency.is_none(),
            _ => false,
        };
        if self.objectives.iter().any(is_wait) { WaitLimit::Limited } else { WaitLimit::Free }
    }

    /// The objective about goodput where no latency has a limit: every successful request would be good.
    pub fn goodput_alone(&self) -> Option<&Objective> {
        let goodput = self.objectives.iter().find(|one| one.figure.quantity == Quantity::Goodput);
        goodput.filter(|_| self.request_limits() == Objectives::default())
    }

    /// The percentiles that a summary must have for these objectives.
    pub fn percentiles(&self) -> Vec<f64> {
        let of = |one: &Objective| one.figure.statistic.percentile().map(Percentile::percent);
        tokometer_figures::sample::with_median(
            &self.objectives.iter().filter_map(of).collect::<Vec<_>>(),
        )
    }

    /// One result per objective, in the order typed.
    pub fn results(&self, summary: &Summary) -> Vec<ObjectiveResult> {
        self.objectives.iter().map(|objective| objective.result(summary)).collect()
    }
}

impl Objective {
    /// Whether it asks for a least throughput. More load serves more, so no load is too high for it.
    pub fn is_least_throughput(&self) -> bool {
        use Quantity::{GoodputRate, Output, PeakOutput, Prompt, Requests, Total};
        matches!(
            self.figure.quantity,
            Requests | Output | Prompt | Total | PeakOutput | GoodputRate
        )
    }

    /// Whether a value is on the wrong side of the limit.
    pub(crate) fn is_beyond(&self, value: f64) -> bool {
        match self.figure.better() {
            Better::Lower => value > self.limit,
            Better::Higher => value < self.limit,
        }
    }

    /// Share of the values that may lie beyond the limit; `None` where the objective is not about a share.
    pub fn allowed(&self) -> Option<f64> {
        let is_goodput = self.figure.quantity == Quantity::Goodput && self.limit < 1.0;
        match (self.figure.statistic, self.figure.better()) {
            (Statistic::Percentile(percent), Better::Lower) => Some(1.0 - percent.share()),
            (Statistic::Percentile(percent), Better::Higher) => Some(percent.share()),
            (Statistic::Whole, Better::Higher) if is_goodput => Some(1.0 - self.limit),
            _ => None,
        }
    }

    /// How the words are read, where they could mean something else; `None` where they say it.
    pub fn remark(&self) -> Option<String> {
        let typed = self.text.split(['<', '>']).next().unwrap_or_default().to_ascii_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| typed.contains(word));
        let meaning = match self.figure.quantity {
            // Some tools count it to the first token.
            Quantity::E2e if !has(&["e2e", "end"]) => ", from sending a request to its last token",
            // Some tools count requests.
            Quantity::Output if !has(&["output", "tok"]) => ", in tokens per second",
            _ => "",
        };
        let is_open = self.figure.statistic == Statistic::Mean && !has(&["mean", "avg", "average"]);
        if meaning.is_empty() && !is_open {
            return None;
        }
        let figure = self.figure;
        let more = if is_open {
            format!("\n  write `p99 {}` for a percentile", self.text)
        } else {
            String::new()
        };
        Some(format!("`{}` is read as {figure}{meaning}{more}", self.text))
    }

    /// About how many requests would tell on which side of the limit the value is, if it stays and these were
    /// so many. `None` where that is unknown, or more than anybody would send.
    pub fn requests_needed(&self, found: &ObjectiveResult, requests: u64) -> Option<u64> {
        let needed = match (found.value, found.low, found.no_interval) {
            (_, _, Some(NoInterval::FewSamples | NoInterval::TooShort)) => {
                let percentile = self.figure.statistic.percentile()?;
                statistics::needed_samples(percentile.percent())? as f64
            }
            (Some(value), Some(low), _) => {
                let is_below = value < self.limit;
                let reach = if is_below { found.high? - value } else { value - low };
                requests as f64 * (reach / (self.limit - value)).powi(2)
            }
            _ => return None,
        };
        let is_possible = needed > requests as f64 && needed < MOST_MORE * requests as f64;
        is_possible.then(|| two_digits(needed))
    }

    fn parse(text: &str) -> Result<Self, Error> {
        if text.is_empty() {
            return Err(Error::EmptyObjective);
        }
        let no_comparison = || Error::NoComparison(text.to_owned());
        let (left, right) = text.split_once(['<', '>']).ok_or_else(no_comparison)?;
        let limit = right.trim_start_matches('=').trim();
        let figure = Figure::parse(left)
            .map_err(|source| Error::Figure { text: text.to_owned(), source })?;
        // Nobody wants slow responses, or few: the signs are easily mixed up.
        let (good, wrong) = match figure.better() {
            Better::Lower => ("<", ">"),
            Better::Higher => (">", "<"),
        };
        if text[left.len()..].starts_with(wrong) {
            let turned = text.replacen(wrong, good, 1);
            return Err(Error::WrongSide { text: text.to_owned(), turned });
        }
        let is_bare = limit.ends_with(|last: char| last.is_ascii_digit() || last == '.');
        // `p99_ttft_ms < 200` names its unit on the left.
        let is_named = left.trim_end().to_ascii_lowercase().ends_with("_ms");
        if figure.unit() == Unit::Millis && is_bare && !is_named {
            return Err(Error::NoUnit { text: text.to_owned() });
        }
        let limit = parse_limit(limit, figure.unit())
            .map_err(|source| Error::Limit { text: text.to_owned(), source })?;
        if figure.unit() == Unit::Share && limit > 1.0 {
            return Err(Error::NoShare { text: text.to_owned() });
        }
        Ok(Self { text: text.to_owned(), figure, limit })
    }

    fn result(&self, summary: &Summary) -> ObjectiveResult {
        let key = self.figure.quantity.key();
        let distribution = summary.distribution(key);
        let (value, is_supported) = match self.figure.statistic {
            Statistic::Whole => (summary.figure(key), true),
            statistic => distribution.map_or((None, false), |found| value_of(found, statistic)),
        };
        // A percentile among failed requests is slower than any limit, one among sessions that the run cut
        // off slower than what was seen of them.
        let percentile = self.figure.statistic.percentile();
        let is_above = |found: &Distribution| {
            let above = percentile.and_then(|one| found.percentile(one.percent())?.above);
            found.infinite > 0 || above.is_some_and(|above| above > self.limit)
        };
        let is_beyond = value.is_none()
            && distribution.is_some_and(is_above)
            && self.figure.better() == Better::Lower;
        let is_met = match value {
            Some(value) => Some(!self.is_beyond(value)),
            None => is_beyond.then_some(false),
        };
        let use_of_limit = value.and_then(|value| {
            let (above, below) = match self.figure.better() {
                Better::Lower => (value, self.limit),
                Better::Higher => (self.limit, value),
            };
            (below > 0.0).then(|| above / below)
        });
        let interval = self.interval(summary);
        let is_invalid = summary
            .figure_verdicts
            .get(&self.figure.key())
            .is_some_and(|found| found.verdict == Verdict::Invalid);
        // The largest value of a run, and one among failed requests, miss the limit however few they are.
        let is_certain = value.is_none() || self.figure.statistic == Statistic::Max;
        let is_obvious = distribution.is_some_and(|found| self.is_missed_by_all(found));
        let outcome = match (interval.ends(), is_met) {
            _ if is_invalid => ObjectiveOutcome::CannotTell,
            (Some((low, high)), Some(_)) => match (self.is_beyond(low), self.is_beyond(high)) {
                (false, false) => ObjectiveOutcome::Pass,
                (true, true) => ObjectiveOutcome::Fail,
                _ => ObjectiveOutcome::CannotTell,
            },
            (None, Some(false)) if is_supported && is_certain => ObjectiveOutcome::Fail,
            (None, Some(false)) if is_obvious => ObjectiveOutcome::Fail,
            _ => ObjectiveOutcome::CannotTell,
        };
        let ends = interval.ends();
        ObjectiveResult {
            text: self.text.clone(),
            value,
            limit: self.limit,
            is_met,
            use_of_limit,
            is_supported,
            low: ends.map(|(low, _)| low).filter(|low| low.is_finite()),
            high: ends.map(|(_, high)| high).filter(|high| high.is_finite()),
            no_interval: match interval {
                ConfidenceInterval::Known { .. } => None,
                ConfidenceInterval::Unknown(why) => Some(why),
            },
            outcome,
        }
    }

    /// Whether every value is beyond the limit of a percentile, and so many would not be so by chance if the
    /// allowed share were: also a run that is too short for an interval has failed then.
    fn is_missed_by_all(&self, found: &Distribution) -> bool {
        let Some(allowed) = self.allowed().filter(|_| self.figure.statistic.percentile().is_some())
        else {
            return false;
        };
        let nearest = match self.figure.better() {
            Better::Lower => found.min,
            Better::Higher => found.max,
        };
        let chance = allowed.powi(i32::try_from(found.count).unwrap_or(i32::MAX));
        nearest.is_some_and(|nearest| self.is_beyond(nearest)) && chance < ONE_SIDE
    }

    fn interval(&self, summary: &Summary) -> ConfidenceInterval {
        let key = self.figure.quantity.key();
        let distribution = || summary.distribution(key);
        let found = match self.figure.statistic {
            Statistic::Whole => summary.intervals.get(key).copied(),
            Statistic::Mean => distribution().map(|found| found.mean_interval),
            Statistic::Percentile(percentile) => distribution()
                .and_then(|found| found.percentile(percentile.percent()))
                .map(|found| found.interval),
            Statistic::Std | Statistic::Min | Statistic::Max => None,
        };
        found.unwrap_or_default()
    }
}

/// Nobody sends more than this many times the requests to tell.
const MOST_MORE: f64 = 100.0;

/// Rounded up to two digits.
fn two_digits(count: f64) -> u64 {
    let unit = 10_f64.powf((count.log10().floor() - 1.0).max(0.0));
    nearest_count((count / unit).ceil() * unit)
}

/// The statistic, and whether the sample is large enough for it. A failed request counts as
/// infinitely slow, so only a percentile below the failed ones has a value.
fn value_of(found: &Distribution, statistic: Statistic) -> (Option<f64>, bool) {
    let finite = |value: Option<f64>| (value.filter(|_| found.infinite == 0), true);
    match statistic {
        Statistic::Mean => finite(found.mean),
        Statistic::Std => finite(found.std),
        Statistic::Min => (found.min, true),
        Statistic::Max => finite(found.max),
        Statistic::Percentile(percentile) => found
            .percentile(percentile.percent())
            .map_or((None, false), |one| (one.value, one.is_supported)),
        Statistic::Whole => (None, false),
    }
}

fn parse_limit(text: &str, unit: Unit) -> Result<f64, units::Error> {
    match unit {
        Unit::Millis => units::parse_span(text, Nanos::from_millis(1)).map(Nanos::as_millis_f64),
        Unit::Share => units::parse_share(text),
        _ => units::parse_rate(text.split_whitespace().next().unwrap_or(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokometer_figures::summary::PercentileValue;

    #[test]
    fn objectives_are_read_as_people_write_them() {
        let check = |text: &str, key: &str, better: Better, limit: f64| {
            let found = Objective::parse(text).unwrap();
            assert_eq!((found.figure.key().as_str(), found.figure.better()), (key, better));
            assert!((found.limit - limit).abs() < 1e-9, "{text}: {}", found.limit);
        };
        check("p99 ttft < 2s", "ttft_ms_p99", Better::Lower, 2_000.0);
        check("ttft p99.9<=250ms", "ttft_ms_p99.9", Better::Lower, 250.0);
        check("mean TPOT < 50ms", "tpot_ms_mean", Better::Lower, 50.0);
        check("p99 latency < 2s", "e2e_ms_p99", Better::Lower, 2_000.0);
        check("median e2e < 1.5 s", "e2e_ms_p50", Better::Lower, 1_500.0);
        check("p99_ttft_ms < 200", "ttft_ms_p99", Better::Lower, 200.0);
        check("goodput > 99%", "goodput_share", Better::Higher, 0.99);
        check("output > 1200", "output_tokens_per_s", Better::Higher, 1_200.0);
        check("output throughput > 1200 tok/s", "output_tokens_per_s", Better::Higher, 1_200.0);
        check("req/s > 12", "requests_per_s", Better::Higher, 12.0);
    }

    /// `ttft < 2s` was the mean without a word about it, and `latency` whatever the reader took it for.
    #[test]
    fn words_that_could_mean_something_else_are_explained() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(Objective::parse(text).unwrap().remark().as_deref(), expected);
        };
        check("p99 ttft < 2s", None);
        check("mean ttft < 2s", None);
        check("avg tpot < 50ms", None);
        check("p99 e2e < 2s", None);
        check("p99 end-to-end latency < 2s", None);
        check("output throughput > 500 tok/s", None);
        check("goodput > 99%", None);
        check(
            "p99 latency < 2s",
            Some("`p99 latency < 2s` is read as p99 E2E, from sending a request to its last token"),
        );
        check(
            "ttft < 2s",
            Some("`ttft < 2s` is read as mean TTFT\n  write `p99 ttft < 2s` for a percentile"),
        );
        check(
            "throughput > 500",
            Some("`throughput > 500` is read as Output throughput, in tokens per second"),
        );
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let check = |text: &str, expected: &str| {
            let message = Slo::parse(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        };
        check("", "empty");
        check("p99 ttft < 2s,", "empty");
        check("p99 ttft 2s", "no comparison");
        check("p99 tttf < 2s", "similar: TTFT");
        check("p200 ttft < 2s", "`p200` is not a percentile");
        check("p99 goodput > 99%", "Goodput is one value per run");
        check("p99 ttft < 2 apples", "apples");
        check("p99 ttft < 2", "write `p99 ttft < 2s` or `p99 ttft < 2ms`");
        check("p99 e2e < 1.5, goodput > 99%", "the objective `p99 e2e < 1.5` has no unit");
        check("goodput > 99", "write `99%`");
        check("goodput > 101%", "asks for more than 100 %");
        check("p99 ttft > 2s", "asks for slow responses\n  write `p99 ttft < 2s`");
        check("throughput <= 500", "asks for little throughput\n  write `throughput >= 500`");
    }

    fn summary(p99: Option<f64>, infinite: u64) -> Summary {
        let percentile = PercentileValue {
            percent: 99.0,
            value: p99,
            above: None,
            interval: tokometer_figures::ConfidenceInterval::default(),
            is_supported: true,
        };
        let ttft = Distribution {
            count: 500,
            infinite,
            mean: Some(100.0),
            percentiles: vec![percentile],
            ..Distribution::default()
        };
        Summary {
            distributions: [("ttft_ms".to_owned(), ttft)].into(),
            figures: [("goodput_share".to_owned(), Some(0.995))].into(),
            ..Summary::default()
        }
    }

    #[test]
    fn an_objective_is_met_missed_or_unknown() {
        let check = |text: &str, summary: &Summary, expected: Option<bool>| {
            let found = Slo::parse(text).unwrap().results(summary);
            assert_eq!(found[0].is_met, expected, "{text}");
        };
        let sound = summary(Some(150.0), 0);
        check("p99 ttft < 150ms", &sound, Some(true));
        check("p99 ttft < 149ms", &sound, Some(false));
        check("goodput > 99%", &sound, Some(true));
        check("p99 tpot < 1s", &sound, None);
        check("p95 ttft < 1s", &sound, None);
        let failing = summary(None, 20);
        check("p99 ttft < 10s", &failing, Some(false));
        check("mean ttft < 10s", &failing, Some(false));
        let near = Slo::parse("p99 ttft < 200ms").unwrap().results(&sound);
        assert_eq!(near[0].use_of_limit, Some(0.75));
    }

    fn judged(text: &str, p99: Option<f64>, interval: ConfidenceInterval) -> ObjectiveResult {
        let mut summary = summary(p99, if p99.is_none() { 20 } else { 0 });
        let found = summary.distributions.get_mut("ttft_ms").unwrap();
        found.percentiles[0].interval = interval;
        let _ = summary.intervals.insert("goodput_share".to_owned(), interval);
        Slo::parse(text).unwrap().results(&summary).remove(0)
    }

    /// A P99 of 36 requests below its limit was "met".
    #[test]
    fn an_objective_passes_or_fails_by_its_whole_interval() {
        let known = |low: f64, high: f64| ConfidenceInterval::Known { low, high };
        let check = |text: &str, interval, expected| {
            assert_eq!(judged(text, Some(150.0), interval).outcome, expected, "{text}");
        };
        check("p99 ttft < 200ms", known(120.0, 199.0), ObjectiveOutcome::Pass);
        check("p99 ttft < 200ms", known(120.0, 201.0), ObjectiveOutcome::CannotTell);
        check("p99 ttft < 200ms", known(120.0, f64::INFINITY), ObjectiveOutcome::CannotTell);
        check("p99 ttft < 100ms", known(120.0, 201.0), ObjectiveOutcome::Fail);
        check("p99 ttft < 200ms", ConfidenceInterval::default(), ObjectiveOutcome::CannotTell);
        check("goodput > 99%", known(0.991, 0.998), ObjectiveOutcome::Pass);
        check("goodput > 99%", known(0.96, 0.98), ObjectiveOutcome::Fail);
        check("goodput > 99%", known(0.98, 0.995), ObjectiveOutcome::CannotTell);
        let failed = judged("p99 ttft < 10s", None, ConfidenceInterval::default());
        assert_eq!(failed.outcome, ObjectiveOutcome::Fail, "it lies among failed requests");
    }

    /// Sixty requests that all missed a limit sixfold were "cannot tell", because the run was too short for an
    /// interval.
    #[test]
    fn a_limit_that_every_request_misses_is_missed_without_an_interval() {
        let judged = |text: &str, count, min| {
            let mut summary = summary(Some(150.0), 0);
            let found = summary.distributions.get_mut("ttft_ms").unwrap();
            (found.count, found.min) = (count, Some(min));
            Slo::parse(text).unwrap().results(&summary)[0].outcome
        };
        assert_eq!(judged("p99 ttft < 20ms", 60, 120.0), ObjectiveOutcome::Fail);
        assert_eq!(judged("p99 ttft < 20ms", 60, 15.0), ObjectiveOutcome::CannotTell);
        assert_eq!(judged("p99 ttft < 20ms", 0, 120.0), ObjectiveOutcome::CannotTell);
    }

    #[test]
    fn an_invalid_figure_tells_nothing() {
        let mut summary = summary(Some(150.0), 0);
        let verdict = tokometer_figures::FigureVerdict {
            verdict: Verdict::Invalid,
            effect: None,
            notes: Vec::new(),
            is_result: true,
        };
        let _ = summary.figure_verdicts.insert("ttft_ms_p99".to_owned(), verdict);
        let found = summary.distributions.get_mut("ttft_ms").unwrap();
        found.percentiles[0].interval = ConfidenceInterval::Known { low: 120.0, high: 160.0 };
        let found = Slo::parse("p99 ttft < 200ms").unwrap().results(&summary);
        assert_eq!(found[0].outcome, ObjectiveOutcome::CannotTell);
    }

    /// An interval is half as wide with four times the requests.
    #[test]
    fn what_cannot_be_told_says_how_many_requests_would_tell() {
        let needed = |text: &str, interval| {
            let found = judged(text, Some(150.0), interval);
            Objective::parse(text).unwrap().requests_needed(&found, 500)
        };
        let known = ConfidenceInterval::Known { low: 130.0, high: 170.0 };
        assert_eq!(needed("p99 ttft < 160ms", known), Some(2_000));
        assert_eq!(needed("p99 ttft < 135ms", known), Some(890));
        assert_eq!(needed("p99 ttft < 150.1ms", known), None, "nobody would send so many");
        let few = judged("p99 ttft < 1s", Some(150.0), ConfidenceInterval::default());
        let objective = Objective::parse("p99 ttft < 1s").unwrap();
        assert_eq!(objective.requests_needed(&few, 36), Some(370));
    }

    #[test]
    fn the_limits_of_a_good_request_are_those_of_the_latencies() {
        let slo =
            Slo::parse("p99 ttft < 2s, p50 ttft < 1s, p99 tpot < 100ms, goodput > 99%").unwrap();
        let limits = slo.request_limits();
        assert_eq!(
            (limits.ttft_ms, limits.tpot_ms, limits.e2el_ms),
            (Some(1_000.0), Some(100.0), None)
        );
        assert_eq!(slo.percentiles(), [50.0, 99.0]);
    }

    #[test]
    fn a_wait_in_front_of_a_cap_is_limited_from_the_intended_time_alone() {
        let check = |text: &str, cap: Option<u32>, expected: WaitLimit| {
            assert_eq!(Slo::parse(text).unwrap().wait_limit(cap), expected, "{text}");
        };
        check("p99 tpot < 60ms, mean e2e < 20s", None, WaitLimit::Limited);
        check("p99 tpot < 60ms", None, WaitLimit::Free);
        check("p99 ttft < 2s", Some(4), WaitLimit::Free);
    }

    #[test]
    fn goodput_needs_a_limit_of_a_latency() {
        let check = |text: &str, expected: Option<&str>| {
            let slo = Slo::parse(text).unwrap();
            assert_eq!(slo.goodput_alone().map(|one| one.text.as_str()), expected, "{text}");
        };
        check("requests > 5, goodput > 99%", Some("goodput > 99%"));
        check("goodput > 99%, p99 ttft < 2s", None);
        check("p99 tpot < 50ms, user-speed > 20", None);
    }
}
