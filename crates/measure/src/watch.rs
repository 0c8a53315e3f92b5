//! Ends a run early: when a figure is known well enough, or when the server is overloaded.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokometer_base::{Background, Clock, Nanos, StopSignal};
use tokometer_decide::sequential::{InFlightReading, PrecisionGoal, is_running_away};
use tokometer_drive::{Interrupt, Live};
use tokometer_figures::define::{self, Formula};
use tokometer_plan::{self as plan, Overload};
use tokometer_record::{Phase, Stop, Timeline};

/// Time between two checks.
const INTERVAL: Duration = Duration::from_millis(250);

/// Values of one metric in the order in which requests end.
#[derive(Debug, Default)]
pub(crate) struct Tap {
    key: String,
    values: Mutex<Vec<f64>>,
}

impl Tap {
    pub(crate) fn take(&self, timeline: &Timeline) {
        if timeline.identity.phase != Phase::Measure || !timeline.is_success() {
            return;
        }
        let Some(Formula::Latency(value) | Formula::Value(value)) =
            define::metric(&self.key).map(|metric| metric.formula)
        else {
            return;
        };
        if let (Some(value), Ok(mut values)) = (value(timeline), self.values.lock()) {
            values.push(value);
        }
    }
}

struct StopRules {
    until: Option<(PrecisionGoal, Nanos, Arc<Tap>)>,
    overload: Overload,
    rate: Option<f64>,
}

/// A running check. It ends when dropped.
pub(crate) struct Watch {
    reason: Arc<Mutex<Option<Stop>>>,
    tap: Option<Arc<Tap>>,
    thread: Option<Background>,
}

impl Watch {
    /// Does nothing where the plan has no such rule.
    pub(crate) fn start(
        load: &plan::Load,
        live: &Arc<Live>,
        interrupt: &Arc<Interrupt>,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        let until = load.until.as_ref().map(|until| {
            let tap = Arc::new(Tap {
                key: until.rule.figure.quantity.key().to_owned(),
                ..Tap::default()
            });
            (until.rule.clone(), Nanos::from_secs_f64(until.min_s), tap)
        });
        let tap = until.as_ref().map(|(_, _, tap)| Arc::clone(tap));
        let rate = Some(load.request_rate.0).filter(|rate| rate.is_finite());
        let rules = StopRules { until, overload: load.overload, rate };
        let has_rule =
            rules.until.is_some() || (rules.overload == Overload::Stop && rate.is_some());
        let reason = Arc::new(Mutex::new(None));
        let thread = has_rule.then(|| {
            let run = Watched {
                live: Arc::clone(live),
                interrupt: Arc::clone(interrupt),
                clock: Arc::clone(clock),
                reason: Arc::clone(&reason),
            };
            Background::start("watch", move |stop| rules.look(&run, stop))
        });
        Self { reason, tap, thread }
    }

    /// Where the recorder sends ended attempts.
    pub(crate) fn tap(&self) -> Option<Arc<Tap>> {
        self.tap.clone()
    }

    /// Ends the checks. Returns why they ended the run, if they did.
    pub(crate) fn finish(mut self) -> Option<Stop> {
        drop(self.thread.take());
        self.reason.lock().ok().and_then(|reason| *reason)
    }
}

struct Watched {
    live: Arc<Live>,
    interrupt: Arc<Interrupt>,
    clock: Arc<dyn Clock>,
    /// Why the checks ended the run.
    reason: Arc<Mutex<Option<Stop>>>,
}

impl StopRules {
    fn look(&self, run: &Watched, stop: &StopSignal) {
        let mut readings = Vec::new();
        while !stop.is_raised_within(INTERVAL) {
            if run.live.phase() != Some(Phase::Measure) {
                continue;
            }
            let Some(began) = run.live.began() else { continue };
            let elapsed = run.clock.now() - began;
            let in_flight = run.live.counts().in_flight() as f64;
            readings.push(InFlightReading { at_s: elapsed.as_secs_f64(), in_flight });
            if let Some(why) = self.verdict(elapsed, &readings) {
                if let Ok(mut reason) = run.reason.lock() {
                    *reason = Some(why);
                }
                run.interrupt.raise();
                return;
            }
        }
    }

    fn verdict(&self, elapsed: Nanos, readings: &[InFlightReading]) -> Option<Stop> {
        let is_overloaded = self.overload == Overload::Stop
            && self.rate.is_some_and(|rate| is_running_away(readings, rate));
        if is_overloaded {
            return Some(Stop::Overloaded);
        }
        let (until, least, tap) = self.until.as_ref()?;
        let values = tap.values.lock().ok()?;
        (elapsed >= *least && until.is_known(&values)).then_some(Stop::Complete)
    }
}
