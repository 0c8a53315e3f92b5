//! `cargo lab fuzz --seconds N [TARGET]`: coverage-guided fuzzing of everything that reads bytes.
//!
//! `fuzz/` is built with the flags that libFuzzer needs. They are ordinary code-generation options,
//! so the pinned toolchain does; no nightly compiler and no `cargo-fuzz` is needed. Each target runs
//! for N seconds from the seeds of `fuzz/src/seeds.rs` and whatever an earlier run found interesting.

#[path = "../../fuzz/src/seeds.rs"]
mod seeds;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::process::{announce, number, root};
use crate::virtual_runs::in_parallel;

/// Coverage counters and comparisons, as libFuzzer reads them.
const RUSTFLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Limits of one input: what takes longer or more is a finding.
const INPUT_SECONDS: u32 = 20;
const MEMORY_MIB: u32 = 2048;
const INPUT_BYTES: u32 = 65_536;

struct Fuzzed {
    target: String,
    executions: u64,
    findings: Vec<PathBuf>,
    is_ended_well: bool,
}

/// The names of `PROPERTIES` in `fuzz/src/properties.rs`, whose code is compiled for the fuzzer only.
fn all_targets() -> Result<Vec<String>> {
    let text = fs::read_to_string(root().join("fuzz/src/properties.rs"))?;
    let table = text.split("const PROPERTIES").nth(1).and_then(|rest| rest.split("];").next());
    let lines = table.context("there is no list of properties")?.lines();
    let name = |line: &str| line.trim().strip_prefix("(\"")?.split('"').next().map(str::to_owned);
    Ok(lines.filter_map(name).collect())
}

/// Fuzzes the targets, as many at a time as the machine has cores, and fails on a finding.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let seconds = number(arguments, "--seconds")?.unwrap_or(60);
    let (all, mut targets) = (all_targets()?, arguments.to_vec());
    if let Some(at) = targets.iter().position(|word| word == "--seconds") {
        targets.drain(at..at + 2);
    }
    if let Some(word) = targets.iter().find(|word| !all.contains(word)) {
        bail!("no target is called `{word}`; the targets are {}", all.join(", "));
    }
    let targets = if targets.is_empty() { all } else { targets };
    let program = build()?;
    let all = in_parallel(targets.len() as u64, |at| {
        let target = &targets[usize::try_from(at)?];
        announce(&format!("fuzz {target} for {seconds} s"));
        fuzz(&program, target, seconds)
    });
    let all = all.into_iter().collect::<Result<Vec<Fuzzed>>>()?;
    show(&all);
    let broken: Vec<&str> = all
        .iter()
        .filter(|fuzzed| !fuzzed.findings.is_empty() || !fuzzed.is_ended_well)
        .map(|fuzzed| fuzzed.target.as_str())
        .collect();
    if !broken.is_empty() {
        bail!("findings in {}; logs and inputs are below target/fuzz/state", broken.join(", "));
    }
    Ok(())
}

fn build() -> Result<PathBuf> {
    let triple = host()?;
    announce("build fuzz/");
    let folder = root().join("target/fuzz");
    // With `--target` the flags do not reach build scripts, which have no libFuzzer to link with.
    let status = Command::new(env!("CARGO"))
        .args(["build", "--release", "--manifest-path", "fuzz/Cargo.toml", "--target", &triple])
        .arg("--target-dir")
        .arg(&folder)
        .env("RUSTFLAGS", RUSTFLAGS)
        .current_dir(root())
        .status()
        .context("cannot start cargo")?;
    if !status.success() {
        bail!("fuzz/ does not build ({status})");
    }
    Ok(folder.join(triple).join("release/tokometer-fuzz"))
}

fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("cannot start rustc")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc does not name its host")
}

fn fuzz(program: &Path, target: &str, seconds: u64) -> Result<Fuzzed> {
    let state = root().join("target/fuzz/state").join(target);
    let (corpus, findings) = (state.join("corpus"), state.join("findings"));
    fs::create_dir_all(&corpus)?;
    // Inputs of an earlier run that broke the property are seeds now: they must not break it again.
    fs::create_dir_all(&findings)?;
    for entry in fs::read_dir(&findings)? {
        let path = entry?.path();
        fs::rename(&path, corpus.join(path.file_name().unwrap_or_default()))?;
    }
    let scratch = state.join("scratch");
    let _ = fs::remove_dir_all(&scratch);
    fs::create_dir_all(&scratch)?;
    for (index, seed) in seeds::seeds(&root(), target, &scratch).iter().enumerate() {
        fs::write(corpus.join(format!("seed-{index}")), seed)?;
    }
    let log = state.join("log");
    let status = Command::new(program)
        .arg(&corpus)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-artifact_prefix={}/", findings.display()))
        .arg(format!("-timeout={INPUT_SECONDS}"))
        .arg(format!("-rss_limit_mb={MEMORY_MIB}"))
        .arg(format!("-max_len={INPUT_BYTES}"))
        .arg("-print_final_stats=1")
        .env("TOKOMETER_FUZZ_TARGET", target)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(&log)?)
        .status()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let log = String::from_utf8_lossy(&fs::read(log)?).into_owned();
    let count =
        |line: &str| line.strip_prefix("stat::number_of_executed_units:")?.trim().parse().ok();
    let executions = log.lines().find_map(count).unwrap_or(0);
    let entries = fs::read_dir(&findings)?;
    let findings = entries.flatten().map(|entry| entry.path()).collect();
    let target = target.to_owned();
    Ok(Fuzzed { target, executions, findings, is_ended_well: status.success() })
}

#[expect(clippy::print_stdout, reason = "the table is the task's result")]
fn show(all: &[Fuzzed]) {
    println!("{:<18} {:>12} {:>9}", "target", "executions", "findings");
    for Fuzzed { target, executions, findings, .. } in all {
        println!("{target:<18} {executions:>12} {:>9}", findings.len());
        for path in findings {
            println!("  {}", path.strip_prefix(root()).unwrap_or(path).display());
        }
    }
    let executions: u64 = all.iter().map(|fuzzed| fuzzed.executions).sum();
    let findings: usize = all.iter().map(|fuzzed| fuzzed.findings.len()).sum();
    println!("{:<18} {executions:>12} {findings:>9}", "all");
}
