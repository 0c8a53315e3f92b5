//! Writes the tables of safe words: `cargo lab words FOLDER < TEXT`.
//!
//! The text (any large public one) only bounds the choice to words that people use.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};

/// Reads the text from standard input and writes both tables.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let folder = arguments.first().context("name the folder of the tables")?;
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let tables = tokometer_tokenize::words::tables(&text)?;
    let lines = |words: &[String]| words.join("\n") + "\n";
    std::fs::write(Path::new(&folder).join("words.txt"), lines(&tables.words))?;
    std::fs::write(Path::new(&folder).join("starters.txt"), lines(&tables.starters))?;
    Ok(())
}
