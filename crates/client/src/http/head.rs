//! The parts of a response header that matter for reading its body.

use tokometer_base::{Nanos, WallNanos};

use super::date;
use super::encoding::ContentEncoding;

/// Media type from `Content-Type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Media {
    /// `text/event-stream`.
    EventStream,
    /// `application/json`.
    Json,
    /// One JSON value per line, such as `application/x-ndjson`.
    JsonLines,
    /// `application/octet-stream`.
    Octets,
    /// `text/plain`.
    Plain,
    /// Another type, or none.
    #[default]
    Other,
}

/// How the end of the body is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyLength {
    Fixed(u64),
    Chunked,
    UntilEof,
}

/// The header of a final (not 1xx) response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The status code.
    pub status: u16,
    /// Whether the connection can be used again after the body.
    pub keep_alive: bool,
    /// From `Content-Type`.
    pub media: Media,
    /// From `Content-Encoding`.
    pub encoding: ContentEncoding,
    /// From `Retry-After`; `None` where absent or unreadable.
    pub retry_after: Option<RetryAfter>,
    /// The server's clock, from `Date`.
    pub date: Option<WallNanos>,
    /// Time in the server's queue, which TGI sends in a header. `None` for other servers.
    pub queue_time: Option<Nanos>,
    /// Tokens of the inputs, which Text Embeddings Inference sends in a header.
    pub compute_tokens: Option<u32>,
    pub(super) length: BodyLength,
}

/// What `Retry-After` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAfter {
    /// A number of seconds.
    Wait(Nanos),
    /// A date.
    At(WallNanos),
}

impl RetryAfter {
    fn parse(text: &str) -> Option<Self> {
        match text.parse::<f64>() {
            Ok(seconds) if seconds.is_nan() => None,
            Ok(seconds) => Some(Self::Wait(Nanos::from_secs_f64(seconds.max(0.0)))),
            Err(_) => date::parse(text).map(Self::At),
        }
    }

    /// The wait from `now` on, which for a date should come from the same clock.
    pub fn wait(self, now: WallNanos) -> Nanos {
        match self {
            Self::Wait(wait) => wait,
            Self::At(at) => Nanos(at.0.saturating_sub(now.0)),
        }
    }
}

/// Collects a [`Head`] header by header.
pub(super) struct Builder {
    head: Head,
    content_length: Option<u64>,
    is_chunked: bool,
}

/// Contradicting or invalid length headers: the end of the body is unknown.
#[derive(Debug)]
pub(super) struct BadLength;

impl Builder {
    pub(super) fn new(status: u16, minor_version: u8) -> Self {
        let head = Head {
            status,
            keep_alive: minor_version >= 1,
            media: Media::Other,
            encoding: ContentEncoding::Identity,
            retry_after: None,
            date: None,
            queue_time: None,
            compute_tokens: None,
            length: BodyLength::UntilEof,
        };
        Self { head, content_length: None, is_chunked: false }
    }

    pub(super) fn header(&mut self, name: &str, value: &[u8]) -> Result<(), BadLength> {
        let is = |wanted: &str| name.eq_ignore_ascii_case(wanted);
        let text = std::str::from_utf8(value).unwrap_or("").trim();
        if is("content-length") {
            // Proxies join repeated headers to a list.
            for part in text.split(',') {
                let length: u64 = part.trim().parse().map_err(|_| BadLength)?;
                if self.content_length.is_some_and(|known| known != length) {
                    return Err(BadLength);
                }
                self.content_length = Some(length);
            }
        } else if is("transfer-encoding") {
            // Several lines are one list.
            self.is_chunked |= has_word(text, "chunked");
            let compression = text.split(',').map(str::trim).find(|word| is_compression(word));
            if let Some(word) = compression {
                self.head.encoding = ContentEncoding::parse(word);
            }
        } else if is("connection") {
            self.head.keep_alive =
                !has_word(text, "close") && (self.head.keep_alive || has_word(text, "keep-alive"));
        } else if is("content-encoding") {
            self.head.encoding = ContentEncoding::parse(text);
        } else if is("content-type") {
            self.head.media = media(text);
        } else if is("retry-after") {
            self.head.retry_after = RetryAfter::parse(text);
        } else if is("date") {
            self.head.date = date::parse(text);
        } else if is("x-queue-time") {
            let millis = text.parse().ok().filter(|millis: &f64| *millis >= 0.0);
            self.head.queue_time = millis.map(Nanos::from_millis_f64);
        } else if is("x-compute-tokens") {
            self.head.compute_tokens = text.parse().ok();
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Head {
        let has_no_body = matches!(self.head.status, 204 | 304);
        self.head.length = match self.content_length {
            _ if has_no_body => BodyLength::Fixed(0),
            // With both headers the body is chunked, and the connection is not reused.
            Some(_) if self.is_chunked => {
                self.head.keep_alive = false;
                BodyLength::Chunked
            }
            _ if self.is_chunked => BodyLength::Chunked,
            Some(length) => BodyLength::Fixed(length),
            None => {
                self.head.keep_alive = false;
                BodyLength::UntilEof
            }
        };
        self.head
    }
}

fn has_word(list: &str, word: &str) -> bool {
    list.split(',').any(|item| item.trim().eq_ignore_ascii_case(word))
}

/// Whether a transfer coding compresses the body.
fn is_compression(word: &str) -> bool {
    ["gzip", "x-gzip", "deflate"].iter().any(|name| name.eq_ignore_ascii_case(word))
}

fn media(text: &str) -> Media {
    let kind = text.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    match kind.as_str() {
        "text/event-stream" => Media::EventStream,
        "application/json" => Media::Json,
        "application/octet-stream" => Media::Octets,
        "text/plain" => Media::Plain,
        "application/x-ndjson"
        | "application/ndjson"
        | "application/jsonl"
        | "application/x-jsonlines"
        | "application/stream+json"
        | "application/x-json-stream" => Media::JsonLines,
        _ => Media::Other,
    }
}
