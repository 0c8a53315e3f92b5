//! Conversations: each turn waits for the previous response.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use tokometer_base::{Nanos, Prompt};
use tokometer_client::RequestInput;
use tokometer_record::{AttemptId, Phase, Timeline};

use super::server::{
    AfterResponse, FinishedRun, answer, config, refuse, run_source, serve, serve_answers,
};
use crate::{FollowUp, Interrupt, Prepare, PrepareError, QueuedRequest, RunConfig, TurnEnd};

const TURNS: u32 = 3;

/// Conversations of three turns; each prompt repeats the previous response.
struct Conversations {
    config: RunConfig,
    begun: u64,
    lost: u64,
    count: u64,
    think: Nanos,
}

impl Conversations {
    fn turn(&self, session: u64, turn: u32, text: String) -> QueuedRequest {
        let target = &self.config.targets[0];
        let index = session + u64::from(turn) * self.count;
        let prompt = Prompt { output_tokens: Some(2), ..Prompt::text(text) };
        let request =
            target.dialect.prepare(&target.settings, &RequestInput::new(&prompt, index)).unwrap();
        let attempt = AttemptId::new(index, Phase::Measure);
        let identity = AttemptId { session: Some(session), turn, ..attempt };
        QueuedRequest { request, identity, due: None, recorded: None }
    }
}

impl Prepare for Conversations {
    fn prepare(&mut self) -> Result<Option<QueuedRequest>, PrepareError> {
        let session = self.begun;
        self.begun += 1;
        Ok((session < self.count).then(|| self.turn(session, 0, format!("talk {session}"))))
    }

    fn follow(&mut self, ended: &TurnEnd) -> Result<Vec<FollowUp>, PrepareError> {
        let (session, turn) = (ended.identity.session.unwrap(), ended.identity.turn + 1);
        let answer = ended.answer.as_ref().filter(|_| turn < TURNS);
        self.lost += if ended.answer.is_none() { u64::from(TURNS - turn) } else { 0 };
        let item = answer.map(|answer| self.turn(session, turn, format!("after{answer}")));
        let due = (self.think > Nanos::ZERO).then(|| ended.at + self.think);
        Ok(item.map(|item| FollowUp { item, due }).into_iter().collect())
    }

    fn lost_turns(&self) -> u64 {
        self.lost
    }
}

fn run(config: RunConfig, count: u64, think: Nanos) -> FinishedRun {
    let conversations = Conversations { config: config.clone(), begun: 0, lost: 0, count, think };
    run_source(config, Box::new(conversations), Arc::new(Interrupt::default()))
}

fn by_session(outcome: &FinishedRun, session: u64) -> Vec<&Timeline> {
    let mut turns = outcome.measured();
    turns.retain(|timeline| timeline.identity.session == Some(session));
    turns.sort_by_key(|timeline| timeline.identity.turn);
    turns
}

#[test]
fn a_turn_is_sent_after_the_answer_before_it_and_knows_that_answer() {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&bodies);
    let address = serve(move |asked| {
        seen.lock().unwrap().push(asked.body.clone());
        answer(asked.stream, 2);
        AfterResponse::Stay
    });
    let outcome = run(config(address, 12, 4), 4, Nanos::ZERO);
    assert_eq!((outcome.timelines.len(), outcome.end.never_sent), (12, 0));
    for session in 0..4 {
        let turns = by_session(&outcome, session);
        assert_eq!(turns.len(), 3);
        for pair in turns.windows(2) {
            assert!(pair[0].times.end < pair[1].times.first_byte_sent);
            assert_eq!(pair[1].times.intended, None);
        }
    }
    let bodies = bodies.lock().unwrap();
    assert_eq!(bodies.iter().filter(|body| body.contains("after word word")).count(), 8);
}

#[test]
fn a_pause_is_counted_from_the_end_of_the_answer() {
    let address = serve_answers(2);
    let think = Nanos::from_millis(3);
    let outcome = run(config(address, 6, 2), 2, think);
    for session in 0..2 {
        for pair in by_session(&outcome, session).windows(2) {
            assert_eq!(pair[1].times.intended, pair[0].times.end.map(|end| end + think));
            assert!(pair[1].times.first_byte_sent >= pair[1].times.intended);
        }
    }
}

#[test]
fn a_failed_turn_ends_its_conversation_and_no_other() {
    let address = serve(|asked| {
        if asked.body.contains("talk 1") {
            refuse(asked.stream, "400 Bad Request", "", "no");
        } else {
            answer(asked.stream, 2);
        }
        AfterResponse::Stay
    });
    let outcome = run(config(address, 9, 3), 3, Nanos::ZERO);
    let turns: Vec<usize> = (0..3).map(|session| by_session(&outcome, session).len()).collect();
    assert_eq!(turns, [3, 1, 3]);
    assert_eq!(outcome.end.never_sent, 2, "the counts add up to the planned turns");
}

#[test]
fn a_slot_per_conversation_is_kept_until_its_end() {
    let (open, most) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicU32::new(0)));
    let seen = Arc::clone(&most);
    let turns = AtomicU32::new(0);
    let address = serve(move |asked| {
        // A first turn starts a conversation; every third request overall ends one.
        let mut open = open.lock().unwrap();
        if asked.body.contains("talk") {
            open.push(());
        }
        most.fetch_max(u32::try_from(open.len()).unwrap(), Ordering::SeqCst);
        if turns.fetch_add(1, Ordering::SeqCst) % TURNS == TURNS - 1 {
            open.pop();
        }
        answer(asked.stream, 2);
        AfterResponse::Stay
    });
    let mut config = config(address, 15, 1);
    config.max_sessions = Some(1);
    let outcome = run(config, 5, Nanos::ZERO);
    assert_eq!(outcome.timelines.len(), 15);
    assert_eq!(seen.load(Ordering::SeqCst), 1, "one conversation at a time");
}

/// With one slot per turn, the first turns of all conversations are sent before any second turn.
#[test]
fn a_slot_per_turn_lets_conversations_alternate() {
    let address = serve_answers(2);
    let outcome = run(config(address, 6, 1), 2, Nanos::ZERO);
    let mut started = outcome.started;
    started.sort_by_key(|(_, _, at)| *at);
    let first: Vec<u64> = started.iter().take(2).map(|(index, _, _)| *index).collect();
    assert_eq!(first, [0, 1]);
}
