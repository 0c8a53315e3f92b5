//! The command line as typed: one struct per concern, flattened into the commands.
//!
//! Syntax only. Every flag is optional and nothing here knows a default that depends on another
//! flag: [`crate::lower`] turns what was typed into a plan.

mod address;
mod against;
mod arrival;
mod calibrate;
mod client;
mod colour;
mod command;
mod compare;
pub(crate) mod compat;
mod complaint;
mod help;
mod metric;
mod output;
mod predict;
mod profiling;
mod sampling;
mod shard;
mod stop;
mod target;
mod workload;

pub(crate) use against::AgainstArgs;
pub(crate) use arrival::ArrivalArgs;
pub(crate) use calibrate::CalibrateArgs;
pub(crate) use client::ClientArgs;
pub(crate) use colour::ColourArg;
pub(crate) use command::{
    AddressArgs, BenchArgs, BenchCommand, Command, DatasetArgs, DocPage, DoctorArgs, MergeArgs,
    ParseOutcome, ParsedArguments, ReportArgs, SimArgs, TableFormatArg, declaration, parse,
};
pub(crate) use compare::{CompareArgs, ComparisonView};
pub(crate) use complaint::complaint;
pub(crate) use metric::MetricArgs;
pub(crate) use output::OutputArgs;
pub(crate) use predict::PredictArgs;
pub(crate) use sampling::SamplingArgs;
pub(crate) use shard::ShardArgs;
pub(crate) use stop::StopArgs;
pub(crate) use target::TargetArgs;
pub(crate) use workload::{TurnArgs, WorkloadArgs};
