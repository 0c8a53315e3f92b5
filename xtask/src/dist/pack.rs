//! The archive and the sums.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::output;
use super::target::Target;
use crate::ci::root;

/// Completion scripts: the shell, and the name under which it looks for the script.
const COMPLETIONS: [(&str, &str); 3] =
    [("bash", "tokometer.bash"), ("zsh", "_tokometer"), ("fish", "tokometer.fish")];

/// An archive of the program with its manual pages and completions.
pub(super) fn archive(program: &Path, target: &Target, folder: &Path) -> Result<PathBuf> {
    let name = format!("tokometer-{}-{}", env!("CARGO_PKG_VERSION"), target.triple);
    let inside = folder.join(&name);
    std::fs::create_dir_all(inside.join("completions"))?;
    std::fs::copy(program, inside.join("tokometer"))?;
    for file in ["LICENSE", "README.md", "CHANGELOG.md"] {
        std::fs::copy(root().join(file), inside.join(file))?;
    }
    output(Command::new(program).arg("man").arg(inside.join("man")))?;
    for (shell, file) in COMPLETIONS {
        let script = output(Command::new(program).args(["completions", shell]))?;
        std::fs::write(inside.join("completions").join(file), script)?;
    }
    let archive = folder.join(format!("{name}.tar.gz"));
    // The same files give the same archive: order, owner and time are fixed.
    let mut tar = Command::new("tar");
    tar.current_dir(folder).args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    output(tar.args(["--mtime=@0", "--create", "--gzip", "--file"]).arg(&archive).arg(&name))?;
    std::fs::remove_dir_all(&inside)?;
    Ok(archive)
}

pub(super) fn sums(files: &[PathBuf], folder: &Path) -> Result<()> {
    let names = files.iter().filter_map(|path| path.file_name());
    let sums = output(Command::new("sha256sum").current_dir(folder).args(names))?;
    std::fs::write(folder.join("SHA256SUMS"), sums).context("cannot write SHA256SUMS")
}
