//! Reads one HTTP response from its header to its end.

use super::chunked::Decoder;
use super::head::{Builder, Head};

const MAX_HEAD_BYTES: usize = 64 * 1024;
/// More than any known server sends.
const MAX_HEADERS: usize = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    #[error("the response header is not HTTP/1: {0}")]
    Head(httparse::Error),
    #[error("the server speaks TLS on this port; use https:// in `--base-url`")]
    TlsRecord,
    #[error("the server speaks only HTTP/2 on this port; HTTP/1.1 is needed")]
    Http2,
    #[error("the response header is longer than {MAX_HEAD_BYTES} bytes")]
    LongHead,
    #[error("the content length of the response is invalid")]
    BodyLength,
    #[error("the server switched protocols without being asked to")]
    Switch,
    #[error("the response body is not valid chunked encoding")]
    Chunk,
    #[error(
        "the server compressed the response ({0}) though it was asked not to; turn compression off in the server or in the proxy in front of it"
    )]
    Encoding(&'static str),
    #[error("the response body is not valid gzip")]
    Compressed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyPart<'a> {
    More,
    /// A slice of the input, without chunked coding.
    Data(&'a [u8]),
    /// The body is complete; the rest of the input does not belong to it.
    End,
}

#[derive(Debug)]
pub(super) enum BodyState {
    Fixed(u64),
    Chunked(Decoder),
    UntilEof,
    Over,
}

/// Reads one response. The header may arrive in any pieces; the body is never copied.
#[derive(Debug)]
pub struct ResponseReader {
    carry: Vec<u8>,
    interim: Option<u16>,
    body: BodyState,
}

impl Default for ResponseReader {
    fn default() -> Self {
        Self { carry: Vec::new(), interim: None, body: BodyState::Over }
    }
}

impl ResponseReader {
    pub fn reset(&mut self) {
        self.carry.clear();
        self.interim = None;
        self.body = BodyState::Over;
    }

    /// Status of an interim answer (1xx) that came before the answer.
    pub fn interim(&self) -> Option<u16> {
        self.interim
    }

    pub fn is_in_head(&self) -> bool {
        !self.carry.is_empty()
    }

    /// Consumes a header from the front of `input` and calls the callback for each field. `None`
    /// while it is incomplete: all input is consumed then. Interim responses (1xx) are skipped.
    pub fn read_head(
        &mut self,
        input: &mut &[u8],
        mut on_header: impl FnMut(&str, &[u8]),
    ) -> Result<Option<Head>, HttpError> {
        loop {
            let carried = self.carry.len();
            if carried > 0 {
                let may_complete = input.contains(&b'\n');
                self.carry.extend_from_slice(input);
                if !may_complete {
                    return self.incomplete_head(input);
                }
            }
            let bytes: &[u8] = if carried > 0 { &self.carry } else { input };
            let Some((length, parsed)) = parse_head(bytes, &mut on_header)? else {
                if carried == 0 {
                    self.carry.extend_from_slice(input);
                }
                return self.incomplete_head(input);
            };
            *input = &input[length - carried..];
            self.carry.clear();
            let head = match parsed {
                Parsed::Final(head, body) => {
                    self.body = body;
                    head
                }
                Parsed::Interim(status) => {
                    self.interim = Some(status);
                    continue;
                }
            };
            return Ok(Some(head));
        }
    }

    fn incomplete_head(&self, input: &mut &[u8]) -> Result<Option<Head>, HttpError> {
        *input = &[];
        if self.carry.len() > MAX_HEAD_BYTES { Err(HttpError::LongHead) } else { Ok(None) }
    }

    #[inline]
    pub fn read_body<'a>(&mut self, input: &mut &'a [u8]) -> Result<BodyPart<'a>, HttpError> {
        match &mut self.body {
            BodyState::Chunked(decoder) => {
                let part = decoder.next(input)?;
                if part == BodyPart::End {
                    self.body = BodyState::Over;
                }
                Ok(part)
            }
            BodyState::Over | BodyState::Fixed(0) => {
                self.body = BodyState::Over;
                Ok(BodyPart::End)
            }
            _ if input.is_empty() => Ok(BodyPart::More),
            BodyState::UntilEof => Ok(BodyPart::Data(std::mem::take(input))),
            BodyState::Fixed(left) => {
                let length = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                let (data, rest) = input.split_at(length);
                *input = rest;
                *left -= length as u64;
                Ok(BodyPart::Data(data))
            }
        }
    }

    /// Whether closing the connection is the regular end of this body.
    pub fn ends_at_eof(&self) -> bool {
        matches!(self.body, BodyState::UntilEof)
    }
}

enum Parsed {
    Final(Head, BodyState),
    Interim(u16),
}

/// The head at the front of `bytes` and its length; nothing for a head that is not complete.
fn parse_head(
    bytes: &[u8],
    on_header: &mut impl FnMut(&str, &[u8]),
) -> Result<Option<(usize, Parsed)>, HttpError> {
    match bytes {
        [0x15 | 0x16, 0x03, ..] | [0x15 | 0x16] => return Err(HttpError::TlsRecord),
        // A frame of settings, which opens every HTTP/2 connection.
        [0, ..] => return Err(HttpError::Http2),
        _ => {}
    }
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    // Old servers fold long lines; a client has to join them again (RFC 9112, 5.2).
    let mut rules = httparse::ParserConfig::default();
    rules.allow_obsolete_multiline_headers_in_responses(true);
    let length = match rules.parse_response(&mut response, bytes).map_err(HttpError::Head)? {
        httparse::Status::Partial => return Ok(None),
        httparse::Status::Complete(length) => length,
    };
    let status = response.code.unwrap_or(0);
    match status {
        101 => return Err(HttpError::Switch),
        100..200 => return Ok(Some((length, Parsed::Interim(status)))),
        _ => {}
    }
    let mut builder = Builder::new(status, response.version.unwrap_or(0));
    for header in response.headers.iter() {
        builder.header(header.name, header.value)?;
        on_header(header.name, header.value);
    }
    let (head, body) = builder.finish();
    Ok(Some((length, Parsed::Final(head, body))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::ContentEncoding;
    use tokometer_base::{Nanos, WallNanos};

    use crate::http::{Media, RetryAfter};

    /// Status, keep-alive, body, and whether the end was reached.
    type Read = (u16, bool, Vec<u8>, bool);

    fn read(bytes: &[u8], step: usize) -> Result<Read, HttpError> {
        let mut reader = ResponseReader::default();
        let (mut head, mut body): (Option<Head>, Vec<u8>) = (None, Vec::new());
        for piece in bytes.chunks(step) {
            let mut input = piece;
            if head.is_none() {
                head = reader.read_head(&mut input, |_, _| {})?;
            }
            while let Some(head) = &head {
                match reader.read_body(&mut input)? {
                    BodyPart::More => break,
                    BodyPart::Data(data) => body.extend_from_slice(data),
                    BodyPart::End => return Ok((head.status, head.keep_alive, body, true)),
                }
            }
        }
        let (status, keep_alive) = head.map_or((0, false), |head| (head.status, head.keep_alive));
        Ok((status, keep_alive, body, reader.ends_at_eof()))
    }

    #[test]
    fn bodies_end_by_length_by_chunks_or_with_the_connection() {
        let check = |bytes: &str, status, keep_alive, body: &str, is_over| {
            for step in 1..=bytes.len() {
                let expected = (status, keep_alive, body.as_bytes().to_vec(), is_over);
                assert_eq!(read(bytes.as_bytes(), step), Ok(expected), "step {step} of {bytes:?}");
            }
        };
        check("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef", 200, true, "abc", true);
        check("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n ", 200, true, "", true);
        check(
            "HTTP/1.1 503 \r\ncontent-length: 2\r\nconnection: close\r\n\r\nno",
            503,
            false,
            "no",
            true,
        );
        check("HTTP/1.0 200 OK\r\n\r\nab", 200, false, "ab", true);
        check(
            "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\nab",
            200,
            true,
            "a",
            true,
        );
        check(
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
            200,
            true,
            "ab",
            true,
        );
        check("HTTP/1.1 204 No Content\r\n\r\n ", 204, true, "", true);
        check("HTTP/1.1 200 OK\r\nContent-Length: 3, 3\r\n\r\nabcdef", 200, true, "abc", true);
        check(
            "HTTP/1.1 200 OK\r\nX: a\r\n\tb\r\nTransfer-Encoding:\r\n chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
            200,
            true,
            "ab",
            true,
        );
        check("HTTP/1.1 200 OK\r\nContent-Le", 0, false, "", false);
    }

    #[test]
    fn bytes_that_are_not_http_are_an_error_at_once() {
        let check = |bytes: &[u8], expected: HttpError| {
            for step in [1, 7, bytes.len()] {
                assert_eq!(read(bytes, step), Err(expected));
            }
        };
        check(b"SSH-2.0-OpenSSH_9\r\n\r\n", HttpError::Head(httparse::Error::Version));
        check(b"\x15\x03\x01\x00\x02\x02\x46", HttpError::TlsRecord);
        check(b"\x00\x00\x12\x04\x00\x00\x00\x00\x00", HttpError::Http2);
        check(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", HttpError::BodyLength);
        check(
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            HttpError::BodyLength,
        );
        check(b"HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\n", HttpError::BodyLength);
        check(b"HTTP/1.1 101 Switching\r\n\r\n", HttpError::Switch);
        check(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", HttpError::Chunk);
        let mut long = b"HTTP/1.1 200 OK\r\nx: ".to_vec();
        long.resize(MAX_HEAD_BYTES + 100, b'a');
        assert_eq!(read(&long, 1000), Err(HttpError::LongHead));
    }

    #[test]
    fn the_header_gives_media_type_and_waiting_times() {
        let mut reader = ResponseReader::default();
        let bytes = b"HTTP/1.1 429 X\r\nContent-Type: Application/JSON; charset=utf-8\r\nRetry-After: 2\r\nx-queue-time: 5\r\n\r\n";
        let mut names = Vec::new();
        let head = reader
            .read_head(&mut &bytes[..], |name, _| names.push(name.to_owned()))
            .unwrap()
            .unwrap();
        assert_eq!(head.media, Media::Json);
        assert_eq!(head.retry_after, Some(RetryAfter::Wait(Nanos::from_secs(2))));
        assert_eq!(head.queue_time.map(|wait| wait.0), Some(5_000_000));
        assert_eq!(names, ["Content-Type", "Retry-After", "x-queue-time"]);
    }

    #[test]
    fn a_body_may_be_compressed_for_its_transfer() {
        for (value, expected) in [
            ("chunked", ContentEncoding::Identity),
            ("gzip, chunked", ContentEncoding::Gzip),
            ("Deflate,chunked", ContentEncoding::Unreadable("deflate")),
        ] {
            let bytes = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: {value}\r\n\r\n");
            let mut reader = ResponseReader::default();
            let head = reader.read_head(&mut bytes.as_bytes(), |_, _| {}).unwrap().unwrap();
            assert_eq!(head.encoding, expected, "{value}");
            assert!(matches!(reader.body, BodyState::Chunked(_)), "{value}");
        }
    }

    #[test]
    fn a_wait_is_a_number_of_seconds_or_a_date() {
        let check = |value: &str, expected: Option<u64>| {
            let bytes = format!("HTTP/1.1 503 X\r\nRetry-After: {value}\r\n\r\n");
            let mut reader = ResponseReader::default();
            let head = reader.read_head(&mut bytes.as_bytes(), |_, _| {}).unwrap().unwrap();
            let now = WallNanos(784_111_700_000_000_000);
            let wait = head.retry_after.map(|after| after.wait(now).0 / 1_000_000_000);
            assert_eq!(wait, expected, "{value}");
        };
        check("120", Some(120));
        check(" 1.5 ", Some(1));
        check("-3", Some(0));
        check("NaN", None);
        check("soon", None);
        check("Sun, 06 Nov 1994 08:49:37 GMT", Some(77));
        check("Sun, 06 Nov 1994 08:00:00 GMT", Some(0));
        assert_eq!(RetryAfter::At(WallNanos(5)).wait(WallNanos(9)), Nanos::ZERO);
    }
}
