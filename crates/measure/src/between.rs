//! Steps between warm-up and measurement: prepare the server, then start the threads that run beside
//! the load. They start only now, because the server's counters must not include the warm-up.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokometer_base::backend::Flush as FlushRoute;
use tokometer_base::{Conventions, Nanos};
use tokometer_client::{self as client, Control};
use tokometer_drive::{Between, Live, Notice};
use tokometer_record::server::Scrape;

use crate::Error;
use crate::canary::{CanaryRequests, CanaryThread};
use crate::probe::{ProbeRequest, Probes};
use crate::scraper::Scraper;
use crate::target::Reached;
use crate::tools::Tools;
use tokometer_plan::{Cache, Phases, Plan, Profiler};

/// Threads that run beside the measured phase.
pub(crate) struct SideThreads {
    _scrapers: Vec<Scraper>,
    _probes: Option<Probes>,
    _canaries: Option<CanaryThread>,
}

/// Set when the measured phase begins, taken when it has ended.
pub(crate) type BesideCell = Arc<Mutex<Option<SideThreads>>>;

/// Where the threads beside the load send their results, and where they are stored.
pub(crate) struct Beside {
    pub(crate) scrapes: Sender<Scrape>,
    pub(crate) notices: Sender<Notice>,
    pub(crate) live: Arc<Live>,
    pub(crate) cell: BesideCell,
}

pub(crate) fn between(
    plan: &Plan,
    reached: &Reached,
    beside: Beside,
    tools: &Tools,
) -> Result<Between, Error> {
    let phases = plan.phases.clone();
    let interval = plan.client.scrape_interval_s;
    let is_interrupted = {
        let observer = Arc::clone(&tools.observer);
        Arc::new(move || observer.is_interrupted())
    };
    let control = reached.control.cancelled_by(is_interrupted);
    let flush = (phases.cache == Cache::Flush).then(|| CacheFlush::new(plan, reached, &control));
    let pause = pause(plan.conventions, &phases);
    let profile =
        (phases.profiler == Profiler::On).then(|| profile_body(plan.conventions, &phases));
    let question = if phases.probe_rate > 0.0 {
        let probe = reached.dialect.probe(&reached.settings);
        let probe = probe.map_err(|why| Error::usage(why.to_string(), ""))?;
        Some(ProbeRequest { control: reached.control.clone(), probe })
    } else {
        None
    };
    let canaries = plan.canary.as_ref().map(|canary| {
        CanaryRequests::new(canary, &reached.control, reached.dialect, &reached.settings)
    });
    let canaries = canaries.transpose()?;
    let Beside { scrapes, notices, live, cell } = beside;
    let (observer, clock) = (Arc::clone(&tools.observer), Arc::clone(&tools.clock));
    let sources = if interval > 0.0 { reached.metrics_sources(plan)? } else { Vec::new() };
    Ok(Box::new(move || {
        // A server that cannot flush can still be measured, but nobody may take it for flushed.
        let flushed = flush.map(|flush| flush.send());
        if observer.is_interrupted() {
            return;
        }
        if let Some(Err(why)) = flushed {
            observer.remark_once(&format!(
                "note: the prefix cache was not flushed: {why}\n  results may include prefix-cache hits"
            ));
        }
        if let Some(pause) = pause {
            clock.sleep(pause);
        }
        if let Some(Err(why)) = profile.map(|body| control.start_profile(body.as_ref())) {
            observer.remark_once(&format!("note: the server's profiler was not started: {why}"));
        }
        let start = |source| {
            Scraper::start(source, Nanos::from_secs_f64(interval), scrapes.clone(), &clock)
        };
        let readers = sources.into_iter().map(start).collect();
        let canaries = canaries.map(|canaries| canaries.start(live, notices.clone(), &clock));
        let probes =
            question.map(|question| Probes::start(question, phases.probe_rate, notices, &clock));
        let started = SideThreads { _scrapers: readers, _probes: probes, _canaries: canaries };
        *cell.lock().unwrap_or_else(PoisonError::into_inner) = Some(started);
    }))
}

/// SGLang's client lets the server come to rest after what it asked before the measurement.
fn pause(family: Conventions, phases: &Phases) -> Option<Nanos> {
    let has_asked = phases.warmups > 0 || phases.cache == Cache::Flush;
    (family == Conventions::Sglang && has_asked).then_some(Nanos::from_secs(1))
}

/// The body of the profiler request: SGLang's client sends at least the activities, vLLM's none.
fn profile_body(family: Conventions, phases: &Phases) -> Option<Value> {
    let mut body = phases.profile_request.clone().map(|body| body.0);
    if family == Conventions::Sglang {
        let activities = body.get_or_insert_default().entry("activities");
        activities.or_insert_with(|| json!(["CPU", "GPU"]));
    }
    body.map(Value::Object)
}

struct CacheFlush {
    control: Control,
    route: FlushRoute,
    /// How long the server may wait for running requests.
    timeout: Nanos,
}

/// Time for the response, on top of the server's own wait.
const ANSWER_SLACK: Nanos = Nanos::from_secs(5);

impl CacheFlush {
    fn new(plan: &Plan, reached: &Reached, control: &Control) -> Self {
        let timeout = Nanos::from_secs_f64(plan.phases.flush_timeout_s);
        let control = control.with_timeout(timeout + ANSWER_SLACK);
        Self { control, route: reached.dialect.flush_by(plan.conventions), timeout }
    }

    fn send(&self) -> Result<(), client::Error> {
        match self.route {
            FlushRoute::FlushCacheWithin => self.control.flush_cache(Some(self.timeout)),
            FlushRoute::FlushCache => self.control.flush_cache(None),
            FlushRoute::ResetPrefixCache => self.control.reset_prefix_cache(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phases(warmups: u64, cache: Cache) -> Phases {
        Phases {
            ready_timeout_s: 0.0,
            warmups,
            warmup_output_max: None,
            cache,
            flush_timeout_s: 0.0,
            profiler: Profiler::On,
            profile_request: None,
            probe_rate: 0.0,
        }
    }

    #[test]
    fn only_sglang_s_conventions_pause_before_the_measurement_and_only_after_requests() {
        let check = |family, phases: &Phases, expected: Option<u64>| {
            assert_eq!(pause(family, phases).map(Nanos::whole_seconds), expected, "{phases:?}");
        };
        check(Conventions::Sglang, &phases(1, Cache::Keep), Some(1));
        check(Conventions::Sglang, &phases(0, Cache::Keep), None);
        check(Conventions::Sglang, &phases(0, Cache::Flush), Some(1));
        check(Conventions::Vllm, &phases(3, Cache::Flush), None);
    }

    #[test]
    fn the_profiler_gets_what_the_plan_says_and_sglang_s_activities() {
        let check = |family, request: Option<Value>, expected: Option<Value>| {
            let profile_request = request.and_then(|request| request.as_object().cloned());
            let profile_request = profile_request.map(tokometer_client::secret::ExtraBody);
            let phases = Phases { profile_request, ..phases(0, Cache::Keep) };
            assert_eq!(profile_body(family, &phases), expected);
        };
        check(Conventions::Vllm, None, None);
        let default = json!({"activities": ["CPU", "GPU"]});
        check(Conventions::Sglang, None, Some(default));
        let named = json!({"activities": ["MEM"], "num_steps": 5});
        check(Conventions::Sglang, Some(named.clone()), Some(named));
    }
}
