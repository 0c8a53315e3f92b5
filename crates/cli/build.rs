//! Passes the profile and the commit of a build to the program, for `--version` and every record.
//!
//! A debug build gets no commit: nobody quotes its figures, and each commit would compile it again. A
//! build outside a git checkout gets none either. The same commit gives the same binary.
//!
//! The variables must not begin with `TOKOMETER_`: `cargo run` also sets them for the program, which would
//! take them for flags.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let profile = profile();
    println!("cargo::rustc-env=BUILD_PROFILE={profile}");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let commit = if profile == "debug" { None } else { commit(&root) };
    println!("cargo::rustc-env=BUILD_COMMIT={}", commit.unwrap_or_default());
}

/// The profile by its folder: cargo's own variable says `release` for every profile that inherits it.
#[expect(clippy::disallowed_methods, reason = "cargo passes its settings this way")]
fn profile() -> String {
    // The last parts are PROFILE/build/PACKAGE-HASH/out.
    let out = env::var("OUT_DIR").unwrap_or_default();
    let name = |up: usize| Path::new(&out).ancestors().nth(up)?.file_name()?.to_str();
    match (name(3), name(2)) {
        (Some(profile), Some("build")) => profile.to_owned(),
        _ => env::var("PROFILE").unwrap_or_default(),
    }
}

/// The commit, with `-modified` where the sources differ from it.
fn commit(root: &Path) -> Option<String> {
    let top = git(root, &["rev-parse", "--show-toplevel"])?;
    // Sources that were copied into another project are not that project's commit.
    if Path::new(&top).canonicalize().ok()? != root.canonicalize().ok()? {
        return None;
    }
    // `logs/HEAD` gets a line with every commit; `HEAD` alone does not change on a branch.
    for name in ["HEAD", "logs/HEAD"] {
        let path = root.join(git(root, &["rev-parse", "--git-path", name])?);
        if path.is_file() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    // A changed source compiles this package in any case.
    let sources = ["crates", "Cargo.toml", "Cargo.lock"];
    for source in sources {
        println!("cargo::rerun-if-changed={}", root.join(source).display());
    }
    let hash = git(root, &["rev-parse", "--short=12", "HEAD"])?;
    let status = ["--no-optional-locks", "status", "--porcelain", "--"];
    let changes = git(root, &[&status[..], &sources].concat())?;
    Some(if changes.is_empty() { hash } else { format!("{hash}-modified") })
}

/// What git prints. `None` where there is no git, or no repository.
fn git(root: &Path, words: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
