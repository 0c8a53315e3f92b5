//! The executor of predictions.

use tokometer_base::Nanos;
use tokometer_base::refusal::Refusal;
use tokometer_decide::sequential::overloaded_at;
use tokometer_measure::Credentials;
use tokometer_plan::{ClassDraw, Overload, Plan};
use tokometer_record::{AttemptId, RunReader, Stop, Timeline};
use tokometer_sim::Profile;
use tokometer_twin::{BeyondRange, LoadSide, PredictOptions};

use super::asks::Asks;
use super::point::PredictionDepth;
use super::record;
use crate::event::{Observer, note};
use crate::executor::{Executor, RunRecord};
use crate::outcome::PlannedRun;

/// Requests in flight may end for so long after a run was stopped for overload, as in `drive`.
const DRAIN: Nanos = Nanos::from_secs(5);

/// In virtual time, without a server.
pub struct Virtual {
    /// The engine.
    pub profile: Profile,
    /// The engine of the second target of plans with two.
    pub against: Option<Profile>,
    /// What is wanted of each run.
    pub depth: PredictionDepth,
    /// What every record says besides what its dataset says.
    pub remarks: Vec<String>,
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
            against: None,
            depth: PredictionDepth::Run,
            remarks: Vec::new(),
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
    fn run(&mut self, run: &PlannedRun, observer: &mut dyn Observer) -> Result<RunRecord, Refusal> {
        let (plan, profile) = (&run.plan, &self.profile);
        let mut asks = Asks::open(plan, profile, &self.secrets)?;
        if self.depth == PredictionDepth::Seeds {
            for remark in asks.remarks() {
                note(observer, format!("note: {remark}"));
            }
        }
        let mut info = self.info(plan, &asks);
        info.remarks.extend(self.remarks.iter().cloned());
        if let Some((against, ab)) = self.against.as_ref().zip(plan.ab_blocks()) {
            let (rows, took) = self.in_blocks([&self.profile, against], plan, ab, &mut asks)?;
            self.now += took;
            let end = record::end(rows.len() as u64, took, &info);
            return Ok(RunRecord::new(RunReader::in_memory(info, rows, end.clone()), end));
        }
        let mut point = self.predict(plan, &mut asks)?;
        let prompts = point.beyond.iter().filter(|one| one.side == LoadSide::PromptTokens);
        // A search goes beyond every load on purpose, but prompts stay as long as they are.
        self.beyond = prompts.copied().max().max(self.beyond);
        let predicted = &mut point.prediction;
        let mut end = record::end(predicted.figures.over(), predicted.end, &info);
        let mut took = predicted.end;
        let mut rows = std::mem::take(&mut predicted.timelines);
        if let Some(draw) = ClassDraw::of(plan) {
            for AttemptId { index, session, class, lora, .. } in
                rows.iter_mut().map(|row| &mut row.identity)
            {
                let own = &plan.classes[draw.class_of(session.unwrap_or(*index))];
                (*class, *lora) = (Some(own.name.clone()), own.lora.clone());
            }
        }
        let is_shown = self.depth == PredictionDepth::Seeds;
        // What is shown is the whole run, however long its queue grows.
        if let Some(at) = stopped_at(&rows, plan).filter(|_| !is_shown) {
            end.stop = Stop::Overloaded;
            took = took.min(at + DRAIN);
        }
        self.now += took;
        let predicted = is_shown.then(|| Box::new(point));
        let reader = RunReader::in_memory(info, rows, end.clone());
        Ok(RunRecord { predicted, ..RunRecord::new(reader, end) })
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
