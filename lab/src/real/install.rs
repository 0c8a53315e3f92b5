//! A server's environment, which `cargo xtask server` installs below `target/real`, and its model.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::recipe::{Device, Model, Recipe};
use crate::process::{cargo, root, run};

pub(super) fn folder() -> PathBuf {
    root().join("target/real")
}

pub(super) fn scripts() -> PathBuf {
    root().join("e2e/real")
}

/// Installs a server unless it is installed. Returns its folder.
pub(super) fn install(name: &str, device: Device) -> Result<PathBuf> {
    let gpu = if device == Device::Gpu { " --gpu" } else { "" };
    cargo(&format!("xtask server {name}{gpu}"))?;
    Ok(folder().join(name))
}

/// What is installed, as the installer left it.
pub(super) fn versions(name: &str) -> String {
    std::fs::read_to_string(folder().join(name).join("ready")).unwrap_or_default()
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
