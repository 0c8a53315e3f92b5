//! Requests over the wire, without a clock.
//!
//! In: a [`Settings`], a prompt, and later the bytes of an answer with their stamps. Out: the bytes
//! of a whole HTTP/1.1 request ([`PreparedRequest`]), and a filled [`tokometer_record::Timeline`].
//! HTTP reader, framing, field scan and [`Dialect`] do no I/O and never read a clock: the stopwatch is
//! one and the same for every server protocol. Only [`control`] talks to a server by itself, for
//! questions outside the measurement.

pub mod conn;
pub mod control;
pub mod dialect;
pub mod error;
pub mod exchange;
pub mod framing;
pub mod http;
mod omission;
pub mod prepare;
mod reading;
pub mod scan;
pub mod secret;
pub mod settings;
pub mod sse;
pub mod tls;
pub mod url;

pub use control::Control;
pub use dialect::{Dialect, Probe};
pub use error::Error;
pub use exchange::{Exchange, KeepText, Progress, ReadStamp};
pub use omission::{refused_field, replacement};
pub use prepare::{Ask, PreparedRequest};
pub use secret::ApiKey;
pub use settings::{IgnoreEos, PartialSampling, Sampling, Settings, UsageReports};
pub use url::Url;
