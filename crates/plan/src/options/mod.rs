//! The table of options: everything that is said of an option stands in its row.
//!
//! From the rows come the flags of the command line, the keys of the config file, the variables
//! `TOKOMETER_*`, the keys of plan files, what is valid, other tools' spellings, and the documentation. A
//! new option is a row here, a field that its key names, and the code that reads the field.
//!
//! - `row` is the form of a row; the other modules have the rows, a module per part of a measurement.
//! - `fragment` is what one source says, made of rows and words.

mod client;
mod datasets;
mod fragment;
mod load;
mod output;
mod request;
mod row;
mod target;
mod workload;

pub use client::percentiles;
pub use fragment::{
    ContentFiles, Fragment, GivenOption, OptionList, OutputArgs, ShardArgs, is_set, set_key,
};
pub use load::SGLANG_WARMUP_TOKENS;
pub use output::ADDRESSED;
pub use row::{Defaults, Holds, Kind, OptionRow, OtherName, time};
pub use target::api_key;

use std::num::{IntErrorKind, ParseIntError};

use tokometer_client::PartialSampling;
use tokometer_workload::{PartialSpec, PartialTurns};

use crate::{
    PartialCanaryPlan, PartialClient, PartialInterleave, PartialLoad, PartialLora, PartialMetrics,
    PartialOutput, PartialPhases, PartialPlan, PartialPrompts, PartialRamp, PartialRequest,
    PartialSglangResult, PartialTarget, PartialUntil, PartialVllmResult,
};

/// Options under one heading of the help.
#[derive(Debug)]
pub struct Group {
    /// The heading; empty: none.
    pub title: &'static str,
    /// Its options.
    pub rows: &'static [OptionRow],
}

/// The datasets of an option that every dataset may have.
const EVERY: &[&str] = &[];
/// Tokens of one prompt or answer: far above what servers can do, for typing errors and for plans made by
/// programs.
const MOST_TOKENS: f64 = 1e7;
/// Requests of one run.
const MOST_REQUESTS: f64 = 1e9;
/// Groups, prefixes, turns and rounds.
const MOST_PARTS: f64 = 1e6;

const ALL: [&[Group]; 7] = [
    target::GROUPS,
    workload::GROUPS,
    datasets::GROUPS,
    load::GROUPS,
    request::GROUPS,
    client::GROUPS,
    output::GROUPS,
];

/// Options of all commands that measure, in the order of the help.
pub fn groups() -> impl Iterator<Item = &'static Group> {
    ALL.into_iter().flatten()
}

/// All options, in the order in which they apply.
pub fn rows() -> impl Iterator<Item = &'static OptionRow> {
    groups().chain([&ADDRESSED]).flat_map(|group| group.rows)
}

/// The option with this flag.
pub fn named(flag: &str) -> Option<&'static OptionRow> {
    rows().find(|row| row.flag == flag)
}

/// A whole number as typed.
fn number<T: std::str::FromStr<Err = ParseIntError>>(word: &str) -> Result<T, String> {
    word.parse().map_err(|why: ParseIntError| match why.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "it is too large".to_owned(),
        IntErrorKind::Empty => "it is empty".to_owned(),
        _ => "it is not a whole number".to_owned(),
    })
}

/// The keys of each table of a plan.
const TABLES: [(&str, &[&str]); 20] = [
    ("", PartialPlan::KEYS),
    ("targets.0", PartialTarget::KEYS),
    ("targets.1", PartialTarget::KEYS),
    ("workload", PartialSpec::KEYS),
    ("prompts", PartialPrompts::KEYS),
    ("prompts.turns", PartialTurns::KEYS),
    ("load", PartialLoad::KEYS),
    ("load.ramp", PartialRamp::KEYS),
    ("load.until", PartialUntil::KEYS),
    ("phases", PartialPhases::KEYS),
    ("request", PartialRequest::KEYS),
    ("request.sampling", PartialSampling::KEYS),
    ("request.lora", PartialLora::KEYS),
    ("client", PartialClient::KEYS),
    ("metrics", PartialMetrics::KEYS),
    ("interleave", PartialInterleave::KEYS),
    ("canary", PartialCanaryPlan::KEYS),
    ("output", PartialOutput::KEYS),
    ("output.vllm_result", PartialVllmResult::KEYS),
    ("output.sglang_result", PartialSglangResult::KEYS),
];

/// Objects that take any key.
const OPEN: [&str; 2] = ["phases.profile_request", "request.extra_body"];

/// A row whose key is no field of a plan does not compile.
const _: () = {
    let mut file = 0;
    while file < ALL.len() {
        let mut group = 0;
        while group < ALL[file].len() {
            let rows = ALL[file][group].rows;
            let mut at = 0;
            while at < rows.len() {
                assert!(rows[at].key.is_empty() || is_key(rows[at].key.as_bytes()), "no such key");
                at += 1;
            }
            group += 1;
        }
        file += 1;
    }
};

const fn is_key(key: &[u8]) -> bool {
    let mut dot = key.len();
    while dot > 0 && key[dot - 1] != b'.' {
        dot -= 1;
    }
    let (table, name) = key.split_at(dot);
    let table = if dot > 0 { table.split_at(dot - 1).0 } else { table };
    let mut at = 0;
    while at < OPEN.len() {
        if is_same(OPEN[at].as_bytes(), table) {
            return true;
        }
        at += 1;
    }
    at = 0;
    while at < TABLES.len() {
        let mut key = 0;
        while is_same(TABLES[at].0.as_bytes(), table) && key < TABLES[at].1.len() {
            if is_same(TABLES[at].1[key].as_bytes(), name) {
                return true;
            }
            key += 1;
        }
        at += 1;
    }
    false
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}
