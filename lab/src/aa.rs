//! `cargo lab aa [COUNT [PROGRAM]]`: how often `compare` cries wolf, and how often it finds what is there.
//!
//! Comparisons of a simulated server with itself must show a difference about once in twenty; one
//! with a server whose every step takes 3 % longer should be found. Tried in three ways: predicted
//! runs in virtual time, which know of no machine, three runs a side on this machine, and two targets
//! measured in turn. Prints a table of `lab/data/compare.md`. A program that is named is used as it is;
//! otherwise the release build is made.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process::{self, Simulator, announce, root};

/// Comparisons of each kind, unless another number is given.
const COUNT: usize = 20;
/// Runs a side.
const RUNS: usize = 3;
/// What is measured: a closed loop against the default engine, about a second a run.
const LOAD: &str = "--max-concurrency 8 --random-input-len 64 --random-output-len 8 --num-warmups 8 \
                    --no-scrape --disable-tqdm --quiet";
/// What is predicted: an open loop with answers of many lengths, so that seeds make a difference.
const PREDICTED: &str = "--request-rate 10 --num-prompts 400 --random-input-len 256 \
                         --random-output-len 64 --random-range-ratio 0.5 --quiet";
/// Predictions cost next to nothing: so many comparisons for one on the clock.
const VIRTUAL: usize = 5;
const REQUESTS_OF_A_RUN: usize = 48;
/// Twenty pairs of blocks of eight: as many as are in flight.
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
    let program = process::named(arguments.get(1))?;
    let folder = root().join("target/aa");
    std::fs::create_dir_all(&folder)?;
    let stage = Stage { program, folder, seed: Cell::new(0) };
    let mut ways = [Way::new("virtual time"), Way::new("runs"), Way::new("in turn")];
    for factor in ["1", "1.03"] {
        for at in 0..count {
            announce(&format!("{factor} times as long, comparison {} of {count}", at + 1));
            // Servers are restarted for every comparison, and the second side starts first in every
            // other one: what differs from start to start must not look like a difference of sides.
            let (a, b) = if at % 2 == 0 {
                let a = stage.server("1")?;
                (a, stage.server(factor)?)
            } else {
                let b = stage.server(factor)?;
                (stage.server("1")?, b)
            };
            for _ in 0..VIRTUAL {
                ways[0].tally(factor).add(&stage.predicted(factor)?);
            }
            ways[1].tally(factor).add(&stage.of_runs(&a, &b)?);
            ways[2].tally(factor).add(&stage.in_turn(&a, &b)?);
        }
    }
    announce(&format!(
        "measured: {LOAD}, {REQUESTS_OF_A_RUN} requests a run, {REQUESTS_IN_TURN} in turn"
    ));
    announce(&format!(
        "load average at the end: {}",
        std::fs::read_to_string("/proc/loadavg")?.trim()
    ));
    ways.iter().for_each(Way::print);
    Ok(())
}

/// The program, and the folder that its runs go to.
struct Stage {
    program: PathBuf,
    folder: PathBuf,
    /// The last seed used: no two predictions share one.
    seed: Cell<u64>,
}

impl Stage {
    fn server(&self, factor: &str) -> Result<Simulator> {
        Simulator::start(&self.program, &["--slower", factor])
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
    fn of_runs(&self, a: &Simulator, b: &Simulator) -> Result<Vec<Value>> {
        for at in 0..RUNS {
            for (name, server) in [("a", a), ("b", b)] {
                let url = &server.url;
                let line = format!(
                    "bench --base-url {url} {LOAD} --num-prompts {REQUESTS_OF_A_RUN} --overwrite --run-dir {name}{at}"
                );
                self.tokometer(&line)?;
            }
        }
        self.compared("a", "b")
    }

    fn compared(&self, a: &str, b: &str) -> Result<Vec<Value>> {
        let names =
            |name: &str| (0..RUNS).map(|at| format!("{name}{at}")).collect::<Vec<_>>().join(" ");
        let line = format!("compare --a {} --b {} --format json --force", names(a), names(b));
        rows(&self.tokometer(&line)?)
    }

    /// Three predicted runs a side, each with a seed of its own.
    fn predicted(&self, factor: &str) -> Result<Vec<Value>> {
        let profile = std::fs::read_to_string(root().join("crates/sim/profiles/default.toml"))?;
        let slower = profile.replacen("[cost]\n", &format!("[cost]\nscale = {factor}\n"), 1);
        std::fs::write(self.folder.join("slower.toml"), slower)?;
        for at in 0..RUNS {
            for (name, engine) in [("pa", "default"), ("pb", "slower.toml")] {
                self.seed.set(self.seed.get() + 1);
                let seed = self.seed.get();
                let line = format!(
                    "predict --engine {engine} {PREDICTED} --seed {seed} --overwrite --run-dir {name}{at}"
                );
                self.tokometer(&line)?;
            }
        }
        self.compared("pa", "pb")
    }

    /// Both targets in one run.
    fn in_turn(&self, a: &Simulator, b: &Simulator) -> Result<Vec<Value>> {
        let (a, b) = (&a.url, &b.url);
        let line = format!(
            "bench --base-url {a} --against {b} {LOAD} --num-prompts {REQUESTS_IN_TURN} --overwrite --run-dir turns"
        );
        self.tokometer(&line)?;
        rows(&self.tokometer("compare turns --format json")?)
    }
}

fn rows(page: &str) -> Result<Vec<Value>> {
    let page: Value = serde_json::from_str(page)?;
    page["rows"].as_array().cloned().context("the comparison has no rows")
}

/// One way of comparing: what it said of equal servers, and of unequal ones.
struct Way {
    name: &'static str,
    equal: Tally,
    slower: Tally,
}

impl Way {
    fn new(name: &'static str) -> Self {
        Self { name, equal: Tally::default(), slower: Tally::default() }
    }

    fn tally(&mut self, factor: &str) -> &mut Tally {
        if factor == "1" { &mut self.equal } else { &mut self.slower }
    }

    #[expect(clippy::print_stdout, reason = "the table is the result of the task")]
    fn print(&self) {
        let (equal, slower) = (&self.equal, &self.slower);
        println!("\n| {} | false alarms | 3 % found | detectable |\n|---|--:|--:|--:|", self.name);
        for figure in FIGURES {
            let (alarms, found) =
                (equal.with(figure, &["better", "worse"]), slower.with(figure, &["worse"]));
            let (all, tried) = (equal.judged(figure), slower.judged(figure));
            let could_show = equal.could_show(figure);
            println!("| `{figure}` | {alarms} of {all} | {found} of {tried} | {could_show} |");
        }
        let alarms: usize = FIGURES.iter().map(|one| equal.with(one, &["better", "worse"])).sum();
        let all: usize = FIGURES.iter().map(|one| equal.judged(one)).sum();
        println!("| all | {alarms} of {all} | | |");
    }
}

/// What was concluded of each figure.
#[derive(Default)]
struct Tally {
    conclusions: BTreeMap<(String, String), usize>,
    detectable: BTreeMap<String, Vec<f64>>,
}

impl Tally {
    fn add(&mut self, rows: &[Value]) {
        for row in rows {
            let word = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
            *self.conclusions.entry((word("figure"), word("conclusion"))).or_default() += 1;
            self.detectable.entry(word("figure")).or_default().extend(row["detectable"].as_f64());
        }
    }

    /// Comparisons that had a verdict on a figure: some are withheld on a busy machine.
    fn judged(&self, figure: &str) -> usize {
        let is_judged =
            |(of, conclusion): &(String, String)| of == figure && !conclusion.is_empty();
        let found = self.conclusions.iter().filter(|(key, _)| is_judged(key));
        found.map(|(_, count)| count).sum()
    }

    /// Comparisons that concluded one of these of a figure.
    fn with(&self, figure: &str, conclusions: &[&str]) -> usize {
        let of = |one: &&str| self.conclusions.get(&(figure.to_owned(), (*one).to_owned()));
        conclusions.iter().filter_map(of).sum()
    }

    /// The median of what the comparisons could have shown, in percent.
    fn could_show(&self, figure: &str) -> String {
        let mut found = self.detectable.get(figure).cloned().unwrap_or_default();
        found.sort_by(f64::total_cmp);
        let median = found.get(found.len() / 2);
        median.map_or("—".to_owned(), |share| format!("{:.1} %", 100.0 * share))
    }
}
