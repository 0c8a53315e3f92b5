//! `evidence table FOLDER`: calibrates on some of the packed records, predicts the others, and compares.
//!
//! Unpacks below `target/evidence` and can be repeated at will: the same records and the same program give
//! the same page.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokometer_sim::Profile;
use tokometer_sim::profile::Policy;

use super::USAGE;
use super::analysis::{Case, cells, tally};
use super::figures::Figures;
use super::measure::figures;
use super::neighbours::{Known, guess};
use super::page;
use super::plan::{ALL, Kind, Plan, Role, Run};
use crate::program::{self, announce, root};

/// `calibrate` refuses runs of which more events came in one read with the one before.
const SHARED_READS_MAX: f64 = tokometer_figures::steps::SHARED_READS_MAX;

/// The tables of every server whose records are in the folder.
pub(super) fn run(arguments: &[String]) -> Result<()> {
    let (folder, program) = match arguments {
        [folder] => (folder, None),
        [folder, flag, program] if flag == "--program" => (folder, Some(program)),
        _ => bail!("{USAGE}"),
    };
    let folder = std::path::absolute(folder)?;
    let program = program::named(program)?;
    let mut is_empty = true;
    for plan in ALL {
        let manifest = folder.join(format!("{}.json", plan.server));
        if !manifest.is_file() {
            continue;
        }
        is_empty = false;
        let text = std::fs::read_to_string(&manifest)?;
        let records = unpack(&folder, plan)?;
        let bench =
            Bench { plan, manifest: serde_json::from_str(&text)?, records, program: &program };
        page::print(&bench.page()?);
    }
    if is_empty {
        bail!("there are no records in {}", folder.display());
    }
    Ok(())
}

/// The records of one server, and the program that judges them.
struct Bench<'a> {
    plan: &'static Plan,
    manifest: Value,
    records: PathBuf,
    program: &'a Path,
}

/// One run with all that was measured of it.
struct Measured {
    run: &'static Run,
    rate: Option<f64>,
    /// A folder and its figures per repeat.
    repeats: Vec<(PathBuf, Figures)>,
}

impl Bench<'_> {
    fn page(&self) -> Result<String> {
        let all = self.measured()?;
        let (known, held): (Vec<Measured>, Vec<Measured>) =
            all.into_iter().partition(|one| one.run.role == Role::Calibrating);
        let (profile, said) = self.calibrate(&known)?;
        let neighbours: Vec<Known<'_>> = known
            .iter()
            .filter_map(|one| Some(Known { run: one.run, figures: one.mean()? }))
            .collect();
        let case = |one: &Measured| self.case(one, &profile, &neighbours);
        let cases = held.iter().map(case).collect::<Result<Vec<Case>>>()?;
        let own = known.iter().map(case).collect::<Result<Vec<Case>>>()?;
        let own: Vec<_> = own.iter().flat_map(cells).collect();
        let own = tally(own.iter()).map_or(String::new(), |own| {
            format!(
                "On the calibrating runs themselves ({} cells) the model has a median error of {:.1} %, {:.0} % within 10 %.\n\n",
                own.cells,
                100.0 * own.model.median,
                100.0 * own.model.within
            )
        });
        let (facts, title) = (self.facts(), self.plan.title);
        let tables = page::markdown(&cases);
        Ok(format!("## {title}\n\n{facts}\n```\n{}\n```\n\n{own}{tables}", said.trim_end()))
    }

    /// The machine and what was left out.
    fn facts(&self) -> String {
        let machine = &self.manifest["machine"];
        let word = |value: &Value| value.as_str().unwrap_or("?").to_owned();
        let lines = [
            ("Measured", word(&machine["date"])),
            (
                "Machine",
                format!("{} cores, {}", word(&machine["cores"]), word(&machine["processor"])),
            ),
            ("GPU", word(&machine["gpu"])),
            ("Server and client pinned apart", machine["is_pinned"].to_string()),
            ("Load average before", word(&machine["load_average_before"])),
            ("Load average after", word(&self.manifest["load_average_after"])),
            ("Server", word(&machine["server"])),
            ("Client", word(&machine["tokometer"])),
            ("Capacity, requests/s", self.manifest["capacity_requests_per_s"].to_string()),
            ("Left out", self.left_out()),
        ];
        let lines = lines.iter().filter(|(_, text)| !text.is_empty());
        let lines: Vec<String> = lines.map(|(name, text)| format!("- {name}: {text}")).collect();
        lines.join("\n") + "\n"
    }

    fn left_out(&self) -> String {
        let rows = self.rows();
        let is_there = |name: &str, repeat: u64| {
            rows.iter().any(|row| row["name"] == name && row["repeat"] == repeat)
        };
        let names = self.plan.runs.iter().map(Run::name);
        let both = names.flat_map(|name| [(name.clone(), 1), (name, 2)]);
        let missing = both.filter(|(name, repeat)| !is_there(name, *repeat));
        let list: Vec<String> = missing.map(|(name, repeat)| format!("{name}-{repeat}")).collect();
        if list.is_empty() { "nothing".to_owned() } else { list.join(", ") }
    }

    fn rows(&self) -> Vec<Value> {
        self.manifest["runs"].as_array().cloned().unwrap_or_default()
    }

    /// The runs of the plan that were measured at least once.
    fn measured(&self) -> Result<Vec<Measured>> {
        let rows = self.rows();
        let mut found = Vec::new();
        for run in self.plan.runs {
            let name = run.name();
            let own: Vec<&Value> = rows.iter().filter(|row| row["name"] == name.as_str()).collect();
            let mut repeats = Vec::new();
            for row in &own {
                let folder = self.records.join(format!("{name}-{}", row["repeat"]));
                let figures = figures(&folder)?;
                repeats.push((folder, figures));
            }
            let rate = own.first().and_then(|row| row["rate"].as_f64());
            if !repeats.is_empty() {
                found.push(Measured { run, rate, repeats });
            }
        }
        Ok(found)
    }

    /// Fits a profile to every calibrating run, and what was said about it.
    fn calibrate(&self, known: &[Measured]) -> Result<(PathBuf, String)> {
        let server = self.plan.server;
        let template = self.records.join("template.toml");
        std::fs::write(&template, self.template().to_toml())?;
        let profile = self.records.join(format!("{server}.toml"));
        let mut command = Command::new(self.program);
        let folders = known.iter().flat_map(Measured::legible);
        command.arg("calibrate").args(folders);
        command.arg("--from").arg(&template).arg("-o").arg(&profile);
        announce(&format!("calibrating on {} runs of {server}", known.len()));
        let mut said = output(&mut command)?;
        for one in known {
            let lost = one.repeats.len() - one.legible().count();
            if lost > 0 {
                let name = one.run.name();
                let _ = writeln!(said, "{name}: {lost} repeats not fitted, events shared reads");
            }
        }
        Ok((profile, said))
    }

    /// The engine before any fit: only what the server was told.
    fn template(&self) -> Profile {
        let mut profile = Profile::default();
        self.plan.server.clone_into(&mut profile.name);
        profile.scheduler.max_seqs = self.plan.max_seqs;
        profile.scheduler.policy = Policy::Chunked { token_budget: self.plan.token_budget };
        profile.kv = None;
        profile
    }

    fn case(&self, one: &Measured, profile: &Path, known: &[Known<'_>]) -> Result<Case> {
        let predicted =
            one.repeats.iter().map(|(folder, _)| self.predict(one.run, folder, profile));
        let predicted = predicted.collect::<Result<Vec<Figures>>>()?;
        let kind = match one.run.role {
            Role::HeldOut(kind) => kind,
            Role::Calibrating => Kind::Streams,
        };
        Ok(Case {
            title: one.title(),
            kind,
            measured: one.repeats.iter().map(|(_, figures)| figures.clone()).collect(),
            predicted: Figures::mean(&predicted).context("a run was measured at least once")?,
            guessed: guess(one.run, one.rate, known),
        })
    }

    /// The prediction of one repeat: the lengths, the load and the seed that it had.
    fn predict(&self, run: &Run, folder: &Path, profile: &Path) -> Result<Figures> {
        let mut command = Command::new(self.program);
        command.arg("predict").arg("--engine").arg(profile);
        for change in run.setting.changes {
            command.args(["--set", change]);
        }
        let predicted = folder.with_extension("predicted");
        command.arg("--plan").arg(folder.join("plan.json"));
        command.args(["--json", "--overwrite", "--run-dir"]).arg(predicted);
        let page: Value = serde_json::from_str(&output(&mut command)?)?;
        Figures::read(&page)
    }
}

impl Measured {
    fn mean(&self) -> Option<Figures> {
        let all: Vec<Figures> = self.repeats.iter().map(|(_, figures)| figures.clone()).collect();
        Figures::mean(&all)
    }

    /// Repeats whose steps can be seen, which is what a fit needs.
    fn legible(&self) -> impl Iterator<Item = &PathBuf> {
        let is_legible =
            |(_, figures): &&(PathBuf, Figures)| figures.shared_reads <= SHARED_READS_MAX;
        self.repeats.iter().filter(is_legible).map(|(folder, _)| folder)
    }

    /// The run for readers, with its rate.
    fn title(&self) -> String {
        match self.rate {
            Some(rate) => format!("{} ({rate} req/s)", self.run.title()),
            None => self.run.title(),
        }
    }
}

/// The archives of a server, unpacked into a folder of their own.
fn unpack(folder: &Path, plan: &Plan) -> Result<PathBuf> {
    let place = root().join("target/evidence").join(plan.server);
    if place.exists() {
        std::fs::remove_dir_all(&place)?;
    }
    std::fs::create_dir_all(&place)?;
    for repeat in [1, 2] {
        let archive = folder.join(format!("{}-{repeat}.tar.gz", plan.server));
        if archive.is_file() {
            output(Command::new("tar").arg("xzf").arg(&archive).arg("-C").arg(&place))?;
        }
    }
    Ok(place)
}

/// What a command printed.
fn output(command: &mut Command) -> Result<String> {
    let ended = command.output().with_context(|| format!("cannot start {command:?}"))?;
    if !ended.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&ended.stderr));
    }
    Ok(String::from_utf8(ended.stdout)?)
}
