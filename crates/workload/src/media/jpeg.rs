//! Images as JPEG, in rows that can be put into any order.
//!
//! Baseline coding with half the resolution for colours, as common libraries write it. Each row of 16
//! lines is coded on its own (a restart interval), so that rows may be put in another order without being coded
//! again.

/// Quantisation of brightness and colour at quality 50, in zigzag order.
const LUMA: [u8; 64] = [
    16, 11, 12, 14, 12, 10, 16, 14, 13, 14, 18, 17, 16, 19, 24, 40, 26, 24, 22, 22, 24, 49, 35, 37,
    29, 40, 58, 51, 61, 60, 57, 51, 56, 55, 64, 72, 92, 78, 64, 68, 87, 69, 55, 56, 80, 109, 81,
    87, 95, 98, 103, 104, 103, 62, 77, 113, 121, 112, 100, 120, 92, 101, 103, 99,
];
const CHROMA: [u8; 64] = [
    17, 18, 18, 24, 21, 24, 47, 26, 26, 47, 99, 66, 56, 66, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
];

/// Index in a block of each coefficient in the order in which they are coded.
const ZIGZAG: [usize; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20,
    13, 6, 7, 14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59,
    52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
];

/// Number of codes of each length, and the symbols in their order.
struct CodeTable {
    lengths: [u8; 16],
    symbols: &'static [u8],
}

const DC: CodeTable = CodeTable {
    lengths: [0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0],
    symbols: &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
};

const AC: CodeTable = CodeTable {
    lengths: [0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 125],
    symbols: &[
        0x01, 0x02, 0x03, 0x00, 0x04, 0x11, 0x05, 0x12, 0x21, 0x31, 0x41, 0x06, 0x13, 0x51, 0x61,
        0x07, 0x22, 0x71, 0x14, 0x32, 0x81, 0x91, 0xa1, 0x08, 0x23, 0x42, 0xb1, 0xc1, 0x15, 0x52,
        0xd1, 0xf0, 0x24, 0x33, 0x62, 0x72, 0x82, 0x09, 0x0a, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x25,
        0x26, 0x27, 0x28, 0x29, 0x2a, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x43, 0x44, 0x45,
        0x46, 0x47, 0x48, 0x49, 0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x63, 0x64,
        0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x83,
        0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99,
        0x9a, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6,
        0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xd2, 0xd3,
        0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda, 0xe1, 0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8,
        0xe9, 0xea, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa,
    ],
};

impl CodeTable {
    fn codes(&self) -> [(u16, u8); 256] {
        let mut codes = [(0, 0); 256];
        let (mut code, mut symbols) = (0_u16, self.symbols.iter());
        for (length, count) in (1_u8..).zip(self.lengths) {
            for symbol in symbols.by_ref().take(usize::from(count)) {
                codes[usize::from(*symbol)] = (code, length);
                code = code.wrapping_add(1);
            }
            code <<= 1;
        }
        codes
    }
}

/// A coded image whose rows can be put in any order.
#[derive(Debug, Clone)]
pub(super) struct Jpeg {
    head: Vec<u8>,
    rows: Vec<Vec<u8>>,
}

impl Jpeg {
    /// Codes an image whose pixels are given line by line, padded to whole blocks.
    pub(super) fn encode(
        (width, height): (u16, u16),
        quality: u8,
        mut pixel: impl FnMut() -> [u8; 3],
    ) -> Self {
        let tables = [LUMA, CHROMA].map(|table| scaled(&table, quality));
        let coder = Coder { dc: DC.codes(), ac: AC.codes(), tables };
        let columns = usize::from(width).div_ceil(16);
        let rows = (0..usize::from(height).div_ceil(16)).map(|_| coder.row(columns, &mut pixel));
        let rows = rows.collect();
        Self { head: head(width, height, columns, &tables), rows }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn in_order(&self, order: &[usize]) -> Vec<u8> {
        let length: usize = self.rows.iter().map(|row| row.len() + 2).sum();
        let mut bytes = Vec::with_capacity(self.head.len() + length + 2);
        bytes.extend_from_slice(&self.head);
        for (index, row) in order.iter().enumerate() {
            if index > 0 {
                // Marks between rows are counted from 0 to 7, over and over.
                let number = u8::try_from((index - 1) % 8).unwrap_or(0);
                bytes.extend_from_slice(&[0xff, 0xd0 + number]);
            }
            bytes.extend_from_slice(&self.rows[*row]);
        }
        bytes.extend_from_slice(&[0xff, 0xd9]);
        bytes
    }
}

/// A table at another quality, by the rule of the common library.
fn scaled(table: &[u8; 64], quality: u8) -> [u8; 64] {
    let quality = u32::from(quality.clamp(1, 100));
    let scale = if quality < 50 { 5_000 / quality } else { 200 - 2 * quality };
    table.map(|value| {
        let scaled = (u32::from(value) * scale + 50) / 100;
        u8::try_from(scaled.clamp(1, 255)).unwrap_or(255)
    })
}

fn segment(bytes: &mut Vec<u8>, marker: u8, content: &[u8]) {
    let length = u16::try_from(content.len() + 2).unwrap_or(u16::MAX);
    bytes.extend_from_slice(&[0xff, marker]);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(content);
}

fn head(width: u16, height: u16, columns: usize, tables: &[[u8; 64]; 2]) -> Vec<u8> {
    let mut bytes = vec![0xff, 0xd8];
    segment(&mut bytes, 0xe0, b"JFIF\0\x01\x01\0\0\x01\0\x01\0\0");
    for (number, table) in (0_u8..).zip(tables) {
        segment(&mut bytes, 0xdb, &[&[number][..], table].concat());
    }
    let [h1, h0] = height.to_be_bytes();
    let [w1, w0] = width.to_be_bytes();
    // Three components; brightness has twice the resolution in both directions.
    let frame = [8, h1, h0, w1, w0, 3, 1, 0x22, 0, 2, 0x11, 1, 3, 0x11, 1];
    segment(&mut bytes, 0xc0, &frame);
    for (class, table) in [(0x00, &DC), (0x10, &AC)] {
        segment(&mut bytes, 0xc4, &[&[class][..], &table.lengths, table.symbols].concat());
    }
    let interval = u16::try_from(columns).unwrap_or(u16::MAX);
    segment(&mut bytes, 0xdd, &interval.to_be_bytes());
    segment(&mut bytes, 0xda, &[3, 1, 0, 2, 0, 3, 0, 0, 63, 0]);
    bytes
}

struct Coder {
    dc: [(u16, u8); 256],
    ac: [(u16, u8); 256],
    tables: [[u8; 64]; 2],
}

impl Coder {
    fn row(&self, columns: usize, pixel: &mut impl FnMut() -> [u8; 3]) -> Vec<u8> {
        let width = columns * 16;
        let (mut luma, mut blue, mut red) =
            (vec![0.0_f32; width * 16], vec![0.0_f32; width * 4], vec![0.0_f32; width * 4]);
        for line in 0..16 {
            for column in 0..width {
                let [r, g, b] = pixel().map(f32::from);
                luma[line * width + column] = 0.299 * r + 0.587 * g + 0.114 * b - 128.0;
                // Colours are the means of four pixels.
                let index = line / 2 * (width / 2) + column / 2;
                blue[index] += (-0.168_736 * r - 0.331_264 * g + 0.5 * b) / 4.0;
                red[index] += (0.5 * r - 0.418_688 * g - 0.081_312 * b) / 4.0;
            }
        }
        let mut bits = BitWriter::default();
        let mut last = [0_i32; 3];
        for column in 0..columns {
            for (line, part) in [(0, 0), (0, 8), (8, 0), (8, 8)] {
                let block = block(&luma, width, line, column * 16 + part);
                self.block(&block, 0, &mut last[0], &mut bits);
            }
            for (component, plane) in [(1, &blue), (2, &red)] {
                let block = block(plane, width / 2, 0, column * 8);
                self.block(&block, 1, &mut last[component], &mut bits);
            }
        }
        bits.finish()
    }

    fn block(&self, block: &[f32; 64], table: usize, last: &mut i32, bits: &mut BitWriter) {
        let coefficients = transformed(block);
        let mut coded = [0_i32; 64];
        for (index, coded) in coded.iter_mut().enumerate() {
            let step = f32::from(self.tables[table][index]);
            #[expect(clippy::cast_possible_truncation, reason = "a coefficient has 11 bits")]
            let value = (coefficients[ZIGZAG[index]] / step).round() as i32;
            *coded = value.clamp(-1_023, 1_023);
        }
        let difference = coded[0] - *last;
        *last = coded[0];
        bits.number(&self.dc, 0, difference);
        let mut zeros = 0_u8;
        for value in &coded[1..] {
            if *value == 0 {
                zeros += 1;
                continue;
            }
            while zeros > 15 {
                bits.symbol(&self.ac, 0xf0);
                zeros -= 16;
            }
            bits.number(&self.ac, zeros, *value);
            zeros = 0;
        }
        if zeros > 0 {
            bits.symbol(&self.ac, 0);
        }
    }
}

fn block(plane: &[f32], width: usize, line: usize, column: usize) -> [f32; 64] {
    let mut block = [0.0; 64];
    for (row, values) in block.chunks_mut(8).enumerate() {
        let from = (line + row) * width + column;
        values.copy_from_slice(&plane[from..from + 8]);
    }
    block
}

/// The cosine transform of a block: along its rows, then along its columns.
fn transformed(block: &[f32; 64]) -> [f32; 64] {
    static COSINES: std::sync::OnceLock<[[f32; 8]; 8]> = std::sync::OnceLock::new();
    let cosines = COSINES.get_or_init(|| {
        let mut table = [[0.0; 8]; 8];
        for (frequency, row) in (0_u8..).zip(&mut table) {
            let scale = if frequency == 0 { (1.0_f32 / 8.0).sqrt() } else { 0.5 };
            for (index, value) in (0_u8..).zip(row) {
                let angle = f32::from((2 * index + 1) * frequency) * std::f32::consts::PI / 16.0;
                *value = scale * angle.cos();
            }
        }
        table
    });
    let mut rows = [0.0; 64];
    for line in 0..8 {
        for frequency in 0..8 {
            let sum = (0..8).map(|index| block[line * 8 + index] * cosines[frequency][index]);
            rows[line * 8 + frequency] = sum.sum();
        }
    }
    let mut both = [0.0; 64];
    for column in 0..8 {
        for frequency in 0..8 {
            let sum = (0..8).map(|line| rows[line * 8 + column] * cosines[frequency][line]);
            both[frequency * 8 + column] = sum.sum();
        }
    }
    both
}

/// Bits, the first of a byte in its highest bit.
#[derive(Default)]
struct BitWriter {
    bytes: Vec<u8>,
    bits: u32,
    count: u8,
}

impl BitWriter {
    fn put(&mut self, value: u32, count: u8) {
        self.bits = (self.bits << count) | value;
        self.count += count;
        while self.count >= 8 {
            self.count -= 8;
            let byte = u8::try_from((self.bits >> self.count) & 0xff).unwrap_or(0);
            self.bytes.push(byte);
            // A byte of ones would be taken for a mark.
            if byte == 0xff {
                self.bytes.push(0);
            }
        }
        self.bits &= (1 << self.count) - 1;
    }

    fn symbol(&mut self, codes: &[(u16, u8); 256], symbol: u8) {
        let (code, length) = codes[usize::from(symbol)];
        self.put(u32::from(code), length);
    }

    /// A number behind some zeros: the symbol says how many bits it has.
    fn number(&mut self, codes: &[(u16, u8); 256], zeros: u8, value: i32) {
        let magnitude = value.unsigned_abs();
        let size = u8::try_from(u32::BITS - magnitude.leading_zeros()).unwrap_or(0);
        self.symbol(codes, (zeros << 4) | size);
        if size > 0 {
            let bits = if value < 0 { !magnitude & ((1 << size) - 1) } else { magnitude };
            self.put(bits, size);
        }
    }

    fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            let missing = 8 - self.count;
            self.put((1 << missing) - 1, missing);
        }
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grey_image_is_a_few_bits_per_block_and_rows_keep_their_bytes() {
        let grey = Jpeg::encode((40, 33), 75, || [128, 128, 128]);
        assert_eq!(grey.rows(), 3);
        let bytes = grey.in_order(&[0, 1, 2]);
        assert_eq!(
            (&bytes[..2], &bytes[bytes.len() - 2..]),
            (&[0xff, 0xd8][..], &[0xff, 0xd9][..])
        );
        assert!(grey.rows.iter().all(|row| row.len() < 20), "{:?}", grey.rows);
        let mut value = 1_u32;
        let noise = Jpeg::encode((40, 33), 75, || {
            value = value.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let [r, g, b, _] = value.to_be_bytes();
            [r, g, b]
        });
        let (forth, back) = (noise.in_order(&[0, 1, 2]), noise.in_order(&[2, 1, 0]));
        assert_eq!(forth.len(), back.len());
        assert_ne!(forth, back);
    }
}
