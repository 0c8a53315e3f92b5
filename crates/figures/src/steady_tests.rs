//! Error rates: good random runs that are called unsteady, and overloaded ones that are not found.

use tokometer_base::seed::{self, Generator};
use tokometer_base::{Nanos, Seed};
use tokometer_record::RecordedLoad;

use super::tests::backlog;
use super::*;
use crate::testing;

fn exponential(generator: &mut Generator, mean: f64) -> f64 {
    -mean * (1.0 - seed::unit_float(generator)).ln()
}

/// A server with so many slots and at least half a second per request, first come, first served.
struct Server {
    slots: usize,
    service_s: f64,
}

impl Server {
    /// Poisson arrivals at `rate`, each service time between 0.5 and 1.5 times the mean.
    fn open_loop(&self, seed: u64, rate: f64, count: u64) -> Vec<RequestRow> {
        let mut generator = Seed(seed).stream("arrivals").at(0);
        let mut free = vec![0.0_f64; self.slots];
        let mut due = 0.0;
        (0..count)
            .map(|index| {
                due += exponential(&mut generator, 1.0 / rate);
                let service = self.service_s * (0.5 + seed::unit_float(&mut generator));
                let slot = (0..self.slots).min_by(|a, b| free[*a].total_cmp(&free[*b])).unwrap();
                let end = free[slot].max(due) + service;
                free[slot] = end;
                testing::row(index, Nanos::from_secs_f64(due), Nanos::from_secs_f64(end))
            })
            .collect()
    }

    /// Every slot is refilled at once.
    fn closed_loop(&self, seed: u64, count: u64) -> Vec<RequestRow> {
        let mut generator = Seed(seed).stream("services").at(0);
        let mut free = vec![0.0_f64; self.slots];
        (0..count)
            .map(|index| {
                let service = self.service_s * (0.5 + seed::unit_float(&mut generator));
                let slot = (0..self.slots).min_by(|a, b| free[*a].total_cmp(&free[*b])).unwrap();
                let start = free[slot];
                free[slot] = start + service;
                let at = Nanos::from_secs_f64;
                testing::row(index, at(start), at(start + service))
            })
            .collect()
    }
}

const RUNS: u64 = 100;
const SERVER: Server = Server { slots: 40, service_s: 1.0 };

/// Runs of 30 s at half the capacity. Each of two trends has a chance of one in a hundred to be
/// significant, most of these are small, and the stretch may move: well under one run in fifty.
#[test]
fn sound_open_loops_are_steady_and_keep_up() {
    let load = testing::load(Some(20.0), 600);
    let rows: Vec<Vec<RequestRow>> =
        (0..RUNS).map(|seed| SERVER.open_loop(seed, 20.0, 600)).collect();
    let unsteady = rows.iter().filter(|rows| find(rows, None, &load).is_err()).count();
    let overloaded = rows.iter().filter(|rows| backlog(rows, &load).is_some()).count();
    assert!(unsteady <= 3 && overloaded <= 3, "{unsteady} unsteady, {overloaded} overloaded");
}

#[test]
fn sound_closed_loops_are_steady() {
    let load = RecordedLoad { max_concurrency: Some(40), ..testing::load(None, 1_000) };
    let unsteady = (0..RUNS)
        .filter(|seed| find(&SERVER.closed_loop(*seed, 1_000), None, &load).is_err())
        .count();
    assert!(unsteady <= 3, "{unsteady} of {RUNS}");
}

/// A quarter above the server's capacity: the backlog grows by a fifth of the arrivals.
#[test]
fn overloaded_runs_are_found() {
    let load = testing::load(Some(50.0), 1_500);
    let missed = (0..RUNS)
        .filter(|seed| backlog(&SERVER.open_loop(*seed, 50.0, 1_500), &load).is_none())
        .count();
    assert!(missed <= 3, "{missed} of {RUNS}");
}

/// A server that is 7 % too slow falls behind by about 5 % of the arrivals: of a hundred such runs twenty were told
/// to be longer. One that is busy for 95 % of the time keeps up.
#[test]
fn a_server_that_is_a_little_too_slow_is_found_too() {
    let called = |rate: f64| {
        let load = testing::load(Some(rate), 4_000);
        let is_called =
            |seed: &u64| backlog(&SERVER.open_loop(*seed, rate, 4_000), &load).is_some();
        (0..RUNS).filter(is_called).count()
    };
    let (behind, busy) = (called(43.0), called(38.0));
    assert!(behind >= 95 && busy <= 2, "{behind} and {busy} of {RUNS}");
}
