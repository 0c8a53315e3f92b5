//! The parts of a response header that matter for reading its body.

use tokometer_base::{Nanos, WallNanos};

use super::chunked::Decoder;
use super::encoding::ContentEncoding;
use super::reader::{BodyState, HttpError};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Media {
    EventStream,
    Json,
    /// One JSON value per line, such as `application/x-ndjson`.
    JsonLines,
    Octets,
    Plain,
    #[default]
    Other,
}

/// The header of a final (not 1xx) response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    pub status: u16,
    pub keep_alive: bool,
    pub media: Media,
    pub encoding: ContentEncoding,
    /// From `Retry-After`; `None` where absent or unreadable.
    pub retry_after: Option<RetryAfter>,
    /// The server's clock, from `Date`.
    pub date: Option<WallNanos>,
    /// Time in the server's queue, which TGI sends in a header. `None` for other servers.
    pub queue_time: Option<Nanos>,
    /// Tokens of the inputs, which Text Embeddings Inference sends in a header.
    pub compute_tokens: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAfter {
    Wait(Nanos),
    At(WallNanos),
}

impl RetryAfter {
    fn parse(text: &str) -> Option<Self> {
        match text.parse::<f64>() {
            Ok(seconds) if seconds.is_nan() => None,
            Ok(seconds) => Some(Self::Wait(Nanos::from_secs_f64(seconds.max(0.0)))),
            Err(_) => parse_date(text).map(Self::At),
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

pub(super) struct Builder {
    head: Head,
    content_length: Option<u64>,
    is_chunked: bool,
}

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
        };
        Self { head, content_length: None, is_chunked: false }
    }

    pub(super) fn header(&mut self, name: &str, value: &[u8]) -> Result<(), HttpError> {
        let is = |wanted: &str| name.eq_ignore_ascii_case(wanted);
        let text = std::str::from_utf8(value).unwrap_or("").trim();
        if is("content-length") {
            // Proxies join repeated headers to a list.
            for part in text.split(',') {
                let length: u64 = part.trim().parse().map_err(|_| HttpError::BodyLength)?;
                if self.content_length.is_some_and(|known| known != length) {
                    return Err(HttpError::BodyLength);
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
            self.head.date = parse_date(text);
        } else if is("x-queue-time") {
            let millis = text.parse().ok().filter(|millis: &f64| *millis >= 0.0);
            self.head.queue_time = millis.map(Nanos::from_millis_f64);
        } else if is("x-compute-tokens") {
            self.head.compute_tokens = text.parse().ok();
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> (Head, BodyState) {
        let body = match self.content_length {
            _ if matches!(self.head.status, 204 | 304) => BodyState::Fixed(0),
            // With both headers the body is chunked, and the connection is not reused.
            length if self.is_chunked => {
                self.head.keep_alive &= length.is_none();
                BodyState::Chunked(Decoder::new())
            }
            Some(length) => BodyState::Fixed(length),
            None => {
                self.head.keep_alive = false;
                BodyState::UntilEof
            }
        };
        (self.head, body)
    }
}

/// Reads `Sun, 06 Nov 1994 08:49:37 GMT`. The day of the week is not checked.
fn parse_date(text: &str) -> Option<WallNanos> {
    let parser = jiff::fmt::rfc2822::DateTimeParser::new().relaxed_weekday(true);
    // The parser takes zones that it does not know for UTC.
    let at = parser.parse_timestamp(text).ok().filter(|_| text.ends_with("GMT"))?;
    u64::try_from(at.as_nanosecond()).ok().map(WallNanos)
}

fn has_word(list: &str, word: &str) -> bool {
    list.split(',').any(|item| item.trim().eq_ignore_ascii_case(word))
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_http_are_seconds_since_1970() {
        let check = |text: &str, seconds: Option<u64>| {
            assert_eq!(parse_date(text).map(|at| at.0 / 1_000_000_000), seconds, "{text}");
        };
        check("Thu, 01 Jan 1970 00:00:00 GMT", Some(0));
        check("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777));
        check("Thu, 29 Feb 2024 23:59:59 GMT", Some(1_709_251_199));
        check("Fri, 01 Mar 2024 00:00:00 GMT", Some(1_709_251_200));
        check("Mon, 16 Nov 2026 00:30:25 GMT", Some(1_794_789_025));
        check("Fri, 31 Dec 9999 23:59:59 GMT", None);
        check("Mon, 16 Foo 2026 00:30:25 GMT", None);
        check("Mon, 16 Nov 2026 00:30:25 CET", None);
        check("Mon, 16 Nov 2026 +0:30:25 GMT", None);
        check("tomorrow", None);
        check("", None);
    }
}
