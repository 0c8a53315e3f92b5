//! How a built-in vocabulary is loaded from the form that `build.rs` wrote.

use tiktoken_rs::{CoreBPE, Rank};

use crate::Encoding;

/// What defines an encoding beside its ordinary tokens.
struct EncodingParts {
    /// Ordinary tokens by rank: a byte with the length, then the bytes.
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
    let ordinary = tokens(packed).map(<[u8]>::to_vec).zip(0..).collect();
    let specials = specials.iter().map(|&(name, id)| (name.to_owned(), id)).collect();
    CoreBPE::new(ordinary, specials, pattern).map_err(|error| error.to_string())
}

/// The tokens of a packed vocabulary, by rank.
fn tokens(mut packed: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (&length, rest) = packed.split_first()?;
        let (token, rest) = rest.split_at_checked(usize::from(length))?;
        packed = rest;
        Some(token)
    })
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
