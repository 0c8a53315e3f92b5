//! A disk that is full.

use std::fs;
use std::process::Command;

use tokometer_record::{Phase, RunEnd, RunReader, RunState, Stop};

use crate::program::{self, Server, command, ended, run};

/// The same command with a limit on the size of every file that it writes, in the shell's blocks.
pub(crate) fn limited(mut bench: Command, blocks: u32) -> Command {
    let script = format!("ulimit -f {blocks} && exec \"$0\" \"$@\"");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).arg(program::path()).args(bench.get_args());
    if let Some(folder) = bench.get_current_dir() {
        shell.current_dir(folder);
    }
    shell.stdin(std::process::Stdio::null()).env("HF_HUB_OFFLINE", "1");
    for (name, value) in bench.get_envs() {
        if let Some(value) = value {
            shell.env(name, value);
        }
    }
    let _ = bench.stdin(std::process::Stdio::null());
    shell
}

/// The count in the classic block.
fn succeeded(stdout: &str) -> u64 {
    let line = stdout.lines().find_map(|line| line.strip_prefix("Successful requests:"));
    line.unwrap().trim().parse().unwrap()
}

/// `report` said that the program had been killed, and rows behind the failed write were lost.
#[test]
fn a_record_that_cannot_be_written_ends_the_run_with_its_figures_and_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(&["--ttft", "1ms", "--itl", "1ms"]);
    let line = format!(
        "bench --base-url {} --num-prompts 1500 --max-concurrency 16 --random-input-len 20 \
         --random-output-len 40 --run-dir r --save-result --result-filename v.json",
        server.url
    );
    let bench = ended(&mut limited(command(folder.path(), &line), 260));
    bench.says(6, &["Successful requests", "requests.arrows"]);
    let reader = RunReader::open(&folder.path().join("r")).unwrap();
    let RunState::Ended(end) = reader.state().unwrap() else { panic!("no end was written") };
    let RunEnd { stop, health, never_sent, .. } = *end;
    assert_eq!(stop, Stop::DiskFull);
    assert!(health.write_failure.as_ref().unwrap().contains("requests.arrows"));
    let written = reader.timelines().unwrap().filter(|row| row.identity.phase == Phase::Measure);
    let written = written.count() as u64;
    assert!(written > 0);
    // Every planned request is counted once, in the record and on the terminal.
    assert_eq!(written + health.rows_unwritten + never_sent, 1_500);
    assert_eq!(succeeded(&bench.stdout), written + health.rows_unwritten);
    assert!(reader.take_damages().is_empty(), "the last batch is whole");
    let report = run(folder.path(), "report r --details").succeeded().stdout;
    let reason = "cannot write r/requests.arrows: File too large";
    assert!(report.contains(reason) && !report.contains("killed"), "{report}");
    let parts = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let parts: Vec<_> = parts.filter(|name| name.to_string_lossy().ends_with(".part")).collect();
    assert!(parts.is_empty(), "{parts:?}");
}
