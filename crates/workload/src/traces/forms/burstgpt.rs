//! `BurstGPT`: a table with times in seconds and lengths; later versions have sessions and durations.
//!
//! It says nothing of what prompts share, so they share nothing.

use super::super::call::{Call, Moment, SECOND, Tokens, key};
use super::super::flaw::{Flaw, FlawKind};
use super::super::form::{self, Form, Found, Setting, TraceClock};
use super::super::stream::Row;

pub(in super::super) const FORM: Form = Form {
    name: "burstgpt",
    is: |names| names.have(&["timestamp", "request tokens", "response tokens"]),
    read,
    clock: TraceClock::Trace,
};

fn read(row: Row<'_>, _: &Setting, found: &mut Found) -> Result<(), Flaw> {
    let cells = form::table(row)?;
    let tokens = |name: &str| Tokens::parse(cells.cell(name).unwrap_or_default());
    let time = |name: &str| {
        let moment = cells.cell(name).map(Moment::parse).transpose()?;
        moment.map(|moment| moment.nanos(SECOND)).transpose()
    };
    let start = time("timestamp")?.ok_or(FlawKind::NoTime.with("it has no time"))?;
    found.calls.push(Call {
        session: cells.cell("session id").map(key),
        start: Some(start),
        duration: time("elapsed time")?,
        input: Some(tokens("request tokens")?.0),
        output: Some(tokens("response tokens")?.0),
        class: cells.cell("log type").map(str::to_owned),
        ..Call::default()
    });
    Ok(())
}
