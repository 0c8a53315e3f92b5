//! cargo-zigbuild and zig, in a virtual environment below `target`.

use std::process::Command;

use anyhow::{Context, Result};

use super::{fresh_environment, output};
use crate::ci::{announce, root};

/// What is installed from the Python registry.
const PACKAGES: [&str; 2] = ["cargo-zigbuild==0.24.0", "ziglang==0.17.0"];

/// A cargo that links with zig against an old glibc. Installs both tools unless they are there.
pub(super) fn zigbuild() -> Result<Command> {
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
    // It starts zig as a module of `python3`.
    let mut folders = vec![environment.join("bin")];
    folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let mut command = Command::new(environment.join("bin/cargo-zigbuild"));
    command.env("PATH", std::env::join_paths(folders)?);
    Ok(command)
}
