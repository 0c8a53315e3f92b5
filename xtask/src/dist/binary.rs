//! The program for distribution: how it is built, and what it needs from a system.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use super::output;
use super::target::{Libc, Target};
use crate::ci::{announce, finish, root};
use crate::provision::environment;

const TOOLS: [&str; 2] = ["cargo-zigbuild==0.24.0", "ziglang==0.17.0"];

/// Libraries that belong to glibc. The image has these and no others.
const GLIBC: [&str; 7] = [
    "ld-linux-aarch64.so.1",
    "ld-linux-x86-64.so.2",
    "libc.so.6",
    "libdl.so.2",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
];

/// Folders of this machine with sources, and what the program calls them. The same commit gives the same
/// program on another machine, and nobody learns who built it.
fn builders_folders() -> [(PathBuf, &'static str); 2] {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cargo");
    let cargo = std::env::var_os("CARGO_HOME").map_or_else(home, PathBuf::from);
    [(cargo.join("registry/src"), "registry"), (root(), "tokometer")]
}

pub(super) fn build(target: &Target, libc: Libc) -> Result<PathBuf> {
    let mut cargo = match libc {
        Libc::Old => zigbuild()?,
        Libc::Host => Command::new(env!("CARGO")),
    };
    let old = target.glibc.filter(|_| libc == Libc::Old);
    // cargo-zigbuild takes the version of glibc as the end of the target's name.
    let triple = old.map_or_else(
        || target.triple.to_owned(),
        |(major, minor)| format!("{}.{major}.{minor}", target.triple),
    );
    let command = if libc == Libc::Old { "zigbuild" } else { "build" };
    cargo.current_dir(root()).args([command, "--locked", "--profile", "dist", "--target", &triple]);
    // Rust writes the paths of sources into the program, for panics.
    let flags: Vec<String> = builders_folders()
        .iter()
        .map(|(folder, name)| format!("--remap-path-prefix={}={name}", folder.display()))
        .collect();
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    announce(&format!("cargo {command} --profile dist --target {triple}"));
    finish(&mut cargo)?;
    Ok(root().join("target").join(target.triple).join("dist/tokometer"))
}

/// A cargo that links with zig against an old glibc.
fn zigbuild() -> Result<Command> {
    let tools = environment(&root().join("target/distribution-tools"), &TOOLS)?;
    // It starts zig as a module of `python3`, so these come before others.
    let mut folders = vec![tools.clone()];
    folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let mut command = Command::new(tools.join("cargo-zigbuild"));
    command.env("PATH", std::env::join_paths(folders)?);
    Ok(command)
}

/// Checks the program, and says in a line what it needs.
pub(super) fn check(program: &Path, target: &Target, libc: Libc) -> Result<String> {
    let content = std::fs::read(program)?;
    for (folder, _) in builders_folders() {
        let folder = folder.to_string_lossy();
        let is_named = memchr::memmem::find(&content, folder.as_bytes()).is_some();
        ensure!(!is_named, "the program contains the builder's folder `{folder}`");
    }
    let read = |flags: &[&str]| output(Command::new("readelf").args(flags).arg(program));
    let libraries = libraries(&read(&["--wide", "--dynamic"])?);
    let needed = glibc(&read(&["--wide", "--version-info"])?);
    let Some(newest) = target.glibc else {
        ensure!(libraries.is_empty(), "a static program needs {}", libraries.join(", "));
        return Ok("needs no shared library".to_owned());
    };
    let (major, minor) = needed.unwrap_or_default();
    if libc == Libc::Old {
        let foreign: Vec<&String> =
            libraries.iter().filter(|name| !GLIBC.contains(&name.as_str())).collect();
        ensure!(foreign.is_empty(), "the program needs {foreign:?}, which is not part of glibc");
        ensure!(
            (major, minor) <= newest,
            "the program needs glibc {major}.{minor}, newer than {}.{}",
            newest.0,
            newest.1
        );
    }
    Ok(format!("needs glibc {major}.{minor} or newer: {}", libraries.join(", ")))
}

/// The shared libraries in the output of `readelf --dynamic`.
fn libraries(text: &str) -> Vec<String> {
    let needed = text.lines().filter(|line| line.contains("(NEEDED)"));
    let name = |line: &str| Some(line.split_once('[')?.1.split_once(']')?.0.to_owned());
    needed.filter_map(name).collect()
}

/// The newest version of glibc that `readelf --version-info` names. `None` where it names none.
fn glibc(text: &str) -> Option<(u32, u32)> {
    let versions = text.split("GLIBC_").skip(1).filter_map(|rest| {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
        let mut parts = rest[..end.unwrap_or(rest.len())].split('.');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    });
    versions.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DYNAMIC: &str = "
Dynamic section at offset 0x1 contains 3 entries:
  Tag        Type                         Name/Value
 0x0000000000000001 (NEEDED)             Shared library: [libm.so.6]
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
 0x000000000000000c (INIT)               0x2000
";
    const VERSIONS: &str = "
Version needs section '.gnu.version_r' contains 2 entries:
 Addr: 0x0000000000000b0  Offset: 0x00000b0  Link: 6 (.dynstr)
  000000: Version: 1  File: libc.so.6  Cnt: 3
  0x0010:   Name: GLIBC_2.9  Flags: none  Version: 9
  0x0020:   Name: GLIBC_2.2.5  Flags: none  Version: 8
  0x0030:   Name: GLIBC_2.14  Flags: none  Version: 7
  0x0040: Version: 1  File: libgcc_s.so.1  Cnt: 1
  0x0050:   Name: GCC_3.0  Flags: none  Version: 6
";

    #[test]
    fn needed_libraries_and_the_newest_glibc_are_found() {
        assert_eq!(libraries(DYNAMIC), ["libm.so.6", "libc.so.6"]);
        assert_eq!(libraries("There is no dynamic section in this file."), [""; 0]);
        // As a number, 2.14 is smaller than 2.9.
        assert_eq!(glibc(VERSIONS), Some((2, 14)));
        assert_eq!(glibc("No version information found in this file."), None);
    }
}
