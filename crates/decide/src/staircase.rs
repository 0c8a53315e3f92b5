//! A staircase of concurrency within a time budget: the next step, its length, and the knee.
//!
//! In: the steps so far, and the time that they took. Out: how many requests to keep in flight next and
//! for how long, or why there is no further step. The number in flight is doubled until output throughput
//! hardly grows, requests fail, or the time is over. Pure: the same steps give the same decision.

use serde::{Deserialize, Serialize};
use tokometer_base::Nanos;
use tokometer_figures::{Quantity, Summary};

/// Throughput that grows by less than this share with twice the requests in flight has stopped growing.
const LEAST_GROWTH: f64 = 0.05;
/// A step at which a larger share of the requests fails is the last one.
const MOST_FAILED: f64 = 0.05;
/// The knee is the first step with this share of the highest throughput.
const KNEE_SHARE: f64 = 0.9;
/// Steps among which the budget is divided at first: from 1 to 512 requests in flight.
const USUAL_STEPS: usize = 10;
/// Steps for which time is kept back once there were more than the usual number.
const LEAST_STEPS_LEFT: usize = 2;
/// Mean response times that a step should last, and the fewest that it may: the first and the last
/// requests of a step see fewer others in flight.
const WANTED_STAYS: f64 = 4.0;
const LEAST_STAYS: f64 = 2.0;
/// With time for fewer steps than this, four times as many requests are in flight at the next one.
const FEW_STEPS: f64 = 4.0;
/// No step is shorter.
const SHORTEST: Nanos = Nanos::from_millis(100);

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

    fn is_failing(&self) -> bool {
        let ended = self.succeeded + self.failed;
        self.succeeded == 0 || self.failed as f64 > MOST_FAILED * ended as f64
    }

    /// Tokens per second; requests where the server reports no tokens.
    fn throughput(&self) -> Option<f64> {
        self.output_tokens_per_s.filter(|tokens| *tokens > 0.0).or(self.requests_per_s)
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
    },
    Done(StairEnd),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Staircase {
    /// Time for all steps together.
    pub budget: Nanos,
    /// Most requests in flight.
    pub most: u32,
}

impl Staircase {
    /// The length of the first step, before anything is known of the server.
    pub fn first_length(&self) -> Nanos {
        Nanos(self.budget.0 / USUAL_STEPS as u64).max(SHORTEST)
    }

    /// The next step after `steps`, which took `spent` in all.
    pub fn next(&self, steps: &[StairStep], spent: Nanos) -> StairNext {
        let Some(last) = steps.last() else {
            return StairNext::Measure { concurrency: 1, length: self.first_length() };
        };
        if last.is_failing() {
            return StairNext::Done(StairEnd::Failing);
        }
        if is_flat(steps) {
            return StairNext::Done(StairEnd::Flat);
        }
        if last.concurrency >= self.most {
            return StairNext::Done(StairEnd::Most);
        }
        let left = self.budget.saturating_sub(spent).as_secs_f64();
        let stay = expected_stay(steps);
        // After the last request was sent, its response is waited for.
        let room = left - stay;
        if room < (LEAST_STAYS * stay).max(SHORTEST.as_secs_f64()) {
            return StairNext::Done(StairEnd::BudgetSpent);
        }
        let steps_left = USUAL_STEPS.saturating_sub(steps.len()).max(LEAST_STEPS_LEFT);
        let share = left / steps_left as f64 - stay;
        let length = share.max(WANTED_STAYS * stay).min(room).max(SHORTEST.as_secs_f64());
        let factor = if left < FEW_STEPS * (length + stay) { 4 } else { 2 };
        StairNext::Measure {
            concurrency: last.concurrency.saturating_mul(factor).min(self.most),
            length: Nanos::from_secs_f64(length),
        }
    }
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

/// The highest throughput of the steps whose requests did not fail.
fn highest_throughput(steps: &[StairStep]) -> Option<f64> {
    let sound = steps.iter().filter(|step| !step.is_failing());
    sound.filter_map(StairStep::throughput).max_by(f64::total_cmp)
}

/// The index of the knee among `steps` of rising concurrency: the first with nearly the highest
/// throughput. `None` while throughput still grows at the last step, and for fewer than two steps.
pub fn knee(steps: &[StairStep]) -> Option<usize> {
    let highest = highest_throughput(steps)?;
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

impl StaircaseFindings {
    /// The knee as a sentence, or why there is none.
    pub fn sentence(&self) -> String {
        let last = self.steps.last().map_or(0, |step| step.concurrency);
        let knee =
            self.knee.and_then(|knee| self.steps.iter().find(|step| step.concurrency == knee));
        let share = knee.zip(highest_throughput(&self.steps)).and_then(|(knee, highest)| {
            Some((knee.concurrency, 100.0 * knee.throughput()? / highest))
        });
        match (share, self.ending) {
            (Some((knee, share)), StairEnd::Failing) => format!(
                "knee: {knee} in flight reach {share:.0} % of the highest throughput; at {last} requests fail"
            ),
            (Some((knee, share)), _) => format!(
                "knee: {knee} in flight reach {share:.0} % of the highest throughput; more only wait longer"
            ),
            (None, StairEnd::Failing) => format!("no knee: requests fail at {last} in flight"),
            (None, StairEnd::Interrupted) => "no knee: interrupted".to_owned(),
            (None, StairEnd::BudgetSpent) => format!(
                "no knee: still growing at {last} in flight when the budget ended; raise `--budget`"
            ),
            (None, StairEnd::Most | StairEnd::Flat) => {
                format!(
                    "no knee: throughput still grows at {last} in flight, the most that is tried"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAIRCASE: Staircase = Staircase { budget: Nanos::from_secs(120), most: 1024 };

    /// A server whose throughput saturates at `peak` requests in flight of one second each.
    fn step(concurrency: u32, peak: f64) -> StairStep {
        let flights = f64::from(concurrency);
        let throughput = flights.min(peak);
        StairStep {
            concurrency,
            requests_per_s: Some(throughput),
            output_tokens_per_s: Some(100.0 * throughput),
            e2e_s: Some(flights / throughput),
            succeeded: 40,
            failed: 0,
        }
    }

    /// Climbs a staircase on a clock of its own.
    fn climbed(staircase: Staircase, peak: f64) -> (Vec<StairStep>, StairEnd, Nanos) {
        let (mut steps, mut spent) = (Vec::new(), Nanos::ZERO);
        loop {
            match staircase.next(&steps, spent) {
                StairNext::Done(end) => return (steps, end, spent),
                StairNext::Measure { concurrency, length } => {
                    let measured = step(concurrency, peak);
                    spent += length + Nanos::from_secs_f64(measured.e2e_s.unwrap());
                    steps.push(measured);
                }
            }
        }
    }

    fn flights(steps: &[StairStep]) -> Vec<u32> {
        steps.iter().map(|step| step.concurrency).collect()
    }

    #[test]
    fn requests_in_flight_double_until_throughput_is_flat() {
        let (steps, end, spent) = climbed(STAIRCASE, 12.0);
        assert_eq!((flights(&steps), end), (vec![1, 2, 4, 8, 16, 32], StairEnd::Flat));
        assert_eq!(knee(&steps).map(|at| steps[at].concurrency), Some(16));
        assert!(spent <= STAIRCASE.budget, "{spent}");
    }

    #[test]
    fn the_budget_bounds_all_steps_and_is_used() {
        for seconds in [3, 10, 30, 120, 600] {
            let staircase = Staircase { budget: Nanos::from_secs(seconds), ..STAIRCASE };
            let (steps, end, spent) = climbed(staircase, 1e9);
            assert!(spent <= staircase.budget, "{seconds} s: {spent} for {:?}", flights(&steps));
            assert!(matches!(end, StairEnd::BudgetSpent | StairEnd::Most), "{end:?}");
            assert_eq!(knee(&steps), None, "throughput still grows");
            assert!(spent.as_secs_f64() > 0.4 * seconds as f64 || end == StairEnd::Most, "{spent}");
        }
    }

    /// Long answers leave time for few steps: they are further apart.
    #[test]
    fn with_little_time_the_steps_are_further_apart() {
        let mut slow = step(1, 1e9);
        slow.e2e_s = Some(6.0);
        let next = STAIRCASE.next(&[slow], Nanos::from_secs(30));
        let StairNext::Measure { concurrency, length } = next else { panic!("{next:?}") };
        assert_eq!((concurrency, length), (4, Nanos::from_secs(24)));
    }

    #[test]
    fn failed_requests_and_the_highest_number_end_the_staircase() {
        let mut failing = step(8, 100.0);
        failing.failed = 3;
        let check = |steps: &[StairStep], expected| {
            let next = STAIRCASE.next(steps, Nanos::from_secs(1));
            assert_eq!(next, StairNext::Done(expected));
        };
        check(&[step(4, 100.0), failing.clone()], StairEnd::Failing);
        check(&[StairStep { succeeded: 0, ..step(1, 1.0) }], StairEnd::Failing);
        check(&[step(512, 1e9), step(1024, 1e9)], StairEnd::Most);
        let steps = [step(4, 100.0), failing];
        assert_eq!(knee(&steps), Some(0), "a step that fails is no knee");
        assert_eq!(knee(&steps[..1]), None);
    }

    #[test]
    fn a_server_without_token_counts_is_judged_by_its_requests() {
        let of = |concurrency| StairStep { output_tokens_per_s: None, ..step(concurrency, 2.0) };
        let steps = [of(1), of(2), of(4)];
        assert_eq!(knee(&steps), Some(1));
    }

    #[test]
    fn the_sentence_says_what_the_knee_is_or_why_there_is_none() {
        let findings = |peak, ending, count| {
            let steps: Vec<StairStep> =
                [1, 2, 4, 8, 16, 32].map(|at| step(at, peak))[..count].to_vec();
            let knee = knee(&steps).map(|at| steps[at].concurrency);
            StaircaseFindings {
                server: "vLLM".to_owned(),
                address: "http://h".to_owned(),
                next: None,
                model: "m".to_owned(),
                workload: String::new(),
                budget_s: 120.0,
                ending,
                knee,
                steps,
            }
        };
        assert_eq!(
            findings(15.0, StairEnd::Flat, 6).sentence(),
            "knee: 16 in flight reach 100 % of the highest throughput; more only wait longer"
        );
        // A step whose requests fail is no measure of what the server can do: it once was, and the knee
        // reached half of the highest throughput.
        let mut failing = findings(1e9, StairEnd::Failing, 4);
        failing.steps[3].failed = 20;
        failing.knee = knee(&failing.steps).map(|at| failing.steps[at].concurrency);
        assert_eq!(
            failing.sentence(),
            "knee: 4 in flight reach 100 % of the highest throughput; at 8 requests fail"
        );
        let growing = findings(1e9, StairEnd::BudgetSpent, 4).sentence();
        assert!(growing.contains("still growing at 8 in flight when the budget"), "{growing}");
        let written = serde_json::to_string(&findings(15.0, StairEnd::Flat, 6)).unwrap();
        let read: StaircaseFindings = serde_json::from_str(&written).unwrap();
        assert_eq!(read, findings(15.0, StairEnd::Flat, 6));
    }
}
