//! Images as PNG, without compression: noise has none to gain.

use std::io::Write as _;

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};

/// An image whose pixels are given line by line.
pub(super) fn encode((width, height): (u16, u16), mut pixel: impl FnMut() -> [u8; 3]) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    let sides = [u32::from(width).to_be_bytes(), u32::from(height).to_be_bytes()].concat();
    // Eight bits per colour, three colours.
    chunk(&mut bytes, *b"IHDR", &[&sides[..], &[8, 2, 0, 0, 0]].concat());
    let mut lines = Vec::with_capacity(usize::from(height) * (usize::from(width) * 3 + 1));
    for _ in 0..height {
        // Each line begins with its filter: none.
        lines.push(0);
        for _ in 0..width {
            lines.extend_from_slice(&pixel());
        }
    }
    let mut stream = ZlibEncoder::new(Vec::new(), Compression::none());
    // Writing to memory cannot fail.
    let _written = stream.write_all(&lines);
    chunk(&mut bytes, *b"IDAT", &stream.finish().unwrap_or_default());
    chunk(&mut bytes, *b"IEND", &[]);
    bytes
}

fn chunk(bytes: &mut Vec<u8>, kind: [u8; 4], content: &[u8]) {
    let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(&kind);
    bytes.extend_from_slice(content);
    let mut sum = Crc::new();
    sum.update(&kind);
    sum.update(content);
    bytes.extend_from_slice(&sum.sum().to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_its_three_parts_with_their_sums() {
        let bytes = encode((2, 1), || [1, 2, 3]);
        assert_eq!(&bytes[12..16], b"IHDR");
        assert_eq!(&bytes[bytes.len() - 12..], b"\0\0\0\0IEND\xae\x42\x60\x82");
    }
}
