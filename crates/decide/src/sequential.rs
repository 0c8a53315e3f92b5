//! Decisions during a run: whether a figure is known well enough, and whether the server is
//! overloaded.
//!
//! Pure functions of the values so far. Values of neighbouring requests are correlated, so an
//! interval is widened by how much blocks of time scatter more than independent values would.

use serde::{Deserialize, Serialize};
use tokometer_base::Nanos;
use tokometer_figures::figure::{Figure, Percentile, Quantity, Statistic};
use tokometer_figures::statistics;
use tokometer_record::Timeline;

use crate::Error;

/// Blocks of time that a run is divided into.
const BLOCKS: usize = 12;
/// Fewer values are not enough for blocks.
const LEAST_VALUES: usize = 60;

/// A figure, and the precision at which a run may end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StoredGoal", into = "StoredGoal")]
pub struct PrecisionGoal {
    /// The mean or a percentile of one value per request.
    pub figure: Figure,
    /// Half the width of the interval, as a share of the value.
    pub margin: f64,
}

/// A goal as stored in plans.
#[derive(Serialize, Deserialize)]
struct StoredGoal {
    /// Key of [`tokometer_figures::define`].
    key: String,
    /// `None` is the mean.
    percentile: Option<f64>,
    /// Half the width of the interval, as a share of the value.
    margin: f64,
}

impl From<PrecisionGoal> for StoredGoal {
    fn from(goal: PrecisionGoal) -> Self {
        Self {
            key: goal.figure.quantity.key().to_owned(),
            percentile: goal.figure.statistic.percentile().map(Percentile::percent),
            margin: goal.margin,
        }
    }
}

impl TryFrom<StoredGoal> for PrecisionGoal {
    type Error = Error;

    fn try_from(stored: StoredGoal) -> Result<Self, Error> {
        let fault = |why: String| Error::Until { text: stored.key.clone(), why };
        let quantity = Quantity::parse(&stored.key).map_err(|why| fault(why.to_string()))?;
        let statistic = match stored.percentile {
            None => Statistic::Mean,
            Some(percent) => Percentile::from_percent(percent)
                .map(Statistic::Percentile)
                .ok_or_else(|| fault(format!("{percent} is not a percentile")))?,
        };
        if !is_margin(stored.margin) {
            return Err(fault(format!("its margin of {} is not between 0 and 1", stored.margin)));
        }
        Self::new(Figure { quantity, statistic }, stored.margin)
    }
}

/// Whether a run can end by this half width: one of zero is never reached, one of 1 says nothing.
fn is_margin(share: f64) -> bool {
    share > 0.0 && share < 1.0
}

/// A figure of the values so far, with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FigureSoFar {
    /// In the unit of the values.
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

impl PrecisionGoal {
    fn new(figure: Figure, margin: f64) -> Result<Self, Error> {
        let is_known_early = figure.quantity.is_per_request()
            && matches!(figure.statistic, Statistic::Mean | Statistic::Percentile(_));
        if is_known_early { Ok(Self { figure, margin }) } else { Err(Error::CannotWait { figure }) }
    }

    /// Parses rules such as `p99 ttft ±10%` or `mean tpot +-2%`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let fault = |why: String| Error::Until { text: text.to_owned(), why };
        let (figure, margin) = text
            .split_once('±')
            .or_else(|| text.split_once("+-"))
            .ok_or_else(|| fault("`±` is missing".to_owned()))?;
        let margin = tokometer_base::units::parse_share(margin)
            .ok()
            .filter(|share| is_margin(*share))
            .ok_or_else(|| fault("a share such as `10%` must follow `±`".to_owned()))?;
        let figure = Figure::parse(figure).map_err(|why| fault(why.to_string()))?;
        Self::new(figure, margin)
    }

    /// Whether `values`, in the order of arrival, determine the figure well enough.
    pub fn is_known(&self, values: &[f64]) -> bool {
        let Some(FigureSoFar { value, low, high }) = self.interval(values) else { return false };
        value > 0.0 && (high - low) / 2.0 <= self.margin * value
    }

    /// The figure with its 95 % interval. `None` while there are too few values.
    pub fn interval(&self, values: &[f64]) -> Option<FigureSoFar> {
        if values.len() < LEAST_VALUES {
            return None;
        }
        let Some(percentile) = self.figure.statistic.percentile().map(Percentile::percent) else {
            let means: Vec<f64> = blocks(values).filter_map(statistics::mean).collect();
            let (mean, margin) = (statistics::mean(values)?, statistics::mean_margin(&means)?);
            return Some(FigureSoFar { value: mean, low: mean - margin, high: mean + margin });
        };
        let mut sorted = values.to_vec();
        tokometer_base::sort_numbers(&mut sorted);
        let value = statistics::percentile(&sorted, percentile)?;
        let _supported = statistics::percentile_ranks(percentile, values.len() as u64)?;
        let share = percentile / 100.0;
        let spread =
            (share * (1.0 - share) * inflation(values, value, share) / values.len() as f64).sqrt();
        let at = |share: f64| statistics::percentile(&sorted, (share * 100.0).clamp(0.0, 100.0));
        let (low, high) = (at(share - 1.96 * spread)?, at(share + 1.96 * spread)?);
        Some(FigureSoFar { value, low, high })
    }
}

fn blocks(values: &[f64]) -> impl Iterator<Item = &[f64]> {
    values.chunks(values.len().div_ceil(BLOCKS).max(1))
}

/// How much more the share below `value` scatters between blocks than it would for independent
/// values; at least 1.
fn inflation(values: &[f64], value: f64, share: f64) -> f64 {
    let shares: Vec<f64> = blocks(values)
        .map(|block| block.iter().filter(|x| **x <= value).count() as f64 / block.len() as f64)
        .collect();
    let expected = share * (1.0 - share) / (values.len() as f64 / BLOCKS as f64);
    let seen = statistics::variance(&shares).unwrap_or(expected);
    if expected > 0.0 { (seen / expected).max(1.0) } else { 1.0 }
}

/// Least number of samples before a trend counts.
const LEAST_READINGS: usize = 32;
/// A server that completes this share less than it is sent is falling behind.
const DEFICIT: f64 = 0.2;
/// A growth between two parts of a run is significant when it exceeds the scatter of what was sent in
/// between this many times.
const FAR: f64 = 4.0;
/// Completions may speed up by this share and still count as steady.
const STEADY: f64 = 0.1;
/// A server that completes a smaller share than this of what it is sent has not begun to answer.
const LEAST_ANSWERED: f64 = 0.02;

/// The number in flight at one time of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InFlightReading {
    /// Seconds since the start of the measured phase.
    pub at_s: f64,
    /// Requests in flight; a mean where it stands for several readings.
    pub in_flight: f64,
}

/// Whether the number in flight grows without limit. `rate` is requests sent per second. For open loops
/// only: in a closed loop the number in flight is bounded.
///
/// A run starts empty, and a server that is filling up looks like one that is falling behind: both
/// have ever more in flight. But one that is filling up completes requests ever faster, until it
/// keeps up with the arrivals; one that is falling behind completes them at a constant rate. Chance
/// may make the first look like the second for a moment, so the result must hold both now and at two
/// thirds of the run.
pub fn is_running_away(readings: &[InFlightReading], rate: f64) -> bool {
    falls_behind(readings, rate) && falls_behind(&readings[..readings.len() * 2 / 3], rate)
}

/// The same of a run that has ended: when it would have been stopped while its `seconds` of load
/// were sent, with a look at the number in flight every quarter of a second. `None`: not at all.
pub fn overloaded_at(timelines: &[Timeline], seconds: f64, rate: f64) -> Option<Nanos> {
    const LOOK_S: f64 = 0.25;
    let sorted = |time: fn(&Timeline) -> Option<Nanos>| {
        let mut times: Vec<f64> =
            timelines.iter().filter_map(time).map(Nanos::as_secs_f64).collect();
        tokometer_base::sort_numbers(&mut times);
        times
    };
    let (sent, ended) = (sorted(|one| one.times.first_byte_sent), sorted(|one| one.times.end));
    let mut readings = Vec::new();
    let mut at = LOOK_S;
    while at <= seconds {
        let until = |times: &[f64]| times.partition_point(|time| *time <= at) as f64;
        readings.push(InFlightReading { at_s: at, in_flight: until(&sent) - until(&ended) });
        if is_running_away(&readings, rate) {
            return Some(Nanos::from_secs_f64(at));
        }
        at += LOOK_S;
    }
    None
}

/// Whether the last two thirds of the readings show a server that completes requests at a constant rate
/// below the arrival rate.
fn falls_behind(readings: &[InFlightReading], rate: f64) -> bool {
    if readings.len() < LEAST_READINGS {
        return false;
    }
    let late = &readings[readings.len() / 3..];
    let third = late.len() / 3;
    let mean = |part: &[InFlightReading]| {
        let count = part.len() as f64;
        InFlightReading {
            at_s: part.iter().map(|reading| reading.at_s).sum::<f64>() / count,
            in_flight: part.iter().map(|reading| reading.in_flight).sum::<f64>() / count,
        }
    };
    let (first, middle, last) =
        (mean(&late[..third]), mean(&late[third..2 * third]), mean(&late[2 * third..]));
    let (early, recent) = (Growth::of(first, middle, rate), Growth::of(middle, last, rate));
    let is_steady = early.answered_share > LEAST_ANSWERED
        && recent.answered_share <= early.answered_share * (1.0 + STEADY);
    early.is_significant && recent.is_significant && is_steady
}

/// How the number in flight grew between two parts of a run.
struct Growth {
    /// Whether it is more than chance, and more than a server that keeps up would show.
    is_significant: bool,
    /// Share of what was sent in between that was completed.
    answered_share: f64,
}

impl Growth {
    fn of(from: InFlightReading, to: InFlightReading, rate: f64) -> Self {
        let sent = rate * (to.at_s - from.at_s);
        let grown = to.in_flight - from.in_flight;
        let scatter = sent.max(from.in_flight).max(1.0).sqrt();
        Self {
            is_significant: grown > FAR * scatter && grown > DEFICIT * sent,
            answered_share: 1.0 - grown / sent,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokometer_base::Seed;
    use tokometer_base::seed::unit_float;

    use super::*;

    #[test]
    fn rules_are_read_as_people_type_them() {
        let check = |text: &str, key: &str, margin: f64| {
            let goal = PrecisionGoal::parse(text).unwrap();
            assert_eq!(goal.figure.key(), key, "{text}");
            assert!((goal.margin - margin).abs() < 1e-12, "{text}");
        };
        check("p99 ttft ±10%", "ttft_ms_p99", 0.1);
        check("ttft p99 ±10%", "ttft_ms_p99", 0.1);
        check("P99.9 TTFT ± 10%", "ttft_ms_p99.9", 0.1);
        check("mean tpot +-2%", "tpot_ms_mean", 0.02);
        check("e2el ±5%", "e2e_ms_mean", 0.05);
    }

    #[test]
    fn a_rule_that_cannot_end_a_run_says_why() {
        let check = |text: &str, expected: &str| {
            let message = PrecisionGoal::parse(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{text}: {message}");
        };
        check("p99 ttft", "`±` is missing");
        check("p99 ttft ±0%", "a share such as `10%`");
        check("p0 ttft ±5%", "`p0` is not a percentile");
        check("p99 speed ±5%", "`speed` is not a metric");
        check("p99 itl ±5%", "cannot end a run by p99 ITL");
        check("max ttft ±5%", "cannot end a run by max TTFT");
        check("throughput ±5%", "cannot end a run by Output throughput");
    }

    /// Plans of earlier versions store rules in this form.
    #[test]
    fn a_rule_is_stored_as_it_always_was() {
        let check = |text: &str, stored: &str| {
            let goal = PrecisionGoal::parse(text).unwrap();
            assert_eq!(serde_json::to_string(&goal).unwrap(), stored);
            assert_eq!(serde_json::from_str::<PrecisionGoal>(stored).unwrap(), goal);
        };
        check("p99 ttft ±10%", r#"{"key":"ttft_ms","percentile":99.0,"margin":0.1}"#);
        check("mean e2e ±25%", r#"{"key":"e2e_ms","percentile":null,"margin":0.25}"#);
        let refused = |stored: &str, expected: &str| {
            let why = serde_json::from_str::<PrecisionGoal>(stored).unwrap_err().to_string();
            assert!(why.contains(expected), "{stored}: {why}");
        };
        refused(r#"{"key":"x","percentile":1,"margin":0.1}"#, "`x` is not a metric");
        // A run by such a plan never ended by its rule, or ended at its first values.
        refused(r#"{"key":"ttft_ms","percentile":99,"margin":-0.1}"#, "not between 0 and 1");
        refused(r#"{"key":"ttft_ms","percentile":null,"margin":7}"#, "its margin of 7 is not");
    }

    fn noise(count: usize) -> Vec<f64> {
        let mut generator = Seed(3).stream("test").at(0);
        (0..count).map(|_| 100.0 - 20.0 * unit_float(&mut generator).ln()).collect()
    }

    #[test]
    fn a_percentile_is_known_once_its_sample_supports_it_and_is_steady() {
        let goal = PrecisionGoal::parse("p99 ttft ±10%").unwrap();
        assert_eq!(goal.interval(&noise(200)), None, "P99 needs 368 values");
        assert!(goal.is_known(&noise(4_000)));
        // The same values, but all large ones together: blocks scatter.
        let mut bunched = noise(4_000);
        tokometer_base::sort_numbers(&mut bunched);
        let width = |values: &[f64]| {
            let FigureSoFar { low, high, .. } = goal.interval(values).unwrap();
            high - low
        };
        assert!(width(&bunched) > 2.0 * width(&noise(4_000)));
    }

    fn reading(at_s: f64, in_flight: f64) -> InFlightReading {
        InFlightReading { at_s, in_flight }
    }

    #[test]
    fn a_backlog_that_grows_is_found_and_a_full_server_is_not() {
        let seconds = |count: u32| (0..count).map(|i| f64::from(i) * 0.25);
        let growing: Vec<_> = seconds(80).map(|t| reading(t, 10.0 + 20.0 * t)).collect();
        assert!(is_running_away(&growing, 60.0));
        assert!(!is_running_away(&growing[..10], 60.0), "too early to tell");
        let noisy: Vec<_> = seconds(80).map(|t| reading(t, 40.0 + 8.0 * (t * 3.0).sin())).collect();
        assert!(!is_running_away(&noisy, 60.0));
    }

    /// Chance makes a server that keeps up look as if it fell behind for a while.
    #[test]
    fn a_backlog_that_has_only_begun_to_grow_is_no_overload_yet() {
        let run: Vec<_> = (0..90_u32)
            .map(|at| reading(f64::from(at) * 0.25, 10.0 + 10.0 * f64::from(at.saturating_sub(45))))
            .collect();
        assert!(falls_behind(&run, 60.0) && !is_running_away(&run, 60.0));
    }

    /// An engine whose responses take six seconds was reported as overloaded at half of its capacity,
    /// because its first twelve seconds looked like a growing backlog.
    #[test]
    fn a_server_that_fills_up_is_not_called_overloaded_at_any_moment() {
        let seconds = |count: u32| (0..count).map(|i| f64::from(i) * 0.25);
        let check = |name: &str, run: Vec<InFlightReading>| {
            let alarm = (1..run.len()).find(|end| is_running_away(&run[..*end], 60.0));
            assert_eq!(alarm, None, "{name}");
        };
        for stay in [2.0, 6.0, 20.0] {
            check("equal answers", seconds(400).map(|t| reading(t, 60.0 * t.min(stay))).collect());
            let filled = |t: f64| 60.0 * stay * (1.0 - (-t / stay).exp());
            check("answers of all lengths", seconds(400).map(|t| reading(t, filled(t))).collect());
        }
    }

    /// Requests arrive at random and take a second: a server that keeps up with 32 requests per
    /// second.
    fn sound_run(seed: u64) -> Vec<InFlightReading> {
        let mut generator = Seed(seed).stream("sound").at(0);
        let mut at = 0.0;
        let mut arrivals = Vec::new();
        while at < 20.0 {
            at -= unit_float(&mut generator).max(1e-12).ln() / 32.0;
            arrivals.push(at);
        }
        let in_flight =
            |t: f64| arrivals.iter().filter(|a| **a <= t && **a > t - 1.0).count() as f64;
        (0..80_u32).map(|i| f64::from(i) * 0.25).map(|t| reading(t, in_flight(t))).collect()
    }

    /// A server with a constant rate below the arrival rate is detected, sooner the larger the
    /// deficit.
    #[test]
    fn servers_that_fall_behind_are_found_soon() {
        for (pace, soon) in [(16.0, 20.0), (24.0, 80.0)] {
            let mut generator = Seed(7).stream("behind").at(0);
            let mut waiting = 0.0_f64;
            let run: Vec<InFlightReading> = (0..400_u32)
                .map(|i| {
                    let arrived = (0..32).filter(|_| unit_float(&mut generator) < 0.25).count();
                    waiting = (waiting + arrived as f64 - pace / 4.0).max(0.0);
                    reading(f64::from(i) * 0.25, waiting)
                })
                .collect();
            let alarm = (1..run.len()).find(|end| is_running_away(&run[..*end], 32.0)).unwrap();
            let at_s = run[alarm].at_s;
            assert!(at_s < soon, "a pace of {pace} was found after {at_s} s");
        }
    }

    #[test]
    fn sound_servers_are_never_called_overloaded_at_any_moment_of_their_run() {
        for seed in 0..200 {
            let run = sound_run(seed);
            let alarm = (1..run.len()).find(|end| is_running_away(&run[..*end], 32.0));
            assert_eq!(alarm, None, "seed {seed}");
        }
    }
}
