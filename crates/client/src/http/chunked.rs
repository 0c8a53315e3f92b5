//! Chunked transfer coding: sizes byte by byte, data as slices.

use super::reader::{BodyPart, HttpError};

/// Part of the coding that the next byte belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Size,
    /// After the digits: blanks or an extension, up to the end of the line.
    Extension,
    Data,
    /// The line end after a chunk's data.
    DataEnd,
    Trailers,
}

#[derive(Debug)]
pub(super) struct Decoder {
    at: At,
    /// In the digits: the size so far. Then: bytes left of the chunk.
    left: u64,
    /// Digits of the size, or bytes of the trailer line: zero means an empty line.
    seen: u32,
}

/// More digits than any body needs; prevents an overflow of the size.
const MAX_SIZE_DIGITS: u32 = 15;

fn hex_value(byte: u8) -> Option<u64> {
    char::from(byte).to_digit(16).map(u64::from)
}

impl Decoder {
    pub(super) const fn new() -> Self {
        Self { at: At::Size, left: 0, seen: 0 }
    }

    /// Consumes bytes from the front of `input`; [`BodyPart::More`] means that all were consumed.
    pub(super) fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<BodyPart<'a>, HttpError> {
        loop {
            if self.at == At::Data {
                let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(input.len());
                if length == 0 {
                    return Ok(BodyPart::More);
                }
                let (data, rest) = input.split_at(length);
                *input = rest;
                self.left -= length as u64;
                if self.left == 0 {
                    self.at = At::DataEnd;
                }
                return Ok(BodyPart::Data(data));
            }
            let Some((&byte, rest)) = input.split_first() else { return Ok(BodyPart::More) };
            *input = rest;
            if self.step(byte)? {
                return Ok(BodyPart::End);
            }
        }
    }

    /// Processes one byte outside of data. Returns true at the end of the body.
    fn step(&mut self, byte: u8) -> Result<bool, HttpError> {
        match (self.at, byte) {
            (At::Size | At::Extension, b'\n') => return self.size_line_end(),
            (At::Size, b'\r' | b';' | b' ' | b'\t') => self.at = At::Extension,
            (At::Size, _) => {
                let digit = hex_value(byte).ok_or(HttpError::Chunk)?;
                self.seen += 1;
                if self.seen > MAX_SIZE_DIGITS {
                    return Err(HttpError::Chunk);
                }
                self.left = self.left * 16 + digit;
            }
            (At::Extension, _) | (At::DataEnd | At::Trailers, b'\r') => {}
            (At::DataEnd, b'\n') => *self = Self::new(),
            (At::Trailers, b'\n') if self.seen == 0 => return Ok(true),
            (At::Trailers, b'\n') => self.seen = 0,
            (At::Trailers, _) => self.seen = 1,
            (At::DataEnd | At::Data, _) => return Err(HttpError::Chunk),
        }
        Ok(false)
    }

    fn size_line_end(&mut self) -> Result<bool, HttpError> {
        if self.seen == 0 {
            return Err(HttpError::Chunk);
        }
        self.at = if self.left == 0 { At::Trailers } else { At::Data };
        self.seen = 0;
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8], step: usize) -> (Vec<u8>, Result<bool, HttpError>, usize) {
        let (mut decoder, mut body) = (Decoder::new(), Vec::new());
        for (number, piece) in bytes.chunks(step).enumerate() {
            let mut input = piece;
            loop {
                match decoder.next(&mut input) {
                    Ok(BodyPart::Data(data)) => body.extend_from_slice(data),
                    Ok(BodyPart::More) => break,
                    Ok(BodyPart::End) => {
                        let read = number * step + piece.len() - input.len();
                        return (body, Ok(true), bytes.len() - read);
                    }
                    Err(error) => return (body, Err(error), 0),
                }
            }
        }
        (body, Ok(false), 0)
    }

    #[test]
    fn sizes_in_any_case_extensions_and_trailers_are_read_at_any_split() {
        let check = |bytes: &[u8], body: &[u8], is_over, unread| {
            for step in 1..=bytes.len() {
                assert_eq!(decoded(bytes, step), (body.to_vec(), is_over, unread), "step {step}");
            }
        };
        check(b"5\r\nhello\r\n0\r\n\r\n", b"hello", Ok(true), 0);
        check(
            b"0a;x=\"y\"\r\n0123456789\r\n1 \r\nZ\r\n0\r\nA: b\r\n\r\nHT",
            b"0123456789Z",
            Ok(true),
            2,
        );
        check(b"A\n0123456789\n00\n\n", b"0123456789", Ok(true), 0);
        check(b"5\r\nhel", b"hel", Ok(false), 0);
        check(b"\r\n", b"", Err(HttpError::Chunk), 0);
        check(b"5\r\nhelloX", b"hello", Err(HttpError::Chunk), 0);
        check(b"fffffffffffffffff\r\n", b"", Err(HttpError::Chunk), 0);
    }
}
