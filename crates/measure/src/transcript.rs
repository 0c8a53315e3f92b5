//! The first exchange of a measurement as text, for `--debug`.
//!
//! In: the bytes as sent and received. Out: lines that begin with `>` or `<`, without keys and without
//! anything that a terminal would act on.

use std::fmt::Write as _;

use tokometer_base::redact::{HIDDEN, is_public_header, is_secret_name};
use tokometer_drive::{Piece, Transcript};

use crate::secrets::Credentials;

/// Bytes of one piece that are shown, from its start and its end.
const HEAD_BYTES: usize = 32 << 10;
const TAIL_BYTES: usize = 8 << 10;
/// A longer line is continued on the next one.
const LINE_CHARS: usize = 1_000;

pub(crate) fn shown(transcript: &Transcript, credentials: &Credentials) -> String {
    let mut text = String::from("the first exchange, as sent (>) and received (<), without keys:");
    for piece in &transcript.0 {
        match piece {
            Piece::Sent(bytes) => add(&mut text, '>', bytes, is_public_header, credentials),
            Piece::Received(bytes) => {
                add(&mut text, '<', bytes, |name| !is_secret_name(name), credentials);
            }
        }
    }
    text
}

fn add(
    text: &mut String,
    mark: char,
    bytes: &[u8],
    is_public: fn(&str) -> bool,
    credentials: &Credentials,
) {
    let all = without_secret_headers(&String::from_utf8_lossy(bytes), is_public);
    // Shortened last, so that no part of a key remains at the cut.
    for line in shortened(&credentials.known.redact(&all)).lines() {
        let letters: Vec<char> = line.chars().collect();
        for part in letters.chunks(LINE_CHARS) {
            let escaped: String = part.iter().map(|letter| escaped(*letter)).collect();
            // Writing to a string cannot fail.
            let _ = write!(text, "\n{mark} {escaped}");
        }
        if letters.is_empty() {
            let _ = write!(text, "\n{mark}");
        }
    }
}

/// The text without the middle of a long one.
fn shortened(text: &str) -> String {
    let left_out = text.len().saturating_sub(HEAD_BYTES + TAIL_BYTES);
    if left_out == 0 {
        return text.to_owned();
    }
    let head = &text[..text.floor_char_boundary(HEAD_BYTES)];
    let tail = &text[text.ceil_char_boundary(text.len() - TAIL_BYTES)..];
    format!("{head}\n… {left_out} bytes left out …\n{tail}")
}

/// The same text with the values of headers hidden that may be secrets. The head ends at the first empty
/// line, and its first line has no header.
fn without_secret_headers(text: &str, is_public: fn(&str) -> bool) -> String {
    let end = text.find("\r\n\r\n").unwrap_or(text.len());
    let (head, body) = text.split_at(end);
    let hidden = |line: &str| match line.split_once(':') {
        Some((name, _)) if !name.contains(' ') && !is_public(name) => format!("{name}: {HIDDEN}"),
        _ => line.to_owned(),
    };
    head.split("\r\n").map(hidden).collect::<Vec<_>>().join("\r\n") + body
}

/// A character that a terminal may act on, as an escape sequence.
fn escaped(letter: char) -> String {
    if letter.is_control() && letter != '\t' {
        letter.escape_default().collect()
    } else {
        letter.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(pieces: Vec<Piece>, secret: &str) -> String {
        let mut credentials = Credentials::default();
        credentials.known.add(secret);
        shown(&Transcript(pieces), &credentials)
    }

    #[test]
    fn an_exchange_is_shown_without_keys_and_control_characters() {
        let sent = b"POST /v1/completions?sig=hunter22 HTTP/1.1\r\nHost: h:8000\r\nAuthorization: Bearer hunter22\r\n\
                     api-key: other\r\nx-tenant: blue\r\n\r\n{\"prompt\":\"a\",\"user\":\"hunter22\"}";
        let received = b"HTTP/1.1 200 OK\r\nserver: uvicorn\r\nset-cookie: s=1\r\n\r\n1f\r\ndata: {\"text\":\"\x1b[2J\"}\n\n\xff";
        let text =
            text(vec![Piece::Sent(sent.to_vec()), Piece::Received(received.to_vec())], "hunter22");
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "> POST /v1/completions?sig=[redacted] HTTP/1.1",
                "> Host: h:8000",
                "> Authorization: [redacted]",
                "> api-key: [redacted]",
                "> x-tenant: [redacted]",
                ">",
                "> {\"prompt\":\"a\",\"user\":\"[redacted]\"}",
                "< HTTP/1.1 200 OK",
                "< server: uvicorn",
                "< set-cookie: [redacted]",
                "<",
                "< 1f",
                "< data: {\"text\":\"\\u{1b}[2J\"}",
                "<",
                "< \u{fffd}",
            ]
        );
    }

    #[test]
    fn the_middle_of_a_long_piece_is_left_out_and_counted() {
        let long = [vec![b'a'; HEAD_BYTES], vec![b'b'; 5], vec![b'c'; TAIL_BYTES]].concat();
        let text = text(vec![Piece::Sent(long)], "hunter22");
        assert!(
            text.contains("… 5 bytes left out …")
                && !text.contains('b'.to_string().repeat(5).as_str())
        );
        assert!(text.lines().all(|line| line.chars().count() <= LINE_CHARS + 2));
    }
}
