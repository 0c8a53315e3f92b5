//! Writes the built-in vocabularies in the form that the binary carries.
//!
//! tiktoken-rs embeds them as base64 text, 6.1 MB in all. The three share most of their tokens: every
//! token once, in alphabetical order, and the ranks of each vocabulary take 1.2 MB of the binary.
//! `src/vocabulary.rs` reads them.

use std::collections::{BTreeSet, HashMap};
use std::io::Write as _;
use std::path::Path;
use std::{env, fs};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use tiktoken_rs::CoreBPE;

type BuildError = Box<dyn std::error::Error>;

#[expect(clippy::disallowed_methods, reason = "cargo passes the output folder this way")]
fn main() -> Result<(), BuildError> {
    println!("cargo::rerun-if-changed=build.rs");
    let out = env::var("OUT_DIR")?;
    let vocabularies = [
        ("r50k", ordinary(&tiktoken_rs::r50k_base()?)),
        ("cl100k", ordinary(&tiktoken_rs::cl100k_base()?)),
        ("o200k", ordinary(&tiktoken_rs::o200k_base()?)),
    ];
    let all: BTreeSet<&[u8]> =
        vocabularies.iter().flat_map(|(_, tokens)| tokens).map(Vec::as_slice).collect();
    fs::write(Path::new(&out).join("tokens"), packed_tokens(&all)?)?;
    for (name, tokens) in &vocabularies {
        fs::write(Path::new(&out).join(format!("{name}.ranks")), packed_ranks(&all, tokens)?)?;
    }
    Ok(())
}

/// All ordinary tokens in the order of their ranks.
fn ordinary(encoding: &CoreBPE) -> Vec<Vec<u8>> {
    let mut tokens = Vec::new();
    // Ranks have no gap below the first special token, and no ordinary token comes after it.
    for rank in 0.. {
        let Ok(token) = encoding.decode_bytes(&[rank]) else { break };
        let text = std::str::from_utf8(&token).unwrap_or_default();
        if encoding.special_tokens().contains(text) {
            break;
        }
        tokens.push(token);
    }
    tokens
}

/// Tokens in alphabetical order, compressed: their number; how many bytes each has in common with the
/// one before; how many follow; these bytes. Apart they compress better than in turn.
fn packed_tokens(all: &BTreeSet<&[u8]>) -> Result<Vec<u8>, BuildError> {
    let (mut shared, mut added, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    let mut previous: &[u8] = &[];
    for token in all {
        let same = token.iter().zip(previous).take_while(|(a, b)| a == b).count();
        shared.push(u8::try_from(same)?);
        added.push(u8::try_from(token.len() - same)?);
        bytes.extend_from_slice(&token[same..]);
        previous = token;
    }
    let count = u32::try_from(all.len())?.to_le_bytes();
    compressed(&[&count, &shared, &added, &bytes])
}

/// For each of all tokens a byte that says whether the vocabulary has it, then the ranks of those that it
/// has: the lowest bytes of all of them, the next and the highest.
fn packed_ranks(all: &BTreeSet<&[u8]>, tokens: &[Vec<u8>]) -> Result<Vec<u8>, BuildError> {
    let ranks: HashMap<&[u8], u32> = tokens.iter().map(Vec::as_slice).zip(0..).collect();
    let has: Vec<u8> = all.iter().map(|token| u8::from(ranks.contains_key(token))).collect();
    let own: Vec<u32> = all.iter().filter_map(|token| ranks.get(token).copied()).collect();
    let plane = |byte: usize| own.iter().map(|rank| rank.to_le_bytes()[byte]).collect::<Vec<u8>>();
    compressed(&[&has, &plane(0), &plane(1), &plane(2)])
}

fn compressed(parts: &[&[u8]]) -> Result<Vec<u8>, BuildError> {
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
    for part in parts {
        packed.write_all(part)?;
    }
    Ok(packed.finish()?)
}
