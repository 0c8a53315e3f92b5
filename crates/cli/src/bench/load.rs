//! A plan's load: as the schedule takes it, and as a record states it. Pure.

use tokometer_base::Nanos;
use tokometer_record as record;
use tokometer_schedule::{Arrivals, Curve, First, Pace};
use tokometer_workload::Family;

use crate::plan::{Load, Strategy, Timing};

/// When the requests of a load are intended to start.
pub(crate) fn arrivals(load: &Load, family: Family) -> Arrivals {
    if load.timing == Timing::Trace {
        return Arrivals::Traced;
    }
    let curve = match load.ramp {
        Some(ramp) => match ramp.strategy {
            Strategy::Linear => Curve::Linear { from: ramp.from, to: ramp.to },
            Strategy::Exponential => Curve::Exponential { from: ramp.from, to: ramp.to },
        },
        None if load.request_rate.is_infinite() => return Arrivals::AtOnce,
        None => Curve::Flat { rate: load.request_rate.0 },
    };
    let burstiness = Some(load.burstiness.0).filter(|shape| shape.is_finite());
    let first = match family {
        Family::Vllm => First::Waits,
        Family::Sglang => First::Immediate,
    };
    Arrivals::Paced(Pace { curve, burstiness, first })
}

/// The load as a record states it; `prompts` is how many there are to send.
pub(crate) fn asked_load(load: &Load, prompts: u64) -> record::Load {
    let ramp = load.ramp.map(|ramp| {
        let name = match ramp.strategy {
            Strategy::Linear => "linear",
            Strategy::Exponential => "exponential",
        };
        (name.to_owned(), ramp.from, ramp.to)
    });
    record::Load {
        request_rate: Some(load.request_rate.0).filter(|rate| rate.is_finite()),
        burstiness: load.burstiness.0,
        max_concurrency: load.max_concurrency,
        planned_requests: load.num_prompts.map(|_| prompts),
        duration: load.duration_s.map(Nanos::from_secs_f64),
        is_traced: load.timing == Timing::Trace,
        ramp,
    }
}
