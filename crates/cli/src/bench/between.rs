//! What happens between warm-up and measurement: the server is prepared, and what runs beside the
//! load begins. Not earlier, because the server's counters must not hold the warm-up.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokometer_base::Nanos;
use tokometer_client::{Control, Dialect, Error};
use tokometer_drive::{Between, Notice};
use tokometer_plan::{Cache, Phases, Plan, Profiler};
use tokometer_record::server::Scrape;
use tokometer_workload::Family;

use super::probe::{Probes, Question};
use super::scraper::Scraper;
use super::target::Reached;
use crate::exit::Refusal;
use crate::terminal::tell_once;

/// What runs beside the measured phase.
pub(crate) struct Sides {
    _scrapers: Vec<Scraper>,
    _probes: Option<Probes>,
}

/// Filled when the measured phase begins, emptied when it has ended.
pub(crate) type SidesPlace = Arc<Mutex<Option<Sides>>>;

/// The call between the phases.
pub(crate) fn between(
    plan: &Plan,
    reached: &Reached,
    outlets: (Sender<Scrape>, Sender<Notice>),
    sides: &SidesPlace,
) -> Result<Between, Refusal> {
    let phases = plan.phases.clone();
    let interval = plan.client.scrape_interval_s;
    let control = reached.control.clone();
    let flush = (phases.cache == Cache::Flush).then(|| Flush::new(plan, reached));
    let pause = pause(plan.family, &phases);
    let profile = (phases.profiler == Profiler::On).then(|| profile_body(plan.family, &phases));
    let question = (phases.probe_rate > 0.0).then(|| {
        let path = reached.dialect.request_path(&reached.settings);
        Question::new(control.clone(), path, &reached.settings, &reached.dialect)
    });
    let (scrapes, notices) = outlets;
    let sides = Arc::clone(sides);
    let sources = if interval > 0.0 { reached.metrics_sources(plan)? } else { Vec::new() };
    Ok(Box::new(move || {
        // A server that cannot flush can still be measured, but nobody may take it for flushed.
        if let Some(Err(why)) = flush.map(|flush| flush.send()) {
            tell_once(&format!(
                "note: the prefix cache was not flushed: {why}\n  figures may hold cached prefixes"
            ));
        }
        if let Some(pause) = pause {
            std::thread::sleep(pause);
        }
        if let Some(Err(why)) = profile.map(|body| control.start_profile(body.as_ref())) {
            tell_once(&format!("note: the server's profiler was not started: {why}"));
        }
        let start =
            |source| Scraper::start(source, Nanos::from_secs_f64(interval), scrapes.clone());
        let readers = sources.into_iter().map(start).collect();
        let probes = question.map(|question| Probes::start(question, phases.probe_rate, notices));
        let started = Sides { _scrapers: readers, _probes: probes };
        *sides.lock().unwrap_or_else(PoisonError::into_inner) = Some(started);
    }))
}

/// SGLang's client lets the server come to rest after what it asked before the measurement.
fn pause(family: Family, phases: &Phases) -> Option<Duration> {
    let has_asked = phases.warmups > 0 || phases.cache == Cache::Flush;
    (family == Family::Sglang && has_asked).then_some(Duration::from_secs(1))
}

/// What the server is told to profile: SGLang's client names at least the activities, vLLM's nothing.
fn profile_body(family: Family, phases: &Phases) -> Option<Value> {
    let mut body = phases.profile_request.clone();
    if family == Family::Sglang {
        let activities = body.get_or_insert_default().entry("activities");
        let _activities = activities.or_insert_with(|| json!(["CPU", "GPU"]));
    }
    body.map(Value::Object)
}

/// How a server is told to forget prefixes.
struct Flush {
    control: Control,
    form: FlushForm,
}

/// The route that a server offers for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FlushForm {
    /// SGLang's own server, which waits this long for running requests.
    Sglang { patience: Nanos },
    /// Other servers by SGLang's rules.
    Plain,
    /// vLLM's server, in its development mode.
    Vllm,
}

/// The answer may take this much longer than the server's own patience.
const ANSWER_SLACK: Nanos = Nanos::from_secs(5);

impl Flush {
    fn new(plan: &Plan, reached: &Reached) -> Self {
        let patience = Nanos::from_secs_f64(plan.phases.flush_timeout_s);
        let control = reached.control.with_timeout(patience + ANSWER_SLACK);
        Self { control, form: FlushForm::of(plan.family, &reached.dialect, patience) }
    }

    fn send(&self) -> Result<(), Error> {
        match self.form {
            FlushForm::Sglang { patience } => self.control.flush_cache(Some(patience)),
            FlushForm::Plain => self.control.flush_cache(None),
            FlushForm::Vllm => self.control.reset_prefix_cache(),
        }
    }
}

impl FlushForm {
    fn of(family: Family, dialect: &Dialect, patience: Nanos) -> Self {
        let name = dialect.name();
        match family {
            Family::Vllm => Self::Vllm,
            Family::Sglang if name.starts_with("vllm") => Self::Vllm,
            Family::Sglang if name.starts_with("sglang") => Self::Sglang { patience },
            Family::Sglang => Self::Plain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sglang_s_rules_let_the_server_rest_and_only_after_work() {
        let check = |line: &str, expected: Option<u64>| {
            let plan = crate::lower::tests::plan(line);
            let found = pause(plan.family, &plan.phases).map(|pause| pause.as_secs());
            assert_eq!(found, expected, "{line}");
        };
        check("--backend sglang --model m", Some(1));
        check("--backend sglang --model m --warmup-requests 0", None);
        check("--backend sglang --model m --warmup-requests 0 --flush-cache", Some(1));
        check("--backend openai --model m --num-warmups 3 --flush-cache", None);
    }

    #[test]
    fn the_profiler_is_told_what_was_typed_and_sglang_s_activities() {
        let check = |line: &str, expected: Option<Value>| {
            let plan = crate::lower::tests::plan(line);
            assert_eq!(profile_body(plan.family, &plan.phases), expected, "{line}");
        };
        check("--backend openai --model m --profile", None);
        let activities = json!(["CPU", "GPU"]);
        check("--backend sglang --model m --profile", Some(json!({"activities": activities})));
        check(
            "--backend sglang --model m --profile --profile-activities MEM --profile-steps 5 \
             --profile-by-stage --profile-stages decode --profile-output-dir /tmp/p \
             --profile-prefix a --profile-start-step 3",
            Some(json!({
                "activities": ["MEM"], "num_steps": 5, "profile_by_stage": true,
                "profile_stages": ["decode"], "output_dir": "/tmp/p", "profile_prefix": "a",
                "start_step": 3,
            })),
        );
    }

    #[test]
    fn each_server_is_flushed_by_its_own_route() {
        let patience = Nanos::from_secs(7);
        let check = |family, backend: &str, expected| {
            let dialect = Dialect::named(backend).unwrap();
            assert_eq!(FlushForm::of(family, &dialect, patience), expected, "{backend}");
        };
        check(Family::Vllm, "openai", FlushForm::Vllm);
        check(Family::Sglang, "vllm-chat", FlushForm::Vllm);
        check(Family::Sglang, "sglang-oai", FlushForm::Sglang { patience });
        check(Family::Sglang, "lmdeploy", FlushForm::Plain);
    }
}
