//! A staircase of concurrency within a time budget: the next run, its length, and the knee.
//!
//! In: the runs so far, and the time that they took. Out: how many requests to keep in flight next and
//! for how long, or why there is no further run. The number in flight is doubled, with runs as short as
//! their medians allow, until output throughput hardly grows, requests fail, or the time is over. What is
//! left of the time then goes to the knee and the steps beside it, which are measured again for longer.
//! Pure: the same runs give the same decision.

mod full;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tokometer_base::Nanos;
use tokometer_figures::{Quantity, Summary};

pub use full::{FullSlots, Throughput};

/// Throughput that grows by less than this share with twice the requests in flight has stopped growing.
const LEAST_GROWTH: f64 = 0.05;
/// A step at which a larger share of the requests fails is the last one.
const MOST_FAILED: f64 = 0.05;
/// The knee is the first step with this share of the highest throughput.
const KNEE_SHARE: f64 = 0.9;
/// The first run ends after so many requests, or after this part of the budget: nothing is known yet of
/// how long a response takes.
const FIRST_REQUESTS: u64 = 8;
const FIRST_PART: u64 = 6;
/// Requests of a short run: its median needs six.
const MEDIAN_REQUESTS: f64 = 8.0;
/// Mean response times that a short run should last, and the fewest that it may: during the first of
/// them the slots have just been filled.
const WANTED_STAYS: f64 = 3.0;
const LEAST_STAYS: f64 = 2.0;
/// A short run takes at most this part of the time that is left.
const PART_OF_LEFT: f64 = 2.5;
/// No run is shorter than this part of the budget, nor than this time.
const SHORTEST_PART: u64 = 60;
const SHORTEST: Nanos = Nanos::from_millis(100);
/// Of the time that is left for the knee and the steps beside it, the knee gets so many parts; each of
/// the others gets one.
const KNEE_PARTS: f64 = 2.0;
/// A step beside the knee is measured again only for this many times as many requests.
const WORTH_AGAIN: f64 = 1.5;

/// One run of a staircase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StairStep {
    /// Requests in flight.
    pub concurrency: u32,
    /// Successful requests per second.
    pub requests_per_s: Option<f64>,
    /// Output tokens per second of all requests.
    pub output_tokens_per_s: Option<f64>,
    /// Mean response time in seconds.
    pub e2e_s: Option<f64>,
    pub succeeded: u64,
    pub failed: u64,
}

impl StairStep {
    pub fn new(concurrency: u32, summary: &Summary) -> Self {
        Self {
            concurrency,
            requests_per_s: summary.figure(Quantity::Requests),
            output_tokens_per_s: summary.figure(Quantity::Output),
            e2e_s: summary.mean(Quantity::E2e).map(|millis| millis / 1e3),
            succeeded: summary.counts.succeeded,
            failed: summary.counts.failed,
        }
    }

    /// The same with the throughput while all slots were taken, where the run was long enough for it: a
    /// short run spends much of its time on its first and its last requests.
    #[must_use]
    pub fn while_full(self, full: &FullSlots) -> Self {
        let Some(Throughput { requests_per_s, output_tokens_per_s }) = full.throughput() else {
            return self;
        };
        Self {
            requests_per_s: self.requests_per_s.map(|_| requests_per_s),
            output_tokens_per_s: self.output_tokens_per_s.map(|_| output_tokens_per_s),
            ..self
        }
    }

    fn is_failing(&self) -> bool {
        let ended = self.succeeded + self.failed;
        self.succeeded == 0 || self.failed as f64 > MOST_FAILED * ended as f64
    }

    /// Tokens per second; requests where the server reports no tokens.
    fn throughput(&self) -> Option<f64> {
        self.output_tokens_per_s.filter(|tokens| *tokens > 0.0).or(self.requests_per_s)
    }

    /// Whether a run of this many seconds would have more requests than it, by this factor.
    fn is_worth_again(&self, seconds: f64, factor: f64) -> bool {
        let expected = self.requests_per_s.unwrap_or(0.0) * seconds;
        expected > factor * self.succeeded as f64
    }
}

/// Why a staircase has no further step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StairEnd {
    /// More requests in flight hardly bring more throughput.
    Flat,
    Failing,
    /// The next step would exceed the budget.
    BudgetSpent,
    /// The highest number in flight was reached.
    Most,
    Interrupted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StairNext {
    /// Keep so many requests in flight for so long.
    Measure {
        concurrency: u32,
        /// Requests are sent for this long; their responses are waited for.
        length: Nanos,
        /// Most requests; absent: the time alone ends it.
        requests: Option<u64>,
    },
    Done(StairEnd),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StairAim {
    /// The course of throughput: the number in flight doubles, and what is left of the time goes to the knee
    /// and the steps beside it.
    Knee,
    /// The highest throughput alone, in little time: steps are wider, and what is left is for something else.
    Most,
}

impl StairAim {
    /// The next number in flight, as a multiple of the last.
    fn factor(self) -> u32 {
        match self {
            Self::Knee => 2,
            Self::Most => 4,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Staircase {
    /// Time for all runs together.
    pub budget: Nanos,
    /// Most requests in flight.
    pub most: u32,
    pub aim: StairAim,
}

impl Staircase {
    /// The length of the first run, before anything is known of the server.
    pub fn first_length(&self) -> Nanos {
        Nanos(self.budget.0 / FIRST_PART).max(SHORTEST)
    }

    /// The next run after these, in the order in which they were made, which took `spent` in all.
    pub fn next(&self, runs: &[StairStep], spent: Nanos) -> StairNext {
        if runs.is_empty() {
            let (length, requests) = (self.first_length(), Some(FIRST_REQUESTS));
            return StairNext::Measure { concurrency: 1, length, requests };
        }
        let steps = steps(runs);
        let left = self.budget.saturating_sub(spent).as_secs_f64();
        let end = match self.end(&steps) {
            Some(end) => end,
            None => match self.climb(&steps, left) {
                Some(next) => return next,
                None => StairEnd::BudgetSpent,
            },
        };
        let again = (self.aim == StairAim::Knee).then(|| again(runs, &steps, left));
        again.flatten().unwrap_or(StairNext::Done(end))
    }

    /// Why there is no higher step, whatever time is left.
    fn end(&self, steps: &[StairStep]) -> Option<StairEnd> {
        let last = steps.last()?;
        match last {
            _ if last.is_failing() => Some(StairEnd::Failing),
            _ if is_flat(steps) => Some(StairEnd::Flat),
            _ if last.concurrency >= self.most => Some(StairEnd::Most),
            _ => None,
        }
    }

    /// The next higher step; `None` where the time that is left is too short for it.
    fn climb(&self, steps: &[StairStep], left: f64) -> Option<StairNext> {
        let concurrency =
            steps.last()?.concurrency.saturating_mul(self.aim.factor()).min(self.most);
        let stay = expected_stay(steps);
        let shortest = Nanos(self.budget.0 / SHORTEST_PART).max(SHORTEST).as_secs_f64();
        let least = (LEAST_STAYS * stay).max(shortest);
        // After the last request was sent, its response is waited for.
        let room = left - stay;
        if room < least {
            return None;
        }
        let for_median = MEDIAN_REQUESTS * stay / f64::from(concurrency);
        let wanted = least.max(WANTED_STAYS * stay).max(for_median);
        let length = (left / PART_OF_LEFT - stay).clamp(least, wanted);
        // Nothing else would fit after it.
        let is_last = room - length < length + stay;
        Some(sent_for(concurrency, if is_last { room } else { length }))
    }
}

fn sent_for(concurrency: u32, seconds: f64) -> StairNext {
    StairNext::Measure { concurrency, length: Nanos::from_secs_f64(seconds), requests: None }
}

/// The last run of each number in flight, by that number: one that is measured again is so for longer.
pub fn steps(runs: &[StairStep]) -> Vec<StairStep> {
    let by_number = runs.iter().map(|run| (run.concurrency, run.clone()));
    by_number.collect::<BTreeMap<_, _>>().into_values().collect()
}

/// A longer run of the knee or of a step beside it, in the time that is left; `None` where there is no
/// time for one. The knee is the last of them, and gets what is left.
fn again(runs: &[StairStep], steps: &[StairStep], left: f64) -> Option<StairNext> {
    let knee = knee(steps).or_else(|| steps.iter().rposition(|step| !step.is_failing()))?;
    let is_once = |step: &&StairStep| {
        !step.is_failing()
            && runs.iter().filter(|run| run.concurrency == step.concurrency).count() == 1
    };
    let beside = [Some(knee + 1), knee.checked_sub(1)];
    let beside = beside.into_iter().flatten().filter_map(|at| steps.get(at));
    let beside: Vec<&StairStep> = beside.filter(is_once).collect();
    let seconds = |step: &StairStep, parts: f64| left / parts - step.e2e_s.unwrap_or(0.0);
    let parts = (0..beside.len()).rev().map(|others| others as f64 + 1.0 + KNEE_PARTS);
    let of_beside = |(step, parts): (&&StairStep, f64)| {
        let seconds = seconds(step, parts);
        let is_worth = step.is_worth_again(seconds, WORTH_AGAIN);
        is_worth.then(|| sent_for(step.concurrency, seconds))
    };
    beside.iter().zip(parts).find_map(of_beside).or_else(|| {
        let (knee, seconds) = (&steps[knee], seconds(&steps[knee], 1.0));
        knee.is_worth_again(seconds, 1.0).then(|| sent_for(knee.concurrency, seconds))
    })
}

/// The response time to expect at the next step: it grows as it did before.
fn expected_stay(steps: &[StairStep]) -> f64 {
    let mut last = steps.iter().rev().filter_map(|step| step.e2e_s);
    let Some(stay) = last.next() else { return 0.0 };
    let growth = last.next().map_or(1.0, |before| (stay / before).clamp(1.0, 2.0));
    stay * growth
}

/// Whether the last step hardly has more throughput than the one before.
fn is_flat(steps: &[StairStep]) -> bool {
    let [.., before, last] = steps else { return false };
    let (Some(low), Some(high)) = (before.throughput(), last.throughput()) else { return false };
    let doublings = libm::log2(f64::from(last.concurrency) / f64::from(before.concurrency.max(1)));
    doublings > 0.0 && high < low * (1.0 + LEAST_GROWTH).powf(doublings)
}

/// The step with the highest throughput among those whose requests did not fail.
pub fn highest(steps: &[StairStep]) -> Option<&StairStep> {
    let sound = steps.iter().filter(|step| !step.is_failing());
    let throughput = |step: &&StairStep| step.throughput().unwrap_or(0.0);
    sound.max_by(|a, b| throughput(a).total_cmp(&throughput(b)))
}

/// The index of the knee among `steps` of rising concurrency: the first with nearly the highest
/// throughput. `None` while throughput still grows at the last step, and for fewer than two steps.
pub fn knee(steps: &[StairStep]) -> Option<usize> {
    let highest = highest(steps)?.throughput()?;
    let is_over = steps.last().is_some_and(StairStep::is_failing) || is_flat(steps);
    if steps.len() < 2 || !is_over {
        return None;
    }
    let is_near =
        |step: &StairStep| step.throughput().is_some_and(|own| own >= KNEE_SHARE * highest);
    steps.iter().position(|step| !step.is_failing() && is_near(step))
}

/// What a staircase found, as its folder keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StaircaseFindings {
    /// The server's product and version, as far as they are known.
    pub server: String,
    /// Its base URL, without keys.
    pub address: String,
    /// As sent to the server.
    pub model: String,
    /// Route, prompts and lengths, in words.
    pub workload: String,
    pub budget_s: f64,
    pub ending: StairEnd,
    /// Requests in flight at the knee; `None` where throughput has not stopped growing.
    pub knee: Option<u32>,
    /// A command to type next; `None` where no request succeeded.
    pub next: Option<String>,
    pub steps: Vec<StairStep>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAIRCASE: Staircase =
        Staircase { budget: Nanos::from_secs(120), most: 1_024, aim: StairAim::Knee };

    /// A server whose throughput saturates at `peak` requests in flight, and whose responses take
    /// `stay_s` while it is idle.
    #[derive(Clone, Copy)]
    struct Server {
        peak: f64,
        stay_s: f64,
    }

    const GROWING: Server = Server { peak: 1e9, stay_s: 1.0 };

    impl Server {
        fn run(self, concurrency: u32, length: Nanos, requests: Option<u64>) -> StairStep {
            let flights = f64::from(concurrency);
            let throughput = flights.min(self.peak) / self.stay_s;
            let sent = (throughput * length.as_secs_f64()).ceil().max(1.0);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
            let sent = sent as u64;
            StairStep {
                concurrency,
                requests_per_s: Some(throughput),
                output_tokens_per_s: Some(100.0 * throughput),
                e2e_s: Some(flights / throughput),
                succeeded: requests.map_or(sent, |most| most.min(sent)),
                failed: 0,
            }
        }
    }

    fn step(concurrency: u32, peak: f64) -> StairStep {
        Server { peak, stay_s: 1.0 }.run(concurrency, Nanos::from_secs(5), None)
    }

    /// What became of a staircase on a clock of its own.
    struct Climbed {
        runs: Vec<StairStep>,
        /// What each run took.
        took: Vec<f64>,
        end: StairEnd,
    }

    impl Climbed {
        fn of(staircase: Staircase, server: Server) -> Self {
            let (mut runs, mut took) = (Vec::new(), Vec::new());
            loop {
                let spent = Nanos::from_secs_f64(took.iter().sum());
                match staircase.next(&runs, spent) {
                    StairNext::Done(end) => return Self { runs, took, end },
                    StairNext::Measure { concurrency, length, requests } => {
                        let step = server.run(concurrency, length, requests);
                        let sending = step.succeeded as f64 / step.requests_per_s.unwrap();
                        took.push(sending.min(length.as_secs_f64()) + step.e2e_s.unwrap());
                        runs.push(step);
                    }
                }
            }
        }

        fn flights(&self) -> Vec<u32> {
            self.runs.iter().map(|run| run.concurrency).collect()
        }

        fn spent(&self) -> f64 {
            self.took.iter().sum()
        }
    }

    fn flights(steps: &[StairStep]) -> Vec<u32> {
        steps.iter().map(|step| step.concurrency).collect()
    }

    #[test]
    fn requests_in_flight_double_until_throughput_is_flat_then_the_knee_is_measured_again() {
        let climbed = Climbed::of(STAIRCASE, Server { peak: 12.0, stay_s: 1.0 });
        assert_eq!(climbed.flights(), [1, 2, 4, 8, 16, 32, 32, 8, 16]);
        assert_eq!(climbed.end, StairEnd::Flat);
        let steps = steps(&climbed.runs);
        assert_eq!(knee(&steps).map(|at| steps[at].concurrency), Some(16));
        // The runs of the table are the longer ones.
        assert!(steps[4].succeeded > 3 * climbed.runs[4].succeeded, "{:?}", climbed.runs);
    }

    /// 23 of 120 s stayed unspent, and with little time steps were skipped.
    #[test]
    fn the_budget_is_used_and_no_step_is_skipped() {
        for seconds in [3, 10, 30, 120, 600] {
            for peak in [3.0, 24.0, 100.0, 700.0, 1e9] {
                for stay_s in [0.02, 0.2, 1.3] {
                    let budget = Nanos::from_secs(seconds);
                    let staircase = Staircase { budget, ..STAIRCASE };
                    let climbed = Climbed::of(staircase, Server { peak, stay_s });
                    let shown = format!("{seconds} s, {peak}, {stay_s}: {:?}", climbed.flights());
                    let rising = flights(&steps(&climbed.runs));
                    let doubled = (0..rising.len()).map(|at| 1 << at).collect::<Vec<u32>>();
                    assert_eq!(rising, doubled, "{shown}");
                    let part = climbed.spent() / seconds as f64;
                    // The last response may take longer than those before it.
                    assert!(part <= 1.05, "{shown}: {part}");
                    // Where a response takes a large part of the time, nothing fits into the rest.
                    assert!(part >= 0.95 || stay_s > 0.1 * seconds as f64, "{shown}: {part}");
                }
            }
        }
    }

    #[test]
    fn a_search_climbs_in_wide_steps_and_keeps_what_they_leave() {
        let staircase = Staircase { aim: StairAim::Most, ..STAIRCASE };
        let climbed = Climbed::of(staircase, Server { peak: 12.0, stay_s: 1.0 });
        assert_eq!(climbed.flights(), [1, 4, 16, 64]);
        assert!(climbed.spent() < 60.0, "{}", climbed.spent());
    }

    #[test]
    fn a_budget_that_ends_before_the_knee_says_so() {
        let climbed = Climbed::of(Staircase { budget: Nanos::from_secs(20), ..STAIRCASE }, GROWING);
        assert_eq!(climbed.end, StairEnd::BudgetSpent);
        assert_eq!(knee(&steps(&climbed.runs)), None);
    }

    #[test]
    fn failed_requests_and_the_highest_number_end_the_staircase() {
        let mut failing = step(8, 100.0);
        failing.failed = 3;
        let check = |steps: &[StairStep], expected| {
            let next = STAIRCASE.next(steps, Nanos::from_secs(119));
            assert_eq!(next, StairNext::Done(expected));
        };
        check(&[step(4, 100.0), failing.clone()], StairEnd::Failing);
        check(&[StairStep { succeeded: 0, ..step(1, 1.0) }], StairEnd::Failing);
        check(&[step(512, 1e9), step(1024, 1e9)], StairEnd::Most);
        let steps = [step(4, 100.0), failing];
        assert_eq!(knee(&steps), Some(0), "a step that fails is no knee");
        assert_eq!(knee(&steps[..1]), None);
        // What fails is not measured again.
        let StairNext::Measure { concurrency, .. } = STAIRCASE.next(&steps, Nanos::from_secs(9))
        else {
            panic!("the time is not used")
        };
        assert_eq!(concurrency, 4);
    }

    #[test]
    fn a_server_without_token_counts_is_judged_by_its_requests() {
        let of = |concurrency| StairStep { output_tokens_per_s: None, ..step(concurrency, 2.0) };
        let steps = [of(1), of(2), of(4)];
        assert_eq!(knee(&steps), Some(1));
    }

    #[test]
    fn findings_read_back_as_they_were_written() {
        let findings = StaircaseFindings {
            server: "vLLM".to_owned(),
            address: "http://h".to_owned(),
            next: None,
            model: "m".to_owned(),
            workload: String::new(),
            budget_s: 120.0,
            ending: StairEnd::Flat,
            knee: Some(1),
            steps: vec![step(1, 1.0), step(2, 1.0)],
        };
        let written = serde_json::to_string(&findings).unwrap();
        assert_eq!(serde_json::from_str::<StaircaseFindings>(&written).unwrap(), findings);
    }
}
