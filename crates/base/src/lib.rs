//! What every crate shares.
//!
//! Nothing here does I/O except [`clock::MonotonicClock`], which reads the kernel's clocks. Time and
//! randomness are always passed in, so that any part of a run can be repeated and tested.
//!
//! - Time and chance: [`time`], [`clock`], [`seed`]; [`background`] threads that end with their guard; a
//!   [`slab`] for what lives and ends in any order.
//! - A request: its [`cancellation`], [`prompt`], its [`script`] and [`fingerprint`]; [`backend`] and [`conventions`] by name.
//! - Plans: [`mod@partial`] structs, merged layer by layer, and [`neighbours`] of a mistyped key.
//! - Errors for people: [`mod@refusal`].
//! - Text: [`units`] as typed, [`digits`] as shown, [`printable`] text from outside, [`redact`]ed secrets,
//!   certificates in [`pem`].

#[cfg(not(target_os = "linux"))]
compile_error!(
    "Tokometer runs on Linux only: it waits with epoll, and token times are the kernel's receive \
     timestamps. On another system, use the container image or a Linux virtual machine."
);

pub mod backend;
pub mod background;
pub mod cancellation;
pub mod clock;
pub mod conventions;
pub mod digits;
pub mod fingerprint;
pub mod neighbours;
pub mod order;
pub mod partial;
pub mod pem;
pub mod printable;
pub mod prompt;
pub mod redact;
pub mod refusal;
pub mod script;
pub mod seed;
pub mod slab;
pub mod time;
pub mod units;

pub use backend::Backend;
pub use background::{Background, StopSignal};
pub use cancellation::{CancelAfter, Cancellation};
pub use clock::{Clock, ManualClock, MonotonicClock};
pub use conventions::Conventions;
pub use fingerprint::Fingerprint;
pub use order::sort_numbers;
pub use partial::Partial;
pub use prompt::{IgnoreEos, Message, Prompt, PromptContent, Sound};
pub use refusal::{Refusal, RefusalKind};
pub use script::Script;
pub use seed::{Seed, Stream};
pub use slab::Slab;
pub use time::{Nanos, WallNanos};
