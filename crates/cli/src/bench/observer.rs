//! Shows a measurement on the terminal and passes the user's interrupts on to it.

use std::sync::{Arc, Mutex, PoisonError};

use tokometer_base::Clock;
use tokometer_base::redact::hide_in_url;
use tokometer_drive::Interrupt;
use tokometer_measure::{
    Coordination, Credentials, Error, Guard, Measurement, Observer, RunInProgress, Tools,
};

use super::exporter::Exporter;
use super::progress::Progress;
use crate::activity::Activity;
use crate::command_line::command_line;
use crate::dashboard::{Dashboard, DashboardSource};
use crate::lower::Bar;
use crate::session::Given;
use crate::signals::Signals;
use crate::terminal::{self, print_message, print_note_once};
use crate::version;
use tokometer_plan::{Load, Plan, Shown, Target, Timing};

struct TerminalObserver {
    signals: Signals,
    bar: Bar,
    clock: Arc<dyn Clock>,
    /// Shown until the first run begins: tokenizers and datasets may take a while.
    preparing: Mutex<Option<Activity>>,
}

impl TerminalObserver {
    /// The whole terminal for the run, where it was asked for and there is one.
    fn dashboard(&self, run: &RunInProgress<'_>) -> Result<Option<Dashboard>, Error> {
        if self.bar != Bar::Live {
            return Ok(None);
        }
        let watched = DashboardSource {
            title: title(run),
            target_rate: target_rate(&run.plan.load),
            goal: run.goal,
            clock: Arc::clone(&self.clock),
            live: Arc::clone(run.live),
            interrupt: Arc::clone(run.interrupt),
            notes: Arc::clone(run.notes),
        };
        Dashboard::open(watched).map(Some).map_err(|why| Error::usage(format!("{why:#}"), ""))
    }
}

/// The name that the user gave the run, otherwise what it measures.
fn subject(plan: &Plan) -> String {
    let Some(target) = plan.targets.first() else { return plan.name.clone() };
    if plan.name != target.backend.name() {
        return plan.name.clone();
    }
    let address = |target: &Target| hide_in_url(&target.address.to_string());
    plan.targets.iter().map(address).collect::<Vec<_>>().join(" and ")
}

/// What is measured, and which point of a sweep it is.
fn title(run: &RunInProgress<'_>) -> String {
    let name = subject(run.plan);
    let load = &run.plan.load;
    let cap = load.max_concurrency.map(|cap| format!("at most {cap} in flight"));
    let rate = target_rate(load).map(|rate| format!("{rate} req/s"));
    let turns = load.num_prompts.filter(|_| run.plan.prompts.turns.is_some());
    let turns = turns.map(|count| format!("turns of {count} conversations"));
    let load: Vec<String> = [rate, cap, turns].into_iter().flatten().collect();
    let load = if load.is_empty() { String::new() } else { format!(" · {}", load.join(", ")) };
    match run.point {
        Some((point, of)) => format!("{name} · point {point} of {of}{load}"),
        None => format!("{name}{load}"),
    }
}

/// The rate that the plan asks for; `None` for stages, a trace, and without a limit.
fn target_rate(load: &Load) -> Option<f64> {
    let is_flat = load.stages.is_empty() && load.timing == Timing::Rate;
    Some(load.request_rate.0).filter(|rate| is_flat && rate.is_finite())
}

/// A measurement that is shown on the terminal. `shard` connects it with the other processes of the run;
/// `None` where this one makes all of it.
pub(crate) fn measurement(
    secrets: &Credentials,
    shard: Option<Arc<dyn Coordination>>,
    bar: Bar,
    given: &Given,
) -> Measurement {
    terminal::hide(&secrets.known);
    let clock = Arc::clone(&given.clock);
    let preparing = (bar != Bar::Silent).then(|| Activity::start("preparing"));
    let observer = TerminalObserver {
        signals: given.signals.clone(),
        bar,
        clock: Arc::clone(&clock),
        preparing: Mutex::new(preparing),
    };
    Measurement::new(Tools {
        secrets: secrets.clone(),
        clock,
        observer: Arc::new(observer),
        version: version::long(),
        shard,
        command: command_line(&secrets.known),
    })
}

impl Observer for TerminalObserver {
    fn remark(&self, text: &str) {
        print_message(text);
    }

    fn remark_once(&self, text: &str) {
        print_note_once(text);
    }

    fn preparing(&self, step: &'static str) {
        let preparing = self.preparing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(activity) = &*preparing {
            activity.rename(step);
        }
    }

    fn run_begins(&self, run: &RunInProgress<'_>) -> Result<Guard, Error> {
        drop(self.preparing.lock().unwrap_or_else(PoisonError::into_inner).take());
        let output = &run.plan.output;
        let progress = Progress::start(run.live, &self.clock, run.goal, self.bar, output.shown);
        let dashboard = self.dashboard(run)?;
        let exporter =
            output.prometheus_port.map(|port| Exporter::start(port, run.live)).transpose()?;
        if let Some(exporter) = exporter.as_ref().filter(|_| output.shown != Shown::Nothing) {
            print_note_once(&format!(
                "note: serving counters on http://{}/metrics",
                exporter.address
            ));
        }
        let end = self.signals.at_end_of_run();
        Ok(Guard::new((progress, dashboard, exporter, end)))
    }

    fn route_interrupts(&self, interrupt: &Arc<Interrupt>) -> Guard {
        Guard::new(self.signals.direct_to(interrupt))
    }

    fn is_interrupted(&self) -> bool {
        self.signals.is_interrupted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The dashboard was headed by the name of a protocol.
    #[test]
    fn a_run_without_a_name_is_headed_by_its_address() {
        let plan = |text: &str| crate::lower::complete_part(toml::from_str(text).unwrap()).unwrap();
        let targets = "[[targets]]\naddress = \"http://h:8000\"\nbackend = \"openai\"\n";
        let of = |name: &str| subject(&plan(&format!("name = \"{name}\"\n{targets}")));
        assert_eq!(of("nightly"), "nightly");
        assert_eq!(of("openai"), "http://h:8000");
    }
}
