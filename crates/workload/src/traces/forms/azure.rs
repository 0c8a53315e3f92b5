//! Azure's public traces of 2023 to 2025: a table with times and lengths.

use super::super::call::{Call, Moment, SECOND, Tokens};
use super::super::flaw::{Flaw, FlawKind};
use super::super::form::{self, Form, Found, Setting, TraceClock};
use super::super::stream::Row;

pub(in super::super) const FORM: Form = Form {
    name: "azure",
    is: |names| names.have(&["timestamp", "contexttokens", "generatedtokens"]),
    read,
    clock: TraceClock::Trace,
};

fn read(row: Row<'_>, _: &Setting, found: &mut Found) -> Result<(), Flaw> {
    let cells = form::table(row)?;
    let tokens = |name: &str| Tokens::parse(cells.cell(name).unwrap_or_default());
    let time = cells.cell("timestamp").ok_or(FlawKind::NoTime.with("it has no time"))?;
    // Images are not replayed: a class keeps such requests apart.
    let has_images = cells.cell("numimages").is_some_and(|count| count != "0");
    found.calls.push(Call {
        start: Some(Moment::parse(time)?.nanos(SECOND)?),
        input: Some(tokens("contexttokens")?.0),
        output: Some(tokens("generatedtokens")?.0),
        class: has_images.then(|| "images".to_owned()),
        ..Call::default()
    });
    Ok(())
}
