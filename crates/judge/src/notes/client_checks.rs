//! Checks of the client and its machine. Most of these notes are judged by their effect on figures.

use tokometer_base::Nanos;
use tokometer_base::units::counted;

use super::checks::{of_run, percent, share};
use super::note::CheckInput;
use crate::verdict::limits::SUSPECT_ABOVE;
use tokometer_figures::steady::LoadClass;

type Found = Option<String>;

/// Whether a cause moved a result by more than a remark allows.
pub(super) fn has_moved(evidence: &CheckInput<'_>, code: &str) -> bool {
    evidence.effects.of_note(code).is_some_and(|(_, share)| share > SUSPECT_ABOVE)
}

pub(super) fn late_sends(evidence: &CheckInput<'_>, limit: f64) -> Found {
    let sends = evidence.observed.sends;
    let is_burst = evidence.summary.load_class == LoadClass::Burst;
    if is_burst {
        let (first, last) = (evidence.observed.first_send?, evidence.observed.last_send?);
        return has_moved(evidence, "late-sends")
            .then(|| format!("sending the burst took {}", last - first));
    }
    let is_open = evidence.summary.load_class != LoadClass::Closed;
    let is_late = is_open && share(sends.late, sends.judged) > limit;
    (is_late || has_moved(evidence, "late-sends")).then(|| {
        let cause = match evidence.effects.late_in_stalls() {
            Some(share) if share > 0.5 => {
                "; the control thread was late too, so the machine or the process stalled"
            }
            Some(_) => "; the control thread was on time, so this client was slow",
            None => "",
        };
        format!("{sends}{cause}")
    })
}

pub(super) fn stalls(evidence: &CheckInput<'_>, limit: f64) -> Found {
    let stalls = evidence.health?.stalls.as_deref().filter(|stalls| !stalls.is_empty())?;
    let lengths = || stalls.iter().map(|stall| stall.end - stall.begin);
    let total = of_run(evidence, Some(lengths().fold(Nanos::ZERO, |sum, one| sum + one)))?;
    let longest = lengths().max()?;
    (total > limit || has_moved(evidence, "stalls")).then(|| {
        let count = counted(stalls.len(), "stall");
        format!("{count}, {} of the run together, the longest {longest}", percent(total))
    })
}

pub(super) fn rate_missed(evidence: &CheckInput<'_>, limit: f64) -> Found {
    let (_, share) = evidence.effects.of_note("rate-missed")?;
    let (due, achieved) = (evidence.observed.due_rate()?, evidence.observed.achieved_rate()?);
    (share > limit)
        .then(|| format!("{achieved:.2} requests per second were sent, {due:.2} were planned"))
}

pub(super) fn starved(evidence: &CheckInput<'_>, limit: f64) -> Found {
    let delays = evidence.health?.workers.iter().filter_map(|worker| worker.run_queue_delay);
    let worst = of_run(evidence, delays.max())?;
    (worst > limit)
        .then(|| format!("a worker thread waited for a CPU for {} of the run", percent(worst)))
}

pub(super) fn throttled(evidence: &CheckInput<'_>, limit: f64) -> Found {
    let found = of_run(evidence, evidence.health?.throttled)?;
    (found > limit)
        .then(|| format!("a cgroup throttled the client for {} of the run", percent(found)))
}

pub(super) fn slow_reads(evidence: &CheckInput<'_>, limit_ms: f64) -> Found {
    let workers = &evidence.health?.workers;
    let delays = workers.iter().filter_map(|worker| worker.kernel_to_user.quantile(0.99));
    let worst = delays.max()?;
    (worst.as_millis_f64() > limit_ms || has_moved(evidence, "slow-reads"))
        .then(|| format!("p99 delay from the kernel's timestamp to the read: up to {worst}"))
}

pub(super) fn busy_client(evidence: &CheckInput<'_>, limit: f64) -> Found {
    let times = evidence.health?.workers.iter().filter_map(|worker| worker.cpu_time);
    let found = of_run(evidence, times.max())?;
    (found > limit).then(|| format!("a worker used {} of a core", percent(found)))
}

pub(super) fn stolen_time(evidence: &CheckInput<'_>, limit: f64) -> Found {
    let health = evidence.health?;
    let cores = f64::from(health.cores.unwrap_or(1).max(1));
    let found = of_run(evidence, health.stolen)? / cores;
    (found > limit)
        .then(|| format!("the hypervisor took {} of the run (steal time)", percent(found)))
}

pub(super) fn cpu_pressure(evidence: &CheckInput<'_>, limit: f64) -> Found {
    // The kernel updates this value at intervals that may be longer than a short run.
    let found = of_run(evidence, evidence.health?.cpu_pressure)?.min(1.0);
    (found > limit).then(|| format!("tasks waited for CPU during {} of the run", percent(found)))
}

pub(super) fn slow_refill(evidence: &CheckInput<'_>, limit_ms: f64) -> Found {
    if evidence.summary.load_class != LoadClass::Closed {
        return None;
    }
    let found = evidence.health?.refill_delay.quantile(0.99)?;
    (found.as_millis_f64() > limit_ms || has_moved(evidence, "slow-refill"))
        .then(|| format!("p99 delay before an empty slot was refilled: up to {found}"))
}
