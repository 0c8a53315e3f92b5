//! `tokometer calibrate`: an engine profile from what was measured of a server.
//!
//! In: printed reports and result files (rows of a table), saved run folders (token times), or both.
//! Out: a profile that `predict` and `sim` read, and an account of it: each constant with whether the
//! data determine it, the error on what a fit had not seen, and what was left out and why. Run folders
//! say more than tables, so where both are given the runs make the profile and the tables check it.

use std::path::{Path, PathBuf};

use tokometer_base::Seed;
use tokometer_record::{Phase, RecordedLoad, Timeline};
use tokometer_report::calibration;
use tokometer_report::export::{unwritable, write_file};
use tokometer_sim::Profile;
use tokometer_sim::profile::{Kv, PrefixCache};
use tokometer_twin::fit::{
    self, Calibration, CalibrationTable, Candidate, FitSettings, MeasuredRow, RunCalibration,
};
use tokometer_twin::{self as twin, OldClient};

use crate::activity::Activity;
use crate::args::CalibrateArgs;
use crate::exit::{Exit, Refusal};
use crate::files::{is_standard, try_append};
use crate::predict::old_client;
use crate::runs::{self, READING, expanded};
use crate::terminal::{print, print_message};

#[derive(Default)]
struct CalibrationSources {
    table: CalibrationTable,
    runs: Vec<Vec<Timeline>>,
    loads: Vec<RecordedLoad>,
    /// The model of the first run: the others must be of the same.
    model: Option<String>,
    /// Whether a source is itself a prediction or a run against the simulator.
    is_artificial: bool,
}

pub(crate) fn calibrate(args: &CalibrateArgs) -> anyhow::Result<Exit> {
    let from = args.from.as_deref().unwrap_or("default");
    let template = Profile::open(from).map_err(|why| Refusal::usage(why.to_string(), ""))?;
    let client = args.old_client.as_deref().map(old_client).transpose()?.unwrap_or_default();
    let stem = args.output.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let stem = stem.filter(|_| !is_standard(&args.output));
    let name = args.name.clone().or(stem).unwrap_or_else(|| "engine".to_owned());
    // A file that cannot be written is found before the search, not after it.
    try_append(&args.output).map_err(|why| unwritable(&args.output, &why))?;
    let evidence = CalibrationSources::read(&args.sources, args.output_limit)?;
    for block in &evidence.table.unusable {
        print_message(&format!("note: skipping `{}`: {}", block.name, block.reason));
    }
    if evidence.is_artificial {
        print_message(
            "note: some of these sources were simulated or predicted, not measured on a server",
        );
    }
    let profile = if evidence.runs.is_empty() {
        from_tables(
            args,
            &evidence.table.rows,
            Candidate { profile: template, client, spread: fit::SPREAD },
            &name,
        )?
    } else {
        from_runs(&evidence, template, client, &name, &args.output)?
    };
    write_file(&args.output, &profile.to_toml())?;
    if !is_standard(&args.output) {
        print_message(&format!("wrote {}", args.output.display()));
    }
    Ok(Exit::Done)
}

/// The fit, on standard output unless the profile goes there.
fn tell(text: &str, output: &Path) -> Result<(), Refusal> {
    if is_standard(output) {
        print_message(text.trim_end());
        return Ok(());
    }
    print(text)
}

impl CalibrationSources {
    fn read(sources: &[PathBuf], limit: Option<u32>) -> Result<Self, Refusal> {
        let mut evidence = Self::default();
        for source in sources {
            for path in expanded(source)? {
                if path.is_dir() {
                    evidence.add_run(&path)?;
                } else {
                    evidence.add_reports(&path, limit)?;
                }
            }
        }
        Ok(evidence)
    }

    fn add_reports(&mut self, path: &Path, limit: Option<u32>) -> Result<(), Refusal> {
        let shown = path.display().to_string();
        let reports = READING.reports(path)?;
        self.is_artificial |=
            reports.iter().any(|report| report.title == tokometer_compat::Title::Predicted);
        self.table.add(&shown, &reports, limit)
    }

    fn add_run(&mut self, path: &Path) -> Result<(), Refusal> {
        let reader = runs::open(path)?;
        let target = reader.info().targets.first();
        if let Some(target) = target {
            let model = self.model.get_or_insert_with(|| target.model.clone());
            if *model != target.model {
                return Err(Refusal::usage(
                    format!(
                        "cannot calibrate one engine from `{}` together with the runs before it: `{}` is not `{model}`",
                        path.display(),
                        target.model
                    ),
                    "calibrate each engine from its own runs",
                ));
            }
            self.is_artificial |= target.is_simulated;
        }
        self.loads.push(reader.info().load.clone());
        let is_wanted = |one: &Timeline| one.identity.phase == Phase::Measure && one.is_success();
        self.runs.push(runs::timelines(&reader)?.filter(is_wanted).collect());
        Ok(())
    }
}

/// Fits the costs to the rows of a table. Memory is not fitted, because rows of a table do not show it: it is
/// that of a template that was chosen, in the fit as in the profile, or never runs out.
fn from_tables(
    args: &CalibrateArgs,
    rows: &[MeasuredRow],
    template: Candidate,
    name: &str,
) -> Result<Profile, Refusal> {
    let memory = template.profile.kv.clone().filter(|_| args.from.is_some());
    let mut template = template.for_tables();
    // The prompts of a table share no prefix that is known.
    template.profile.kv = memory.clone().map(|kv| Kv { prefix_cache: PrefixCache::Off, ..kv });
    let settings = FitSettings {
        template,
        chooses_kind: args.from.is_none(),
        searches: args.searches,
        threads: threads(),
        seed: Seed(args.seed),
    };
    let activity = Activity::start("calibrate: fitting the reports");
    let report = activity.reporter();
    let progress = |progress: fit::FitProgress| report(progress.done, progress.total, "searches");
    let found = fit::calibrate(rows, &settings, &progress);
    drop(activity);
    let found: Calibration = found?;
    if let Some([all, even, odd]) = &found.kinds {
        print_message(&format!("template: {all} (choose another with `--from`)"));
        if even != all || odd != all {
            print_message(&format!(
                "  the folds of the held-out error chose from their own rows: {even}; {odd}"
            ));
        }
    }
    tell(&calibration::of_tables(&found, rows), &args.output)?;
    let mut profile = found.profile(rows, name, &source_names(&args.sources));
    profile.kv = memory;
    Ok(profile)
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// File names without their folders, which mean nothing to the profile's next reader.
fn source_names(sources: &[PathBuf]) -> String {
    let name = |path: &PathBuf| {
        path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    };
    sources.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// Fits the costs to the steps of recorded runs; tables that came along only check the result.
fn from_runs(
    evidence: &CalibrationSources,
    template: Profile,
    client: OldClient,
    name: &str,
    output: &Path,
) -> Result<Profile, Refusal> {
    let activity = Activity::start("calibrate: fitting steps, then whole runs");
    let found = fit::calibrate_runs(&evidence.runs, template, threads());
    drop(activity);
    let found: RunCalibration = found?;
    let mut text = calibration::of_runs(&found, evidence.runs.len());
    let rows = &evidence.table.rows;
    if !rows.is_empty() {
        let candidate = Candidate { profile: found.profile.clone(), client, spread: fit::SPREAD };
        let all: Vec<usize> = (0..rows.len()).collect();
        let predicted = fit::predict_rows(&candidate, rows, &all, twin::SEEDS)?;
        let title = "error on the tables (not used in the fit)";
        text.push('\n');
        text.push_str(&calibration::accuracy(title, rows, &predicted));
    }
    tell(&text, output)?;
    let mut profile = found.profile;
    name.clone_into(&mut profile.name);
    let validated = twin::shown_by(&profile, &evidence.loads);
    if let Some(known) = &mut profile.evidence {
        known.validated = validated;
    }
    Ok(profile)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_name_files_and_not_folders() {
        let sources = [PathBuf::from("a/b/one.txt"), PathBuf::from("two.json")];
        assert_eq!(source_names(&sources), "one.txt, two.json");
    }
}
