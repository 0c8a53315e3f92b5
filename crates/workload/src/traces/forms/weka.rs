//! Sessions of coding agents as WEKA records them: one JSON object per session, with sub-agents inside.
//!
//! Times are seconds from the start of the session. Blocks cover the whole ones of a prompt; the rest of it is its
//! own.

use serde::Deserialize;
use tokometer_base::Nanos;

use super::super::call::{Agent, Blocks, Call, Content, Moment, SECOND, Tokens, key, nanos};
use super::super::flaw::{Flaw, FlawKind};
use super::super::form::{self, Form, Found, Setting, TraceClock};
use super::super::stream::Row;

const BLOCK_TOKENS: u32 = 64;

pub(in super::super) const FORM: Form = Form {
    name: "weka",
    is: |names| names.have(&["requests"]) && names.have_any(&["block_size", "hash_id_scope"]),
    read,
    clock: TraceClock::Session,
};

#[derive(Deserialize)]
struct Recorded {
    id: String,
    block_size: Option<u32>,
    hash_id_scope: Option<String>,
    requests: Vec<Request>,
}

/// A request, or the marker of a sub-agent with those of its own.
#[derive(Deserialize)]
struct Request {
    t: Moment,
    #[serde(rename = "in")]
    input: Option<Tokens>,
    out: Option<Tokens>,
    #[serde(default)]
    hash_ids: Vec<u64>,
    api_time: Option<Moment>,
    ttft: Option<Moment>,
    think_time: Option<Moment>,
    model: Option<String>,
    agent_id: Option<String>,
    subagent_type: Option<String>,
    status: Option<String>,
    requests: Option<Vec<Request>>,
}

fn read(row: Row<'_>, setting: &Setting, found: &mut Found) -> Result<(), Flaw> {
    let recorded: Recorded = form::json(row)?;
    let session = key(&recorded.id) ^ setting.place;
    let reader = SessionReader {
        session,
        block_tokens: setting.block_tokens.or(recorded.block_size).unwrap_or(BLOCK_TOKENS).max(1),
        scope: if recorded.hash_id_scope.as_deref() == Some("global") { 0 } else { session },
    };
    let first = Agent { key: session, parent: None, joins: true };
    reader.read(recorded.requests, first, None, found);
    Ok(())
}

/// Moves the times of a sub-agent that count from its marker, as older files have them.
fn count_from(marker: Moment, inner: &mut [Request]) {
    let first = inner.first().map(|request| request.t);
    let (Moment::Number(began), Some(Moment::Number(first))) = (marker, first) else { return };
    for request in inner.iter_mut().filter(|_| first < began) {
        if let Moment::Number(time) = &mut request.t {
            *time += began;
        }
    }
}

struct SessionReader {
    session: u64,
    block_tokens: u32,
    scope: u64,
}

impl SessionReader {
    /// The requests of one agent. Those of a sub-agent count from its marker where the first is before it.
    fn read(&self, requests: Vec<Request>, agent: Agent, class: Option<&str>, found: &mut Found) {
        for (number, request) in requests.into_iter().enumerate() {
            let Some(mut inner) = request.requests else {
                match self.call(request, agent, class) {
                    Ok(call) => found.calls.push(call),
                    Err(flaw) => found.flaws.push(flaw),
                }
                continue;
            };
            let name = request.agent_id.unwrap_or_else(|| number.to_string());
            let own = Agent {
                key: key(&name) ^ agent.key.rotate_left(1),
                parent: Some(agent.key),
                joins: request.status.is_some(),
            };
            count_from(request.t, &mut inner);
            let class = request.subagent_type.as_deref().or(class);
            self.read(inner, own, class, found);
        }
    }

    fn call(&self, request: Request, agent: Agent, class: Option<&str>) -> Result<Call, Flaw> {
        let needed = |tokens: Option<Tokens>, name: &str| {
            let flaw = || FlawKind::Malformed.with(format!("a request has no `{name}`"));
            tokens.map(|tokens| tokens.0).ok_or_else(flaw)
        };
        let input = needed(request.input, "in")?;
        let blocks = Blocks { ids: request.hash_ids, tokens: self.block_tokens, scope: self.scope };
        blocks.check(input)?;
        let duration: Option<Nanos> = nanos(request.api_time, SECOND)?;
        Ok(Call {
            session: Some(self.session),
            agent: Some(agent),
            start: Some(request.t.nanos(SECOND)?),
            duration,
            ttft: nanos(request.ttft, SECOND)?,
            pause_before: nanos(request.think_time, SECOND)?,
            input: Some(input),
            output: Some(needed(request.out, "out")?),
            prompt: Content::Blocks(blocks),
            class: class.map(str::to_owned).or(request.model),
            ..Call::default()
        })
    }
}
