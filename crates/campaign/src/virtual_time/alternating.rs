//! Two engines in turn, as `bench --against` measures two servers.

use std::sync::Arc;

use tokometer_base::refusal::Refusal;
use tokometer_base::{Nanos, Seed};
use tokometer_decide::AbBlocks;
use tokometer_measure::BlockTimes;
use tokometer_plan::Plan;
use tokometer_record::Timeline;
use tokometer_schedule::{Arrivals, Offsets, SendLimit};
use tokometer_sim::Profile;
use tokometer_twin::workload::in_flight_max;
use tokometer_twin::{self as twin, Ask, KeptDetail, RequestLoad};

use super::asks::Asks;
use super::executor::Virtual;

impl Virtual {
    /// The requests of both engines, and when the last one ended. A block begins when the previous one has
    /// drained, so that each is predicted by itself; what an engine has cached before is lost to it.
    pub(super) fn in_blocks(
        &self,
        engines: [&Profile; 2],
        plan: &Plan,
        ab: AbBlocks,
        asks: &mut Asks,
    ) -> Result<(Vec<Timeline>, Nanos), Refusal> {
        let seed = Seed(plan.seed);
        let (load, requests) = (&plan.load, ab.whole_pairs(asks.count()));
        let prompts = asks.source(requests / 2, seed)?;
        if prompts.has_sessions() {
            return Err(Refusal::usage("cannot use conversations with two targets", ""));
        }
        let duration = load.duration_s.map(Nanos::from_secs_f64);
        let extent = SendLimit { count: load.num_prompts.map(|_| requests / 2), duration };
        let offsets = Offsets::new(&load.arrivals(plan.conventions), extent, seed)
            .map_err(|why| Refusal::usage(why.to_string(), ""))?;
        let mut times = BlockTimes::new(offsets);
        let options = twin::PredictOptions { keep: KeptDetail::Timelines, ..self.options };
        let noise = seed.stream("blocks");
        let (mut rows, mut now) = (Vec::new(), Nanos::ZERO);
        for block in 0..requests / ab.block {
            let (first, left) = (block * ab.block, duration.map(|all| all.saturating_sub(now)));
            if left == Some(Nanos::ZERO) {
                break;
            }
            let asked = |index: u64| {
                let ask = prompts.ask(ab.prompt(index));
                let cancel = load.cancel.and_then(|cancel| cancel.of(seed, index));
                Ask { due: times.due(ab, index, ask.due), cancel, ..ask }
            };
            let asked: Vec<Ask> = (first..first + ab.block).map(asked).collect();
            let is_paced = asked.iter().any(|ask| ask.due.is_some());
            let workload = RequestLoad {
                asks: Arc::new(asked),
                arrivals: if is_paced { Arrivals::Traced } else { Arrivals::AtOnce },
                max_concurrency: load.max_concurrency,
                max_sessions: None,
                duration: left,
                in_flight_max: in_flight_max(self.memory_bytes),
            };
            let target = ab.target(first);
            let profile = engines[usize::from(target)];
            let predicted = twin::predict(profile, &workload, Seed(noise.draw(block)), options)?;
            let shift = i64::try_from(now.0).unwrap_or(i64::MAX);
            rows.extend(predicted.timelines.into_iter().map(|mut row| {
                row.shift(shift);
                (row.identity.index, row.identity.target) = (first + row.identity.index, target);
                row
            }));
            now += predicted.end;
        }
        Ok((rows, now))
    }
}
