//! The container image: its files, built and tried.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::output;
use crate::ci::{announce, finish, root};

const NAME: &str = "tokometer";

/// Where distributions keep the certificates of authorities, in one file.
const CERTIFICATES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
];

/// Programs that build images, the preferred one first.
const BUILDERS: [&str; 3] = ["podman", "docker", "buildah"];

/// Builds the image and measures the embedded simulator in it, where a program for that answers.
pub(super) fn build(program: &Path, folder: &Path) -> Result<()> {
    lay_out(program, &folder.join("image"))?;
    // docker may be installed without its daemon: `info` asks for it, as building does.
    let Some(builder) = BUILDERS.into_iter().find(|name| is_quiet(Command::new(name).arg("info")))
    else {
        announce("skipped: the image (podman, docker or buildah; Debian has them)");
        return Ok(());
    };
    announce(&format!("{builder} build"));
    let mut command = Command::new(builder);
    command.args(["build", "--tag", NAME]);
    if builder == "buildah" {
        // Needs no privileges beyond those of the caller.
        command.args(["--isolation", "chroot"]);
    }
    let file = root().join("packaging/Containerfile");
    finish(command.arg("--file").arg(file).arg(folder))?;
    try_out(builder)
}

/// Measures the embedded simulator inside a container of the image.
fn try_out(builder: &str) -> Result<()> {
    let bench = ["bench", "--num-prompts", "20", "--format", "json", "--no-run-dir"];
    let page = if builder == "buildah" {
        let container = output(Command::new(builder).args(["from", NAME]))?;
        let container = container.trim();
        let mut command = Command::new(builder);
        command.args(["run", "--isolation", "chroot", container, "--"]);
        let page = output(command.arg("/usr/local/bin/tokometer").args(bench));
        output(Command::new(builder).args(["rm", container]))?;
        page?
    } else {
        output(Command::new(builder).args(["run", "--rm", NAME]).args(bench))?
    };
    let page: serde_json::Value = serde_json::from_str(&page)?;
    let succeeded = page.pointer("/summary/counts/succeeded").and_then(serde_json::Value::as_u64);
    ensure!(succeeded == Some(20), "{succeeded:?} of 20 requests succeeded in the image: {page:#}");
    announce("image: 20 of 20 requests succeeded");
    Ok(())
}

fn is_quiet(command: &mut Command) -> bool {
    let silent = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    silent.status().is_ok_and(|status| status.success())
}

/// Writes the files of the image: the program, the shared libraries that it needs, certificates, and
/// what names its user.
fn lay_out(program: &Path, folder: &Path) -> Result<()> {
    let files = folder.join("files");
    let path = |inside: &str| files.join(inside.trim_start_matches('/'));
    let copy = |from: &Path, to: PathBuf| -> Result<()> {
        std::fs::create_dir_all(to.parent().unwrap_or(&to))?;
        std::fs::copy(from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
        Ok(())
    };
    copy(program, path("usr/local/bin/tokometer"))?;
    // A static program has none, and `ldd` fails for it.
    let needed = output(Command::new("ldd").arg(program)).unwrap_or_default();
    for library in libraries(&needed) {
        copy(Path::new(library), path(library))?;
    }
    if let Some(found) = CERTIFICATES.into_iter().find(|path| Path::new(path).is_file()) {
        // The path that most programs look at first.
        copy(Path::new(found), path(CERTIFICATES[0]))?;
    }
    std::fs::write(path("etc/passwd"), "nonroot:x:65532:65532::/home/nonroot:/sbin/nologin\n")?;
    std::fs::write(path("etc/group"), "nonroot:x:65532:\n")?;
    std::fs::write(path("etc/nsswitch.conf"), "hosts: files dns\n")?;
    std::fs::create_dir_all(path("tmp"))?;
    std::fs::set_permissions(path("tmp"), std::fs::Permissions::from_mode(0o1777))?;
    std::fs::create_dir_all(folder.join("home"))?;
    Ok(())
}

/// The files in the output of `ldd`: libraries behind `=>`, and the loader.
fn libraries(text: &str) -> Vec<&str> {
    text.split_whitespace().filter(|word| word.starts_with('/')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_the_loader_are_found_in_the_output_of_ldd() {
        let text = "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x2)\n\t/lib64/ld-linux.so.2 (0x3)\n";
        assert_eq!(libraries(text), ["/lib/x/libc.so.6", "/lib64/ld-linux.so.2"]);
        assert!(libraries("\tstatically linked\n").is_empty());
    }
}
