//! Runs nested in starts of their server.
//!
//! A start decides memory layout, placement, compiled kernels and more, so that all runs of one server
//! process may be fast or slow together. When runs are known to come from several processes per side,
//! the processes are the units of evidence: each counts once, with the mean of its runs, and the
//! scatter between processes decides.

use std::collections::BTreeMap;

use tokometer_figures::statistics;

use super::likeness::{Warning, Weight};
use super::run::Run;

/// Fewer processes on a side have no scatter to estimate.
const FEWEST: usize = 2;

/// For each side the runs of each process, by index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Restarts {
    a: Vec<Vec<usize>>,
    b: Vec<Vec<usize>>,
}

/// Runs by process. `None` if one is unknown.
pub(super) fn processes(runs: &[Run]) -> Option<Vec<Vec<usize>>> {
    let mut found: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, run) in runs.iter().enumerate() {
        found.entry(run.facts.process.as_deref()?).or_default().push(at);
    }
    Some(found.into_values().collect())
}

impl Restarts {
    /// `None` where every run has a process of its own, where a process is unknown, or where a side
    /// has a single one.
    pub(super) fn of(a: &[Run], b: &[Run]) -> Option<Self> {
        let (a_groups, b_groups) = (processes(a)?, processes(b)?);
        let is_nested = a_groups.len() < a.len() || b_groups.len() < b.len();
        let is_enough = a_groups.len() >= FEWEST && b_groups.len() >= FEWEST;
        (is_nested && is_enough).then_some(Self { a: a_groups, b: b_groups })
    }

    pub(super) fn counts(&self) -> (usize, usize) {
        (self.a.len(), self.b.len())
    }

    pub(super) fn means(&self, of_a: &[f64], of_b: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let means = |groups: &[Vec<usize>], values: &[f64]| {
            let of = |group: &Vec<usize>| {
                let values: Vec<f64> = group.iter().map(|at| values[*at]).collect();
                statistics::mean(&values)
            };
            groups.iter().filter_map(of).collect()
        };
        (means(&self.a, of_a), means(&self.b, of_b))
    }
}

/// The warning for a side whose runs all come from one process.
pub(super) fn one_process(a: &[Run], b: &[Run]) -> Option<Warning> {
    let is_one = |runs: &[Run]| {
        runs.len() > 1 && processes(runs).is_some_and(|processes| processes.len() == 1)
    };
    let sides = match (is_one(a), is_one(b)) {
        (true, true) => "all runs of each side come",
        (true, false) => "all runs of a come",
        (false, true) => "all runs of b come",
        (false, false) => return None,
    };
    let text = format!(
        "{sides} from one server process: a restart may change the figures by more than the runs differ. Restart the server between runs"
    );
    Some(Warning { weight: Weight::Caution, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(processes: &[Option<&str>]) -> Vec<Run> {
        let run = |process: Option<&str>| {
            let mut run = Run::default();
            run.facts.process = process.map(str::to_owned);
            run
        };
        processes.iter().copied().map(run).collect()
    }

    #[test]
    fn only_known_processes_with_several_runs_are_units() {
        let nested = runs(&[Some("1"), Some("1"), Some("2")]);
        let single = runs(&[Some("1"), Some("1"), Some("1")]);
        let apart = runs(&[Some("1"), Some("2"), Some("3")]);
        let unknown = runs(&[Some("1"), None, Some("2")]);
        let counts = |a: &[Run], b: &[Run]| Restarts::of(a, b).map(|restarts| restarts.counts());
        assert_eq!(counts(&nested, &apart), Some((2, 3)));
        assert_eq!(counts(&apart, &apart), None, "every run is its own unit anyway");
        assert_eq!(counts(&nested, &single), None);
        assert_eq!(counts(&single, &nested), None);
        assert_eq!(counts(&nested, &unknown), None);
        let restarts = Restarts::of(&nested, &apart).unwrap();
        let (a, b) = restarts.means(&[1.0, 3.0, 7.0], &[1.0, 2.0, 3.0]);
        assert_eq!((a, b), (vec![2.0, 7.0], vec![1.0, 2.0, 3.0]));
        assert!(one_process(&nested, &apart).is_none());
        let text = one_process(&nested, &single).unwrap().text;
        assert!(text.starts_with("all runs of b come from one"), "{text}");
        assert!(one_process(&unknown, &unknown).is_none());
        assert!(one_process(&single[..1], &apart).is_none(), "a single run says so itself");
    }
}
