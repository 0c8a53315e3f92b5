//! Writes the built-in vocabularies in the form that the binary carries.
//!
//! tiktoken-rs embeds them as base64 text, 6.1 MB in all. As compressed bytes they take 1.6 MB of the
//! binary. `src/vocabulary.rs` reads them.

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
    for (name, encoding) in [
        ("r50k", tiktoken_rs::r50k_base()?),
        ("cl100k", tiktoken_rs::cl100k_base()?),
        ("o200k", tiktoken_rs::o200k_base()?),
    ] {
        fs::write(Path::new(&out).join(format!("{name}.vocabulary")), packed(&encoding)?)?;
    }
    Ok(())
}

/// All ordinary tokens in the order of their ranks, compressed: their number, one byte with the length
/// of each, then the bytes of all. Lengths and bytes apart compress better than in turn.
fn packed(encoding: &CoreBPE) -> Result<Vec<u8>, BuildError> {
    let (mut lengths, mut bytes) = (Vec::new(), Vec::new());
    // Ranks have no gap below the first special token, and no ordinary token comes after it.
    for rank in 0.. {
        let Ok(token) = encoding.decode_bytes(&[rank]) else { break };
        let text = std::str::from_utf8(&token).unwrap_or_default();
        if encoding.special_tokens().contains(text) {
            break;
        }
        lengths.push(u8::try_from(token.len())?);
        bytes.extend_from_slice(&token);
    }
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
    packed.write_all(&u32::try_from(lengths.len())?.to_le_bytes())?;
    packed.write_all(&lengths)?;
    packed.write_all(&bytes)?;
    Ok(packed.finish()?)
}
