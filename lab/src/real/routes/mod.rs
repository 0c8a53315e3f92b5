//! The routes of a server beyond completions and chat: Responses, Messages, embeddings, pooling,
//! classify, score, rerank, images, transcription; streamed and whole, with tools, structured output
//! and reasoning.
//!
//! [`table`] has the cases and what each must show, [`suite`] how each server serves the models that they
//! need, [`models`] makes these models. [`script`] writes both as one shell script, which needs no cargo:
//! it is run here, or carried to a machine that has the accelerator. [`judge`] reads what the script left.

mod case;
mod judge;
mod models;
mod script;
mod suite;
mod table;
mod tokenizers;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::install;
use super::recipe::{self, Device};
use crate::process::{announce, free_port};
use case::RouteCase;
use judge::RouteRow;
pub(super) use judge::print;

pub(super) use suite::{RouteSuite, suite_of};

/// The first port of a script that is carried elsewhere.
const FIRST_PORT: u16 = 8101;

/// The cases of a suite whose names contain one of `only`, in the order of the servers they need.
fn chosen(suite: &RouteSuite, only: &[String]) -> Result<Vec<RouteCase>> {
    let mut cases = table::cases();
    cases.retain(|case| suite.drives(case));
    cases.retain(|case| only.is_empty() || only.iter().any(|word| case.name.contains(word)));
    if cases.is_empty() {
        let names: Vec<String> = table::cases().into_iter().map(|case| case.name).collect();
        bail!(
            "no case of {} contains `{}`\n  cases: {}",
            suite.server,
            only.join("`, `"),
            names.join(" ")
        );
    }
    cases.sort_by_key(|case| case.on);
    Ok(cases)
}

/// Writes the script to `file` and the models beside it.
pub(super) fn write_script(suite: &RouteSuite, only: &[String], file: &Path) -> Result<()> {
    let cases = chosen(suite, only)?;
    let text = script::render(suite, &cases, |nth| FIRST_PORT + nth)?;
    let models = file.with_file_name("models");
    models::write_all(&models)?;
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    announce(&format!(
        "{} cases in {}, models in {}",
        cases.len(),
        file.display(),
        models.display()
    ));
    Ok(())
}

/// Starts the servers of a suite on this machine, drives `program` through the cases, and judges.
pub(super) fn drive(
    suite: &RouteSuite,
    device: Device,
    program: &Path,
    only: &[String],
) -> Result<Vec<RouteRow>> {
    let own = install::folder().join(suite.server);
    let models = install::folder().join("models");
    models::write_all(&models)?;
    if recipe::named(suite.server, device).is_some() {
        install::install(suite.server, device)?;
    }
    let results = own.join("routes");
    let _ = std::fs::remove_dir_all(&results);
    std::fs::create_dir_all(&results)?;
    let cases = chosen(suite, only)?;
    let file = results.join("routes.sh");
    std::fs::write(&file, script::render(suite, &cases, |_| free_port())?)?;
    announce(&format!("bash {}", file.display()));
    let status = Command::new("bash")
        .arg(&file)
        .env("TOKOMETER", program)
        .env("MODELS", &models)
        .env("RESULTS", &results)
        .env("SCRIPTS", install::scripts())
        .env("PYTHON", own.join("venv/bin/python"))
        .env("VLLM", own.join("venv/bin/vllm"))
        .status()
        .context("cannot start bash")?;
    if !status.success() {
        bail!("{} did not pass ({status})", file.display());
    }
    Ok(judge::rows(suite, &cases, &results))
}

pub(super) fn judged(suite: &RouteSuite, only: &[String], results: &Path) -> Result<Vec<RouteRow>> {
    if !results.join("cases").is_dir() {
        bail!(
            "{} has no folder `cases`: it is the RESULTS folder of a script, or its unpacked archive",
            results.display()
        );
    }
    Ok(judge::rows(suite, &chosen(suite, only)?, results))
}

pub(super) fn failures(rows: &[RouteRow]) -> usize {
    rows.iter().filter(|row| row.seen.is_err()).count()
}
