//! Ctrl-C, SIGTERM and SIGHUP in every phase of every command.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::Signal;
use tokometer_record::{Phase, RunReader, RunState, Stop};

use crate::program::{self, ProgramExit, Server, Started, run, wait_until};
use crate::scripted::{AfterResponse, Scripted, ScriptedRequest};

/// Starts an endless run, waits until it is under way, and sends signals.
fn interrupted(server: &Server, signals: &[Signal]) -> (ProgramExit, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let line = format!(
        "bench --base-url {} --duration 10m --max-concurrency 4 --random-input-len 20 \
         --random-output-len 10 --run-dir r",
        server.url
    );
    let bench = Started::new(folder.path(), &line);
    let starts = folder.path().join("r/starts.arrows");
    wait_until("requests are under way", || {
        std::fs::metadata(&starts).is_ok_and(|found| found.len() > 0)
    });
    for signal in signals {
        bench.signal(*signal);
    }
    (bench.wait(), folder)
}

#[test]
fn the_first_signal_drains_and_reports_what_there_is() {
    let server = Server::new(&["--ttft", "5ms", "--itl", "2ms"]);
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let (ended, folder) = interrupted(&server, &[signal]);
        ended.says(130, &["partial"]);
        let reader = RunReader::open(&folder.path().join("r")).unwrap();
        let RunState::Ended(end) = reader.state().unwrap() else { panic!("the run has no end") };
        assert_eq!(end.stop, Stop::Interrupted);
    }
}

/// The answers stand still for an hour: only leaving at once ends this test.
#[test]
fn the_second_signal_leaves_at_once() {
    let faults = r#"{"stall":{"after_tokens":2,"span":3600000000000}}"#;
    let server = Server::new(&["--ttft", "5ms", "--itl", "2ms", "--faults", faults]);
    let (ended, _folder) = interrupted(&server, &[Signal::SIGINT, Signal::SIGINT, Signal::SIGINT]);
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
}

const SMALL: &str = "--num-prompts 4 --max-concurrency 1 --random-input-len 8 \
                     --random-output-len 4 --tokenizer cl100k --disable-tqdm";

/// Starts `line`, sends one signal once `is_there`, and expects the code of an interrupt.
fn interrupt_when(folder: &Path, line: &str, is_there: impl FnMut() -> bool) -> ProgramExit {
    let started = Started::new(folder, line);
    wait_until("the phase has begun", is_there);
    started.signal(Signal::SIGINT);
    let ended = started.wait();
    assert_eq!(ended.code, Some(130), "{line}: {ended:?}");
    ended
}

/// A server whose `held` request is never answered; everything else is answered well.
struct Holding {
    server: Scripted,
    reached: Arc<AtomicBool>,
}

impl Holding {
    fn new(held: &'static str) -> Self {
        let reached = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&reached);
        let server = Scripted::raw(move |mut asked: ScriptedRequest<'_>| {
            if asked.line.starts_with(held) {
                seen.store(true, Ordering::SeqCst);
                return asked.hold();
            }
            match asked.line.as_str() {
                "GET /v1/models" => {
                    asked.answer("200 OK", "application/json", r#"{"data":[{"id":"scripted"}]}"#);
                }
                line if line.starts_with("POST /v1/completions") => {
                    asked.good_answer(4);
                    return AfterResponse::Close;
                }
                _ => asked.answer("404 Not Found", "text/plain", ""),
            }
            AfterResponse::Stay
        });
        Self { server, reached }
    }

    /// Whether the request that is never answered has come.
    fn is_reached(&self) -> bool {
        self.reached.load(Ordering::SeqCst)
    }
}

fn check_held(held: &'static str, flags: &str) {
    let folder = tempfile::tempdir().unwrap();
    let holding = Holding::new(held);
    let line = format!("bench --base-url {} {SMALL} --no-run-dir {flags}", holding.server.url);
    interrupt_when(folder.path(), &line, || holding.is_reached());
}

#[test]
fn a_server_that_never_lists_its_models_does_not_keep_the_program() {
    check_held("GET /v1/models", "");
}

#[test]
fn a_ready_check_that_is_never_answered_does_not_keep_the_program() {
    check_held("POST /v1/completions", "--ready-check-timeout-sec 3600");
}

#[test]
fn a_warm_up_that_is_never_answered_does_not_keep_the_program_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let holding = Holding::new("POST /v1/completions");
    let line = format!(
        "bench --base-url {} {SMALL} --num-warmups 1 --run-dir r --save-result --result-filename v.json",
        holding.server.url
    );
    let started = Started::new(folder.path(), &line);
    let plan = folder.path().join("r/plan.json");
    wait_until("the warm-up is under way", || plan.exists() && holding.is_reached());
    started.signal(Signal::SIGINT);
    started.signal(Signal::SIGTERM);
    let ended = started.wait();
    assert_eq!(ended.code, Some(130));
    // A block of zeros was printed and saved, and looked like a measurement.
    for text in [ended.stdout, run(folder.path(), "report r").succeeded().stdout] {
        assert!(text.contains("partial: interrupted; nothing was measured"), "{text}");
        assert!(!text.contains("Serving Benchmark Result"), "{text}");
    }
    assert!(!folder.path().join("v.json").exists());
    let reader = RunReader::open(&folder.path().join("r")).unwrap();
    let rows: Vec<_> = reader.timelines().unwrap().map(|row| row.identity.phase).collect();
    assert_eq!(rows, [Phase::Warmup], "the warm-up is kept");
}

#[test]
fn a_flush_that_is_never_answered_does_not_keep_the_program() {
    check_held("POST /reset_prefix_cache", "--flush-cache --flush-cache-timeout 3600");
}

#[test]
fn a_tokenizer_that_never_answers_does_not_keep_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let holding = Holding::new("POST /tokenize");
    let line = format!(
        "bench --base-url {} --num-prompts 4 --random-input-len 8 --no-run-dir",
        holding.server.url
    );
    interrupt_when(folder.path(), &line, || holding.is_reached());
}

/// The command would run for an hour; so would what it has started.
#[test]
fn a_switch_command_ends_with_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::quick();
    let mut command = crate::program::command(
        folder.path(),
        &format!("bench --base-url {} {SMALL} --no-run-dir", server.url),
    );
    command.args(["--switch-command", "f() { touch begun; sleep 3600; }; f"]);
    let started = Started::of(&mut command);
    let begun = folder.path().join("begun");
    wait_until("the command has begun", || begun.exists());
    started.signal(Signal::SIGTERM);
    let ended = started.wait();
    assert_eq!(ended.code, Some(130), "{ended:?}");
}

/// Between two points nothing is driven, and the points that were measured are still shown.
#[test]
fn a_signal_in_a_sweep_keeps_the_points_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::quick();
    let line = format!(
        "bench --base-url {} --max-concurrency 1,2 --duration 10m --random-input-len 8 \
         --layout v4 --random-output-len 4 --tokenizer cl100k --run-dir s",
        server.url
    );
    let starts = folder.path().join("s/000-max_concurrency=1/starts.arrows");
    let ended = interrupt_when(folder.path(), &line, || {
        std::fs::metadata(&starts).is_ok_and(|found| found.len() > 0)
    });
    assert_eq!(ended.stdout.matches("Serving Benchmark Result").count(), 1, "{}", ended.stdout);
    assert!(ended.stdout.contains("max_concurrency=1"), "{}", ended.stdout);
    assert!(!folder.path().join("s/001-max_concurrency=2").exists());
}

#[test]
fn a_search_that_has_measured_nothing_ends_at_the_first_signal() {
    let folder = tempfile::tempdir().unwrap();
    let holding = Holding::new("GET /v1/models");
    let line = format!(
        "capacity --base-url {} --slo requests>0.001 --random-input-len 8 --run-dir r",
        holding.server.url
    );
    interrupt_when(folder.path(), &line, || holding.is_reached());
}

/// Commands that only compute are ended by the first signal, with the same code for all signals.
#[test]
fn a_command_that_reads_for_ever_ends_at_the_first_signal() {
    for (command, signal) in
        [("doctor", Signal::SIGINT), ("report", Signal::SIGTERM), ("report", Signal::SIGHUP)]
    {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let started = Started::new(folder.path(), &format!("{command} pipe"));
        // Opening the other end returns once the program has opened its own, and then it reads.
        let opened = std::thread::spawn(move || std::fs::OpenOptions::new().write(true).open(pipe));
        wait_until("the program reads", || opened.is_finished());
        started.signal(signal);
        let ended = started.wait();
        assert_eq!(ended.code, Some(130), "{command}: {ended:?}");
    }
}

#[test]
fn the_simulated_server_ends_in_order_and_a_second_signal_does_not_wait() {
    for signals in [&[Signal::SIGINT][..], &[Signal::SIGHUP], &[Signal::SIGTERM, Signal::SIGTERM]] {
        let folder = tempfile::tempdir().unwrap();
        let mut started = Started::new(folder.path(), "sim --port 0 --ttft 5ms --itl 1ms");
        let line = crate::program::first_line(&mut started.child);
        assert!(line.contains("listening"), "{line}");
        for signal in signals {
            started.signal(*signal);
        }
        let code = started.wait().code;
        assert!(code == Some(0) || (signals.len() > 1 && code == Some(130)), "{code:?}");
    }
}

/// The thread that reads keys spun on the closed terminal for ever, and the run never ended.
#[test]
fn a_dashboard_whose_terminal_is_closed_ends_with_its_run() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(&["--ttft", "5ms", "--itl", "2ms"]);
    let line = format!(
        "echo $$ > pid; exec {} bench --base-url {} --duration 10m --max-concurrency 4 --random-input-len 20 \
         --random-output-len 10 --run-dir r --live",
        program::path().display(),
        server.url
    );
    // A terminal as ssh or tmux gives one.
    let mut terminal = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .current_dir(folder.path())
        .env("TERM", "xterm")
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let starts = folder.path().join("r/starts.arrows");
    wait_until("requests are under way", || {
        std::fs::metadata(&starts).is_ok_and(|found| found.len() > 0)
    });
    terminal.kill().unwrap();
    terminal.wait().unwrap();
    let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap();
    let state = Path::new("/proc").join(pid.trim()).join("stat");
    wait_until("the program has ended", || {
        // Nobody may have asked for its exit status.
        std::fs::read_to_string(&state).map_or(true, |state| state.contains(") Z "))
    });
    let reader = RunReader::open(&folder.path().join("r")).unwrap();
    let RunState::Ended(end) = reader.state().unwrap() else { panic!("the run has no end") };
    assert_eq!(end.stop, Stop::Interrupted);
}
