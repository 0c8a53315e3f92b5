//! What comes with an installed program: its version, help, manual pages and completions.

use std::path::Path;
use std::process::Command;

use crate::help::commands;
use crate::program::{self, root, run};

#[test]
fn the_version_names_the_profile_and_the_system() {
    let folder = tempfile::tempdir().unwrap();
    let text = run(folder.path(), "--version").succeeded().stdout;
    let inside = text.trim_end().strip_prefix("tokometer ").unwrap().split_once(" (").unwrap().1;
    let parts: Vec<&str> = inside.trim_end_matches(')').split(", ").collect();
    let system = format!("{}-linux", std::env::consts::ARCH);
    let profile = if program::path().parent().unwrap().ends_with("debug") {
        assert_eq!(parts.len(), 2, "a debug build has no commit: {text}");
        "debug"
    } else {
        "release"
    };
    assert_eq!(parts[parts.len() - 2..], [profile, &system], "{text}");
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn git(folder: &Path, line: &str) -> String {
    let mut command = Command::new("git");
    command.args([
        "-c",
        "user.name=n",
        "-c",
        "user.email=e",
        "-c",
        "core.hooksPath=/dev/null",
        "-C",
    ]);
    output(command.arg(folder).args(line.split(' '))).trim().to_owned()
}

/// The commit that the build script of `folder` names for a profile.
fn commit(folder: &Path, profile: &str) -> String {
    let script = folder.join("script");
    let mut rustc = Command::new(Path::new(env!("CARGO")).with_file_name("rustc"));
    rustc.args(["--edition", "2024", "-o"]).arg(&script).arg(folder.join("crates/cli/build.rs"));
    output(rustc.env("CARGO_MANIFEST_DIR", folder.join("crates/cli")));
    let out = folder.join("target").join(profile).join("build/tokometer-0123/out");
    let said = output(Command::new(&script).env("OUT_DIR", out));
    std::fs::remove_file(script).unwrap();
    // `cargo run` sets these for the program too: README's first command ended with exit code 2.
    assert!(!said.contains("rustc-env=TOKOMETER_"), "a variable of a flag: {said}");
    assert!(said.contains(&format!("=BUILD_PROFILE={profile}\n")), "{said}");
    let commit = said.lines().find_map(|line| line.split_once("=BUILD_COMMIT=")).unwrap().1;
    // A build that does not name a commit must not be repeated after each commit.
    assert_eq!(said.contains("logs/HEAD"), !commit.is_empty(), "{said}");
    commit.to_owned()
}

#[test]
fn a_build_names_its_commit_only_where_it_has_one() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("copy");
    for checkout in [folder.path(), &inner] {
        std::fs::create_dir_all(checkout.join("crates/cli")).unwrap();
        let script = root().join("crates/cli/build.rs");
        std::fs::copy(script, checkout.join("crates/cli/build.rs")).unwrap();
        for name in ["Cargo.toml", "Cargo.lock"] {
            std::fs::write(checkout.join(name), "").unwrap();
        }
    }
    assert_eq!(commit(folder.path(), "dist"), "", "there is no repository");
    git(folder.path(), "init --quiet");
    git(folder.path(), "add crates Cargo.toml Cargo.lock");
    git(folder.path(), "commit --quiet --message m");
    let head = git(folder.path(), "rev-parse --short=12 HEAD");
    assert_eq!(commit(folder.path(), "dist"), head);
    assert_eq!(commit(folder.path(), "release"), head);
    assert_eq!(commit(folder.path(), "debug"), "");
    assert_eq!(commit(&inner, "dist"), "", "a copy inside another project is not its commit");
    std::fs::write(folder.path().join("crates/cli/new.rs"), "").unwrap();
    assert_eq!(commit(folder.path(), "dist"), format!("{head}-modified"));
}

#[test]
fn help_of_a_command_can_be_asked_for_in_two_ways() {
    let folder = tempfile::tempdir().unwrap();
    for command in ["bench", "sweep", "capacity", "completions"] {
        let word = run(folder.path(), &format!("help {command}")).succeeded().stdout;
        let flag = run(folder.path(), &format!("{command} --help")).succeeded().stdout;
        assert_eq!(word, flag, "{command}");
    }
    let unknown = run(folder.path(), "help nothing");
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
}

#[test]
fn every_listed_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), "man pages/man1").succeeded();
    let entries = std::fs::read_dir(folder.path().join("pages/man1")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let mut expected: Vec<String> =
        commands().iter().map(|name| format!("tokometer-{name}.1")).collect();
    expected.push("tokometer.1".to_owned());
    expected.sort();
    assert_eq!(names, expected);
    let page = std::fs::read_to_string(folder.path().join("pages/man1/tokometer-bench.1")).unwrap();
    assert!(page.contains(".TH tokometer-bench 1"), "{}", &page[..300]);
    assert!(page.contains("num\\-prompts") && page.contains("base\\-url"), "flags are missing");
}

#[test]
fn manual_pages_that_cannot_be_written_are_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let ended = run(folder.path(), "man file/pages");
    ended.says(6, &["cannot write to `file/pages`"]);
}

/// The script is run as the shell runs it when a user presses Tab.
#[test]
fn bash_completes_commands_and_flags() {
    let folder = tempfile::tempdir().unwrap();
    let script = run(folder.path(), "completions bash").succeeded().stdout;
    // Too long for an argument.
    std::fs::write(folder.path().join("completions.bash"), script).unwrap();
    let completed = |words: &str| {
        let count = words.split(' ').count();
        let (before, last) = words.rsplit_once(' ').unwrap();
        let previous = before.rsplit(' ').next().unwrap();
        let line = format!(
            "source ./completions.bash\nCOMP_WORDS=({words}); COMP_CWORD={}; COMP_LINE='{words}'\n\
             _tokometer tokometer '{last}' '{previous}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            count - 1
        );
        let output =
            Command::new("bash").args(["-c", &line]).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(completed("tokometer ben"), ["bench"]);
    assert!(completed("tokometer bench --num-p").contains(&"--num-prompts".to_owned()));
    assert!(completed("tokometer completions zs").contains(&"zsh".to_owned()));
}

#[test]
fn other_shells_have_scripts_that_know_all_commands() {
    let folder = tempfile::tempdir().unwrap();
    for (shell, start) in [("zsh", "#compdef tokometer"), ("fish", "")] {
        let script = run(folder.path(), &format!("completions {shell}")).succeeded().stdout;
        assert!(script.starts_with(start), "{shell}: {}", &script[..100]);
        for command in commands() {
            assert!(script.contains(&command), "{shell} does not know {command}");
        }
        assert!(script.contains("max-concurrency"), "{shell} does not know the flags of bench");
    }
    let unknown = run(folder.path(), "completions tcsh");
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
}
