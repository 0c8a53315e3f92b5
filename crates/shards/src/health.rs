//! The client's own measurements, of several processes as if they were one.
//!
//! What is counted is added up. What is compared with a limit is that of the worst machine: a note
//! about one machine must not disappear among the others.

use tokometer_base::Nanos;
use tokometer_record::health::{ClockStep, ThreadStall};
use tokometer_record::{ClockFit, Health, RunEnd};

/// Stalls that a record keeps.
const MOST_STALLS: usize = 4_096;

/// The measurements of all shards that wrote some: clock, rank and end of each.
pub(crate) fn merged(ends: &[(&ClockFit, u32, &RunEnd)]) -> Health {
    if ends.is_empty() {
        return Health::default();
    }
    let all = || ends.iter().map(|(_, _, end)| &end.health);
    let mut health = Health {
        cpu_time: sum(all().map(|one| one.cpu_time)),
        cores: all().try_fold(0_u32, |sum, one| Some(sum.saturating_add(one.cores?))),
        cpu_pressure: all().filter_map(|one| one.cpu_pressure).max(),
        throttled: all().filter_map(|one| one.throttled).max(),
        stolen: all().filter_map(|one| one.stolen).max(),
        peak_memory_bytes: all().filter_map(|one| one.peak_memory_bytes).max(),
        clock_steps: all().map(|one| one.clock_steps).max().unwrap_or(0),
        clock_step_times: clock_steps(ends),
        stalls: stalls(ends),
        cap_waits: all().map(|one| one.cap_waits).sum(),
        connections_opened: all().map(|one| one.connections_opened).sum(),
        connections_reused: all().map(|one| one.connections_reused).sum(),
        connections_reopened: all().map(|one| one.connections_reopened).sum(),
        overflows: all().map(|one| one.overflows).sum(),
        compressed_answers: all().map(|one| one.compressed_answers).sum(),
        descriptor_limit: all().filter_map(|one| one.descriptor_limit).min(),
        port_limit: all().filter_map(|one| one.port_limit).min(),
        is_same_host: all().filter_map(|one| one.is_same_host).max(),
        lazy_streams: all().map(|one| one.lazy_streams).sum(),
        disk_wait: all().filter_map(|one| one.disk_wait).max(),
        rows_waiting_max: all().map(|one| one.rows_waiting_max).max().unwrap_or(0),
        rows_unwritten: all().map(|one| one.rows_unwritten).sum(),
        write_failure: ends.iter().find_map(|(_, rank, end)| {
            let reason = end.health.write_failure.as_ref()?;
            Some(format!("shard {rank}: {reason}"))
        }),
        ..Health::default()
    };
    for one in all() {
        health.workers.extend(one.workers.iter().cloned());
        health.pacing_control.merge(&one.pacing_control);
        health.refill_delay.merge(&one.refill_delay);
        let new = one.dropped_fields.iter().filter(|field| !health.dropped_fields.contains(field));
        let new: Vec<String> = new.cloned().collect();
        health.dropped_fields.extend(new);
    }
    health
}

/// `None` where one of them is not known: a sum without it would be too small.
fn sum(values: impl Iterator<Item = Option<Nanos>>) -> Option<Nanos> {
    values.into_iter().try_fold(Nanos::ZERO, |sum, value| Some(sum + value?))
}

/// The steps of all machines' wall clocks on the leader's clock. `None` where those of one are not known.
fn clock_steps(ends: &[(&ClockFit, u32, &RunEnd)]) -> Option<Vec<ClockStep>> {
    let mut all = Vec::new();
    for (fit, _, end) in ends {
        all.extend(end.health.clock_step_times.as_ref()?.iter().map(|step| ClockStep {
            begin: fit.on_leader(step.begin),
            end: fit.on_leader(step.end),
        }));
    }
    Some(all)
}

/// The longest stalls of all machines on the leader's clock, in order of time. `None` where no shard
/// looked for stalls.
fn stalls(ends: &[(&ClockFit, u32, &RunEnd)]) -> Option<Vec<ThreadStall>> {
    let mut all = Vec::new();
    let mut is_known = false;
    for (fit, _, end) in ends {
        let Some(stalls) = &end.health.stalls else { continue };
        is_known = true;
        all.extend(stalls.iter().map(|stall| ThreadStall {
            begin: fit.on_leader(stall.begin),
            end: fit.on_leader(stall.end),
        }));
    }
    all.sort_by_key(|stall| std::cmp::Reverse(stall.end - stall.begin));
    all.truncate(MOST_STALLS);
    all.sort_by_key(|stall| stall.begin);
    is_known.then_some(all)
}
