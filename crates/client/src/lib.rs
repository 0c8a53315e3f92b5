//! Requests and responses on the wire, without a clock.
//!
//! In: a [`Settings`], a prompt, and later the bytes of a response with their stamps. Out: the bytes
//! of an HTTP/1.1 request ([`PreparedRequest`]), and a complete [`tokometer_record::Timeline`]. HTTP
//! reader, framing, field scan and [`Dialect`] do no I/O and never read a clock, so every protocol is
//! timed in the same way. Only [`control`] sends requests by itself, outside the measurement.

pub mod cause;
pub mod conn;
pub mod control;
pub mod dialect;
pub mod error;
pub mod exchange;
mod framing;
pub mod http;
mod json_body;
mod multipart;
mod omission;
pub mod prepare;
mod probe;
pub mod proxy;
mod quirk;
mod reading;
mod redirect;
mod request_head;
mod scan;
pub mod secret;
mod server_message;
pub mod settings;
pub mod sse;
pub mod structured;
pub mod tls;
mod tool_calls;
pub mod url;

pub use control::Control;
pub use dialect::Dialect;
pub use error::Error;
pub use exchange::{Exchange, ResponseProgress};
pub use omission::{refused_field, replacement};
pub use prepare::{PreparedRequest, RequestInput};
pub use probe::Probe;
pub use reading::{KeepText, ReadStamp};
pub use secret::ApiKey;
pub use settings::{PartialSampling, Sampling, Settings, UsageReports};
pub use structured::{Structured, ToolSet};
pub use url::Url;
