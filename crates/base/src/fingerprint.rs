//! A hash of bytes that is the same in every version and on every machine, because records keep it.

/// Accumulates bytes. FNV-1a with a final mix, 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(u64);

impl Default for Fingerprint {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fingerprint {
    /// Adds a text, with its end, so that two texts differ from one that joins them.
    #[must_use]
    pub fn with(self, text: &[u8]) -> Self {
        self.with_part(text).with_byte(0xff)
    }

    /// Adds a part of a text: several parts have the hash of the text that they join to.
    #[must_use]
    pub fn with_part(self, part: &[u8]) -> Self {
        part.iter().fold(self, |sum, byte| sum.with_byte(*byte))
    }

    fn with_byte(self, byte: u8) -> Self {
        Self((self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }

    pub fn value(self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed ^ (mixed >> 33)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_depends_on_the_texts_and_their_ends_and_never_changes() {
        let of = |texts: &[&str]| {
            let add = |sum: Fingerprint, text: &&str| sum.with(text.as_bytes());
            texts.iter().fold(Fingerprint::default(), add).value()
        };
        assert_ne!(of(&["ab"]), of(&["a", "b"]));
        assert_ne!(of(&["ab"]), of(&["ba"]));
        assert_eq!(of(&["a", "b"]), of(&["a", "b"]));
        let joined = Fingerprint::default().with_part(b"a").with(b"b");
        assert_eq!(joined.value(), of(&["ab"]));
        assert_eq!(of(&["tokometer"]), 0x77c3_0b0d_9031_bdcb);
    }
}
