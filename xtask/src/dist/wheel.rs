//! The wheel: packed around a program, and tried in a fresh virtual environment.
//!
//! The gate packs the program that it built, and `cargo xtask dist` the one for distribution: what users
//! install is packed and tried with every change. Python's tools pack only what they build themselves.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::output;
use crate::ci::{announce, root};
use crate::provision::environment;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Packs a program as a wheel for a platform, such as `manylinux_2_17_x86_64`.
pub(super) fn pack(program: &Path, platform: &str, folder: &Path) -> Result<PathBuf> {
    let inside = folder.join("wheel");
    let scripts = inside.join(format!("tokometer-{VERSION}.data/scripts"));
    let about = format!("tokometer-{VERSION}.dist-info");
    std::fs::create_dir_all(&scripts)?;
    std::fs::create_dir_all(inside.join(&about))?;
    std::fs::copy(program, scripts.join("tokometer"))?;
    let project = std::fs::read_to_string(root().join("pyproject.toml"))?;
    let readme = std::fs::read_to_string(root().join("README.md"))?;
    let tag = format!("py3-none-{platform}");
    let wheel =
        format!("Wheel-Version: 1.0\nGenerator: xtask\nRoot-Is-Purelib: false\nTag: {tag}\n");
    // pip needs the list of files; it computes their hashes itself.
    let record = format!(
        "tokometer-{VERSION}.data/scripts/tokometer,,\n{about}/METADATA,,\n{about}/WHEEL,,\n{about}/RECORD,,\n"
    );
    let metadata = metadata(&project, &readme)?;
    for (name, text) in [("METADATA", metadata), ("WHEEL", wheel), ("RECORD", record)] {
        std::fs::write(inside.join(&about).join(name), text)?;
    }
    let wheel = folder.join(format!("tokometer-{VERSION}-{tag}.whl"));
    let mut zip = Command::new("python3");
    output(zip.current_dir(&inside).args(["-m", "zipfile", "-c"]).arg(&wheel).arg("."))?;
    std::fs::remove_dir_all(&inside)?;
    Ok(wheel)
}

/// The package's metadata: what `pyproject.toml` says of the project, with the README.
fn metadata(project: &str, readme: &str) -> Result<String> {
    let file: toml::Table = project.parse().context("cannot read pyproject.toml")?;
    let field = |key: &str| {
        let found = file.get("project").and_then(|project| project.get(key));
        found.with_context(|| format!("pyproject.toml has no {key}"))
    };
    let text = |key: &str| {
        field(key)?.as_str().with_context(|| format!("{key} of pyproject.toml is not a text"))
    };
    let classifiers = field("classifiers")?.as_array().into_iter().flatten();
    let classifiers = classifiers
        .filter_map(toml::Value::as_str)
        .fold(String::new(), |all, one| all + "Classifier: " + one + "\n");
    Ok(format!(
        "Metadata-Version: 2.4\nName: {}\nVersion: {VERSION}\nSummary: {}\nLicense-Expression: {}\n\
         Requires-Python: {}\n{classifiers}Description-Content-Type: text/markdown\n\n{readme}",
        text("name")?,
        text("description")?,
        text("license")?,
        text("requires-python")?,
    ))
}

/// Installs the wheel as a user would, and measures the embedded simulator with it.
pub(super) fn try_out(wheel: &Path, folder: &Path) -> Result<()> {
    let tried = folder.join("try");
    let wheel = wheel.display().to_string();
    let programs = environment(&tried, &["--no-index", "--no-deps", &wheel])?;
    measure(&programs.join("tokometer"), folder)?;
    std::fs::remove_dir_all(tried)?;
    Ok(())
}

/// Measures the embedded simulator with a program.
pub(super) fn measure(program: &Path, folder: &Path) -> Result<()> {
    announce(output(Command::new(program).arg("--version"))?.trim());
    let mut bench = Command::new(program);
    bench.current_dir(folder).args([
        "bench",
        "--num-prompts",
        "20",
        "--format",
        "json",
        "--no-run-dir",
    ]);
    let page: Value = serde_json::from_str(&output(&mut bench)?)?;
    let succeeded = page.pointer("/summary/counts/succeeded").and_then(Value::as_u64);
    ensure!(succeeded == Some(20), "{succeeded:?} of 20 requests succeeded: {page:#}");
    announce("bench: 20 of 20 requests succeeded");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_repeats_the_project_file() {
        let project = std::fs::read_to_string(root().join("pyproject.toml")).unwrap();
        let text = metadata(&project, "# Title\n").unwrap();
        assert!(text.contains("\nName: tokometer\nVersion: "), "{text}");
        assert!(text.contains("\nClassifier: Environment :: Console\n"), "{text}");
        assert!(text.ends_with("\n\n# Title\n"), "{text}");
        assert!(metadata("[project]", "").is_err());
    }
}
