//! Sweeps on both sides: their points are compared one by one. A folder of runs of one load is no sweep:
//! its runs are repeats.
//!
//! A point is found again by the name of its folder, which says its load. Points that only one side has
//! are named and left out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tokometer_base::Refusal;
use tokometer_plan::{KnownPlan, differing_lines};
use tokometer_record::stored;

use crate::reading::expanded;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairedPoints {
    pub both: Vec<PointRuns>,
    /// Names of points that only one side has.
    pub left_out: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointRuns {
    pub name: String,
    /// Runs of the base line.
    pub a: Vec<PathBuf>,
    /// Runs under test.
    pub b: Vec<PathBuf>,
}

/// The runs of a side by the names of their points.
type Points = BTreeMap<String, Vec<PathBuf>>;

/// The points that both sides have; `None` where no folder is a sweep.
pub fn paired(a: &[PathBuf], b: &[PathBuf]) -> Result<Option<PairedPoints>, Refusal> {
    let (a, b) = match (points(a)?, points(b)?) {
        (None, None) => return Ok(None),
        (Some(a), Some(b)) => (a, b),
        (a, _) => {
            let (sweep, other) = if a.is_some() { ("--a", "--b") } else { ("--b", "--a") };
            return Err(Refusal::usage(
                format!("cannot compare: `{sweep}` is a sweep and `{other}` is not"),
                "give sweeps for both sides, or one point's folder for each",
            ));
        }
    };
    let single = |name: &&String| a.contains_key(*name) != b.contains_key(*name);
    let left_out: Vec<String> = a.keys().chain(b.keys()).filter(single).cloned().collect();
    let both: Vec<PointRuns> = a
        .into_iter()
        .filter_map(|(name, a)| {
            let b = b.get(&name)?.clone();
            Some(PointRuns { name, a, b })
        })
        .collect();
    if both.is_empty() {
        return Err(Refusal::usage(
            "cannot compare: the sweeps have no point in common",
            "compare single points: `--a SWEEP/POINT --b SWEEP/POINT`",
        ));
    }
    Ok(Some(PairedPoints { both, left_out }))
}

/// The points of a side's sweeps; `None` where none of its paths is a sweep.
fn points(paths: &[PathBuf]) -> Result<Option<Points>, Refusal> {
    let mut points = Points::new();
    let mut runs = Vec::new();
    for path in paths {
        let found = expanded(path)?;
        if found.as_slice() == std::slice::from_ref(path) || are_repeats(&found) {
            runs.push(path);
            continue;
        }
        for point in found {
            points.entry(name_of(&point)).or_default().push(point);
        }
    }
    match (points.is_empty(), runs.first()) {
        (true, _) => Ok(None),
        (false, None) => Ok(Some(points)),
        (false, Some(run)) => Err(Refusal::usage(
            format!("cannot compare: `{}` is one run among sweeps", run.display()),
            "give either sweeps or single runs",
        )),
    }
}

/// Whether all of these runs have one plan.
fn are_repeats(runs: &[PathBuf]) -> bool {
    let plan = |run: &PathBuf| KnownPlan::of(stored::open(run).ok()?.info()).ok();
    let plans: Option<Vec<KnownPlan>> = runs.iter().map(plan).collect();
    let Some([first, others @ ..]) = plans.as_deref() else { return false };
    differing_lines(std::slice::from_ref(first), others).is_empty()
}

fn name_of(point: &Path) -> String {
    point.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(temporary: &Path, name: &str, points: &[&str]) -> PathBuf {
        for point in points {
            let folder = temporary.join(name).join(point);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("plan.json"), "{}").unwrap();
        }
        temporary.join(name)
    }

    /// Three runs of a build in one folder were "no point in common" with those of another folder.
    #[test]
    fn a_folder_of_runs_of_one_load_is_a_side_and_no_sweep() {
        let temporary = tempfile::tempdir().unwrap();
        let runs = |side: &str, caps: &[u32]| {
            for (at, cap) in caps.iter().enumerate() {
                let mut info = crate::testing::info();
                info.seed = tokometer_base::Seed(at as u64);
                info.plan = serde_json::json!({ "load": { "max_concurrency": cap } });
                let folder = temporary.path().join(side).join(format!("{side}-{at}"));
                let _ = tokometer_record::RunWriter::create(&folder, &info).unwrap();
            }
            temporary.path().join(side)
        };
        let (a, b, sweep) = (runs("a", &[4, 4]), runs("b", &[4]), runs("s", &[4, 8]));
        assert_eq!(paired(std::slice::from_ref(&a), &[b]).unwrap(), None);
        let refusal = paired(&[a], std::slice::from_ref(&sweep)).unwrap_err().to_string();
        assert!(refusal.contains("`--b` is a sweep and `--a` is not"), "{refusal}");
        let both = paired(std::slice::from_ref(&sweep), std::slice::from_ref(&sweep));
        assert_eq!(both.unwrap().unwrap().both.len(), 2);
    }

    #[test]
    fn points_of_one_name_are_compared_and_the_others_left_out() {
        let temporary = tempfile::tempdir().unwrap();
        let a = sweep(temporary.path(), "a", &["000-n=1", "001-n=2", "002-n=4"]);
        let b = sweep(temporary.path(), "b", &["000-n=1", "001-n=2"]);
        let found = paired(std::slice::from_ref(&a), std::slice::from_ref(&b)).unwrap().unwrap();
        assert_eq!(found.left_out, ["002-n=4"]);
        let found = found.both;
        let names: Vec<&str> = found.iter().map(|point| point.name.as_str()).collect();
        assert_eq!(names, ["000-n=1", "001-n=2"]);
        assert_eq!(found[0].a, [a.join("000-n=1")]);
        let other = sweep(temporary.path(), "c", &["000-n=9"]);
        assert!(paired(std::slice::from_ref(&a), &[other]).is_err());
        assert!(paired(std::slice::from_ref(&a), &[b.join("000-n=1")]).is_err());
        assert_eq!(paired(&[a.join("000-n=1")], &[b.join("000-n=1")]).unwrap(), None);
    }
}
