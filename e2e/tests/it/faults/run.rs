//! Runs cases, several at a time, and checks how each ended.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use super::case::{Case, Counted, Moment, Target};
use super::page::Row;
use super::scripts::good;
use crate::program::{ProgramExit, Server, Started, command, ended, run, wait_until, words};
use crate::scripted::Scripted;

/// Cases that run at the same time. Most of them wait for something.
const THREADS: usize = 4;

/// Runs all cases and gives their rows in the order of the table.
pub(super) fn all(cases: &[Case]) -> Vec<Row> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let take = || next.fetch_add(1, Ordering::SeqCst);
                for index in std::iter::repeat_with(take).take_while(|index| *index < cases.len()) {
                    let result = one(&cases[index]);
                    results.lock().unwrap().push((index, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap();
    results.sort_by_key(|(index, _)| *index);
    let (rows, wrong): (Vec<_>, Vec<_>) =
        results.into_iter().map(|(_, result)| result).partition(Result::is_ok);
    let wrong: Vec<String> = wrong.into_iter().filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{} cases ended otherwise:\n\n{}", wrong.len(), wrong.join("\n\n"));
    rows.into_iter().filter_map(Result::ok).collect()
}

/// The servers of a case; they end with it.
enum Running {
    Nothing,
    Scripted(Scripted),
    Simulated(Server),
}

impl Running {
    fn start(target: Target) -> Self {
        match target {
            Target::Nothing | Target::Closed => Self::Nothing,
            Target::Second(script) => Self::Scripted(Scripted::new(move |asked| {
                if asked.number == 1 { script(asked) } else { good(asked) }
            })),
            Target::Every(script) => Self::Scripted(Scripted::new(script)),
            Target::Raw(script) => Self::Scripted(Scripted::raw(script)),
            Target::Sim(flags) => {
                let all = [&["--ttft", "5ms", "--itl", "1ms"], flags].concat();
                Self::Simulated(Server::new(&all))
            }
        }
    }

    fn url(&self) -> &str {
        match self {
            // Nothing listens on a port that only root may open.
            Self::Nothing => "http://127.0.0.1:1",
            Self::Scripted(server) => &server.url,
            Self::Simulated(server) => &server.url,
        }
    }

    fn requests(&self) -> u32 {
        match self {
            Self::Scripted(server) => server.requests(),
            Self::Nothing | Self::Simulated(_) => 0,
        }
    }
}

/// Runs one case. The error says what was otherwise, with everything that was printed.
fn one(case: &Case) -> Result<Row, String> {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start(case.target);
    let fill = |line: &str| {
        let (scheme, host) = server.url().split_once("://").unwrap();
        line.replace("{url}", &format!("{scheme}://{host}")).replace("{host}", host)
    };
    for line in case.before {
        run(folder.path(), &fill(line));
    }
    (case.prepare)(folder.path());
    // Notes are part of the details.
    let details = if case.line.starts_with("bench ") { " --details" } else { "" };
    let line = fill(&format!("{} {}{details}", case.line, case.flags));
    let mut last = main_command(&fill(case.shell), &line, folder.path());
    let mut ended = if case.signals.is_empty() {
        ended(&mut last)
    } else {
        signalled(case, &mut last, &server, folder.path())
    };
    if let Some(line) = case.then {
        ended = run(folder.path(), &fill(line));
    }
    let counts = Counts::read(folder.path(), &ended);
    let mut wrong = String::new();
    check(case, &ended, counts.as_ref(), &mut wrong);
    if !wrong.is_empty() {
        return Err(format!("{}:\n{wrong}{}{}", case.fault, ended.stderr, tail(&ended.stdout)));
    }
    Ok(Row::new(case, &ended, counts.map(|counts| counts.show(case)), folder.path()))
}

/// The command itself, behind the shell's words if there are any.
fn main_command(words: &str, line: &str, folder: &Path) -> Command {
    let plain = command(folder, line);
    if words.is_empty() {
        return plain;
    }
    let mut shell = Command::new("bash");
    let program = Path::new(plain.get_program()).display().to_string();
    let script = format!("{words}; exec {program} {line}");
    shell.args(["-c", &script]).current_dir(folder).env("HF_HUB_OFFLINE", "1");
    shell
}

fn signalled(case: &Case, command: &mut Command, server: &Running, folder: &Path) -> ProgramExit {
    let started = Started::of(command);
    for (moment, signal) in case.signals {
        wait_until(case.fault, || match moment {
            Moment::Requests(count) => server.requests() >= *count,
            Moment::Recorded => is_recorded(&folder.join("r")),
        });
        started.signal(*signal);
    }
    started.wait()
}

/// Whether this run, or a point of this sweep, has the start of a request in its record.
fn is_recorded(run: &Path) -> bool {
    let is_started = |file: &Path| std::fs::metadata(file).is_ok_and(|found| found.len() > 0);
    let Ok(entries) = std::fs::read_dir(run) else { return false };
    is_started(&run.join("starts.arrows"))
        || entries.flatten().any(|entry| is_started(&entry.path().join("starts.arrows")))
}

/// What the run's summary says about its requests.
struct Counts {
    succeeded: u64,
    failed: u64,
    in_flight: u64,
    never_sent: u64,
    /// As the classic block prints them.
    tokens: Option<u64>,
}

impl Counts {
    /// `None` when the run has no summary.
    fn read(folder: &Path, ended: &ProgramExit) -> Option<Self> {
        let text = std::fs::read_to_string(folder.join("r/summary.json")).ok()?;
        let page: Value = serde_json::from_str(&text).unwrap();
        let counts = &page["summary"]["counts"];
        Some(Self {
            succeeded: counts["succeeded"].as_u64()?,
            failed: counts["failed"].as_u64()?,
            in_flight: counts["abandoned"].as_u64()?,
            never_sent: counts["never_sent"].as_u64()?,
            tokens: ended
                .stdout
                .lines()
                .find_map(|line| line.strip_prefix("Total generated tokens:")?.trim().parse().ok()),
        })
    }

    fn show(&self, case: &Case) -> String {
        if matches!(case.counts, Counted::Some | Counted::OneMore { .. }) {
            return "the requests until then".to_owned();
        }
        let parts = [
            (self.succeeded, "succeeded"),
            (self.failed, "failed"),
            (self.in_flight, "in flight"),
            (self.never_sent, "never sent"),
            (case.tokens.unwrap_or_default(), "tokens"),
        ];
        let shown = parts.iter().filter(|(count, _)| *count > 0);
        shown.map(|(count, what)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
    }
}

fn check(case: &Case, ended: &ProgramExit, counts: Option<&Counts>, wrong: &mut String) {
    let printed = format!("{}{}", ended.stderr, ended.stdout);
    if ended.code != Some(case.exit) {
        writeln!(wrong, "  exit code {:?}, expected {:?}", ended.code, case.exit).unwrap();
    }
    let found = counts.map(|counts| (counts.succeeded, counts.failed));
    let is_so = match case.counts {
        Counted::Nothing => found.is_none(),
        Counted::Some => found.is_some_and(|(succeeded, failed)| succeeded > 0 && failed == 0),
        Counted::OneMore { failed } => found.is_some_and(|(succeeded, has_failed)| {
            succeeded > 0 && (failed..=failed + 1).contains(&has_failed)
        }),
        Counted::Exactly(succeeded, failed) => found == Some((succeeded, failed)),
    };
    if !is_so {
        writeln!(wrong, "  succeeded and failed {found:?}, expected {:?}", case.counts).unwrap();
    }
    let tokens = counts.and_then(|counts| counts.tokens);
    if case.tokens.is_some() && tokens != case.tokens {
        writeln!(wrong, "  tokens {tokens:?}, expected {:?}", case.tokens).unwrap();
    }
    // A test does not depend on where lines are broken.
    let joined = words(&printed);
    let is_missing = |part: &&&str| !printed.contains(**part) && !joined.contains(**part);
    for part in case.says.iter().filter(is_missing) {
        writeln!(wrong, "  `{part}` was not printed").unwrap();
    }
    for part in ["panicked", "internal error"] {
        if printed.contains(part) {
            writeln!(wrong, "  `{part}` was printed").unwrap();
        }
    }
}

/// The end of what was printed, which has the failures and notes.
fn tail(text: &str) -> &str {
    text.find("\nrun ").map_or(text, |start| &text[start..])
}
