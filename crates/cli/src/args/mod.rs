//! The command line as typed: the commands, and the flags of a measurement from the table of options.
//!
//! Syntax only. Every flag is optional and nothing here knows a default that depends on another
//! flag: [`crate::lower`] turns what was typed into a plan.

mod address;
mod calibrate;
mod capacity;
mod colour;
mod command;
mod compare;
pub(crate) mod compat;
mod complaint;
mod help;
mod measurement;
mod predict;

pub(crate) use calibrate::CalibrateArgs;
pub(crate) use capacity::{CapacityArgs, EngineArgs, Over};
pub(crate) use colour::ColourArg;
pub(crate) use command::{
    BenchCommand, Command, DatasetArgs, DocPage, DoctorArgs, MergeArgs, ParseOutcome,
    ParsedArguments, ReportArgs, SimArgs, TableFormatArg, declaration, parse,
};
pub(crate) use compare::{CompareArgs, ComparisonView};
pub(crate) use complaint::complaint;
pub(crate) use measurement::{AddressArgs, BenchArgs};
pub(crate) use predict::PredictArgs;
pub(crate) use tokometer_plan::options::{OutputArgs, ShardArgs};
