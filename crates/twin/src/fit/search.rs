//! The search for an engine: several descents from each of three declared points, the best of each ended
//! on all rows, the best of those refined.
//!
//! A descent begins on the rows that cost little to predict and goes on with all of them. The loss has many
//! valleys, for limits of a scheduler and the position of a jump change what happens at once; so limits are
//! looked along, and beside every declared point further descents begin near it. Fits are independent of
//! each other and run on as many threads as are given; the result does not depend on their number.

use base::seed::{Generator, normal};
use tokometer_base as base;

use super::descent::{self, Best, Pull, Rounds, descend, reflect};
use super::model::{EngineModel, STARTS};
use super::{FitSettings, Prepared};
use crate::parallel::in_parallel;

/// How far from a declared point the further descents begin, as a share of every range.
const BESIDE: f64 = 0.1;

/// Rounds of the stages: on cheap rows, on all rows, to the end of each declared point, refined twice.
const CHEAP: Rounds = Rounds { most: 8, step: 0.05 };
const WHOLE: Rounds = Rounds { most: 6, step: 0.03 };
const ENDED: Rounds = Rounds { most: 8, step: 0.03 };
const REFINED: [Rounds; 2] = [Rounds { most: 12, step: 0.02 }, Rounds { most: 12, step: 0.01 }];

/// How a limit is looked along: points of its range, and how often all limits in turn.
#[derive(Debug, Clone, Copy)]
struct Scan {
    points: u32,
    turns: usize,
}

/// Points a third apart and, at the end, a seventh.
const COARSE: Scan = Scan { points: 20, turns: 1 };
const FINE: Scan = Scan { points: 48, turns: 2 };

/// The fits of a set of rows.
pub(super) struct FitSearch {
    /// From every declared point.
    pub(super) ends: Vec<Best>,
    /// The best of them, refined.
    pub(super) refined: Best,
}

impl FitSearch {
    pub(super) fn run(
        prepared: &Prepared<'_>,
        model: &EngineModel,
        set: &[usize],
        settings: &FitSettings,
        has_ended: &(dyn Fn() + Sync),
    ) -> Self {
        let searches = settings.searches.max(1);
        let ended = |best: Best| {
            has_ended();
            best
        };
        let slope = LossSlope { prepared, model, pulls: &model.pulls(), set };
        let mut starts = Vec::new();
        for (number, fraction) in STARTS.into_iter().enumerate() {
            let declared = vec![fraction; model.parameters.len()];
            let first = (number * searches) as u64;
            let near =
                |further| beside(&declared, settings.seed.stream("beside").at(first + further));
            let near: Vec<Vec<f64>> = (1..searches as u64).map(near).collect();
            starts.push(declared);
            starts.extend(near);
        }
        let found = in_parallel(&starts, settings.threads, |start| ended(slope.begun(start)));
        let best: Vec<&Best> = found.chunks(searches).map(best_of).collect();
        let ends =
            in_parallel(&best, settings.threads, |best| ended(slope.down(&best.point, ENDED)));
        let refined = ended(slope.refined(best_of(&ends)));
        Self { ends, refined }
    }

    /// Descents of one set of rows.
    pub(super) fn count(settings: &FitSettings) -> usize {
        STARTS.len() * (settings.searches.max(1) + 1) + 1
    }
}

/// How well a template can describe the cheap rows, from the declared points alone: enough to tell one kind
/// of engine from another.
pub(super) fn promise(prepared: &Prepared<'_>, model: &EngineModel, set: &[usize]) -> f64 {
    let small = prepared.small_rows(set);
    let slope = LossSlope { prepared, model, pulls: &model.pulls(), set: &small };
    let ends = STARTS.map(|fraction| {
        let start = vec![fraction; model.parameters.len()];
        let begun = slope.down(&start, CHEAP);
        slope.down(&slope.scanned(&begun.point, COARSE).point, WHOLE)
    });
    best_of(&ends).value
}

pub(super) fn best_of(found: &[Best]) -> &Best {
    let best = found.iter().min_by(|one, other| one.value.total_cmp(&other.value));
    best.expect("there is a search from every declared point")
}

/// Where a further descent begins: near the declared point.
fn beside(declared: &[f64], mut generator: Generator) -> Vec<f64> {
    declared.iter().map(|fraction| reflect(fraction + BESIDE * normal(&mut generator))).collect()
}

/// The loss of a model on some rows, to go down on.
struct LossSlope<'a> {
    prepared: &'a Prepared<'a>,
    model: &'a EngineModel,
    pulls: &'a [Pull],
    set: &'a [usize],
}

impl LossSlope<'_> {
    fn begun(&self, start: &[f64]) -> Best {
        let small = self.prepared.small_rows(self.set);
        let point = LossSlope { set: &small, ..*self }.down(start, CHEAP).point;
        self.down(&self.scanned(&point, COARSE).point, WHOLE)
    }

    fn refined(&self, best: &Best) -> Best {
        let mut best = best.clone();
        for rounds in REFINED {
            best = self.down(&self.scanned(&best.point, FINE).point, rounds);
        }
        best
    }

    fn down(&self, start: &[f64], rounds: Rounds) -> Best {
        descend(start, rounds, self.pulls, |point| {
            self.prepared.misses(&self.model.candidate(point), self.set)
        })
    }

    fn loss(&self, point: &[f64]) -> f64 {
        let misses = self.prepared.misses(&self.model.candidate(point), self.set);
        let loss = misses.map_or(f64::INFINITY, |misses| descent::loss(&misses));
        loss + descent::pulled(self.pulls, point, point)
    }

    /// The best value of each limit of the scheduler, the rest being kept, one after the other. Between two
    /// limits the loss often rises before it falls, which a descent does not cross.
    fn scanned(&self, start: &[f64], scan: Scan) -> Best {
        let limits: Vec<usize> = (0..self.model.parameters.len())
            .filter(|at| self.model.parameters[*at].is_limit())
            .collect();
        if limits.is_empty() {
            return Best { point: start.to_vec(), value: f64::INFINITY };
        }
        let mut best = Best { point: start.to_vec(), value: self.loss(start) };
        for at in limits.repeat(scan.turns) {
            for point_at in 0..=scan.points {
                let mut point = best.point.clone();
                point[at] = f64::from(point_at) / f64::from(scan.points);
                let value = self.loss(&point);
                if value < best.value {
                    best = Best { point, value };
                }
            }
        }
        best
    }
}
