//! Sessions: how long they took, and where their time went.
//!
//! In: the timelines of their turns, in any order. Out: one [`SessionTimes`] per session, the turns by
//! their depth, and the wait of next turns. The time of a session is split along its critical path:
//! from the turn that ended last back through the parent that ended last before each. A session that
//! the end of the run cut off is not absent: it took longer than it was seen
//! (`survival` makes statistics of both).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tokometer_base::Nanos;
use tokometer_record::Timeline;

use crate::rows::{Fate, MaybeSpan, RequestRow};
use crate::statistics;

/// One turn, over all its attempts.
#[derive(Debug, Clone)]
pub struct SessionTurn {
    pub session: u64,
    pub turn: u32,
    /// The turns that had to end before. Of an older record: the one before it.
    pub parents: Vec<u32>,
    pub agent: Option<Box<str>>,
    /// Planned turns of its session; `None` in older records.
    turns: Option<u32>,
    /// `None` where it was due when its parents had ended.
    due: Option<Nanos>,
    admitted: Nanos,
    /// The first byte of its request.
    pub start: Nanos,
    pub end: Nanos,
    /// `None` where the answer had not ended.
    ended: Option<Nanos>,
    attempt: u32,
    pub fate: Fate,
    /// How long its session took when it was recorded.
    recorded: Option<Nanos>,
    ttft: MaybeSpan,
    prompt_tokens: Option<u32>,
    cached_tokens: Option<u32>,
    possible_cached_tokens: Option<u32>,
}

type CountOf = fn(&SessionTurn) -> Option<u32>;

/// When a turn could have been sent, and when it should have been.
#[derive(Debug, Clone, Copy)]
pub struct TurnStart {
    /// When the last of its parents had ended; for a first turn when its session began.
    pub ready: Nanos,
    /// `ready` and the pause of its tools or its user.
    pub due: Nanos,
}

/// The measured turns of a run's sessions.
#[derive(Debug, Clone, Default)]
pub struct Sessions(BTreeMap<u64, BTreeMap<u32, SessionTurn>>);

/// One session, as far as it was seen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SessionTimes {
    pub session: u64,
    /// The first byte of its first request.
    pub begin: Nanos,
    /// The end of its last answer; of one that was cut off, until when it was seen.
    pub end: Nanos,
    /// Abandoned: the run ended before it.
    pub fate: Fate,
    /// Along the critical path: its requests, the pauses between them, and delays in the client.
    pub model: Nanos,
    pub tools: Nanos,
    pub client: Nanos,
    /// Turns that were answered.
    pub turns: u32,
    /// How long it took when it was recorded.
    pub recorded: Option<Nanos>,
}

/// Sessions of a run by their end, where their time went, and their turns by depth.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SessionSummary {
    pub finished: u64,
    /// A turn of them failed, which ends a session.
    pub failed: u64,
    /// The run ended before them.
    pub unfinished: u64,
    /// Seconds of all sessions in requests, in pauses, and in delays of the client.
    pub model_s: f64,
    pub tools_s: f64,
    pub client_s: f64,
    /// Of answered turns.
    pub depths: Vec<TurnDepth>,
}

/// The turns with so many turns before them on their longest path.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TurnDepth {
    /// The first and the last depth of the row, from 1.
    pub from: u32,
    pub to: u32,
    pub turns: u64,
    pub ttft_ms_mean: Option<f64>,
    pub ttft_ms_p50: Option<f64>,
    pub ttft_ms_p90: Option<f64>,
    pub prompt_tokens_mean: Option<f64>,
    /// Prompt tokens that the server had cached, as a share; `None` where it does not report them.
    pub cached_share: Option<f64>,
    /// The same with an unlimited cache.
    pub possible_share: Option<f64>,
}

impl Sessions {
    /// Adds an attempt. Requests without a session are left out.
    pub fn push(&mut self, timeline: &Timeline) {
        let (identity, times) = (&timeline.identity, &timeline.times);
        let Some(session) = identity.session else { return };
        let row = RequestRow::of(timeline, None);
        let before = || identity.turn.checked_sub(1).into_iter().collect();
        let usage = timeline.usage.unwrap_or_default();
        let mut one = SessionTurn {
            session,
            turn: identity.turn,
            parents: identity.parents.clone().unwrap_or_else(before),
            agent: identity.agent.as_deref().map(Box::from),
            turns: identity.turns,
            due: times.intended,
            admitted: times.admitted,
            start: row.start,
            end: row.end,
            ended: times.end,
            attempt: identity.attempt,
            fate: row.fate,
            recorded: timeline.requested.session_recorded,
            ttft: row.ttft,
            prompt_tokens: timeline.prompt_tokens(),
            cached_tokens: usage.cached_tokens,
            possible_cached_tokens: timeline.requested.possible_cached_tokens,
        };
        let turns = self.0.entry(session).or_default();
        if let Some(other) = turns.remove(&identity.turn) {
            let (admitted, start) = (one.admitted.min(other.admitted), one.start.min(other.start));
            let (end, ended) = (one.end.max(other.end), one.ended.max(other.ended));
            one = SessionTurn {
                admitted,
                start,
                end,
                ended,
                ..if other.attempt > one.attempt { other } else { one }
            };
        }
        turns.insert(identity.turn, one);
    }

    /// Whether any has several turns: single requests are no sessions.
    pub fn have_turns(&self) -> bool {
        let is_long = |turns: &BTreeMap<u32, SessionTurn>| {
            turns.len() > 1 || turns.values().any(|turn| turn.turns > Some(1))
        };
        self.0.values().any(is_long)
    }

    /// The mean wait of turns after the first, in nanoseconds: from the end of the answers before them, and
    /// the pause, until the gate let them pass. `None` without such turns.
    pub(crate) fn mean_wait(&self) -> Option<f64> {
        let waits: Vec<f64> = self
            .0
            .values()
            .flat_map(|turns| {
                turns.values().filter_map(|turn| {
                    let ends = turn.parents.iter().map(|parent| turns.get(parent)?.ended);
                    let ready = ends.collect::<Option<Vec<_>>>()?.into_iter().max()?;
                    Some((turn.admitted - turn.due.unwrap_or(ready)).0 as f64)
                })
            })
            .collect();
        statistics::mean(&waits)
    }

    /// All turns with their starts, session by session.
    pub fn turns(&self) -> impl Iterator<Item = (&SessionTurn, TurnStart)> {
        self.0.values().flat_map(|turns| {
            let begin = turns.values().map(|turn| turn.start).min().unwrap_or_default();
            turns.values().map(move |turn| (turn, turn.starting(turns, begin)))
        })
    }

    /// Each session; `last_send` of the run is until when a session without a turn in flight was seen.
    pub fn times(&self, last_send: Nanos) -> Vec<SessionTimes> {
        self.0.iter().filter_map(|(session, turns)| times(*session, turns, last_send)).collect()
    }

    /// The turns that were answered, by depth in rows of 1, 2, 3 to 4, 5 to 8 and so on.
    pub(crate) fn depths(&self) -> Vec<TurnDepth> {
        let mut rows: BTreeMap<u32, Vec<&SessionTurn>> = BTreeMap::new();
        for turns in self.0.values() {
            let mut depths: BTreeMap<u32, u32> = BTreeMap::new();
            // A turn's parents have lower numbers.
            for (number, turn) in turns {
                let before = turn.parents.iter().filter_map(|parent| depths.get(parent)).max();
                let depth = before.map_or(1, |before| before + 1).max(1);
                depths.insert(*number, depth);
                if turn.fate == Fate::Succeeded {
                    rows.entry(depth.next_power_of_two()).or_default().push(turn);
                }
            }
        }
        let turns = || self.0.values().flat_map(BTreeMap::values);
        // vLLM leaves a count of zero out.
        let cached: CountOf = if turns().any(|turn| turn.cached_tokens.is_some()) {
            |turn| Some(turn.cached_tokens.unwrap_or(0))
        } else {
            |_| None
        };
        rows.into_iter().map(|(to, turns)| depth_row(to, &turns, cached)).collect()
    }
}

impl SessionTurn {
    fn starting(&self, turns: &BTreeMap<u32, Self>, begin: Nanos) -> TurnStart {
        let ends = self.parents.iter().filter_map(|parent| Some(turns.get(parent)?.end));
        let ready = ends.max().unwrap_or(begin).min(self.start);
        TurnStart { ready, due: self.due.unwrap_or(ready).clamp(ready, self.start) }
    }
}

fn times(
    session: u64,
    turns: &BTreeMap<u32, SessionTurn>,
    last_send: Nanos,
) -> Option<SessionTimes> {
    let begin = turns.values().map(|turn| turn.start).min()?;
    let last = turns.values().max_by_key(|turn| turn.end)?;
    let has = |fate: Fate| turns.values().any(|turn| turn.fate == fate);
    let planned = turns.values().find_map(|turn| turn.turns);
    let is_whole = planned.is_none_or(|planned| turns.len() as u64 >= u64::from(planned));
    let fate = match () {
        () if has(Fate::Failed) => Fate::Failed,
        () if has(Fate::Abandoned) || has(Fate::Cancelled) || !is_whole => Fate::Abandoned,
        () => Fate::Succeeded,
    };
    let mut found = SessionTimes {
        session,
        begin,
        end: last.end,
        fate,
        model: Nanos::ZERO,
        tools: Nanos::ZERO,
        client: Nanos::ZERO,
        turns: u32::try_from(turns.values().filter(|turn| turn.fate == Fate::Succeeded).count())
            .unwrap_or(u32::MAX),
        recorded: turns.values().find_map(|turn| turn.recorded),
    };
    if fate == Fate::Abandoned && last_send > last.end {
        // Its next turn was not due before the run stopped sending.
        (found.end, found.tools) = (last_send, last_send - last.end);
    }
    let mut at = Some(last);
    while let Some(turn) = at {
        let TurnStart { ready, due } = turn.starting(turns, begin);
        found.model += turn.end - turn.start;
        found.tools += due - ready;
        found.client += turn.start - due;
        let parents = turn.parents.iter().filter(|parent| **parent < turn.turn);
        at = parents.filter_map(|parent| turns.get(parent)).max_by_key(|parent| parent.end);
    }
    Some(found)
}

fn depth_row(to: u32, turns: &[&SessionTurn], cached: CountOf) -> TurnDepth {
    let ttft = |turn: &&SessionTurn| Option::<f64>::from(turn.ttft).map(|ttft| ttft / 1e6);
    let mut ttfts: Vec<f64> = turns.iter().filter_map(ttft).collect();
    tokometer_base::sort_numbers(&mut ttfts);
    let sum = |of: CountOf| turns.iter().map(|turn| of(turn).map(u64::from)).sum::<Option<u64>>();
    let prompts = sum(|turn| turn.prompt_tokens).map(|tokens| tokens as f64);
    let share = |of: Option<u64>| Some(of? as f64 / prompts.filter(|all| *all > 0.0)?);
    TurnDepth {
        from: to / 2 + 1,
        to,
        turns: turns.len() as u64,
        ttft_ms_mean: statistics::mean(&ttfts),
        ttft_ms_p50: statistics::percentile(&ttfts, 50.0),
        ttft_ms_p90: statistics::percentile(&ttfts, 90.0),
        prompt_tokens_mean: prompts.map(|tokens| tokens / turns.len() as f64),
        cached_share: share(sum(cached)),
        possible_share: share(sum(|turn| turn.possible_cached_tokens)),
    }
}

impl SessionSummary {
    /// `None` where no session has several turns.
    pub(crate) fn of(sessions: &Sessions, times: &[SessionTimes]) -> Option<Self> {
        if !sessions.have_turns() {
            return None;
        }
        let with = |fate: Fate| times.iter().filter(|one| one.fate == fate).count() as u64;
        let seconds = |of: fn(&SessionTimes) -> Nanos| {
            times.iter().map(|one| of(one).as_secs_f64()).sum::<f64>()
        };
        Some(Self {
            finished: with(Fate::Succeeded),
            failed: with(Fate::Failed),
            unfinished: with(Fate::Abandoned),
            model_s: seconds(|one| one.model),
            tools_s: seconds(|one| one.tools),
            client_s: seconds(|one| one.client),
            depths: sessions.depths(),
        })
    }
}

impl SessionTimes {
    pub fn length(&self) -> Nanos {
        self.end - self.begin
    }

    /// For what counts rows in progress.
    pub(crate) fn row(&self) -> RequestRow {
        let mut row = RequestRow::between(self.session, self.begin, self.end);
        row.fate = self.fate;
        row
    }
}

#[cfg(test)]
mod tests {
    use tokometer_record::{AttemptId, Outcome, Phase, RequestedLengths};

    use super::*;

    /// A turn: its number, the turns before it, and in milliseconds when it was due, sent and answered.
    fn turn(turn: u32, parents: &[u32], [due, sent, end]: [u64; 3]) -> Timeline {
        let [due, sent, end] = [due, sent, end].map(Nanos::from_millis);
        let identity = AttemptId {
            session: Some(7),
            turn,
            turns: Some(4),
            parents: Some(parents.to_vec()),
            ..AttemptId::new(0, Phase::Measure)
        };
        let mut timeline = Timeline::new(identity, RequestedLengths::default(), sent);
        timeline.times.intended = Some(due);
        timeline.times.first_byte_sent = Some(sent);
        timeline.times.end = Some(end);
        timeline.outcome = Outcome::Success;
        timeline
    }

    /// Two sub-agents after the first turn, of which the first takes longer; the last turn joins them.
    fn fork() -> [Timeline; 4] {
        [
            turn(3, &[1, 2], [900, 900, 1_000]),
            turn(1, &[0], [300, 310, 800]),
            turn(2, &[0], [300, 330, 500]),
            turn(0, &[], [0, 100, 200]),
        ]
    }

    fn sessions(turns: &[Timeline]) -> Sessions {
        let mut sessions = Sessions::default();
        for turn in turns {
            sessions.push(turn);
        }
        sessions
    }

    fn only(turns: &[Timeline]) -> SessionTimes {
        let [one] = sessions(turns).times(Nanos::from_millis(1_500))[..] else { panic!("not one") };
        one
    }

    #[test]
    fn the_time_of_a_session_is_that_of_its_critical_path() {
        let found = only(&fork());
        let parts = [found.length(), found.model, found.tools, found.client];
        assert_eq!(parts, [900, 690, 200, 10].map(Nanos::from_millis));
        assert_eq!((found.fate, found.turns), (Fate::Succeeded, 4));
        // Both attempts of a retried turn are its time in the model.
        let mut retried = fork().to_vec();
        retried[1].identity.attempt = 1;
        let mut first = turn(1, &[0], [300, 305, 308]);
        first.outcome = Outcome::Abandoned;
        retried.push(first);
        let found = only(&retried);
        assert_eq!((found.fate, found.model), (Fate::Succeeded, Nanos::from_millis(695)));
    }

    #[test]
    fn a_session_that_the_run_cut_off_was_seen_until_the_last_send_of_the_run() {
        let found = only(&fork()[1..]);
        assert_eq!((found.fate, found.length()), (Fate::Abandoned, Nanos::from_millis(1_400)));
        assert_eq!(found.model + found.tools + found.client, found.length());
        let mut failed = fork();
        failed[1].outcome =
            Outcome::Failed(tokometer_record::Failure::new(tokometer_record::FailureKind::Cut, ""));
        assert_eq!(only(&failed).fate, Fate::Failed);
    }

    #[test]
    fn depth_counts_the_turns_on_the_longest_way_to_a_turn() {
        let rows = sessions(&fork()).depths();
        let counts: Vec<_> = rows.iter().map(|row| (row.from, row.to, row.turns)).collect();
        assert_eq!(counts, [(1, 1, 1), (2, 2, 2), (3, 4, 1)]);
    }

    #[test]
    fn a_turn_waits_from_the_end_of_the_answers_before_it_or_from_the_end_of_its_pause() {
        let wait = |turns: &[Timeline]| sessions(turns).mean_wait().map(|nanos| nanos / 1e6);
        assert_eq!(wait(&fork()), Some(40.0 / 3.0));
        assert_eq!(wait(&fork()[3..]), None, "a first turn waits for no answer");
        let mut old = fork();
        for turn in &mut old {
            (turn.identity.parents, turn.times.intended) = (None, None);
        }
        // Each turn waited for the one before it: 110, 0 and 400 ms.
        assert_eq!(wait(&old), Some(510.0 / 3.0));
        for turn in &mut old {
            turn.identity.session = None;
        }
        assert_eq!(wait(&old), None);
    }
}
