//! `cargo xtask large-run REQUESTS TOKENS FOLDER`: a run folder of any size, for measurements of `report`.

use std::path::Path;

use anyhow::{Context, Result, bail};
use tokometer_e2e::large_run::{RunSize, write};

/// Writes the folder.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let [requests, tokens, folder] = arguments else {
        bail!("usage: cargo xtask large-run REQUESTS TOKENS FOLDER")
    };
    let number = |word: &str| word.parse().with_context(|| format!("`{word}` is not a number"));
    let size = RunSize { requests: number(requests)?, tokens: number(tokens)? };
    Ok(write(Path::new(folder), size)?)
}
