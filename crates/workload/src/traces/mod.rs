//! Traces of any form as a stream of [`Session`](crate::session::Session)s.
//!
//! In: a file or a folder. Out: its sessions in the order of their starts, with the pieces of their prompts instead
//! of text, within bounded memory. `stream` finds rows, a file in `forms` turns a row into calls, `read_ahead`
//! gathers the calls of a session, and `build` makes it. Each row that cannot be used is counted and named.

mod build;
mod call;
mod flaw;
mod form;
mod forms;
mod read_ahead;
mod reader;
mod stream;
mod survey;
#[cfg(test)]
mod tests;

pub use flaw::{FlawCount, FlawKind};
pub use forms::mapped::FieldMap;
pub use reader::{OnFlaw, TraceOptions, TraceReader};
pub use survey::Survey;
