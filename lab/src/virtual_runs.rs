//! What studies in virtual time share: lengths, the description of a run, threads.

use std::sync::atomic::{AtomicU64, Ordering};

use tokometer_base::seed::unit_float;
use tokometer_base::{Conventions, Nanos, Seed, WallNanos};
use tokometer_record::run::SCHEMA_VERSION;
use tokometer_record::{RecordedLoad, RunInfo};
use tokometer_twin::{Ask, RequestSource};

/// Lengths drawn evenly around their means.
pub(crate) struct Drawn {
    /// Mean lengths of prompts and answers; both vary by half.
    pub(crate) lengths: (u32, u32),
    /// Requests.
    pub(crate) count: u64,
    /// What decides the lengths.
    pub(crate) seed: Seed,
}

impl RequestSource for Drawn {
    fn count(&self) -> u64 {
        self.count
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between half and one and a half times a length"
    )]
    fn ask(&self, index: u64) -> Ask {
        let mut generator = self.seed.stream("lengths").at(index);
        let mut around =
            |mean: u32| (f64::from(mean) * (0.5 + unit_float(&mut generator))).round() as u32;
        Ask::new(around(self.lengths.0), around(self.lengths.1))
    }
}

/// Does `work` for 0, 1, … on as many threads as there are cores; results in that order.
pub(crate) fn in_parallel<T: Send>(count: u64, work: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let next = AtomicU64::new(0);
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut done: Vec<(u64, T)> = std::thread::scope(|scope| {
        let take = || {
            let mut mine = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= count {
                    return mine;
                }
                mine.push((at, work(at)));
            }
        };
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(take)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic in it")).collect()
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// What a record would say of a run at `rate` that ends after `duration`, or after its requests.
pub(crate) fn info(rate: f64, duration: Option<Nanos>) -> RunInfo {
    RunInfo {
        schema: SCHEMA_VERSION,
        version: String::new(),
        name: String::new(),
        started: WallNanos(0),
        origin: Nanos::ZERO,
        seed: Seed(0),
        salt: 0,
        family: Conventions::default(),
        targets: Vec::new(),
        load: RecordedLoad {
            request_rate: Some(rate),
            burstiness: 1.0,
            max_concurrency: None,
            planned_requests: None,
            duration,
            is_traced: false,
            ramp: None,
        },
        dataset: String::new(),
        tokenizer: None,
        sharding: None,
        plan: serde_json::Value::Null,
        environment: serde_json::Value::Null,
        remarks: Vec::new(),
    }
}
