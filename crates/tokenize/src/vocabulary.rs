//! How a built-in vocabulary is loaded from the form that `build.rs` wrote.

use std::io::Read as _;

use flate2::read::ZlibDecoder;
use tiktoken_rs::{CoreBPE, Rank};

use crate::Encoding;

/// What defines an encoding beside its ordinary tokens.
struct EncodingParts {
    /// Ordinary tokens by rank, compressed.
    packed: &'static [u8],
    /// Special tokens with their ids.
    specials: &'static [(&'static str, Rank)],
    /// How text is split before its pieces are merged.
    pattern: &'static str,
}

const END_OF_TEXT: &str = "<|endoftext|>";
const END_OF_PROMPT: &str = "<|endofprompt|>";

/// The ids and patterns are those of `OpenAI`'s encodings, in the spelling of tiktoken-rs 0.12.
const fn definition(encoding: Encoding) -> EncodingParts {
    match encoding {
        Encoding::R50k => EncodingParts {
            packed: include_bytes!(concat!(env!("OUT_DIR"), "/r50k.vocabulary")),
            specials: &[(END_OF_TEXT, 50_256)],
            pattern: r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",
        },
        Encoding::Cl100k => EncodingParts {
            packed: include_bytes!(concat!(env!("OUT_DIR"), "/cl100k.vocabulary")),
            specials: &[
                (END_OF_TEXT, 100_257),
                ("<|fim_prefix|>", 100_258),
                ("<|fim_middle|>", 100_259),
                ("<|fim_suffix|>", 100_260),
                (END_OF_PROMPT, 100_276),
            ],
            pattern: concat!(
                r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+|",
                r" ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
            ),
        },
        Encoding::O200k => EncodingParts {
            packed: include_bytes!(concat!(env!("OUT_DIR"), "/o200k.vocabulary")),
            specials: &[(END_OF_TEXT, 199_999), (END_OF_PROMPT, 200_018)],
            pattern: concat!(
                r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
                r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
                r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
            ),
        },
    }
}

/// Loads an encoding; the error is the reason in words.
pub(crate) fn load(encoding: Encoding) -> Result<CoreBPE, String> {
    let EncodingParts { packed, specials, pattern } = definition(encoding);
    let mut unpacked = Vec::new();
    ZlibDecoder::new(packed).read_to_end(&mut unpacked).map_err(|error| error.to_string())?;
    let tokens = tokens(&unpacked).ok_or("the vocabulary is truncated")?;
    let ordinary = tokens.into_iter().map(<[u8]>::to_vec).zip(0..).collect();
    let specials = specials.iter().map(|&(name, id)| (name.to_owned(), id)).collect();
    CoreBPE::new(ordinary, specials, pattern).map_err(|error| error.to_string())
}

/// The tokens of a vocabulary by rank: their number, the length of each, then the bytes of all. `None`
/// where bytes are missing.
fn tokens(unpacked: &[u8]) -> Option<Vec<&[u8]>> {
    let (count, rest) = unpacked.split_first_chunk()?;
    let count = usize::try_from(u32::from_le_bytes(*count)).ok()?;
    let (lengths, mut bytes) = rest.split_at_checked(count)?;
    let token = |&length: &u8| {
        let (token, rest) = bytes.split_at_checked(usize::from(length))?;
        bytes = rest;
        Some(token)
    };
    lengths.iter().map(token).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same encodings as tiktoken-rs carries them.
    fn reference(encoding: Encoding) -> &'static CoreBPE {
        match encoding {
            Encoding::R50k => tiktoken_rs::r50k_base_singleton(),
            Encoding::Cl100k => tiktoken_rs::cl100k_base_singleton(),
            Encoding::O200k => tiktoken_rs::o200k_base_singleton(),
        }
    }

    #[test]
    fn every_token_has_the_bytes_that_tiktoken_gives_it() {
        for encoding in Encoding::ALL {
            let (ours, reference) = (load(encoding).unwrap(), reference(encoding));
            for id in 0..201_100 {
                let bytes = ours.decode_bytes(&[id]).ok();
                assert_eq!(bytes, reference.decode_bytes(&[id]).ok(), "{encoding}: {id}");
            }
        }
    }

    #[test]
    fn a_truncated_vocabulary_has_no_tokens() {
        let whole = [2, 0, 0, 0, 1, 3, b'a', b'b', b'c', b'd'];
        assert_eq!(tokens(&whole), Some(vec![&b"a"[..], &b"bcd"[..]]));
        for end in 0..whole.len() {
            assert_eq!(tokens(&whole[..end]), None, "{end}");
        }
    }

    #[test]
    fn text_is_split_and_merged_as_tiktoken_does_it() {
        let texts = [
            "It's JOHN'S, they'LL say; we've 1234567 reasons…",
            "fn main() {\r\n\tprintln!(\"{:>8.3}\", x);\n}\n\n   // done   \n",
            "Größe, façade, Ωμέγα, Привет, 你好世界, こんにちは, 👩‍👩‍👧 naïve\u{301}",
            "   leading, trailing and\t\ttabs   ",
            "https://example.org/a/b?c=d&e=%20 ----====____ <|endoftext|>",
            "",
        ];
        for encoding in Encoding::ALL {
            let (ours, reference) = (load(encoding).unwrap(), reference(encoding));
            for text in texts {
                assert_eq!(ours.encode_ordinary(text), reference.encode_ordinary(text), "{text:?}");
            }
        }
    }
}
