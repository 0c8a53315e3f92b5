//! maturin and zig, in a virtual environment below `target`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{fresh_environment, output};
use crate::ci::{announce, root};

/// What is installed from the Python registry.
const PACKAGES: [&str; 2] = ["maturin==1.16.0", "ziglang==0.17.0"];

/// Installs both unless they are there. Returns the folder with the programs.
pub(super) fn install() -> Result<PathBuf> {
    let environment = root().join("target/distribution-tools");
    let mark = environment.join("ready");
    let wanted = PACKAGES.join(" ");
    if !std::fs::read_to_string(&mark).is_ok_and(|found| found == wanted) {
        announce(&format!("pip install {wanted}"));
        fresh_environment(&environment)?;
        let mut pip = Command::new(environment.join("bin/pip"));
        output(pip.args(["install", "--quiet"]).args(PACKAGES))
            .with_context(|| format!("cannot install {wanted} from the Python registry"))?;
        std::fs::write(&mark, wanted)?;
    }
    Ok(environment.join("bin"))
}

/// A command that finds these tools before others: maturin starts zig as a module of `python3`.
pub(super) fn command(tools: &Path, program: &str) -> Result<Command> {
    let mut folders = vec![tools.to_owned()];
    folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let mut command = Command::new(tools.join(program));
    command.env("PATH", std::env::join_paths(folders)?);
    Ok(command)
}
