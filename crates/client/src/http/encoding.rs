//! Compressed bodies, decoded as they come.
//!
//! Every request asks for an uncompressed answer. A server, or a proxy in front of it, may compress all
//! the same: gzip is decoded, anything else is refused by its name.

use std::io::Write as _;

use flate2::write::MultiGzDecoder;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ContentEncoding {
    #[default]
    Identity,
    Gzip,
    /// One that is not decoded, by its name.
    Unreadable(&'static str),
}

impl ContentEncoding {
    pub(crate) fn parse(text: &str) -> Self {
        match text.to_ascii_lowercase().as_str() {
            "" | "identity" => Self::Identity,
            "gzip" | "x-gzip" => Self::Gzip,
            "deflate" => Self::Unreadable("deflate"),
            "br" => Self::Unreadable("br"),
            "zstd" => Self::Unreadable("zstd"),
            _ => Self::Unreadable("an unknown encoding"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undecodable;

#[derive(Debug)]
pub struct BodyDecoder {
    gzip: MultiGzDecoder<Vec<u8>>,
    has_input: bool,
}

/// Bytes that are decoded at a time: each may become a thousand.
const PIECE_BYTES: usize = 4096;

impl Default for BodyDecoder {
    fn default() -> Self {
        Self { gzip: MultiGzDecoder::new(Vec::new()), has_input: false }
    }
}

impl BodyDecoder {
    /// Takes the next bytes of the body and passes on what they decode to, as far as that is known.
    pub fn feed(&mut self, bytes: &[u8], mut sink: impl FnMut(&[u8])) -> Result<(), Undecodable> {
        for piece in bytes.chunks(PIECE_BYTES) {
            self.has_input = true;
            let written = self.gzip.write_all(piece).and_then(|()| self.gzip.flush());
            written.map_err(|_| Undecodable)?;
            self.drain(&mut sink);
        }
        Ok(())
    }

    /// The body is over: what is left of it, unless it is cut.
    pub fn finish(&mut self, mut sink: impl FnMut(&[u8])) -> Result<(), Undecodable> {
        if self.has_input {
            self.gzip.try_finish().map_err(|_| Undecodable)?;
            self.drain(&mut sink);
        }
        Ok(())
    }

    fn drain(&mut self, sink: &mut impl FnMut(&[u8])) {
        let decoded = self.gzip.get_mut();
        if !decoded.is_empty() {
            sink(decoded);
            decoded.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn decoded(bytes: &[u8], step: usize) -> Result<Vec<u8>, Undecodable> {
        let mut decoder = BodyDecoder::default();
        let mut body = Vec::new();
        for piece in bytes.chunks(step) {
            decoder.feed(piece, |plain| body.extend_from_slice(plain))?;
        }
        decoder.finish(|plain| body.extend_from_slice(plain))?;
        Ok(body)
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn gzip_is_decoded_at_any_split() {
        let text = b"data: {\"a\": 1}\n\n".repeat(50);
        let bodies = [gzip(&text), [gzip(&text[..100]), gzip(&text[100..])].concat()];
        for body in bodies {
            for step in 1..=body.len() {
                assert_eq!(decoded(&body, step).as_deref(), Ok(&text[..]), "{step}");
            }
            let cut = decoded(&body[..body.len() / 2], 7);
            assert_ne!(cut.as_deref(), Ok(&text[..]), "half of it is not all of it");
        }
        assert_eq!(decoded(b"this is not gzip", 16), Err(Undecodable));
        assert_eq!(decoded(b"", 1).as_deref(), Ok(&b""[..]));
    }

    /// A server that flushes after each event has its events decoded when they come.
    #[test]
    fn a_flushed_block_is_decoded_before_the_next_comes() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(b"one").unwrap();
        encoder.flush().unwrap();
        let mut decoder = BodyDecoder::default();
        let mut body = Vec::new();
        let first = encoder.get_ref().clone();
        decoder.feed(&first, |plain| body.extend_from_slice(plain)).unwrap();
        assert_eq!(body, b"one");
    }

    #[test]
    fn encodings_are_known_by_name_and_several_at_once_are_refused() {
        assert_eq!(ContentEncoding::parse("GZIP"), ContentEncoding::Gzip);
        assert_eq!(ContentEncoding::parse("identity"), ContentEncoding::Identity);
        for (name, shown) in [
            ("br", "br"),
            ("deflate", "deflate"),
            ("zstd", "zstd"),
            ("gzip, br", "an unknown encoding"),
        ] {
            assert_eq!(ContentEncoding::parse(name), ContentEncoding::Unreadable(shown));
        }
    }
}
