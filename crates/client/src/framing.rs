//! How a body splits into events.

/// How a body splits into events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Server-sent events.
    Sse,
    /// One JSON value per line.
    Lines,
    /// One JSON value.
    WholeJson,
}
