//! Reads HTTP/1.1 requests from bytes and writes the heads of answers.
//!
//! In: bytes as the socket gave them. Out: whole requests, head and body, one at a time; what follows a
//! request stays for the next call. Bodies have a length or are chunked. Does no I/O.

use std::fmt::Write as _;

const HEAD_BYTES_MAX: usize = 64 * 1024;

/// The longest body that is read, in bytes: a prompt of a million tokens has about 6 MB.
const BODY_BYTES_MAX: usize = 256 * 1024 * 1024;

const HEADERS_MAX: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct HttpRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) request_id: Option<String>,
    pub(crate) authorization: Option<String>,
    /// Empty when the client names none.
    pub(crate) content_type: String,
    pub(crate) persistence: Persistence,
    pub(crate) body: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Persistence {
    #[default]
    KeepAlive,
    Close,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RequestProgress {
    Incomplete,
    /// The client waits for `100 Continue` before it sends its body.
    WantsContinue,
    Complete(HttpRequest),
    /// Not HTTP that this server reads; the reason.
    Broken(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    Length(usize),
    Chunked,
}

#[derive(Debug)]
struct ParsedHead {
    request: HttpRequest,
    body: Body,
    wants_continue: bool,
}

#[derive(Debug, Default)]
pub(crate) struct RequestReader {
    bytes: Vec<u8>,
    /// The head, once it is whole; its bytes are gone from `bytes`.
    head: Option<ParsedHead>,
}

impl RequestReader {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Whether nothing of a next request has arrived.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.head.is_none()
    }

    pub(crate) fn next(&mut self) -> RequestProgress {
        if self.head.is_none() {
            match parse_head(&self.bytes) {
                Ok(Some((head, length))) => {
                    self.bytes.drain(..length);
                    self.head = Some(head);
                }
                Ok(None) if self.bytes.len() > HEAD_BYTES_MAX => {
                    return RequestProgress::Broken("the head is too long");
                }
                Ok(None) => return RequestProgress::Incomplete,
                Err(reason) => return RequestProgress::Broken(reason),
            }
        }
        self.next_body()
    }

    fn next_body(&mut self) -> RequestProgress {
        let Some(head) = &mut self.head else { return RequestProgress::Incomplete };
        let is_complete = match head.body {
            Body::Length(length) if self.bytes.len() < length => false,
            Body::Length(length) => {
                head.request.body = self.bytes.drain(..length).collect();
                true
            }
            Body::Chunked => match take_chunks(&mut self.bytes, &mut head.request.body) {
                Ok(is_complete) => is_complete,
                Err(reason) => return RequestProgress::Broken(reason),
            },
        };
        if is_complete {
            let request = self.head.take().map(|head| head.request).unwrap_or_default();
            return RequestProgress::Complete(request);
        }
        if self.bytes.len().max(head.request.body.len()) > BODY_BYTES_MAX {
            return RequestProgress::Broken("the body is too long");
        }
        let wants_continue = std::mem::take(&mut head.wants_continue);
        if wants_continue { RequestProgress::WantsContinue } else { RequestProgress::Incomplete }
    }
}

fn parse_head(bytes: &[u8]) -> Result<Option<(ParsedHead, usize)>, &'static str> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut headers);
    let length = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err("the head is not HTTP/1.1"),
    };
    let target = parsed.path.unwrap_or("/");
    let mut request = HttpRequest {
        method: parsed.method.unwrap_or("GET").to_owned(),
        path: target.split('?').next().unwrap_or(target).to_owned(),
        ..HttpRequest::default()
    };
    if parsed.version == Some(0) {
        request.persistence = Persistence::Close;
    }
    let mut head = ParsedHead { request, body: Body::Length(0), wants_continue: false };
    for header in parsed.headers.iter() {
        head.apply(header.name, String::from_utf8_lossy(header.value).trim())?;
    }
    Ok(Some((head, length)))
}

impl ParsedHead {
    fn apply(&mut self, name: &str, value: &str) -> Result<(), &'static str> {
        if name.eq_ignore_ascii_case("content-length") {
            let length = value.parse().map_err(|_| "the content length is not a number")?;
            self.body = Body::Length(length);
        } else if name.eq_ignore_ascii_case("content-type") {
            value.clone_into(&mut self.request.content_type);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            if value.eq_ignore_ascii_case("chunked") {
                self.body = Body::Chunked;
            }
        } else if name.eq_ignore_ascii_case("connection") {
            if value.eq_ignore_ascii_case("close") {
                self.request.persistence = Persistence::Close;
            }
        } else if name.eq_ignore_ascii_case("expect") {
            self.wants_continue = value.eq_ignore_ascii_case("100-continue");
        } else if name.eq_ignore_ascii_case("x-request-id") {
            self.request.request_id = Some(value.to_owned());
        } else if name.eq_ignore_ascii_case("authorization") {
            self.request.authorization = Some(value.to_owned());
        }
        Ok(())
    }
}

/// Moves whole chunks from `bytes` to `body`. `true` after the last one.
fn take_chunks(bytes: &mut Vec<u8>, body: &mut Vec<u8>) -> Result<bool, &'static str> {
    let mut at = 0;
    let is_complete = loop {
        let (start, size) = match httparse::parse_chunk_size(&bytes[at..]) {
            Ok(httparse::Status::Complete((start, size))) => (at + start, size),
            Ok(httparse::Status::Partial) => break false,
            Err(_) => return Err("a chunk has no size"),
        };
        // A larger number could not be added to an offset.
        let size = usize::try_from(size).ok().filter(|size| *size <= BODY_BYTES_MAX);
        let size = size.ok_or("a chunk is too long")?;
        if size == 0 {
            // Trailers are not read: no client of this server sends them.
            let Some(end) = bytes.get(start..start + 2) else { break false };
            if end != b"\r\n" {
                return Err("the body has trailers");
            }
            at = start + 2;
            break true;
        }
        if bytes.len() < start + size + 2 {
            break false;
        }
        body.extend_from_slice(&bytes[start..start + size]);
        at = start + size + 2;
    };
    bytes.drain(..at);
    Ok(is_complete)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyFraming {
    Length(usize),
    Chunked,
}

/// The head of an answer: status line, the server's own headers in order, framing.
pub(crate) fn head(
    status: u16,
    headers: &[(&str, String)],
    framing: BodyFraming,
    persistence: Persistence,
) -> String {
    let mut text = format!("HTTP/1.1 {status} {}\r\n", reason(status));
    for (name, value) in headers {
        let _ = write!(text, "{name}: {value}\r\n");
    }
    let _ = match framing {
        BodyFraming::Length(length) => write!(text, "content-length: {length}\r\n"),
        BodyFraming::Chunked => write!(text, "transfer-encoding: chunked\r\n"),
    };
    if persistence == Persistence::Close {
        text.push_str("connection: close\r\n");
    }
    text.push_str("\r\n");
    text
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        405 => "Method Not Allowed",
        413 => "Content Too Large",
        422 => "Unprocessable Entity",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_in_pieces(bytes: &[u8], size: usize) -> Vec<RequestProgress> {
        let mut reader = RequestReader::default();
        let mut seen = Vec::new();
        for piece in bytes.chunks(size) {
            reader.push(piece);
            loop {
                match reader.next() {
                    RequestProgress::Incomplete => break,
                    RequestProgress::Broken(reason) => {
                        seen.push(RequestProgress::Broken(reason));
                        return seen;
                    }
                    other => seen.push(other),
                }
            }
        }
        seen
    }

    #[test]
    fn splitting_the_bytes_anywhere_changes_nothing() {
        let bytes = b"POST /v1/completions?x=1 HTTP/1.1\r\nHost: a\r\nX-Request-Id: bench-1\r\n\
            Content-Length: 4\r\n\r\nbodyPOST /two HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\
            Connection: close\r\nAuthorization: Bearer k\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
        let first = HttpRequest {
            method: "POST".to_owned(),
            path: "/v1/completions".to_owned(),
            request_id: Some("bench-1".to_owned()),
            body: b"body".to_vec(),
            ..HttpRequest::default()
        };
        let second = HttpRequest {
            method: "POST".to_owned(),
            path: "/two".to_owned(),
            authorization: Some("Bearer k".to_owned()),
            persistence: Persistence::Close,
            body: b"abcde".to_vec(),
            ..HttpRequest::default()
        };
        let expected = [RequestProgress::Complete(first), RequestProgress::Complete(second)];
        for size in 1..=bytes.len() {
            assert_eq!(read_in_pieces(bytes, size), expected, "in pieces of {size}");
        }
    }

    #[test]
    fn a_client_that_waits_for_leave_is_told_once() {
        let bytes = b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nok";
        let seen = read_in_pieces(bytes, bytes.len() - 2);
        assert!(
            matches!(seen[..], [RequestProgress::WantsContinue, RequestProgress::Complete(_)]),
            "{seen:?}"
        );
        // A client that sent its body at once needs no `100 Continue`.
        let seen = read_in_pieces(bytes, bytes.len());
        assert!(matches!(seen[..], [RequestProgress::Complete(_)]), "{seen:?}");
    }

    #[test]
    fn what_is_not_http_is_broken() {
        let check = |bytes: &[u8], expected: &'static str| {
            assert_eq!(read_in_pieces(bytes, bytes.len()), [RequestProgress::Broken(expected)]);
        };
        check(b"\x16\x03\x01 hello", "the head is not HTTP/1.1");
        check(b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n", "the content length is not a number");
        check(b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "a chunk has no size");
        // Such a size ended the server: the end of the chunk overflowed.
        check(
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nab",
            "a chunk is too long",
        );
    }
}
