//! All points of a list, one after the other; a single run is a list of one.

use std::path::{Path, PathBuf};

use tokometer_base::refusal::{Refusal, RefusalKind};

use crate::driver::{Procedure, Step};
use crate::event::{Observer, problem};
use crate::folder::slug;
use crate::outcome::{Fate, Outcome, PlannedRun};

/// The runs of a sweep.
pub struct Sweep {
    /// In order.
    pub runs: Vec<PlannedRun>,
}

/// How the points of a sweep came out.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SweepFindings {
    /// One for each point that was reached.
    pub fates: Vec<Fate>,
}

/// The folder of a point below that of its measurement.
pub fn point_folder(measurement: &Path, number: u32, label: &str) -> PathBuf {
    measurement.join(slug(&format!("{number:03}-{label}")).trim_end_matches('-'))
}

impl SweepFindings {
    fn dead_in_a_row(&self) -> usize {
        self.fates.iter().rev().take_while(|fate| fate.is_dead()).count()
    }

    /// Whether further points would only repeat the failure of the last. A point whose requests the server
    /// rejects, such as prompts that are too long, says nothing of the next one.
    fn is_dead(&self) -> bool {
        match self.dead_in_a_row() {
            0 => false,
            1 if self.fates.last() == Some(&Fate::Rejected) => self.fates.len() == 1,
            _ => true,
        }
    }

    /// Whether no point has a success.
    pub fn is_all_dead(&self) -> bool {
        self.dead_in_a_row() == self.fates.len()
    }
}

impl Procedure for Sweep {
    type Findings = SweepFindings;

    fn next(
        &mut self,
        done: &[Outcome],
        observer: &mut dyn Observer,
    ) -> Result<Step<SweepFindings>, Refusal> {
        let findings = SweepFindings { fates: done.iter().map(Outcome::fate).collect() };
        if let Some((last, earlier)) = done.split_last() {
            if let Err(refusal) = &last.reading {
                self.check(refusal, earlier)?;
                if refusal.kind != RefusalKind::Interrupted || !has_results(earlier) {
                    let label = &last.run.label;
                    problem(observer, format!("error: point `{label}` failed: {refusal}"));
                }
            }
            let left = self.runs.len() - done.len();
            if left > 0 && !last.is_interrupted && findings.is_dead() {
                let why = "no request succeeds";
                problem(observer, format!("error: skipping the remaining {left} points: {why}"));
                return Ok(Step::Finished(findings));
            }
            if last.is_interrupted {
                return Ok(Step::Finished(findings));
            }
        }
        Ok(match self.runs.get(done.len()) {
            Some(next) => Step::Run(Box::new(next.clone())),
            None => Step::Finished(findings),
        })
    }
}

impl Sweep {
    /// A point that cannot be measured does not end a sweep. A single run ends with it, and so does a sweep
    /// whose server was never reached: it will not be there for the next point either.
    fn check(&self, refusal: &Refusal, earlier: &[Outcome]) -> Result<(), Refusal> {
        let is_interrupted = refusal.kind == RefusalKind::Interrupted;
        let is_unreached = refusal.kind == RefusalKind::Target && !has_results(earlier);
        let is_single = self.runs.len() == 1 && !(is_interrupted && has_results(earlier));
        if is_unreached || is_single { Err(refusal.clone()) } else { Ok(()) }
    }
}

fn has_results(outcomes: &[Outcome]) -> bool {
    outcomes.iter().any(|outcome| outcome.reading.is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_ends_with_a_dead_server_and_not_with_a_rejected_point() {
        let check = |fates: &[Fate], expected| {
            let findings = SweepFindings { fates: fates.to_vec() };
            assert_eq!((findings.is_dead(), findings.is_all_dead()), expected, "{fates:?}");
        };
        check(&[Fate::Done, Fate::Done], (false, false));
        check(&[Fate::NoSuccess], (true, true));
        check(&[Fate::Rejected], (true, true));
        check(&[Fate::Refused(RefusalKind::Target)], (true, true));
        check(&[Fate::Done, Fate::NoSuccess], (true, false));
        check(&[Fate::Done, Fate::Rejected], (false, false));
        check(&[Fate::Done, Fate::Rejected, Fate::Rejected], (true, false));
        check(&[Fate::Done, Fate::Refused(RefusalKind::Usage)], (false, false));
    }
}
