//! Opens the prompts of a run.

use std::sync::Arc;

use tokometer_base::{Prompt, PromptContent, Seed};
use tokometer_decide::AbBlocks;
use tokometer_plan::{ClassDraw, Form, Load, Plan};
use tokometer_schedule::Share;
use tokometer_tokenize::{Tokenizer, hub};
use tokometer_workload::{self as workload, DatasetContext, DatasetNote, Spec, Workload};

use crate::{Error, Replay};

/// An opened dataset, with messages for the user.
pub struct OpenedWorkload {
    /// Shared with the preparer's thread.
    pub workload: Arc<Workload>,
    /// Indexes of the prompts to send, where some are skipped, or of the sessions. `None` sends all.
    pub kept: Option<Vec<u64>>,
    pub remarks: Vec<String>,
    /// The second target's prompts in an A/B measurement.
    pub against: Option<SecondTarget>,
    /// The part of the prompts that this process sends.
    pub share: Share,
}

/// The prompts of a second target: the same lengths with other content.
pub struct SecondTarget {
    pub workload: Arc<Workload>,
    /// Which requests go to which target.
    pub blocks: AbBlocks,
}

impl OpenedWorkload {
    /// Prompts to send. Two targets get complete pairs of blocks.
    pub fn len(&self) -> u64 {
        let all = match &self.kept {
            Some(kept) if self.has_turns() => self.turns_of(kept.iter().copied()),
            Some(kept) => kept.len() as u64,
            None => self.workload.len(),
        };
        self.against.as_ref().map_or(all, |against| against.blocks.whole_pairs(all))
    }

    fn turns_of(&self, sessions: impl Iterator<Item = u64>) -> u64 {
        sessions.map(|session| self.workload.session(session).len() as u64).sum()
    }

    /// Prompts that this process sends: all turns of the sessions of its share.
    pub fn own_len(&self) -> u64 {
        if self.share.is_whole() || !self.has_turns() {
            return self.share.of(self.len());
        }
        let sessions =
            self.kept.as_ref().map_or(self.workload.sessions(), |kept| kept.len() as u64);
        let own = (0..).map(|at| self.share.index(at)).take_while(|at| *at < sessions);
        let session = |at: u64| match &self.kept {
            Some(kept) => usize::try_from(at).map_or(at, |at| kept[at]),
            None => at,
        };
        self.turns_of(own.map(session))
    }

    /// True when no prompt is left to send.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn has_turns(&self) -> bool {
        self.workload.has_turns()
    }
}

/// Inputs for opening a plan's prompts.
pub struct WorkloadInputs {
    pub tokenizer: Arc<dyn Tokenizer>,
    /// Seed of the content.
    pub salt: Seed,
    /// For datasets from the hub.
    pub hub: hub::HubAccess,
}

/// Opens the plan's dataset and skips prompts that exceed `--max-model-len`.
pub fn open(plan: &Plan, means: WorkloadInputs) -> Result<OpenedWorkload, Error> {
    let context = DatasetContext {
        salt: means.salt,
        conventions: plan.conventions,
        form: form(plan)?,
        row_order: plan.prompts.row_order,
        oversample: plan.prompts.oversample,
        bad_rows: plan.prompts.bad_rows,
        batch_size: plan.prompts.batch_size,
        turns: plan.prompts.turns,
        answers: plan.prompts.answers,
        templating: plan.prompts.templating.clone(),
        template_values: plan.prompts.template_values.clone().map(|values| values.0),
        hub: means.hub,
        ..DatasetContext::new(means.tokenizer, Seed(plan.seed), prompts_to_make(plan))
    };
    let refused = |why: workload::Error| Error::usage(why.to_string(), "");
    let replay = match &plan.workload {
        Spec::Trace(options) => Some(Replay::of(options)?),
        _ => None,
    };
    let replayed = replay.as_ref().map(|replay| Spec::Trace(replay.options.clone()));
    let spec = replayed.as_ref().unwrap_or(&plan.workload);
    let workload = open_prompts(plan, spec, &context).map_err(refused)?;
    let mut remarks = remarks_of(workload.notes(), plan.load.num_prompts);
    if workload.needs_length_check() {
        let checked = workload.check_lengths().map_err(refused)?;
        remarks.extend(checked.note().map(|note| note.text));
    }
    let kept = match plan.prompts.max_model_len {
        Some(limit) => Some(fitting(&workload, limit).map_err(refused)?),
        None => None,
    };
    let left_out = kept.as_ref().map_or(0, |kept| workload.sessions() - kept.len() as u64);
    if left_out > 0 {
        let what =
            if workload.has_turns() { "sessions begin with prompts that" } else { "prompts" };
        remarks.push(format!("{left_out} {what} exceed `--max-model-len` and are skipped"));
    }
    let is_timed = plan.load.num_prompts.is_none() && plan.load.duration_s.is_some();
    if is_timed && workload.len() < prompts_needed(&plan.load) {
        let (count, what) = (workload.len(), "the run ends when all have been sent");
        remarks.push(format!("there are {count} prompts: {what}, even before `--duration`"));
    }
    let load = &plan.load;
    if workload.has_turns()
        && load.max_concurrency.is_some()
        && load.most_sessions(plan.conventions).is_none()
    {
        remarks.push(
            "`--max-concurrency` alone sends first turns of all sessions before next ones; limit sessions in progress with `--max-sessions`"
                .to_owned(),
        );
    }
    check_form(plan, &workload)?;
    let against = against(plan, context).map_err(refused)?;
    let opened = OpenedWorkload {
        workload: Arc::new(workload),
        kept,
        remarks,
        against,
        share: Share::WHOLE,
    };
    if opened.is_empty() {
        return Err(Error::usage(
            "there are no prompts to send",
            "inspect the dataset with `tokometer dataset`",
        ));
    }
    Ok(opened)
}

/// The prompts of the plan, or of its classes where these have their own.
fn open_prompts(plan: &Plan, spec: &Spec, context: &DatasetContext) -> workload::Result<Workload> {
    let draw =
        ClassDraw::of(plan).filter(|_| plan.classes.iter().any(|class| class.workload.is_some()));
    let Some(draw) = draw else { return workload::open(spec, context) };
    let specs: Vec<&workload::Spec> =
        plan.classes.iter().map(|class| class.workload.as_ref().unwrap_or(spec)).collect();
    workload::open_mix(&specs, Arc::new(move |index| draw.class_of(index)), context)
}

/// Opens the prompts again with another salt, for the second target of an A/B measurement.
fn against(plan: &Plan, context: DatasetContext) -> workload::Result<Option<SecondTarget>> {
    let Some(blocks) = plan.ab_blocks() else { return Ok(None) };
    let salt = Seed(context.salt.stream("against").draw(0));
    let workload = open_prompts(plan, &plan.workload, &DatasetContext { salt, ..context })?;
    Ok(Some(SecondTarget { workload: Arc::new(workload), blocks }))
}

/// Prompts that fit into a context together with their output, or sessions that begin with such ones.
fn fitting(workload: &Workload, limit: u64) -> workload::Result<Vec<u64>> {
    let mut kept = Vec::new();
    for number in 0..workload.sessions() {
        let roots = workload.session(number).into_iter().filter(|turn| turn.waits_for.is_empty());
        let mut fits = true;
        for root in roots {
            fits &= fits_in(&workload.item(root.index)?.prompt, limit);
        }
        kept.extend(fits.then_some(number));
    }
    Ok(kept)
}

/// Whether a prompt and its answer fit into a context, as far as their lengths are known.
pub(crate) fn fits_in(prompt: &Prompt, limit: u64) -> bool {
    let length = |tokens: Option<u32>| u64::from(tokens.unwrap_or(0));
    length(prompt.prompt_tokens) + length(prompt.output_tokens) <= limit
}

fn form(plan: &Plan) -> Result<workload::WireForm, Error> {
    let Some(target) = plan.targets.first() else { return Ok(workload::WireForm::Text) };
    let dialect = target.backend;
    match plan.prompts.form {
        Form::TokenIds if dialect.takes_token_ids() => Ok(workload::WireForm::TokenIds),
        Form::TokenIds => Err(Error::usage(
            format!("cannot send token ids with the backend `{}`", dialect.name()),
            "omit `--prompt-token-ids`",
        )),
        Form::Text if dialect.is_chat() => Ok(workload::WireForm::Chat),
        Form::Text if dialect.is_audio() => Ok(workload::WireForm::Sound),
        Form::Text => Ok(workload::WireForm::Text),
    }
}

/// Refuses prompts in a form that the backend's route does not have, before anything is sent.
fn check_form(plan: &Plan, workload: &Workload) -> Result<(), Error> {
    let Some(dialect) = plan.targets.first().map(|target| target.backend) else { return Ok(()) };
    if workload.is_empty() {
        return Ok(());
    }
    let first = workload.item(0).map_err(|why| Error::usage(why.to_string(), ""))?;
    let is_ranking = matches!(first.prompt.content, PromptContent::Ranking { .. });
    let is_batch = matches!(first.prompt.content, PromptContent::Inputs(_));
    let (name, dataset) = (dialect.name(), plan.workload.name());
    if dialect.is_ranking() && !is_ranking {
        return Err(Error::usage(
            format!(
                "the backend `{name}` needs a query with documents, which the dataset `{dataset}` does not have"
            ),
            "use `--dataset-name random-rerank`, or `custom` with `query` and `documents` in each row",
        ));
    }
    if is_ranking && !dialect.is_ranking() {
        return Err(Error::usage(
            format!(
                "the backend `{name}` cannot send the query with documents of the dataset `{dataset}`"
            ),
            "use `--backend vllm-rerank`, `jina-rerank`, `cohere-rerank`, `tei-rerank` or `vllm-score`",
        ));
    }
    let is_sound = matches!(first.prompt.content, PromptContent::Sound(_));
    if dialect.is_audio() && !is_sound {
        return Err(Error::usage(
            format!(
                "the backend `{name}` transcribes audio, which the dataset `{dataset}` does not have"
            ),
            "use `--dataset-name random-audio`, or `custom_audio` with an `audio` file in each row",
        ));
    }
    if is_batch && !dialect.is_pooling() {
        return Err(Error::usage(
            format!(
                "the backend `{name}` cannot send several texts of the dataset `{dataset}` in one request"
            ),
            "use an embedding backend such as `openai-embeddings`",
        ));
    }
    Ok(())
}

/// What the dataset says of itself. The number of prompts of a timed run is ours: nobody asked for so many.
fn remarks_of(notes: Vec<DatasetNote>, asked: Option<u64>) -> Vec<String> {
    let is_meant = |note: &DatasetNote| asked.is_some() || note.code != "few-rows";
    notes.into_iter().filter(is_meant).map(|note| note.text).collect()
}

/// Prompts of the dataset: those planned, or enough for the requests of a timed run.
fn prompts_to_make(plan: &Plan) -> u64 {
    let requests = prompts_needed(&plan.load);
    match plan.load.num_prompts {
        Some(count) => count,
        None => requests.saturating_mul(u64::from(plan.prompts.batch_size.max(1))),
    }
}

/// Prompts prepared for a timed run at an infinite rate.
const TIMED_PROMPTS: u64 = 1_000_000;

/// Prompts that the run may need: the planned number, or enough for its duration.
pub fn prompts_needed(load: &Load) -> u64 {
    if let Some(count) = load.num_prompts {
        return count;
    }
    let seconds = load.duration_s.unwrap_or(0.0);
    let expected = match &load.stages[..] {
        [] => load.request_rate.0 * seconds,
        stages => stages.iter().map(|stage| stage.requests_in(seconds)).sum(),
    };
    if !expected.is_finite() {
        return TIMED_PROMPTS;
    }
    // Twice the expected number and a reserve exceed any draw of a Poisson process.
    tokometer_base::Nanos::from_secs_f64((2.0 * expected + 1_000.0).min(TIMED_PROMPTS as f64) / 1e9)
        .0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "`trace.jsonl` has 40 requests, not 1000000" in a run with `--duration`.
    #[test]
    fn a_number_of_prompts_that_nobody_asked_for_is_not_missing() {
        let note =
            || vec![DatasetNote { code: "few-rows", text: "3 requests, not 1000".to_owned() }];
        assert_eq!(remarks_of(note(), Some(1_000)), ["3 requests, not 1000"]);
        assert_eq!(remarks_of(note(), None), Vec::<String>::new());
    }
}
