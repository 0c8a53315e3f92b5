//! The executor of predictions.

use std::path::PathBuf;

use tokometer_base::Nanos;
use tokometer_base::refusal::Refusal;
use tokometer_decide::sequential::overloaded_at;
use tokometer_measure::Credentials;
use tokometer_plan::{Overload, Plan};
use tokometer_record::{Stop, Timeline};
use tokometer_sim::Profile;
use tokometer_twin::{BeyondRange, PredictOptions};

use super::asks::Asks;
use super::point::{PredictionSetting, run_once};
use super::record;
use crate::event::Observer;
use crate::executor::{Executor, RunRecord, RunRows};
use crate::outcome::PlannedRun;

/// Requests in flight may end for so long after a run was stopped for overload, as in `drive`.
const DRAIN: Nanos = Nanos::from_secs(5);

/// In virtual time, without a server.
pub struct Virtual {
    /// The engine.
    pub profile: Profile,
    /// Fleet, client and threads.
    pub options: PredictOptions,
    /// For datasets and tokenizers.
    pub secrets: Credentials,
    /// Version of this program, for the record.
    pub version: String,
    /// Memory that may be used, in bytes; absent where the system does not report it.
    pub memory_bytes: Option<u64>,
    /// What the runs so far took. What a real run takes besides its requests takes no time here.
    pub now: Nanos,
    /// Prompts of the runs so far that the profile's data do not cover.
    pub beyond: Option<BeyondRange>,
}

impl Virtual {
    /// An engine with everything else as usual.
    pub fn new(profile: Profile) -> Self {
        Self {
            profile,
            options: PredictOptions::default(),
            secrets: Credentials::default(),
            version: String::new(),
            memory_bytes: None,
            now: Nanos::ZERO,
            beyond: None,
        }
    }
}

impl Executor for Virtual {
    fn run(
        &mut self,
        run: &PlannedRun,
        _observer: &mut dyn Observer,
    ) -> Result<RunRecord, Refusal> {
        let (plan, profile) = (&run.plan, &self.profile);
        let mut asks = Asks::open(plan, profile, &self.secrets)?;
        let setting = PredictionSetting {
            plan,
            profile,
            options: self.options,
            memory_bytes: self.memory_bytes,
            version: &self.version,
        };
        let (predicted, beyond) = run_once(setting, &mut asks)?;
        self.beyond = beyond.max(self.beyond);
        let info = record::info(setting, &asks);
        let mut end = record::end(&predicted, &info);
        let mut took = predicted.end;
        if let Some(at) = stopped_at(&predicted.timelines, plan) {
            end.stop = Stop::Overloaded;
            took = took.min(at + DRAIN);
        }
        self.now += took;
        Ok(RunRecord {
            folder: PathBuf::new(),
            info,
            end,
            rows: RunRows::Kept(predicted.timelines),
            write_failure: None,
            is_withheld: false,
            server_info: None,
        })
    }

    fn now(&self) -> Nanos {
        self.now
    }
}

/// When a run would have been stopped for overload, where its plan says so.
fn stopped_at(timelines: &[Timeline], plan: &Plan) -> Option<Nanos> {
    let rate = plan.load.request_rate.0;
    let seconds = plan.load.duration_s.unwrap_or(0.0);
    let is_watched = plan.load.overload == Overload::Stop && rate.is_finite();
    is_watched.then(|| overloaded_at(timelines, seconds, rate)).flatten()
}
