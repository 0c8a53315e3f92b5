//! How a built-in vocabulary is loaded from the form that `build.rs` wrote.

use std::io::Read as _;

use flate2::read::ZlibDecoder;
use tiktoken_rs::{CoreBPE, Rank};

use super::Encoding;

/// What defines an encoding beside its ordinary tokens.
struct EncodingParts {
    /// Which of all tokens it has, and their ranks, compressed.
    ranks: &'static [u8],
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
            ranks: include_bytes!(concat!(env!("OUT_DIR"), "/r50k.ranks")),
            specials: &[(END_OF_TEXT, 50_256)],
            pattern: r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",
        },
        Encoding::Cl100k => EncodingParts {
            ranks: include_bytes!(concat!(env!("OUT_DIR"), "/cl100k.ranks")),
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
            ranks: include_bytes!(concat!(env!("OUT_DIR"), "/o200k.ranks")),
            specials: &[(END_OF_TEXT, 199_999), (END_OF_PROMPT, 200_018)],
            pattern: concat!(
                r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
                r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
                r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
            ),
        },
    }
}

/// The tokens of all encodings, compressed.
const TOKENS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tokens"));

/// Loads an encoding; the error is the reason in words.
pub(crate) fn load(encoding: Encoding) -> Result<CoreBPE, String> {
    let EncodingParts { ranks, specials, pattern } = definition(encoding);
    let truncated = "the vocabulary is truncated";
    let tokens = tokens(&unpacked(TOKENS)?).ok_or(truncated)?;
    let ordinary = ranked(tokens, &unpacked(ranks)?).ok_or(truncated)?;
    let specials = specials.iter().map(|&(name, id)| (name.to_owned(), id)).collect();
    CoreBPE::new(ordinary.into_iter().collect(), specials, pattern)
        .map_err(|error| error.to_string())
}

fn unpacked(packed: &[u8]) -> Result<Vec<u8>, String> {
    let mut unpacked = Vec::new();
    ZlibDecoder::new(packed).read_to_end(&mut unpacked).map_err(|error| error.to_string())?;
    Ok(unpacked)
}

/// Tokens in alphabetical order, from their number, the bytes that each has in common with the one
/// before, the number of bytes that follow, and these. `None` where bytes are missing.
fn tokens(unpacked: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (count, rest) = unpacked.split_first_chunk()?;
    let count = usize::try_from(u32::from_le_bytes(*count)).ok()?;
    let (shared, rest) = rest.split_at_checked(count)?;
    let (added, mut bytes) = rest.split_at_checked(count)?;
    let mut tokens: Vec<Vec<u8>> = Vec::with_capacity(count);
    for (&shared, &added) in shared.iter().zip(added) {
        let (own, rest) = bytes.split_at_checked(usize::from(added))?;
        bytes = rest;
        let before = tokens.last().map_or(&[][..], Vec::as_slice);
        tokens.push([before.get(..usize::from(shared))?, own].concat());
    }
    Some(tokens)
}

/// The tokens of one encoding with their ranks: a byte for each of all tokens that says whether it has
/// that one, then the lowest bytes of its ranks, the next and the highest. `None` where bytes are missing.
fn ranked(tokens: Vec<Vec<u8>>, unpacked: &[u8]) -> Option<Vec<(Vec<u8>, Rank)>> {
    let (has, ranks) = unpacked.split_at_checked(tokens.len())?;
    let own = tokens.into_iter().zip(has).filter(|(_, has)| **has == 1).map(|(token, _)| token);
    let own: Vec<Vec<u8>> = own.collect();
    let (low, ranks) = ranks.split_at_checked(own.len())?;
    let (middle, high) = ranks.split_at_checked(own.len())?;
    let rank = |at: usize| Some(Rank::from_le_bytes([low[at], middle[at], *high.get(at)?, 0]));
    own.into_iter().enumerate().map(|(at, token)| Some((token, rank(at)?))).collect()
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
        let whole = [3, 0, 0, 0, 0, 1, 0, 1, 2, 1, b'a', b'b', b'c', b'd'];
        let all = vec![b"a".to_vec(), b"abc".to_vec(), b"d".to_vec()];
        assert_eq!(tokens(&whole), Some(all.clone()));
        for end in 0..whole.len() {
            assert_eq!(tokens(&whole[..end]), None, "{end}");
        }
        let ranks = [1, 0, 1, 7, 5, 1, 0, 0, 2];
        let own = vec![(b"a".to_vec(), 0x0107), (b"d".to_vec(), 0x2_0005)];
        assert_eq!(ranked(all.clone(), &ranks), Some(own));
        for end in 0..ranks.len() {
            assert_eq!(ranked(all.clone(), &ranks[..end]), None, "{end}");
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
