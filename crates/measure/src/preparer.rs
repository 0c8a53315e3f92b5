//! Prepares requests ahead of their time, from prompts of the workload.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokometer_base::seed::unit_float;
use tokometer_base::{Nanos, Prompt, Seed};
use tokometer_client::{Dialect, RequestInput, Settings};
use tokometer_drive::{FollowUp, Prepare, PrepareError, QueuedRequest, TurnEnd};
use tokometer_record::{AttemptId, Phase};
use tokometer_schedule::Share;
use tokometer_workload::{self as workload, Answers, SeenPrefixes, USUAL_BLOCK, Workload};

use crate::open_session::OpenSession;
use crate::workload::fits_in;
use tokometer_plan::{Assignment, Lora, Timing};

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
    /// LoRA adapters; `None` uses the base model.
    pub(crate) lora: Option<Lora>,
    /// Whether the times of a trace are kept.
    pub(crate) timing: Timing,
    /// Seed of the assignment of adapters.
    pub(crate) seed: Seed,
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
        let lora = self.lora.as_ref().and_then(|lora| {
            let index = adapter(lora, identity.index, after, self.seed);
            lora.names.get(index as usize).cloned()
        });
        let mut request = self.request(&prompt, identity.index, lora.as_deref())?;
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
            class,
            lora,
            shard: self.share.rank(),
            ..identity.clone()
        };
        let due = due.filter(|_| self.timing == Timing::Trace);
        Ok(QueuedRequest { request, identity, due, recorded })
    }

    fn request(
        &self,
        prompt: &Prompt,
        index: u64,
        lora: Option<&str>,
    ) -> Result<tokometer_client::PreparedRequest, PrepareError> {
        let ask = RequestInput { prompt, index, lora };
        Ok(self.dialect.prepare(&self.settings, &ask)?)
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

/// Index of the adapter that a request gets. All turns of a conversation get the same one: the server
/// keeps the history in that adapter's part of the prefix cache.
pub fn adapter(lora: &Lora, index: u64, after: Option<workload::TurnPosition>, seed: Seed) -> u32 {
    let key = after.map_or(index, |after| after.session);
    let index = adapter_index(lora, key, unit_float(&mut seed.stream("lora").at(key)));
    u32::try_from(index).unwrap_or(0)
}

/// The adapter of request or conversation `index`, for a draw between 0 and 1.
fn adapter_index(lora: &Lora, index: u64, draw: f64) -> usize {
    let count = lora.names.len().max(1);
    match lora.assignment {
        Assignment::RoundRobin => usize::try_from(index % count as u64).unwrap_or(0),
        Assignment::Random => {
            (0..count).find(|at| draw * (count as f64) < (at + 1) as f64).unwrap_or(0)
        }
        Assignment::Skewed => {
            let weight = |at: usize| lora.alpha.powi(-i32::try_from(at).unwrap_or(i32::MAX));
            let total: f64 = (0..count).map(weight).sum();
            let mut below = 0.0;
            let is_reached = |at: &usize| {
                below += weight(*at);
                draw * total < below
            };
            (0..count).find(is_reached).unwrap_or(count - 1)
        }
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

    #[test]
    fn adapters_are_assigned_by_turn_evenly_or_with_a_slope() {
        let check = |assignment, index, draw, expected| {
            let names = vec!["a".to_owned(), "b".to_owned(), "c".to_owned()];
            let lora = Lora { names, assignment, alpha: 2.0 };
            assert_eq!(
                adapter_index(&lora, index, draw),
                expected,
                "{assignment:?} {index} {draw}"
            );
        };
        check(Assignment::RoundRobin, 4, 0.9, 1);
        check(Assignment::Random, 4, 0.0, 0);
        check(Assignment::Random, 4, 0.34, 1);
        check(Assignment::Random, 4, 0.999, 2);
        // Weights 4 : 2 : 1.
        check(Assignment::Skewed, 0, 0.5, 0);
        check(Assignment::Skewed, 0, 0.6, 1);
        check(Assignment::Skewed, 0, 0.9, 2);
    }

    /// Each request had its own adapter, so that the turns of a conversation went to several, and
    /// none had a prefix-cache hit for its history.
    #[test]
    fn all_turns_of_a_conversation_use_one_adapter() {
        let names = ["a", "b", "c"].map(str::to_owned).to_vec();
        for assignment in [Assignment::RoundRobin, Assignment::Random, Assignment::Skewed] {
            let lora = Lora { names: names.clone(), assignment, alpha: 2.0 };
            let of_turn = |session: u64, turn: u32| {
                let after = workload::TurnPosition { session, turn };
                let index = session + 8 * u64::from(turn);
                adapter(&lora, index, Some(after), Seed(1))
            };
            for session in 0..8 {
                let used = [0, 1, 2, 3].map(|turn| of_turn(session, turn));
                assert_eq!(used, [used[0]; 4], "{assignment:?}, conversation {session}");
            }
            let mut used: Vec<u32> = (0..8).map(|session| of_turn(session, 0)).collect();
            used.sort_unstable();
            used.dedup();
            assert!(used.len() > 1, "{assignment:?}: conversations differ in their adapters");
        }
    }
}
