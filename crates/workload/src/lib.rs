//! Where prompts come from: datasets, their lengths, and texts of an exact number of tokens.
//!
//! In: a [`Spec`] (which dataset, with which options) and a [`DatasetContext`] (tokenizer, seeds, how many).
//! Out: a [`Workload`] whose items can be made in any order and on any thread: item 17 depends on
//! the seeds and on 17, never on what was asked before. Lengths and the choice of rows come from
//! the seed, generated content from the salt, so that a repeated run has the same shapes but does
//! not hit its own prefixes in the cache. Knows nothing of servers, clocks or flags.

mod ahead;
mod batches;
mod check;
mod compose;
mod context;
mod conversation_rows;
mod conversations;
pub mod datasets;
mod describe;
mod error;
mod histogram;
mod input;
pub mod lengths;
mod media;
mod mix;
mod order;
mod prefixes;
mod prompts;
mod rows;
mod selection;
mod session;
mod source;
mod spec;
mod tables;
mod template;
mod trace_time;
pub mod traces;
mod workload;

pub use check::LengthCheck;
pub use compose::Composer;
pub use context::{
    Answers, BadRows, DatasetContext, Oversample, PartialTurns, RowOrder, Templating, Turns,
    WireForm,
};
pub use describe::Description;
pub use error::{Error, Result};
pub use histogram::Histogram;
pub use lengths::Ratio;
pub use mix::Choice;
pub use prefixes::{NamedPiece, SeenPrefixes, USUAL_BLOCK, block_hashes};
pub use prompts::RealAnswers;
pub use session::{Answer, Given, GraphFault, Piece, PieceName, RecordedTimes, Session, Turn};
pub use source::{DatasetNote, Item, PlannedPrompt, PlannedTurn, Source, TurnPosition};
pub use spec::{OrNone, PartialSpec, Spec, fingerprint, pipe};
pub use workload::{Workload, open, open_mix};
