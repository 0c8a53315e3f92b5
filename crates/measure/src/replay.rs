//! An earlier run as a trace: its record becomes sessions in our own form.
//!
//! A record has no text. A turn repeats the prompt and the answer of the one that ended last before it
//! was sent, if its prompt is long enough for both; all else is text of its own.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use tempfile::NamedTempFile;
use tokometer_base::Nanos;
use tokometer_record::{Phase, RunReader, Timeline};
use tokometer_workload::datasets::trace;
use tokometer_workload::{Answer, Piece, PieceName, RecordedTimes, Session, Turn};

use crate::Error;

/// A trace as it is read: the given one, or the sessions of an earlier run.
pub struct Replay {
    pub options: trace::Options,
    _sessions: Option<NamedTempFile>,
}

impl Replay {
    pub fn of(options: &trace::Options) -> Result<Self, Error> {
        let mut options = options.clone();
        if !options.path.join("plan.json").is_file() {
            return Ok(Self { options, _sessions: None });
        }
        let shown = options.path.display().to_string();
        let refused =
            |why: String| Error::usage(format!("cannot replay the run `{shown}`: {why}"), "");
        let sessions = sessions(&options.path).map_err(refused)?;
        let written = written(&sessions).map_err(|why| refused(why.to_string()))?;
        written.path().clone_into(&mut options.path);
        Ok(Self { options, _sessions: Some(written) })
    }
}

fn written(sessions: &[Session]) -> std::io::Result<NamedTempFile> {
    let file = NamedTempFile::new()?;
    let mut to = BufWriter::new(file.as_file());
    for session in sessions {
        serde_json::to_writer(&mut to, session)?;
        to.write_all(b"\n")?;
    }
    to.flush()?;
    drop(to);
    Ok(file)
}

/// A request that was sent, as far as a replay needs it.
#[derive(Debug, Clone, PartialEq)]
struct Sent {
    index: u64,
    at: Nanos,
    end: Option<Nanos>,
    ttft: Option<Nanos>,
    input: u32,
    output: Option<u32>,
    class: Option<String>,
}

/// Which session a request belongs to; one without a session is one of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum SessionKey {
    Named(u64),
    Single(u64),
}

/// The sessions of a run in the order of their starts.
fn sessions(folder: &Path) -> Result<Vec<Session>, String> {
    let reader = RunReader::open(folder).map_err(|why| why.to_string())?;
    let mut gathered: BTreeMap<SessionKey, BTreeMap<u64, Sent>> = BTreeMap::new();
    for row in reader.timelines().map_err(|why| why.to_string())? {
        let identity = &row.identity;
        let key = identity.session.map_or(SessionKey::Single(identity.index), SessionKey::Named);
        if identity.phase == Phase::Measure
            && let Some(sent) = sent(&row)
        {
            // Of several attempts the last counts.
            let _earlier = gathered.entry(key).or_default().insert(identity.index, sent);
        }
    }
    let rows = || gathered.values().flat_map(BTreeMap::values);
    let origin = rows().map(|sent| sent.at).min().ok_or("it has no request of known length")?;
    let sessions =
        gathered.values().map(|calls| session(calls.values().cloned().collect(), origin));
    let mut sessions = sessions.collect::<Result<Vec<_>, _>>()?;
    sessions.sort_by_key(|session| session.start);
    Ok(sessions)
}

/// `None` for a request that was not sent, or whose length nobody counted.
fn sent(row: &Timeline) -> Option<Sent> {
    let at = row.times.intended.or(row.times.first_byte_sent)?;
    let first = row.events.iter().find(|event| event.kind.is_content()).map(|event| event.at);
    let output = row.output_tokens().map(|(tokens, _)| tokens).or(row.requested.output_tokens);
    Some(Sent {
        index: row.identity.index,
        at,
        end: row.times.end,
        ttft: first.map(|first| first.saturating_sub(row.times.first_byte_sent.unwrap_or(at))),
        input: row.prompt_tokens().filter(|tokens| *tokens > 0)?,
        output: output.filter(|tokens| *tokens > 0),
        class: row.identity.class.clone(),
    })
}

fn session(mut calls: Vec<Sent>, origin: Nanos) -> Result<Session, String> {
    calls.sort_by_key(|sent| sent.at);
    let start = calls.first().map_or(origin, |sent| sent.at);
    let mut turns: Vec<Turn> = Vec::with_capacity(calls.len());
    for (at, call) in calls.iter().enumerate() {
        let ended = |other: &usize| calls[*other].end.filter(|end| *end <= call.at);
        let before = (0..at).filter_map(|other| ended(&other).map(|end| (end, other))).max();
        turns.push(turn(call, before, &calls, &turns, start));
    }
    let mut session = Session::new(turns).map_err(|fault| fault.to_string())?;
    session.class = calls.first().and_then(|sent| sent.class.clone()).map(String::into_boxed_str);
    session.start = Some(start.saturating_sub(origin));
    Ok(session)
}

/// The turn of a request behind the one that ended last before it.
fn turn(
    call: &Sent,
    before: Option<(Nanos, usize)>,
    calls: &[Sent],
    turns: &[Turn],
    start: Nanos,
) -> Turn {
    let new = |tokens| Piece::Made { name: PieceName::Content(call.index), tokens };
    let repeated = before.and_then(|(_, number)| {
        let said = calls[number].input + calls[number].output?;
        let rest = call.input.checked_sub(said).filter(|rest| *rest > 0)?;
        let answer = Piece::Answer(Answer::of(u32::try_from(number).ok()?));
        let pieces = turns[number].pieces.iter().cloned();
        Some(pieces.chain([answer, new(rest)]).collect::<Vec<_>>())
    });
    let since = before.map_or(start, |(end, _)| end);
    Turn {
        pieces: repeated.unwrap_or_else(|| vec![new(call.input)]),
        answer_tokens: call.output,
        parents: before.and_then(|(_, number)| u32::try_from(number).ok()).into_iter().collect(),
        delay: call.at.saturating_sub(since),
        recorded: Some(RecordedTimes {
            sent: call.at.saturating_sub(start),
            duration: call.end.map(|end| end.saturating_sub(call.at)),
            ttft: call.ttft,
        }),
        ..Turn::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_repeat_what_was_said_and_keep_their_pauses() {
        let sent = |index, at, end, input| Sent {
            index,
            at: Nanos(at),
            end: Some(Nanos(end)),
            ttft: None,
            input,
            output: Some(10),
            class: None,
        };
        // The third is beside the second; the last has a prompt too short to repeat anything.
        let calls = vec![
            sent(0, 100, 200, 50),
            sent(5, 230, 400, 80),
            sent(6, 240, 300, 70),
            sent(9, 410, 500, 30),
        ];
        let session = session(calls, Nanos(40)).unwrap();
        assert_eq!(session.start, Some(Nanos(60)));
        let of = |turn: &Turn| (turn.parents.clone(), turn.delay.0, turn.pieces.len());
        let turns: Vec<_> = session.turns().iter().map(of).collect();
        assert_eq!(turns, [(vec![], 0, 1), (vec![0], 30, 3), (vec![0], 40, 3), (vec![1], 10, 1)]);
        let lengths: Option<Vec<u32>> =
            session.turns()[1].pieces.iter().map(Piece::tokens).collect();
        assert_eq!(lengths, Some(vec![50, 10, 20]));
    }
}
