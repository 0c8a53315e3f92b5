//! `cargo xtask aa [COUNT [PROGRAM]]`: how often `compare` cries wolf, and how often it finds what is there.
//!
//! Comparisons of a simulated server with itself must show a difference about once in twenty; one
//! with a server whose every time is 3 % longer should be found. Both ways are tried: three runs a
//! side, and two targets measured in turn. Prints the table of `docs/compare.md`. A program that is
//! named is used as it is; otherwise the release build is made.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::ci::{announce, cargo, root};

/// Comparisons of each kind, unless another number is given.
const COUNT: usize = 20;
/// Runs a side.
const RUNS: usize = 3;
/// What is measured: a closed loop against the default engine, about two seconds a run.
const LOAD: &str = "--max-concurrency 4 --random-input-len 64 --random-output-len 16 --num-warmups 4 \
                    --no-scrape --disable-tqdm --quiet";
const REQUESTS_OF_A_RUN: usize = 48;
/// Twenty pairs of blocks of eight.
const REQUESTS_IN_TURN: usize = 320;
/// Figures shown.
const FIGURES: [&str; 8] = [
    "output_tokens_per_s",
    "ttft_ms_mean",
    "ttft_ms_p50",
    "tpot_ms_mean",
    "gap_ms_mean",
    "gap_ms_p50",
    "e2e_ms_mean",
    "e2e_ms_p90",
];

/// All comparisons of both kinds, with and without a difference.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let count = arguments.first().map_or(Ok(COUNT), |count| count.parse());
    let count = count.context("the count is a whole number")?;
    let program = match arguments.get(1) {
        Some(path) => std::path::absolute(path)?,
        None => built()?,
    };
    let folder = root().join("target/aa");
    std::fs::create_dir_all(&folder)?;
    let stage = Stage { program, folder };
    let mut tallies = Vec::new();
    for factor in ["1", "1.03"] {
        let (a, b) = (stage.server("1")?, stage.server(factor)?);
        let (mut runs, mut turns) = (Tally::default(), Tally::default());
        for at in 0..count {
            announce(&format!("{factor} times as long, comparison {} of {count}", at + 1));
            runs.add(&stage.of_runs(&a, &b)?);
            turns.add(&stage.in_turn(&a, &b)?);
        }
        tallies.push((runs, turns));
    }
    print(&tallies, count);
    Ok(())
}

fn built() -> Result<PathBuf> {
    cargo("build --release --package tokometer")?;
    let target =
        option_env!("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    Ok(target.join("release/tokometer"))
}

/// The program, and the folder that its runs go to.
struct Stage {
    program: PathBuf,
    folder: PathBuf,
}

/// A simulated server. It is ended when dropped.
struct Server {
    child: Child,
    url: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _killed = self.child.kill();
        let _status = self.child.wait();
    }
}

impl Stage {
    fn server(&self, factor: &str) -> Result<Server> {
        let mut child = Command::new(&self.program)
            .args(["sim", "--port", "0", "--follow-stdin", "--slower", factor])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the simulated server")?;
        let stdout = child.stdout.take().context("the simulated server has no stdout")?;
        let mut line = String::new();
        let _count = BufReader::new(stdout).read_line(&mut line)?;
        let url = line.split_whitespace().last().unwrap_or_default().to_owned();
        Ok(Server { child, url })
    }

    /// Runs the program and returns its stdout.
    fn tokometer(&self, line: &str) -> Result<String> {
        let output = Command::new(&self.program)
            .args(line.split_whitespace())
            .current_dir(&self.folder)
            .output()
            .context("cannot start tokometer")?;
        if !output.status.success() {
            bail!("`tokometer {line}`: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Three runs a side. Sides alternate, as a careful person would do it by hand.
    fn of_runs(&self, a: &Server, b: &Server) -> Result<Vec<Value>> {
        for at in 0..RUNS {
            for (name, server) in [("a", a), ("b", b)] {
                let url = &server.url;
                let line = format!(
                    "bench --base-url {url} {LOAD} --num-prompts {REQUESTS_OF_A_RUN} --run-dir {name}{at}"
                );
                let _stdout = self.tokometer(&line)?;
            }
        }
        let names =
            |name: &str| (0..RUNS).map(|at| format!("{name}{at}")).collect::<Vec<_>>().join(" ");
        let line = format!("compare --a {} --b {} --format json", names("a"), names("b"));
        rows(&self.tokometer(&line)?)
    }

    /// Both targets in one run.
    fn in_turn(&self, a: &Server, b: &Server) -> Result<Vec<Value>> {
        let (a, b) = (&a.url, &b.url);
        let line = format!(
            "bench --base-url {a} --against {b} {LOAD} --num-prompts {REQUESTS_IN_TURN} --run-dir turns"
        );
        let _stdout = self.tokometer(&line)?;
        rows(&self.tokometer("compare turns --format json")?)
    }
}

fn rows(page: &str) -> Result<Vec<Value>> {
    let page: Value = serde_json::from_str(page)?;
    page["rows"].as_array().cloned().context("the comparison has no rows")
}

/// What was concluded of each figure.
#[derive(Default)]
struct Tally {
    better: BTreeMap<String, usize>,
    worse: BTreeMap<String, usize>,
    detectable: BTreeMap<String, Vec<f64>>,
}

impl Tally {
    fn add(&mut self, rows: &[Value]) {
        for row in rows {
            let figure = row["figure"].as_str().unwrap_or_default().to_owned();
            match row["conclusion"].as_str() {
                Some("better") => *self.better.entry(figure.clone()).or_default() += 1,
                Some("worse") => *self.worse.entry(figure.clone()).or_default() += 1,
                _ => {}
            }
            self.detectable.entry(figure).or_default().extend(row["detectable"].as_f64());
        }
    }

    fn alarms(&self, figure: &str) -> usize {
        let of = |found: &BTreeMap<String, usize>| found.get(figure).copied().unwrap_or(0);
        of(&self.better) + of(&self.worse)
    }

    fn found(&self, figure: &str) -> usize {
        self.worse.get(figure).copied().unwrap_or(0)
    }

    /// The median of what the comparisons could have shown, in percent.
    fn could_show(&self, figure: &str) -> String {
        let mut found = self.detectable.get(figure).cloned().unwrap_or_default();
        found.sort_by(f64::total_cmp);
        found
            .get(found.len() / 2)
            .map_or("—".to_owned(), |share| format!("{:.1} %", 100.0 * share))
    }
}

#[expect(clippy::print_stdout, reason = "the table is the result of the task")]
fn print(tallies: &[(Tally, Tally)], count: usize) {
    let [(runs, turns), (slower_runs, slower_turns)] = tallies else { return };
    println!(
        "| figure | runs: false alarms | 3 % found | could show | in turn: false alarms | 3 % found | could show |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|");
    for figure in FIGURES {
        println!(
            "| `{figure}` | {} of {count} | {} of {count} | {} | {} of {count} | {} of {count} | {} |",
            runs.alarms(figure),
            slower_runs.found(figure),
            runs.could_show(figure),
            turns.alarms(figure),
            slower_turns.found(figure),
            turns.could_show(figure),
        );
    }
    let all = |tally: &Tally| FIGURES.iter().map(|figure| tally.alarms(figure)).sum::<usize>();
    let total = count * FIGURES.len();
    println!("\nfalse alarms: {} of {total} by runs, {} of {total} in turn", all(runs), all(turns));
}
