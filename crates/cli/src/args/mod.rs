//! The command line as typed: the commands, and the flags of a measurement from the table of options.
//!
//! Syntax only. Every flag is optional and nothing here knows a default that depends on another
//! flag: [`crate::lower`] turns what was typed into a plan.

mod address;
mod command;
pub(crate) mod compat;
mod complaint;
mod help;
mod measurement;

pub(crate) use command::{
    BenchCommand, CalibrateArgs, CapacityArgs, ColourArg, Command, CompareArgs, ComparisonView,
    DatasetArgs, DocPage, DoctorArgs, EngineArgs, MergeArgs, Over, ParseOutcome, ParsedArguments,
    PredictArgs, ReportArgs, SimArgs, TableFormatArg, declaration, parse,
};
pub(crate) use complaint::complaint;
pub(crate) use measurement::{AddressArgs, BenchArgs, JudgedArgs};
pub(crate) use tokometer_plan::options::ShardArgs;
