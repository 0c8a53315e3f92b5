//! Writes the built-in vocabularies in the form that the binary carries.
//!
//! tiktoken-rs embeds them as base64 text. As bytes they take less than half of that, which is
//! 3.4 MB of the binary, and they load without decoding.

use std::path::Path;
use std::{env, fs};

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

/// Every ordinary token in the order of its rank: a byte with its length, then its bytes.
fn packed(encoding: &CoreBPE) -> Result<Vec<u8>, BuildError> {
    let mut packed = Vec::new();
    // Ranks have no gap below the first special token, and no ordinary token comes after it.
    for rank in 0.. {
        let Ok(token) = encoding.decode_bytes(&[rank]) else { break };
        let text = std::str::from_utf8(&token).unwrap_or_default();
        if encoding.special_tokens().contains(text) {
            break;
        }
        packed.push(u8::try_from(token.len())?);
        packed.extend_from_slice(&token);
    }
    Ok(packed)
}
