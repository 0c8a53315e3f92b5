//! The wheel: built, taken apart, and tried in a fresh virtual environment.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::output;
use super::target::{Libc, Target};
use crate::ci::{announce, finish, root};
use crate::provision::environment;

/// Folders of this machine with sources, and what the program calls them. The same commit gives the same
/// program on another machine, and nobody learns who built it.
pub(super) fn builders_folders() -> [(PathBuf, &'static str); 2] {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cargo");
    let cargo = std::env::var_os("CARGO_HOME").map_or_else(home, PathBuf::from);
    [(cargo.join("registry/src"), "registry"), (root(), "tokometer")]
}

const PACKAGES: [&str; 2] = ["maturin==1.16.0", "ziglang==0.17.0"];

/// Builds the wheel, and the program in it.
pub(super) fn build(target: &Target, libc: Libc, folder: &Path) -> Result<PathBuf> {
    let tools = environment(&root().join("target/distribution-tools"), &PACKAGES)?;
    // These tools come before others: maturin starts zig as a module of `python3`.
    let mut folders = vec![tools.clone()];
    folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let mut maturin = Command::new(tools.join("maturin"));
    maturin.env("PATH", std::env::join_paths(folders)?);
    // The profile and the rest are in `pyproject.toml`.
    maturin.current_dir(root()).args(["build", "--target", target.triple, "--out"]).arg(folder);
    match libc {
        Libc::Old => maturin.args(["--zig", "--compatibility", target.platform]),
        // pip installs a wheel with this name on any Linux, so it is not for a registry.
        Libc::Host => maturin.args(["--compatibility", "linux"]),
    };
    // Rust writes the paths of sources into the program, for panics.
    let flags: Vec<String> = builders_folders()
        .iter()
        .map(|(folder, name)| format!("--remap-path-prefix={}={name}", folder.display()))
        .collect();
    maturin.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    announce(&format!("maturin build --target {}", target.triple));
    finish(&mut maturin)?;
    let files = std::fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let mut wheels = files.filter(|path| path.extension().is_some_and(|end| end == "whl"));
    wheels.next().with_context(|| format!("maturin left no wheel in {}", folder.display()))
}

/// Takes the program out of the wheel.
pub(super) fn unpack_program(wheel: &Path, folder: &Path) -> Result<PathBuf> {
    let unpacked = folder.join("unpacked");
    output(Command::new("python3").args(["-m", "zipfile", "-e"]).args([wheel, &unpacked]))?;
    let folders = std::fs::read_dir(&unpacked)?.flatten().map(|entry| entry.path());
    let found = folders.map(|path| path.join("scripts/tokometer")).find(|path| path.is_file());
    let found = found.with_context(|| format!("{} holds no program", wheel.display()))?;
    let program = folder.join("tokometer");
    std::fs::rename(found, &program)?;
    std::fs::remove_dir_all(&unpacked)?;
    // The module above does not keep the mode.
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
    Ok(program)
}

/// Installs the wheel as a user would, and measures the embedded simulator with it. A wheel for musl
/// cannot be installed on a system with glibc; there the program is tried alone.
pub(super) fn try_out(wheel: &Path, program: &Path, target: &Target) -> Result<()> {
    let folder = super::folder().join("try");
    let installed = if target.glibc.is_some() {
        let wheel = wheel.display().to_string();
        environment(&folder.join("venv"), &["--no-index", "--no-deps", &wheel])?.join("tokometer")
    } else {
        std::fs::create_dir_all(&folder)?;
        program.to_owned()
    };
    let version = output(Command::new(&installed).arg("--version"))?;
    announce(version.trim());
    ensure!(version.contains("dist"), "the version does not name the profile: {version}");
    let mut bench = Command::new(&installed);
    bench.current_dir(&folder).args(["bench", "--num-prompts", "20", "--json", "--no-run-dir"]);
    let page: Value = serde_json::from_str(&output(&mut bench)?)?;
    let succeeded = page.pointer("/summary/counts/succeeded").and_then(Value::as_u64);
    ensure!(succeeded == Some(20), "{succeeded:?} of 20 requests succeeded: {page:#}");
    announce("bench: 20 of 20 requests succeeded");
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
