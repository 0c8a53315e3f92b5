//! A shell for the commands of one page: one folder, the program on its path, servers that end with it.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::block::Page;
use crate::program::{self, ProgramExit, ended, first_line, free_port, root};

/// Folders of the project that examples may name.
const SHARED: [&str; 2] = ["fixtures", "experiments"];

/// The program under another name: each word is parsed, nothing is done. Help of a command is printed
/// after the flags before it were parsed; a bench is lowered to its plan, which sends
/// nothing; one that names a file of the reader's is only parsed.
const PARSE_ONLY: &str = r#"tokometer() {
  case "$1 $*" in
    *" --plan "*) "$PROGRAM" "$@" --help ;;
    "bench "*) "$PROGRAM" "$@" --print-plan ||
      { grep -q "cannot read" "$STATUS.said" && "$PROGRAM" "$@" --help; } ;;
    *) "$PROGRAM" "$@" --help ;;
  esac > /dev/null 2> "$STATUS.said"
  echo $? >> "$STATUS"
}
"#;

/// The same for commands in a text, which name what the reader fills in: their flags are parsed, nothing
/// is lowered.
const FLAGS_ONLY: &str = r#"tokometer() {
  case "$1" in
    help) "$PROGRAM" "$@" ;;
    *) "$PROGRAM" "$@" --help ;;
  esac > /dev/null 2> "$STATUS.said"
  echo $? >> "$STATUS"
}
"#;

/// Exit codes of a command that was done: success, an objective violated or a finding, INVALID with
/// `--strict`, undecided.
const DONE: [i32; 4] = [0, 1, 4, 8];

pub(super) struct Session {
    page: String,
    folder: TempDir,
    /// Ports that the page names, and free ones instead.
    ports: BTreeMap<u16, u16>,
    servers: Vec<Child>,
    last_code: i32,
    /// A command that failed, until the page shows its code.
    unshown_failure: Option<String>,
    problems: Vec<String>,
}

impl Session {
    pub(super) fn new(page: &Page) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(".bin")).unwrap();
        symlink(program::path(), folder.path().join(".bin/tokometer")).unwrap();
        for name in SHARED {
            symlink(root().join(name), folder.path().join(name)).unwrap();
        }
        let commands: Vec<String> =
            page.examples().into_iter().map(|example| example.command).collect();
        let ports = commands.iter().filter_map(|command| port_of(command));
        Self {
            page: page.name.clone(),
            folder,
            ports: ports.map(|port| (port, free_port())).collect(),
            servers: Vec::new(),
            last_code: 0,
            unshown_failure: None,
            problems: Vec::new(),
        }
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What a command prints that stands in for a longer one. The page shows no exit code of it.
    pub(super) fn run_shorter(&mut self, command: &str) -> Vec<String> {
        let printed = self.run(command);
        if DONE.contains(&self.last_code) {
            self.unshown_failure = None;
        }
        printed
    }

    /// What a command prints: stdout, and the error where it fails.
    pub(super) fn run(&mut self, command: &str) -> Vec<String> {
        match command {
            "echo $?" => self.unshown_failure = None,
            _ => self.require_code_shown(),
        }
        let local = self.with_ports(command, |(named, free)| (*named, *free));
        if let Some(server) = local.strip_suffix('&') {
            let mut child = self.shell(&format!("exec {server}")).spawn().unwrap();
            let line = first_line(&mut child);
            self.servers.push(child);
            return self.as_shown(&line);
        }
        let line = format!("(exit {}); {local}", self.last_code);
        let ProgramExit { code, stdout, stderr } = ended(&mut self.shell(&line));
        self.last_code = code.unwrap_or(-1);
        if self.last_code == 0 {
            return self.as_shown(&stdout);
        }
        self.unshown_failure = Some(command.to_owned());
        // What precedes the message is progress.
        let message = stderr.find("error:").map_or("", |at| &stderr[at..]);
        self.as_shown(&format!("{stdout}{message}"))
    }

    /// Runs a command for its effect. Fails with what it printed where it could not be done.
    pub(super) fn attempt(&mut self, command: &str) -> Result<(), String> {
        if let Some(server) = command.strip_suffix('&') {
            let mut child = self.shell(&format!("exec {server}")).spawn().unwrap();
            let line = first_line(&mut child);
            self.servers.push(child);
            let is_address = line.contains("http://") || line.contains("unix:");
            return if is_address { Ok(()) } else { Err(line) };
        }
        let ProgramExit { code, stdout, stderr } = ended(&mut self.shell(command));
        // A rule about a figure that so few requests cannot decide.
        let is_undecided = stdout.contains("cannot be checked: no confidence interval");
        if is_undecided || code.is_some_and(|code| DONE.contains(&code)) {
            return Ok(());
        }
        Err(format!("  code {code:?}\n{stdout}{stderr}"))
    }

    fn shell(&self, line: &str) -> Command {
        // The program's own command has the clean environment that tests need.
        let clean = program::command(self.folder.path(), "");
        let mut shell = Command::new("bash");
        for (name, value) in clean.get_envs() {
            let _ = match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let own = [self.folder.path().join(".bin")].into_iter();
        let path = std::env::join_paths(own.chain(std::env::split_paths(&path))).unwrap();
        shell
            .args(["-o", "pipefail", "-c", line])
            .current_dir(self.folder.path())
            .env("PATH", path);
        shell.env("HOME", self.folder.path()).env("XDG_CONFIG_HOME", self.folder.path());
        shell.stdin(Stdio::null()).stdout(Stdio::piped());
        shell
    }

    /// A text with other ports.
    fn with_ports(&self, text: &str, pair: impl Fn((&u16, &u16)) -> (u16, u16)) -> String {
        let mut text = text.to_owned();
        for (from, to) in self.ports.iter().map(pair) {
            for before in [":", "--port "] {
                text = text.replace(&format!("{before}{from}"), &format!("{before}{to}"));
            }
        }
        text
    }

    /// Lines as a reader sees them in a folder of their own.
    fn as_shown(&self, printed: &str) -> Vec<String> {
        let text = self.with_ports(printed, |(named, free)| (*free, *named));
        let text = text.replace(&format!("{}/", self.folder.path().display()), "");
        text.trim_end().lines().map(|line| line.trim_end().to_owned()).collect()
    }

    fn require_code_shown(&mut self) {
        let failed = self.unshown_failure.take();
        self.problems.extend(failed.map(|command| {
            format!("{}: `{command}` failed; show its code with `$ echo $?`", self.page)
        }));
    }

    /// What is wrong with the page besides its outputs.
    pub(super) fn problems(mut self) -> Vec<String> {
        self.require_code_shown();
        std::mem::take(&mut self.problems)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for server in &mut self.servers {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

fn port_of(command: &str) -> Option<u16> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "--port")?;
    words.get(at + 1)?.parse().ok().filter(|port| *port > 0)
}

/// Commands of a page that the program does not accept.
pub(super) fn unparsed(page: &Page) -> Vec<String> {
    let of_blocks = page.other_commands().into_iter().map(|found| (PARSE_ONLY, found));
    let of_text = page.commands_in_text().into_iter().map(|found| (FLAGS_ONLY, found));
    let refused = |(script, (line, command)): (&str, (usize, String))| {
        let said = refusal(script, &command)?;
        Some(format!("{}:{line}: {command}\n{said}", page.name))
    };
    of_blocks.chain(of_text).filter_map(refused).collect()
}

/// What the program says against a command; `None` where it accepts it.
fn refusal(script: &str, command: &str) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let status = folder.path().join("status");
    let filled = filled(command);
    let mut shell = Command::new("bash");
    shell.args(["-c", &format!("{script}{}", without_redirection(&filled))]);
    shell.current_dir(folder.path()).env("HOME", folder.path());
    shell.env("PROGRAM", program::path()).env("STATUS", &status).env("HF_HUB_OFFLINE", "1");
    shell.env("GITHUB_STEP_SUMMARY", "summary.md");
    let _ = ended(shell.stdin(Stdio::null()));
    let codes = std::fs::read_to_string(&status).unwrap_or_default();
    let is_accepted = !codes.is_empty() && codes.lines().all(|code| code == "0");
    (!is_accepted).then(|| std::fs::read_to_string(said(&status)).unwrap_or_default())
}

/// A command with something instead of the words that a reader fills in.
fn filled(command: &str) -> String {
    let words = [
        ("HOST:PORT", "localhost:8000"),
        (" URL", " http://localhost:8000"),
        ("COMMAND", "bench"),
        ("--shard K/", "--shard 1/"),
        ("--slo …", "--slo 1"),
        ("--engine …", "--engine 1"),
        ("…", ""),
    ];
    words.iter().fold(command.to_owned(), |text, (word, value)| text.replace(word, value))
}

/// A command up to its first redirection: the files are not there.
fn without_redirection(command: &str) -> &str {
    let mut quote = None;
    for (at, letter) in command.char_indices() {
        match (quote, letter) {
            (None, '>' | '<') => return &command[..at],
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), letter) if letter == open => quote = None,
            _ => {}
        }
    }
    command
}

#[test]
fn a_comparison_in_quotes_is_no_redirection() {
    let check = |command: &str, kept: &str| assert_eq!(without_redirection(command), kept);
    check("tokometer doctor - < log.txt", "tokometer doctor - ");
    check(
        "tokometer capacity --slo \"p99 ttft < 2s\" > x",
        "tokometer capacity --slo \"p99 ttft < 2s\" ",
    );
}

fn said(status: &std::path::Path) -> PathBuf {
    let mut name = status.as_os_str().to_owned();
    name.push(".said");
    name.into()
}
