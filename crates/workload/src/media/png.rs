//! Images as PNG, without compression: noise has none to gain.

/// Bytes of one stored part of the data.
const STORED_MAX: usize = 0xffff;

/// An image whose pixels are given line by line.
pub(super) fn encode((width, height): (u16, u16), mut pixel: impl FnMut() -> [u8; 3]) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut head = Vec::new();
    head.extend_from_slice(&u32::from(width).to_be_bytes());
    head.extend_from_slice(&u32::from(height).to_be_bytes());
    // Eight bits per colour, three colours.
    head.extend_from_slice(&[8, 2, 0, 0, 0]);
    chunk(&mut bytes, *b"IHDR", &head);
    let mut lines = Vec::with_capacity(usize::from(height) * (usize::from(width) * 3 + 1));
    for _ in 0..height {
        // Each line begins with its filter: none.
        lines.extend_from_slice(&[0]);
        for _ in 0..width {
            lines.extend_from_slice(&pixel());
        }
    }
    chunk(&mut bytes, *b"IDAT", &stored(&lines));
    chunk(&mut bytes, *b"IEND", &[]);
    bytes
}

/// A zlib stream of stored parts.
fn stored(data: &[u8]) -> Vec<u8> {
    let mut stream = vec![0x78, 0x01];
    let mut parts = data.chunks(STORED_MAX).peekable();
    while let Some(part) = parts.next() {
        let length = u16::try_from(part.len()).unwrap_or(u16::MAX);
        stream.push(u8::from(parts.peek().is_none()));
        stream.extend_from_slice(&length.to_le_bytes());
        stream.extend_from_slice(&(!length).to_le_bytes());
        stream.extend_from_slice(part);
    }
    let (mut low, mut high) = (1_u32, 0_u32);
    for part in data.chunks(5_552) {
        for byte in part {
            low += u32::from(*byte);
            high += low;
        }
        (low, high) = (low % 65_521, high % 65_521);
    }
    stream.extend_from_slice(&((high << 16) | low).to_be_bytes());
    stream
}

fn chunk(bytes: &mut Vec<u8>, kind: [u8; 4], content: &[u8]) {
    let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(&kind);
    bytes.extend_from_slice(content);
    let sum = kind.iter().chain(content).fold(u32::MAX, |sum, byte| {
        let index = usize::try_from((sum ^ u32::from(*byte)) & 0xff).unwrap_or(0);
        (sum >> 8) ^ SUMS[index]
    });
    bytes.extend_from_slice(&(!sum).to_be_bytes());
}

/// The check sum of every byte.
static SUMS: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0_u32;
    while index < 256 {
        let (mut sum, mut bit) = (index, 0);
        while bit < 8 {
            sum = if sum & 1 == 1 { (sum >> 1) ^ 0xedb8_8320 } else { sum >> 1 };
            bit += 1;
        }
        table[index as usize] = sum;
        index += 1;
    }
    table
};

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
