//! A server's environment and its model, below `target/real`.
//!
//! Each server has a virtual environment of its own: their demands contradict each other. The
//! installer keeps one copy of what they share (`target/real/cache`), so a second server that needs
//! torch costs little. An environment that was finished by the same recipe is used again.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::recipe::{Model, Recipe};
use crate::ci::{announce, root};

/// The installer, which the Python registry carries too.
const INSTALLER: &str = "uv==0.13.7";
/// Its cache of downloads.
const CACHE: &str = "cache";

/// Where servers are installed.
pub(super) fn folder() -> PathBuf {
    root().join("target/real")
}

/// Where the scripts are.
pub(super) fn scripts() -> PathBuf {
    root().join("e2e/real")
}

/// What a finished environment of a recipe is marked with.
fn mark(recipe: &Recipe) -> (PathBuf, String) {
    let text = format!("{:?} {:?} {:?}", recipe.packages, recipe.overrides, recipe.patch);
    (folder().join(recipe.name).join("ready"), text)
}

/// Whether a server is installed as its recipe says.
pub(super) fn is_installed(recipe: &Recipe) -> bool {
    let (mark, wanted) = mark(recipe);
    std::fs::read_to_string(mark).is_ok_and(|found| found == wanted)
}

/// Installs a server unless it is installed, and makes its model. Returns the server's folder.
pub(super) fn install(recipe: &Recipe) -> Result<PathBuf> {
    let own = folder().join(recipe.name);
    if is_installed(recipe) {
        return Ok(own);
    }
    std::fs::create_dir_all(&own)?;
    let installer = installer()?;
    announce(&format!("installing {}", recipe.packages.join(" ")));
    let python = own.join("venv/bin/python");
    run(cached(&installer)
        .args(["venv", "--quiet", "--clear", "--python", "python3"])
        .arg(own.join("venv")))?;
    let overrides = own.join("overrides.txt");
    std::fs::write(&overrides, recipe.overrides.join("\n"))?;
    run(cached(&installer)
        .args(["pip", "install", "--quiet", "--python"])
        .arg(&python)
        .arg("--override")
        .arg(&overrides)
        .args(recipe.packages))?;
    if let Some(script) = recipe.patch {
        run(Command::new(&python).arg(scripts().join(script)).arg(&own))?;
    }
    let (mark, text) = mark(recipe);
    std::fs::write(mark, text)?;
    Ok(own)
}

/// The installer's program, installed when it is missing.
fn installer() -> Result<PathBuf> {
    let environment = folder().join("uv");
    let program = environment.join("bin/uv");
    if !program.is_file() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
        run(Command::new(environment.join("bin/pip")).args(["install", "--quiet", INSTALLER]))?;
    }
    Ok(program)
}

/// The installer with its cache beside the servers, and with the Python that is here.
fn cached(installer: &Path) -> Command {
    let mut command = Command::new(installer);
    command
        .env("UV_CACHE_DIR", folder().join(CACHE))
        .env("UV_PYTHON_DOWNLOADS", "never")
        .env("UV_LINK_MODE", "hardlink");
    command
}

/// The model that a server serves, made by its own environment. `None` for a gateway.
pub(super) fn model(recipe: &Recipe, own: &Path) -> Result<Option<PathBuf>> {
    match recipe.model {
        Model::Nothing => Ok(None),
        // Its script writes the model when it starts.
        Model::Gguf => Ok(Some(own.join("tiny.gguf"))),
        Model::Folder => {
            let model = folder().join("tiny");
            let script = scripts().join("model.py");
            run(Command::new(own.join("venv/bin/python")).arg(script).arg(&model))?;
            Ok(Some(model))
        }
    }
}

fn run(command: &mut Command) -> Result<()> {
    let shown = format!("{command:?}");
    let status = command.status().with_context(|| format!("cannot start {shown}"))?;
    if !status.success() {
        bail!("{shown} did not pass ({status})");
    }
    Ok(())
}
