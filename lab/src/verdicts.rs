//! `cargo lab verdicts [COUNT [PROGRAM]]`: how often a sound run comes out VALID.
//!
//! Runs the plain `tokometer bench` again and again, which measures the embedded simulator, and
//! counts the verdicts and the notes behind them. Everything that is not VALID here is either the
//! machine's fault or the verdict's.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::program::{self, announce, root};

const COUNT: usize = 20;

/// Runs, counts and prints a table.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let count = arguments.first().map_or(Ok(COUNT), |count| count.parse());
    let count = count.context("the count is a whole number")?;
    let program = program::named(arguments.get(1))?;
    let folder = root().join("target/verdicts");
    let mut verdicts = BTreeMap::new();
    let mut notes = BTreeMap::new();
    for at in 1..=count {
        announce(&format!("run {at} of {count}"));
        let summary = measure(&program, &folder)?;
        let verdict = summary["verdict"].as_str().context("the run has no verdict")?;
        *verdicts.entry(verdict.to_owned()).or_insert(0) += 1;
        for note in summary["notes"].as_array().into_iter().flatten() {
            if note["severity"] != "remark" {
                *notes.entry(note["code"].as_str().unwrap_or("?").to_owned()).or_insert(0) += 1;
            }
        }
    }
    print("verdict", &verdicts);
    print("note", &notes);
    Ok(())
}

/// One run, and its summary.
fn measure(program: &Path, folder: &Path) -> Result<Value> {
    let _ = std::fs::remove_dir_all(folder);
    let ended = Command::new(program)
        .args(["bench", "--quiet", "--run-dir"])
        .arg(folder)
        .output()
        .with_context(|| format!("cannot start {}", program.display()))?;
    ensure!(ended.status.success(), "a run failed: {}", String::from_utf8_lossy(&ended.stderr));
    let text = std::fs::read_to_string(folder.join("summary.json"))?;
    let mut saved: Value = serde_json::from_str(&text)?;
    Ok(saved["summary"].take())
}

#[expect(clippy::print_stdout, reason = "the table is the result")]
fn print(name: &str, counts: &BTreeMap<String, usize>) {
    println!("| {name} | runs |\n|---|---|");
    for (name, count) in counts {
        println!("| {name} | {count} |");
    }
    println!();
}
