//! HTTP/1.1 responses, parsed without I/O.
//!
//! In: bytes exactly as the socket returned them, in any pieces. Out: a [`Head`], then the body as
//! slices of the same bytes. HTTP/1.1 and 1.0 only: over HTTP/2 one read may carry several responses,
//! and a stamp per read would assign one request's bytes to another.

mod chunked;
mod encoding;
mod head;
mod reader;

pub use encoding::{BodyDecoder, ContentEncoding};
pub use head::{Head, Media, RetryAfter};
pub use reader::{BodyPart, HttpError, ResponseReader};
