//! The sessions of a trace, sent as they were recorded: at their times, with their pauses, and with
//! prompts that share what the recorded ones shared.
//!
//! Sessions are kept as pieces; text is made when a turn is due. An answer in a later prompt is made
//! text of the recorded length, so that a prompt is known before the answer is.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tokometer_base::{Message, Nanos};

use crate::session::{Piece, Session, Turn};
use crate::source::{PlannedTurn, SESSION_HEADER};
use crate::traces::{FieldMap, OnFlaw, TraceOptions, TraceReader};
use crate::{
    Answers, BadRows, DatasetContext, DatasetNote, Error, PlannedPrompt, Result, Source,
    TurnPosition,
};

/// The header by which a router finds the session that a sub-agent belongs to.
const PARENT_HEADER: &str = "x-parent-session-id";

/// When a turn that follows others is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// `Think` where the trace has pauses, else `Clock`.
    #[default]
    Auto,
    /// The recorded pause after the answers that it waits for.
    Think,
    /// At its recorded time, if the answers that it waits for have ended by then.
    Clock,
    /// As soon as those have ended.
    None,
}

/// What to do with sessions that start at the same tick of a coarse clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    #[default]
    AsRecorded,
    /// Distribute them evenly over the time up to the next tick.
    Even,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Options {
    pub path: PathBuf,
    /// The answer length where the trace has none. `None` leaves it to the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_len: Option<u32>,
    pub pace: Pace,
    /// Divides the starts of sessions, not the pauses in them.
    pub trace_speed: f64,
    /// Sessions that start in this part of the trace, in its own seconds.
    pub trace_from_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_to_s: Option<f64>,
    /// The longest pause; absent: as recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_gap_s: Option<f64>,
    pub spread: Spread,
    /// Where a trace of another form has its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub map: Option<String>,
    /// Tokens of a block; absent: as its form has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_tokens: Option<u32>,
    /// The session to begin with; those before it come last.
    #[serde(skip_serializing_if = "is_zero")]
    pub session_offset: u64,
    /// The most turns of a session; absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Default for Options {
    fn default() -> Self {
        Self {
            path: PathBuf::new(),
            output_len: None,
            pace: Pace::default(),
            trace_speed: 1.0,
            trace_from_s: 0.0,
            trace_to_s: None,
            max_gap_s: None,
            spread: Spread::default(),
            map: None,
            block_tokens: None,
            session_offset: 0,
            max_turns: None,
        }
    }
}

impl Options {
    /// All sessions of the trace, at their own times.
    pub fn reader(&self, on_flaw: OnFlaw) -> Result<TraceReader> {
        let map = self.map.as_deref().map(FieldMap::parse).transpose().map_err(refused)?;
        let block_tokens = self.block_tokens;
        TraceReader::open(
            &self.path,
            &TraceOptions { on_flaw, block_tokens, map, read_ahead: None },
        )
    }
}

fn refused(reason: impl Into<String>) -> Error {
    Error::Options { dataset: "trace", reason: reason.into() }
}

pub(crate) struct Trace {
    specials: u32,
    answers: Answers,
    pace: Pace,
    max_gap: Option<Nanos>,
    sessions: Vec<Session>,
    /// For each session, the index of its second turn: first turns have the lowest indexes.
    later: Vec<u64>,
    len: u64,
    notes: Vec<DatasetNote>,
}

pub(crate) fn open(options: &Options, context: &DatasetContext) -> Result<Trace> {
    if !(options.trace_speed.is_finite() && options.trace_speed > 0.0) {
        return Err(refused("`--trace-speed` must be greater than zero"));
    }
    let (mut sessions, mut notes) = read(options, context)?;
    if options.spread == Spread::Even {
        spread(&mut sessions);
    }
    let [from, to] =
        [Some(options.trace_from_s), options.trace_to_s].map(|time| time.map(Nanos::from_secs_f64));
    let is_inside = |start: Nanos| from <= Some(start) && to.is_none_or(|to| start < to);
    sessions.retain(|session| session.start.is_none_or(is_inside));
    if sessions.is_empty() {
        return Err(refused("no session starts between `--trace-from` and `--trace-to`"));
    }
    for start in sessions.iter_mut().filter_map(|session| session.start.as_mut()) {
        let since = start.saturating_sub(from.unwrap_or_default()).as_secs_f64();
        *start = Nanos::from_secs_f64(since / options.trace_speed);
    }
    let first = usize::try_from(options.session_offset).unwrap_or(0) % sessions.len();
    sessions.rotate_left(first);
    if context.count > 0 {
        sessions.truncate(usize::try_from(context.count).unwrap_or(usize::MAX));
    }
    for session in &mut sessions {
        settle(session, options, context)?;
    }
    let max_gap = options.max_gap_s.map(Nanos::from_secs_f64);
    let pace = match options.pace {
        Pace::Auto => usual_pace(&sessions),
        pace => pace,
    };
    let mut later = Vec::with_capacity(sessions.len());
    let mut len = sessions.len() as u64;
    for session in &sessions {
        later.push(len);
        len += session.turns().len() as u64 - 1;
    }
    notes.extend(cut_pauses(&sessions, max_gap.filter(|_| pace == Pace::Think)));
    Ok(Trace {
        specials: context.specials()?,
        answers: context.answers.unwrap_or(Answers::Recorded),
        pace,
        max_gap,
        sessions,
        later,
        len,
        notes,
    })
}

/// The sessions of the file, with a note for each kind of rows that were left out.
fn read(options: &Options, context: &DatasetContext) -> Result<(Vec<Session>, Vec<DatasetNote>)> {
    let on_flaw = match context.bad_rows {
        BadRows::Skip => OnFlaw::Skip,
        BadRows::ByDataset => OnFlaw::Refuse,
    };
    let mut reader = options.reader(on_flaw)?;
    let sessions = reader.by_ref().collect::<Result<Vec<_>>>()?;
    let note = |flaw: &crate::traces::FlawCount| {
        let (path, text) = (flaw.path.display(), &flaw.text);
        let words = flaw.kind.words();
        let text = format!(
            "{} rows are left out because they {words} (first: `{path}`, line {}: {text})",
            flaw.rows, flaw.line
        );
        DatasetNote::new("skipped-rows", text)
    };
    let mut notes: Vec<_> = reader.flaws().iter().map(note).collect();
    let requests: usize = sessions.iter().map(|session| session.turns().len()).sum();
    let (form, sessions_len) = (reader.forms().join(", "), sessions.len());
    let text = format!("the trace ({form}) has {sessions_len} sessions with {requests} requests");
    notes.push(DatasetNote::new("trace", text));
    Ok((sessions, notes))
}

/// Cuts a session to the asked number of turns, and completes the lengths of answers: those of
/// recorded texts, then the asked one.
fn settle(session: &mut Session, options: &Options, context: &DatasetContext) -> Result<()> {
    if let Some(most) = options.max_turns {
        session.truncate(most as usize);
    }
    for turn in session.turns_mut().filter(|turn| turn.answer_tokens.is_none()) {
        turn.answer_tokens = match &turn.answer {
            Some(answer) => {
                let text = answer.verbatim.as_ref().unwrap_or(&answer.content);
                let tokens = context.tokenizer.count(text)?;
                Some(u32::try_from(tokens).unwrap_or(u32::MAX).max(1))
            }
            None => options.output_len,
        };
    }
    session.know_answers();
    Ok(())
}

/// Pauses are known where durations are, and stated in some forms without times.
fn usual_pace(sessions: &[Session]) -> Pace {
    let later = || {
        let turns = sessions.iter().flat_map(Session::turns);
        turns.filter(|turn| turn.waits_for().next().is_some())
    };
    let has_times = later().any(|turn| turn.recorded.is_some());
    let has_pauses = later().any(|turn| {
        turn.delay > Nanos::ZERO || turn.recorded.is_some_and(|times| times.duration.is_some())
    });
    if has_times && !has_pauses { Pace::Clock } else { Pace::Think }
}

/// Distributes sessions that start together over the time to the next start; those of the last start
/// over the time since the one before.
fn spread(sessions: &mut [Session]) {
    let mut tick = Nanos::ZERO;
    let mut begin = 0;
    while begin < sessions.len() {
        let start = sessions[begin].start;
        let group = sessions[begin..].iter().take_while(|session| session.start == start).count();
        let Some(start) = start else { break };
        let next = sessions.get(begin + group).and_then(|session| session.start);
        tick = next.map_or(tick, |next| next.saturating_sub(start));
        for (at, session) in (0..).zip(&mut sessions[begin..begin + group]) {
            session.start = Some(start + Nanos(tick.0 / group as u64 * at));
        }
        begin += group;
    }
}

fn cut_pauses(sessions: &[Session], max_gap: Option<Nanos>) -> Option<DatasetNote> {
    let max_gap = max_gap?;
    let turns = sessions.iter().flat_map(Session::turns);
    let cuts = turns
        .filter(|turn| turn.waits_for().next().is_some() && turn.delay > max_gap)
        .map(|turn| (turn.delay - max_gap).as_secs_f64());
    let (count, seconds) = cuts.fold((0_u64, 0.0), |(count, sum), cut| (count + 1, sum + cut));
    let text = format!("`--max-gap` shortens {count} pauses by {seconds:.1} s in total");
    Some(DatasetNote::new("max-gap", text))
}

/// Where a request is in the trace.
#[derive(Clone, Copy)]
struct Place {
    session: usize,
    turn: usize,
}

impl Trace {
    fn place(&self, index: u64) -> Place {
        let index = index % self.len;
        if let Some(session) = usize::try_from(index).ok().filter(|at| *at < self.sessions.len()) {
            return Place { session, turn: 0 };
        }
        let session = self.later.partition_point(|first| *first <= index) - 1;
        let turn = usize::try_from(index - self.later[session]).unwrap_or(0) + 1;
        Place { session, turn }
    }

    fn index(&self, place: Place) -> u64 {
        match place.turn {
            0 => place.session as u64,
            turn => self.later[place.session] + turn as u64 - 1,
        }
    }

    fn turn(&self, place: Place) -> &Turn {
        &self.sessions[place.session].turns()[place.turn]
    }

    /// The pieces of a prompt. The last piece of one that is only made text gives way to the special
    /// tokens that the server adds, so that the prompt has its recorded length.
    fn pieces(&self, place: Place) -> Vec<Piece> {
        let mut pieces = self.turn(place).pieces.clone();
        for at in 0..pieces.len() {
            if let Some(answer) = self.recorded(place, &pieces[at], pieces.get(at + 1)) {
                pieces[at] = Piece::Messages(vec![answer]);
            }
        }
        if pieces.iter().all(|piece| piece.tokens().is_some())
            && let Some(Piece::Made { tokens, .. }) = pieces.last_mut()
        {
            *tokens = tokens.saturating_sub(self.specials).max(1);
        }
        pieces
    }

    /// The recorded answer that stands for a piece. The result of a tool goes with the call that was
    /// recorded, whatever the server answers.
    fn recorded(&self, place: Place, piece: &Piece, next: Option<&Piece>) -> Option<Message> {
        let Piece::Answer(of) = piece else { return None };
        let is_result = match next {
            Some(Piece::Messages(list)) => list.first().is_some_and(|it| it.role == "tool"),
            _ => false,
        };
        let of = Place { turn: of.turn as usize, ..place };
        let answer = self.turn(of).answer.as_deref();
        answer.filter(|_| is_result || self.answers == Answers::Recorded).cloned()
    }

    fn headers(&self, place: Place) -> Vec<(String, String)> {
        let session = place.session.to_string();
        match &self.turn(place).agent {
            None => vec![(SESSION_HEADER.to_owned(), session)],
            Some(agent) => vec![
                (SESSION_HEADER.to_owned(), format!("{session}-{agent}")),
                (PARENT_HEADER.to_owned(), session),
            ],
        }
    }
}

impl Source for Trace {
    fn len(&self) -> u64 {
        self.len
    }

    fn prompt(&self, index: u64) -> Result<PlannedPrompt> {
        let place = self.place(index);
        let session = place.session as u64;
        let turn = u32::try_from(place.turn).unwrap_or(u32::MAX);
        Ok(PlannedPrompt {
            pieces: self.pieces(place),
            specials: self.specials,
            output_tokens: self.turn(place).answer_tokens,
            headers: self.headers(place),
            extra_body: self.turn(place).extra_body.as_deref().map(str::to_owned),
            class: self.sessions[place.session].class.as_deref().map(str::to_owned),
            position: Some(TurnPosition { session, turn }),
        })
    }

    fn sessions(&self) -> u64 {
        self.sessions.len() as u64
    }

    fn due(&self, index: u64) -> Option<Nanos> {
        let place = self.place(index);
        let (start, turn) = (self.sessions[place.session].start?, self.turn(place));
        if turn.waits_for().next().is_none() {
            return Some(start + turn.delay);
        }
        let recorded = turn.recorded.filter(|_| self.pace == Pace::Clock)?;
        Some(start + recorded.sent)
    }

    fn session(&self, number: u64) -> Vec<PlannedTurn> {
        let at = usize::try_from(number).ok();
        let Some((session, it)) = at.and_then(|at| Some((at, self.sessions.get(at)?))) else {
            return Vec::new();
        };
        let (begin, length) = (it.start.unwrap_or_default(), it.recorded_length());
        let planned = |(turn, it): (usize, &Turn)| {
            let mut waits_for: Vec<u32> = it.waits_for().collect();
            waits_for.sort_unstable();
            waits_for.dedup();
            let pause = it.delay.min(self.max_gap.unwrap_or(it.delay));
            let delay = if self.pace == Pace::Think { pause } else { Nanos::ZERO };
            PlannedTurn {
                index: self.index(Place { session, turn }),
                waits_for,
                delay: Some(delay),
                agent: it.agent.clone(),
                recorded: it.recorded.map(|times| begin + times.sent),
                session_recorded: length,
            }
        };
        it.turns().iter().enumerate().map(planned).collect()
    }

    fn asks_tokenizer(&self) -> bool {
        let is_given = |piece: &Piece| matches!(piece, Piece::Text(_) | Piece::Messages(_));
        let turns = self.sessions.iter().flat_map(Session::turns);
        turns.flat_map(|turn| &turn.pieces).any(is_given)
    }

    fn notes(&self) -> Vec<DatasetNote> {
        self.notes.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Spec, WireForm, Workload, open};
    use tokometer_base::PromptContent;

    /// Two sub-agents after the first turn, joined by the last; then a session of one turn.
    const TRACE: &str = concat!(
        r#"{"class":"agent","start_ns":0,"turns":[
            {"pieces":[{"made":{"name":{"block":1},"tokens":16}}],"answer_tokens":4},
            {"pieces":[{"made":{"name":{"block":1},"tokens":16}},{"answer":0}],"answer_tokens":5,
             "delay_ns":3000000000,"agent":"a"},
            {"pieces":[{"made":{"name":{"block":1},"tokens":8}}],"parents":[0],"answer_tokens":5,
             "delay_ns":500000000,"agent":"b"},
            {"pieces":[{"made":{"name":{"block":1},"tokens":16}},{"answer":0}],"parents":[1,2],
             "answer_tokens":6,"delay_ns":0}]}"#,
        "\n",
        r#"{"start_ns":4000000000,"turns":[{"pieces":[{"made":{"name":{"block":2},"tokens":9}}],
            "answer_tokens":7}]}"#,
        "\n",
        r#"{"start_ns":4000000000,"turns":[{"pieces":[{"made":{"name":{"block":2},"tokens":9}}],
            "answer_tokens":7}]}"#,
        "\n",
    );

    fn opened(change: impl Fn(&mut Options), form: WireForm) -> Result<Workload> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.jsonl");
        let lines = TRACE.replace("\n            ", "").replace("\n             ", "");
        std::fs::write(&path, lines).unwrap();
        let mut options = Options { path, ..Options::default() };
        change(&mut options);
        let context = DatasetContext { form, ..DatasetContext::for_test(1, 0) };
        open(&Spec::Trace(options), &context)
    }

    fn text(workload: &Workload, index: u64) -> String {
        match workload.item(index).unwrap().prompt.content {
            PromptContent::Text(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn turns_wait_for_one_another_as_recorded_and_repeat_what_was_said() {
        let workload = opened(|_| {}, WireForm::Text).unwrap();
        assert_eq!(workload.len(), 6);
        let turns = workload.session(0);
        let planned = |at: usize| (turns[at].index, turns[at].waits_for.clone(), turns[at].delay);
        assert_eq!(planned(0), (0, vec![], Some(Nanos::ZERO)));
        assert_eq!(planned(1), (3, vec![0], Some(Nanos::from_secs(3))));
        assert_eq!(planned(3), (5, vec![0, 1, 2], Some(Nanos::ZERO)));
        assert_eq!(workload.session(1)[0].index, 1);
        assert!(workload.session(3).is_empty());
        let [first, second, third, last] = [0, 3, 4, 5].map(|index| text(&workload, index));
        assert!(second.starts_with(&first) && second.len() > first.len());
        assert!(first.starts_with(&third), "a shorter piece is the beginning of a longer one");
        assert_eq!(second, last);
        let item = workload.item(3).unwrap();
        assert_eq!((item.prompt.prompt_tokens, item.prompt.output_tokens), (Some(20), Some(5)));
        assert_eq!(item.prompt.headers[0].1, "0-a");
        assert_eq!(item.class.as_deref(), Some("agent"));
        assert_eq!(item.due, None, "it depends on the answers before it");
    }

    #[test]
    fn times_are_cut_to_a_window_sped_up_and_spread_over_a_tick() {
        let starts = |change: fn(&mut Options)| {
            let workload = opened(change, WireForm::Text).unwrap();
            let starts = (0..workload.len()).map_while(|at| {
                let is_first = workload.item(at).unwrap().after.unwrap().turn == 0;
                is_first.then(|| workload.due(at).unwrap().0 / 1_000_000)
            });
            starts.collect::<Vec<_>>()
        };
        assert_eq!(starts(|_| {}), [0, 4_000, 4_000]);
        assert_eq!(starts(|options| options.trace_speed = 2.0), [0, 2_000, 2_000]);
        assert_eq!(starts(|options| options.trace_from_s = 3.0), [1_000, 1_000]);
        assert_eq!(starts(|options| options.trace_to_s = Some(4.0)), [0]);
        assert_eq!(starts(|options| options.spread = Spread::Even), [0, 4_000, 6_000]);
        let error = opened(|options| options.trace_from_s = 9.0, WireForm::Text).err().unwrap();
        assert!(error.to_string().contains("`--trace-from`"), "{error}");
        let error = opened(|options| options.trace_speed = 0.0, WireForm::Text).err().unwrap();
        assert!(error.to_string().contains("`--trace-speed`"), "{error}");
    }

    #[test]
    fn the_pace_decides_the_pauses_and_a_cap_is_reported() {
        let delays = |change: fn(&mut Options)| {
            let workload = opened(change, WireForm::Text).unwrap();
            let turns = workload.session(0);
            let delays = turns.iter().map(|turn| turn.delay.unwrap().0 / 1_000_000);
            (delays.collect::<Vec<_>>(), workload.notes())
        };
        assert_eq!(delays(|_| {}).0, [0, 3_000, 500, 0]);
        assert_eq!(delays(|options| options.trace_speed = 4.0).0, [0, 3_000, 500, 0]);
        assert_eq!(delays(|options| options.pace = Pace::None).0, [0; 4]);
        let (cut, notes) = delays(|options| options.max_gap_s = Some(1.0));
        assert_eq!(cut, [0, 1_000, 500, 0]);
        assert_eq!(notes[1].text, "`--max-gap` shortens 1 pauses by 2.0 s in total");
        assert_eq!(notes[0].text, "the trace (tokometer) has 3 sessions with 6 requests");
    }

    /// Two answers with text, the second of them the call of a tool, and a last question.
    const TALK: &str = r#"{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b c d"},{"role":"user","content":"e"},{"role":"assistant","content":null,"tool_calls":[{"id":"c1"}]},{"role":"tool","tool_call_id":"c1","content":"7"}]}"#;

    #[test]
    fn recorded_or_live_answers_are_repeated_and_a_tool_s_result_follows_its_recorded_call() {
        let said = |answers: Option<Answers>, turn: u64, real: &[&str]| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("trace.jsonl");
            std::fs::write(&path, TALK).unwrap();
            let form = WireForm::Chat;
            let context = DatasetContext { form, answers, ..DatasetContext::for_test(1, 0) };
            let options = Options { path, output_len: Some(33), ..Options::default() };
            let workload = open(&Spec::Trace(options), &context).unwrap();
            let real: Vec<_> = real.iter().map(|text| Some((*text).to_owned())).collect();
            let prompt = workload.item_after(turn, &real).unwrap().prompt;
            let PromptContent::Messages(messages) = prompt.content else { panic!("no messages") };
            let words = messages.iter().map(|it| it.verbatim.as_ref().unwrap_or(&it.content));
            (words.cloned().collect::<Vec<_>>().join("|"), prompt.output_tokens)
        };
        let call = r#"{"content":null,"role":"assistant","tool_calls":[{"id":"c1"}]}"#;
        let result = r#"{"content":"7","role":"tool","tool_call_id":"c1"}"#;
        assert_eq!(said(None, 0, &[]), ("a".to_owned(), Some(3)));
        assert_eq!(said(None, 1, &["x"]).0, "a|b c d|e");
        assert_eq!(said(None, 2, &[]), (format!("a|b c d|e|{call}|{result}"), Some(33)));
        let live = Some(Answers::Live);
        assert_eq!(said(live, 1, &["x"]).0, "a|x|e");
        assert_eq!(said(live, 2, &["x", "y"]).0, format!("a|x|e|{call}|{result}"));
    }

    #[test]
    fn sessions_are_rotated_and_cut_as_asked() {
        let opened = |change: fn(&mut Options)| opened(change, WireForm::Text).unwrap();
        let workload = opened(|options| options.max_turns = Some(3));
        assert_eq!((workload.len(), workload.session(0).len()), (5, 3));
        let workload = opened(|options| options.session_offset = 4);
        assert_eq!(workload.session(2).len(), 4, "the first session comes last");
    }

    #[test]
    fn a_chat_has_the_answers_as_messages_of_the_assistant() {
        let workload = opened(|_| {}, WireForm::Chat).unwrap();
        let PromptContent::Messages(messages) = workload.item(3).unwrap().prompt.content else {
            panic!("no messages")
        };
        let roles: Vec<&str> = messages.iter().map(|message| message.role.as_str()).collect();
        assert_eq!(roles, ["user", "assistant"]);
        assert_eq!(workload.item(3).unwrap().prompt.prompt_tokens, Some(20));
    }
}
