//! HTTP/1.1 answers, read without I/O.
//!
//! In: bytes exactly as the socket gave them, in any pieces. Out: a [`Head`], then the body as slices
//! of those same bytes. HTTP/1.1 and 1.0 only: over HTTP/2 one read may carry several answers, and a
//! stamp per read would blame one request for another's bytes.

mod chunked;
mod head;
mod reader;

pub use head::{Head, Media};
pub use reader::{BodyPart, Error, ResponseReader};
