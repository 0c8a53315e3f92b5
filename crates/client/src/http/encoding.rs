//! Compressed bodies, decoded as they come.
//!
//! Every request asks for an uncompressed answer. A server, or a proxy in front of it, may compress all
//! the same: gzip and deflate are decoded, anything else is refused by its name.

use std::io::Write as _;

use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

/// How a body is compressed, by `Content-Encoding`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ContentEncoding {
    /// Not at all.
    #[default]
    Identity,
    /// `gzip`.
    Gzip,
    /// `deflate`: zlib's format, or that inside of it.
    Deflate,
    /// `br`.
    Brotli,
    /// `zstd`.
    Zstd,
    /// Anything else, or several on top of each other.
    Other,
}

impl ContentEncoding {
    pub(crate) fn parse(text: &str) -> Self {
        match text.to_ascii_lowercase().as_str() {
            "" | "identity" => Self::Identity,
            "gzip" | "x-gzip" => Self::Gzip,
            "deflate" => Self::Deflate,
            "br" => Self::Brotli,
            "zstd" => Self::Zstd,
            _ => Self::Other,
        }
    }

    /// As servers write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
            Self::Other => "an unknown encoding",
        }
    }

    /// Whether bodies of it can be read.
    pub fn is_readable(self) -> bool {
        matches!(self, Self::Identity | Self::Gzip | Self::Deflate)
    }
}

/// The bytes are not what the encoding's name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undecodable;

#[derive(Debug)]
enum Inner {
    Gzip(MultiGzDecoder<Vec<u8>>),
    /// Whether there is zlib's head is known with the first byte.
    Unknown,
    Zlib(ZlibDecoder<Vec<u8>>),
    Raw(DeflateDecoder<Vec<u8>>),
}

/// Decodes one body.
#[derive(Debug)]
pub struct BodyDecoder {
    inner: Inner,
    has_input: bool,
}

/// Bytes that are decoded at a time: each may become a thousand.
const PIECE_BYTES: usize = 4096;

impl BodyDecoder {
    /// A decoder; `None` for bodies that need none or cannot be decoded.
    pub fn new(encoding: ContentEncoding) -> Option<Self> {
        let inner = match encoding {
            ContentEncoding::Gzip => Inner::Gzip(MultiGzDecoder::new(Vec::new())),
            ContentEncoding::Deflate => Inner::Unknown,
            _ => return None,
        };
        Some(Self { inner, has_input: false })
    }

    /// Takes the next bytes of the body and passes on what they decode to, as far as that is known.
    pub fn feed(&mut self, bytes: &[u8], mut sink: impl FnMut(&[u8])) -> Result<(), Undecodable> {
        for piece in bytes.chunks(PIECE_BYTES) {
            self.has_input = true;
            if matches!(self.inner, Inner::Unknown) {
                self.inner = recognised(piece[0]);
            }
            match &mut self.inner {
                Inner::Gzip(decoder) => decoder.write_all(piece).and_then(|()| decoder.flush()),
                Inner::Zlib(decoder) => decoder.write_all(piece).and_then(|()| decoder.flush()),
                Inner::Raw(decoder) => decoder.write_all(piece).and_then(|()| decoder.flush()),
                Inner::Unknown => Ok(()),
            }
            .map_err(|_| Undecodable)?;
            self.drain(&mut sink);
        }
        Ok(())
    }

    /// The body is over: what is left of it, unless it is cut.
    pub fn finish(&mut self, mut sink: impl FnMut(&[u8])) -> Result<(), Undecodable> {
        if !self.has_input {
            return Ok(());
        }
        match &mut self.inner {
            Inner::Gzip(decoder) => decoder.try_finish(),
            Inner::Zlib(decoder) => decoder.try_finish(),
            Inner::Raw(decoder) => decoder.try_finish(),
            Inner::Unknown => Ok(()),
        }
        .map_err(|_| Undecodable)?;
        self.drain(&mut sink);
        Ok(())
    }

    fn drain(&mut self, sink: &mut impl FnMut(&[u8])) {
        let decoded = match &mut self.inner {
            Inner::Gzip(decoder) => decoder.get_mut(),
            Inner::Zlib(decoder) => decoder.get_mut(),
            Inner::Raw(decoder) => decoder.get_mut(),
            Inner::Unknown => return,
        };
        if !decoded.is_empty() {
            sink(decoded);
            decoded.clear();
        }
    }
}

/// Some servers leave zlib's head out, though the name of the encoding implies it. Its first byte
/// names the method 8; no stream without the head begins so in practice.
fn recognised(first: u8) -> Inner {
    if first & 0x0f == 8 && first >> 4 <= 7 {
        Inner::Zlib(ZlibDecoder::new(Vec::new()))
    } else {
        Inner::Raw(DeflateDecoder::new(Vec::new()))
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;

    fn decoded(
        encoding: ContentEncoding,
        bytes: &[u8],
        step: usize,
    ) -> Result<Vec<u8>, Undecodable> {
        let mut decoder = BodyDecoder::new(encoding).unwrap();
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
    fn every_readable_encoding_is_decoded_at_any_split() {
        let text = b"data: {\"a\": 1}\n\n".repeat(50);
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        zlib.write_all(&text).unwrap();
        let mut raw = DeflateEncoder::new(Vec::new(), Compression::default());
        raw.write_all(&text).unwrap();
        let bodies = [
            (ContentEncoding::Gzip, gzip(&text)),
            (ContentEncoding::Gzip, [gzip(&text[..100]), gzip(&text[100..])].concat()),
            (ContentEncoding::Deflate, zlib.finish().unwrap()),
            (ContentEncoding::Deflate, raw.finish().unwrap()),
        ];
        for (encoding, body) in bodies {
            for step in 1..=body.len() {
                assert_eq!(decoded(encoding, &body, step).as_deref(), Ok(&text[..]), "{step}");
            }
            let cut = decoded(encoding, &body[..body.len() / 2], 7);
            assert_ne!(cut.as_deref(), Ok(&text[..]), "half of it is not all of it");
        }
        assert_eq!(decoded(ContentEncoding::Gzip, b"this is not gzip", 16), Err(Undecodable));
        assert_eq!(decoded(ContentEncoding::Gzip, b"", 1).as_deref(), Ok(&b""[..]));
    }

    /// A server that flushes after each event has its events decoded when they come.
    #[test]
    fn a_flushed_block_is_decoded_before_the_next_comes() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(b"one").unwrap();
        encoder.flush().unwrap();
        let mut decoder = BodyDecoder::new(ContentEncoding::Gzip).unwrap();
        let mut body = Vec::new();
        let first = encoder.get_ref().clone();
        decoder.feed(&first, |plain| body.extend_from_slice(plain)).unwrap();
        assert_eq!(body, b"one");
    }

    #[test]
    fn encodings_are_known_by_name_and_several_at_once_are_refused() {
        assert_eq!(ContentEncoding::parse("GZIP"), ContentEncoding::Gzip);
        assert_eq!(ContentEncoding::parse("identity"), ContentEncoding::Identity);
        for (name, shown) in [("br", "br"), ("zstd", "zstd"), ("gzip, br", "an unknown encoding")] {
            let encoding = ContentEncoding::parse(name);
            assert!(!encoding.is_readable());
            assert_eq!(encoding.name(), shown);
        }
    }
}
