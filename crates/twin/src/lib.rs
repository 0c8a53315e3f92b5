//! An engine model that is fitted to measured runs and predicts others.
//!
//! [`predict()`] drives the simulator's own engine in virtual time and gives what a client would have
//! seen, as timelines for the usual reports or as weighted figures for runs of any size;
//! [`fit::calibrate`] finds the engine's constants from printed tables, [`fit::calibrate_runs`] from
//! recorded runs. No clock, no socket, no file: the same input gives the same bytes everywhere.
//!
//! - A prediction: `predict` is the entry, [`workload`] what is asked, `sender` when, [`client`] the slow
//!   client of old tables. `virtual_time` is the driver, and `in_flight` what it knows of a request. Its fleet: `router` chooses a replica,
//!   `replica_engines` says which engines that has, `fleet_engine` is one of them, and `fleet` divides
//!   independent replicas among threads (`parallel`).
//! - Its result: `timelines` or [`figures`] (of [`weighted`] samples), their spread over seeds
//!   (`intervals`), and [`explain`], `limit` and `mechanism`: what limited the run, and which parts of the
//!   model it used.
//! - An engine model: [`fit`] finds one from data, [`roofline`] derives one from data sheets.

pub mod client;
pub mod explain;
pub mod figures;
pub mod fit;
mod fleet;
mod fleet_engine;
mod in_flight;
mod intervals;
mod limit;
mod mechanism;
mod parallel;
mod predict;
mod replica_engines;
pub mod roofline;
mod router;
mod sender;
mod timelines;
mod virtual_time;
pub mod weighted;
pub mod workload;

use tokometer_base::Nanos;

#[cfg(test)]
mod tests;

pub use client::OldClient;
pub use explain::Explanation;
pub use figures::PredictedFigures;
pub use intervals::{SEEDS, SeedInterval, intervals};
pub use limit::Bottleneck;
pub use mechanism::{BeyondRange, InPlay, LoadSide, beyond_range, in_play, shown_by};
pub use parallel::in_parallel;
pub use predict::{PredictOptions, Seeds, predict};
pub use roofline::Roofline;
pub use router::Routing;
pub use virtual_time::{KeptDetail, Prediction};
pub use workload::{Ask, RequestLoad, RequestSource, TurnPlace};

/// Why something could not be predicted or fitted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Profile(#[from] tokometer_sim::profile::ProfileError),
    #[error(transparent)]
    Load(#[from] tokometer_schedule::Error),
    #[error(
        "cannot predict request {index}: {why}\n  use shorter requests or an engine profile with more memory"
    )]
    Refused { index: u64, why: tokometer_sim::engine::JobRefusal },
    #[error(
        "cannot predict request {index}: {prompt} prompt and {output} answer tokens exceed the engine's longest context of {limit}"
    )]
    TooLong { index: u64, prompt: u32, output: u32, limit: u32 },
    #[error(
        "stopped after {after} of virtual time and {sent} requests: more than {most} are in flight, so the engine cannot serve this rate\n  use a lower rate, more replicas, or a concurrency limit"
    )]
    Backlog { most: u64, after: Nanos, sent: u64 },
    #[error(
        "cannot keep the timelines of {tokens} tokens: more than {most} do not fit into memory\n  request figures without timelines"
    )]
    TooManyTokens { tokens: u64, most: u64 },
    #[error(
        "cannot predict stages with a number of sessions for sessions of several turns\n  use a rate, such as `2m@5/s`, or single requests"
    )]
    StagedSessions,
    #[error("cannot predict a run without requests")]
    Empty,
    #[error(
        "cannot calibrate from {rows} usable rows: at least {least} are needed\n  pass reports of several loads of the same server"
    )]
    TooFewRows { rows: usize, least: usize },
    #[error("cannot calibrate from row {row} (`{label}`): it has no requests or no tokens")]
    EmptyRow { row: usize, label: String },
    #[error(
        "cannot calibrate from `{one}` and `{other}` together: the same load has a mean TPOT of {one_tpot_ms:.1} ms in one and {other_tpot_ms:.1} ms in the other, so they are not the same engine\n  calibrate each engine from its own rows"
    )]
    MixedEngines { one: String, other: String, one_tpot_ms: f64, other_tpot_ms: f64 },
    #[error(
        "cannot calibrate from a run of {steps} engine steps: at least {least} steady ones are needed\n  record a longer run"
    )]
    TooFewSteps { steps: usize, least: usize },
    #[error(
        "cannot infer engine steps: {0}\n  record a longer run, with fewer streams or a faster client"
    )]
    Steps(#[from] tokometer_figures::steps::StepsRefusal),
    #[error(
        "cannot calibrate: every engine step of these runs had the same number of streams, so its cost per stream is unknown\n  add a run at another concurrency"
    )]
    OneBatchSize,
    #[error("cannot predict a fleet without replicas\n  use `--replicas 1`")]
    NoReplicas,
}

/// What cannot be predicted or fitted is what the user asked for or gave.
impl From<Error> for tokometer_base::Refusal {
    fn from(why: Error) -> Self {
        Self::usage(why.to_string(), "")
    }
}
