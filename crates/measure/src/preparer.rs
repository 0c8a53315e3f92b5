//! Prepares requests ahead of their time, from prompts of the workload.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokometer_base::Nanos;
use tokometer_client::{Dialect, RequestInput, Settings};
use tokometer_drive::{FollowUp, Prepare, PrepareError, QueuedRequest, TurnEnd};
use tokometer_record::{AttemptId, Phase};
use tokometer_schedule::Share;
use tokometer_workload::{self as workload, Answers, SeenPrefixes, USUAL_BLOCK, Workload};

use crate::open_session::OpenSession;
use crate::workload::fits_in;
use tokometer_plan::{Class, ClassDraw, Timing};

/// Requests whose times are looked at to count those that were due.
const DUE_MOST: u64 = 10_000_000;

/// Returns the warm-up requests, then the measured ones.
pub(crate) struct RequestPreparer {
    pub(crate) workload: Arc<Workload>,
    /// Indexes of the prompts to send. `None` sends all.
    pub(crate) kept: Option<Vec<u64>>,
    pub(crate) dialect: Dialect,
    pub(crate) settings: Arc<Settings>,
    pub(crate) warmups: u64,
    /// Limit on their output tokens.
    pub(crate) warmup_output_max: Option<u32>,
    /// What requests of each class carry; empty: all carry the same.
    pub(crate) classes: Vec<ClassRequests>,
    pub(crate) class_draw: Option<ClassDraw>,
    /// Whether the times of a trace are kept.
    pub(crate) timing: Timing,
    /// Which answers later turns repeat.
    pub(crate) answers: Answers,
    /// Sessions that have begun and not ended.
    pub(crate) sessions: HashMap<u64, OpenSession>,
    /// Further first turns of the session that began last.
    pub(crate) roots: VecDeque<u64>,
    /// Whether the prompts end before the run does.
    pub(crate) supply: Supply,
    /// The part of the measured requests that this process sends.
    pub(crate) share: Share,
    pub(crate) made: u64,
    /// Turns that follow one without an answer, or one beyond the context.
    pub(crate) lost: u64,
    /// The beginnings of the prompts so far.
    pub(crate) seen: SeenPrefixes,
    /// Sessions that ended because a turn does not fit into the context.
    pub(crate) overflows: u64,
    /// The context, where the plan has it.
    pub(crate) max_model_len: Option<u64>,
}

impl Prepare for RequestPreparer {
    fn prepare(&mut self) -> Result<Option<QueuedRequest>, PrepareError> {
        if let Some(root) = self.roots.pop_front() {
            let item = self.workload.item(root)?;
            return self.said(item, root).map(Some);
        }
        let made = self.made;
        self.made += 1;
        if made < self.warmups {
            return self.warmup(made).map(Some);
        }
        self.measured(self.share.index(made - self.warmups))
    }

    fn follow(&mut self, ended: &TurnEnd) -> Result<Vec<FollowUp>, PrepareError> {
        let Some(session) = ended.identity.session else { return Ok(Vec::new()) };
        let Some(open) = self.sessions.get_mut(&session) else { return Ok(Vec::new()) };
        let ready = ended.answer.as_ref().map(|answer| {
            if self.answers == Answers::Live {
                open.keep(ended.identity.turn, answer);
            }
            open.ended(ended.identity.turn, ended.at)
        });
        let (mut follow_ups, mut is_overflow) = (Vec::new(), false);
        for turn in ready.iter().flatten() {
            // Sessions are never a selection of prompts: a request's index is its prompt's.
            let answers = self.sessions.get(&session).map_or(&[][..], |open| &open.answers);
            let item = self.workload.item_after(turn.index, answers)?;
            if !self.fits(&item)? {
                is_overflow = true;
                self.lost += 1;
                continue;
            }
            follow_ups.push(FollowUp { item: self.said(item, turn.index)?, due: turn.due });
        }
        // A turn without a response ends its session, and so does one that would have to be cut.
        self.overflows += u64::from(is_overflow);
        let is_over = self.sessions.get(&session).is_none_or(OpenSession::is_over);
        if ready.is_none() || is_over || is_overflow {
            self.lost += self.sessions.remove(&session).map_or(0, |open| open.unsent());
        }
        Ok(follow_ups)
    }

    fn lost_turns(&self) -> u64 {
        self.lost
    }

    fn overflows(&self) -> u64 {
        self.overflows
    }

    fn due_before(&self, end: Nanos, most: u64) -> u64 {
        if self.timing != Timing::Trace {
            return 0;
        }
        let index = |at| prompt_of(at, self.kept.as_deref(), self.workload.len(), self.supply);
        let is_due = |at: &u64| {
            index(*at).and_then(|index| self.workload.due(index)).is_some_and(|due| due < end)
        };
        // Times that never rise, as with a multiplier of zero, would be counted for ever.
        (0..most.min(DUE_MOST)).map(|at| self.share.index(at)).take_while(is_due).count() as u64
    }
}

impl RequestPreparer {
    /// Warm-up request `at`, with the lengths of one of the measured ones.
    pub(crate) fn warmup(&self, at: u64) -> Result<QueuedRequest, PrepareError> {
        let mut item = self.workload.warmup_item(self.shape_of(at))?;
        if let Some(limit) = self.warmup_output_max {
            item.prompt.output_tokens = item.prompt.output_tokens.map(|tokens| tokens.min(limit));
        }
        item.due = None;
        self.item(item, &AttemptId::new(at, Phase::Warmup))
    }

    /// The ready check: the lengths of the first request, with other content.
    pub(crate) fn ready_check(&self) -> Result<QueuedRequest, PrepareError> {
        let item = self.workload.warmup_item(self.shape_of(0))?;
        self.item(item, &AttemptId::new(0, Phase::Measure))
    }

    /// The prompt whose lengths warm-up `at` has.
    fn shape_of(&self, at: u64) -> u64 {
        let Some(kept) = self.kept.as_ref().filter(|kept| !kept.is_empty()) else { return at };
        let index = usize::try_from(at).unwrap_or(0) % kept.len();
        kept[index]
    }

    /// The measured request `at`, which begins session `at` where there are turns; `None` when there
    /// are no more.
    pub(crate) fn measured(&mut self, at: u64) -> Result<Option<QueuedRequest>, PrepareError> {
        if !self.workload.has_turns() {
            let index = prompt_of(at, self.kept.as_deref(), self.workload.len(), self.supply);
            let Some(index) = index else { return Ok(None) };
            return self.said(self.workload.item(index)?, at).map(Some);
        }
        let sessions = self.workload.sessions();
        let at = prompt_of(at, self.kept.as_deref(), sessions, Supply::Ends);
        let Some(at) = at else { return Ok(None) };
        // Later turns are prepared when they are due.
        let (open, roots) = OpenSession::begin(self.workload.session(at));
        self.sessions.insert(at, open);
        self.roots.extend(roots);
        let Some(first) = self.roots.pop_front() else { return Ok(None) };
        self.said(self.workload.item(first)?, first).map(Some)
    }

    /// Whether a turn fits into the context. A prompt with real answers is taken as long as it was planned,
    /// because only the server counts it.
    fn fits(&self, item: &workload::Item) -> Result<bool, PrepareError> {
        let Some(limit) = self.max_model_len else { return Ok(true) };
        if item.prompt.prompt_tokens.is_some() {
            return Ok(fits_in(&item.prompt, limit));
        }
        let planned = self.workload.planned(item.index)?;
        let answer = u64::from(planned.output_tokens.unwrap_or(0));
        Ok(planned.tokens().is_none_or(|tokens| u64::from(tokens) + answer <= limit))
    }

    fn said(&mut self, item: workload::Item, index: u64) -> Result<QueuedRequest, PrepareError> {
        let planned = self.workload.planned(item.index)?;
        let mut made = self.item(item, &AttemptId::new(index, Phase::Measure))?;
        let answer = planned.answer_piece().filter(|_| self.answers == Answers::Live);
        made.request.requested.possible_cached_tokens =
            self.seen.possible_tokens(&planned, answer, USUAL_BLOCK);
        Ok(made)
    }

    fn item(
        &self,
        item: workload::Item,
        identity: &AttemptId,
    ) -> Result<QueuedRequest, PrepareError> {
        let workload::Item { prompt, due, after, class, .. } = item;
        // A warm-up is a single request, even where the workload has conversations.
        let after = after.filter(|_| identity.phase == Phase::Measure);
        let key = after.map_or(identity.index, |after| after.session);
        let of_plan = self.class_draw.as_ref().map(|draw| &self.classes[draw.class_of(key)]);
        let lora = of_plan.and_then(|class| class.lora.clone());
        let settings = of_plan.map_or(&self.settings, |class| &class.settings);
        let ask = RequestInput { prompt: &prompt, index: identity.index, lora: lora.as_deref() };
        let mut request = self.dialect.prepare(settings, &ask)?;
        let open = after.and_then(|after| self.sessions.get(&after.session));
        let planned = open.zip(after).and_then(|(open, after)| open.planned(after.turn));
        request.requested.session_recorded = planned.and_then(|turn| turn.session_recorded);
        let recorded = planned.and_then(|turn| turn.recorded);
        let recorded = recorded.filter(|_| self.timing == Timing::Trace);
        let identity = AttemptId {
            session: after.map(|after| after.session),
            turn: after.map_or(0, |after| after.turn),
            turns: open.and_then(|open| u32::try_from(open.len()).ok()),
            parents: planned.map(|turn| turn.waits_for.clone()),
            agent: planned.and_then(|turn| turn.agent.as_deref().map(str::to_owned)),
            class: of_plan.map(|class| class.name.clone()).or(class),
            lora,
            shard: self.share.rank(),
            ..identity.clone()
        };
        let due = due.filter(|_| self.timing == Timing::Trace);
        Ok(QueuedRequest { request, identity, due, recorded })
    }
}

/// What the requests of a class carry.
pub(crate) struct ClassRequests {
    name: String,
    lora: Option<String>,
    settings: Arc<Settings>,
}

impl ClassRequests {
    /// What the class says wins over the settings of all requests.
    pub(crate) fn of(class: &Class, all: &Settings) -> Self {
        let mut settings = all.clone();
        let is_replaced =
            |name: &str| class.headers.0.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        settings.headers.0.retain(|(name, _)| !is_replaced(name));
        settings.headers.0.extend(class.headers.0.iter().cloned());
        settings.extra_body.0.extend(class.body().0);
        Self { name: class.name.clone(), lora: class.lora.clone(), settings: Arc::new(settings) }
    }
}

/// Whether a workload can run out of prompts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Supply {
    /// After the last planned one.
    Ends,
    /// Never: generated prompts are new, rows of a file are repeated.
    GoesOn,
}

/// Index of the prompt of measured request `at`, among `len` prompts or the kept ones.
fn prompt_of(at: u64, kept: Option<&[u64]>, len: u64, supply: Supply) -> Option<u64> {
    let count = kept.map_or(len, |kept| kept.len() as u64);
    if supply == Supply::Ends && at >= count {
        return None;
    }
    match kept {
        Some(kept) => kept.get(usize::try_from(at.checked_rem(count)?).ok()?).copied(),
        None => Some(at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run that ends by time ended early, without a message, with the last prepared prompt.
    #[test]
    fn a_run_that_ends_by_time_never_runs_out_of_prompts() {
        let check = |at, kept: Option<&[u64]>, supply, expected| {
            assert_eq!(prompt_of(at, kept, 3, supply), expected, "{at} {kept:?} {supply:?}");
        };
        check(2, None, Supply::Ends, Some(2));
        check(3, None, Supply::Ends, None);
        check(3, None, Supply::GoesOn, Some(3));
        check(1, Some(&[0, 2]), Supply::Ends, Some(2));
        check(2, Some(&[0, 2]), Supply::Ends, None);
        check(3, Some(&[0, 2]), Supply::GoesOn, Some(2));
        check(0, Some(&[]), Supply::GoesOn, None);
    }
}
