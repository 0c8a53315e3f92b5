//! The forms of traces that are recognised, in one table.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;

use super::call::Call;
use super::flaw::Flaw;
use super::forms::{
    azure, bailian, burstgpt, conversations, dynamo, mapped, mooncake, otel, own, tracelab, weka,
};
use super::stream::{Cells, Row};
use crate::session::Session;

/// A form: how its first row is recognised, and how one row becomes calls.
pub(super) struct Form {
    pub(super) name: &'static str,
    pub(super) is: fn(&Names) -> bool,
    pub(super) read: fn(Row<'_>, &Setting, &mut Found) -> Result<(), Flaw>,
    pub(super) clock: TraceClock,
}

/// What the times of a form count from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TraceClock {
    /// One moment for all sessions.
    Trace,
    /// The start of each session, which is itself unknown. A row is then a whole session.
    Session,
}

/// The forms, those that are told by more first.
pub(super) const FORMS: [&Form; 12] = [
    &own::FORM,
    &weka::FORM,
    &otel::FORM,
    &dynamo::FORM,
    &tracelab::ROUNDS,
    &tracelab::TABLE,
    &bailian::FORM,
    &burstgpt::FORM,
    &mooncake::FORM,
    &azure::FORM,
    &conversations::FORM,
    &mapped::FORM,
];

pub(super) fn recognised(
    row: Row<'_>,
    map: Option<&mapped::FieldMap>,
) -> Result<&'static Form, String> {
    if map.is_some() {
        return Ok(&mapped::FORM);
    }
    let names = Names::of(row);
    FORMS.into_iter().find(|form| (form.is)(&names)).ok_or_else(|| {
        let names: Vec<&str> = names.0.iter().map(String::as_str).collect();
        format!("no form of trace has the fields {}\n  name them with `--map in=FIELD,out=FIELD,time=FIELD`", names.join(", "))
    })
}

/// The names of a row's fields, in lower case.
pub(super) struct Names(BTreeSet<String>);

impl Names {
    fn of(row: Row<'_>) -> Self {
        Self(match row {
            Row::Cells(cells) => cells.header.iter().cloned().collect(),
            Row::Json(text) => serde_json::from_slice::<serde_json::Map<_, _>>(text)
                .map(|fields| fields.keys().map(|key| key.to_lowercase()).collect())
                .unwrap_or_default(),
        })
    }

    pub(super) fn have(&self, names: &[&str]) -> bool {
        names.iter().all(|name| self.0.contains(*name))
    }

    pub(super) fn have_any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.0.contains(*name))
    }
}

/// What the reader of a form knows beside the row.
#[derive(Debug, Clone, Default)]
pub(super) struct Setting {
    /// Tokens of a block, where the user names them.
    pub(super) block_tokens: Option<u32>,
    pub(super) map: Option<mapped::FieldMap>,
    /// The key of the file and the row, for what is known within them alone.
    pub(super) place: u64,
}

/// What a row held.
#[derive(Default)]
pub(super) struct Found {
    pub(super) calls: Vec<Call>,
    pub(super) sessions: Vec<Session>,
    /// Calls of the row that cannot be used, where others can.
    pub(super) flaws: Vec<Flaw>,
}

pub(super) fn json<T: DeserializeOwned>(row: Row<'_>) -> Result<T, Flaw> {
    match row {
        Row::Json(text) => Ok(serde_json::from_slice(text)?),
        Row::Cells(_) => Err("a table is not expected here".to_owned().into()),
    }
}

pub(super) fn table(row: Row<'_>) -> Result<&Cells, Flaw> {
    match row {
        Row::Cells(cells) => Ok(cells),
        Row::Json(_) => Err("a row of a table is expected here".to_owned().into()),
    }
}
