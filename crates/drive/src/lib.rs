//! The run: sends requests at their times, reads responses as they arrive, and returns timelines.
//!
//! In: a [`RunConfig`], prepared requests from a [`Prepare`], and the channels to report to. Out: one
//! [`Notice`] per request sent and per attempt ended, and a
//! [`record::RunEnd`](tokometer_record::RunEnd) with the health of the client. Worker threads own
//! their links and exchanges; shared state is used once per request. Time, threads and links come
//! from a [`Platform`]: the machine itself, or a test's. No tokenizer, no metric and no terminal is
//! known here.
//!
//! - The input and the output: [`config`], [`item`], `turns` (conversations), `live` (counters for a
//!   display), `interrupt`, `error`.
//! - The threads: `launch` starts them and runs the phases; `preparer` makes requests ahead; `worker`
//!   sends and reads; `control` only sleeps, as a reference for the pacing. `thread` turns a panic into an
//!   error.
//! - What they share: `shared`, the `gate` that limits requests in flight (`cap`, where several processes
//!   share the limit), one `inbox` per worker, the `rotation` of a target's addresses.
//! - Rules without a clock: `flight` (one attempt and its retries), `pacer` (how to wait), `transcript` (the bytes
//!   of one exchange), `reads` (how
//!   often to read), `refusals` (whether the server refuses everything).
//! - The machine: [`platform`] is the interface, `native` the real one, `descriptors` and `vitals` its
//!   limits and counters.

mod cap;
pub mod config;
mod control;
mod descriptors;
mod error;
mod flight;
mod gate;
mod inbox;
mod interrupt;
pub mod item;
mod launch;
mod live;
mod native;
mod pacer;
pub mod platform;
mod preparer;
mod reads;
mod refusals;
mod rotation;
mod shared;
mod slots;
mod thread;
mod transcript;
mod turns;
mod vitals;
mod worker;

#[cfg(test)]
mod tests;

pub use cap::{CapLending, CapReport, CapSlots};
pub use config::{Connections, Refusals, RunConfig, SocketReads, TargetServer, Timeouts, WarmUps};
pub use descriptors::{most_connections, raise_limit};
pub use error::{Error, PrepareError};
pub use interrupt::Interrupt;
pub use item::{FollowUp, Notice, Prepare, QueuedRequest, TurnEnd};
pub use launch::{AwaitStart, Between, Outlets, run, run_on};
pub use live::{Live, LiveCounts, Rates};
pub use native::{EpollLinks, Native};
pub use platform::Platform;
pub use reads::Lane;
pub use transcript::{Piece, Transcript};
