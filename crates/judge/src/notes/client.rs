//! Notes about the client and its machine. Most are judged by their effect on figures.

use super::NoteCode;
use super::about::{ALL, CONCURRENCY, LOAD, PEAK, TTFT};
use super::note::{Found, has_moved, of_run, percent, share};
use super::rule::NoteJudgement::{ByEffect, Invalid, Remark, Suspect};
use super::rule::NoteRule;
use super::run::failed_here;
use crate::effects::Effects;
use tokometer_base::Nanos;
use tokometer_base::units::counted;
use tokometer_figures::Unjudged;
use tokometer_figures::steady::LoadClass;
use tokometer_record::FailureKind;

pub(super) static CLIENT: &[NoteRule] = &[
    NoteRule {
        code: NoteCode::LateSends,
        severity: ByEffect,
        about: ALL,
        limit: 0.01,
        threshold: "more than {} % of the requests were sent over 5 ms late, or late sends moved a figure by more than 1 %; in a burst all requests are due at once",
        why: "the load was not the requested one while requests were held back, and latencies from the intended time include the client's delay",
        action: "use a machine with free cores, fewer streams per client, or several clients",
        check: late_sends,
    },
    NoteRule {
        code: NoteCode::RateMissed,
        severity: ByEffect,
        about: LOAD,
        limit: 0.01,
        threshold: "the achieved rate differs from the planned rate by more than {} %, over the whole run and over the middle nine tenths of the sends, without a concurrency cap",
        why: "the server was measured at another load than the requested one",
        action: "lower the rate or use several clients",
        check: rate_missed,
    },
    NoteRule {
        code: NoteCode::StarvedClient,
        severity: ByEffect,
        about: ALL,
        limit: 0.2,
        threshold: "a worker thread was runnable but not running for more than {} % of the run",
        why: "the client waited for a CPU; late sends and late reads have their own notes, and only times without kernel timestamps include the wait itself",
        action: "free cores on this machine, or pin client and server to different cores",
        check: starved,
    },
    NoteRule {
        code: NoteCode::ThrottledClient,
        severity: ByEffect,
        about: ALL,
        limit: 0.01,
        threshold: "a cgroup throttled the client for more than {} % of the run",
        why: "a throttled client neither sends nor reads; late sends and late reads have their own notes",
        action: "raise the container's CPU limit",
        check: throttled,
    },
    NoteRule {
        code: NoteCode::Stalls,
        severity: ByEffect,
        about: ALL,
        limit: 0.01,
        threshold: "a thread that only sleeps did not run for more than {} % of the run, or such stalls moved a figure by more than 1 %",
        why: "the machine or the whole process stopped; a server on the same host stopped too",
        action: "repeat the run on a machine with less load",
        check: stalls,
    },
    NoteRule {
        code: NoteCode::SlowReads,
        severity: ByEffect,
        about: TTFT,
        limit: 20.0,
        threshold: "1 % of the reads returned more than {} ms after the kernel received the bytes, or late reads moved a figure by more than 1 %",
        why: "segments that wait for a read merge and lose their own timestamps",
        action: "use fewer streams per client, or --socket-reads eager",
        check: slow_reads,
    },
    NoteRule {
        code: NoteCode::BusyClient,
        severity: Remark,
        about: ALL,
        limit: 0.9,
        threshold: "a worker thread used more than {} % of a core",
        why: "the client is near its limit; late sends, slow refills and slow reads have their own notes",
        action: "use more worker threads or several clients",
        check: busy_client,
    },
    NoteRule {
        code: NoteCode::StolenTime,
        severity: ByEffect,
        about: ALL,
        limit: 0.01,
        threshold: "the hypervisor took more than {} % of the run from this machine (steal time)",
        why: "neither the client nor a server on the same host ran during that time; with a server on another host, late sends and late reads show the effect",
        action: "repeat the run on a host with less load",
        check: stolen_time,
    },
    NoteRule {
        code: NoteCode::CpuPressure,
        severity: Remark,
        about: ALL,
        limit: 0.4,
        threshold: "tasks on this machine waited for CPU during more than {} % of the run",
        why: "the machine was busy; the other notes show how this affected the client",
        action: "free cores on this machine",
        check: cpu_pressure,
    },
    NoteRule {
        code: NoteCode::CapHits,
        severity: Suspect,
        about: LOAD,
        limit: 0.01,
        threshold: "more than {} % of the requests of an open loop waited for the concurrency cap",
        why: "the cap turned the open loop into a closed loop: latencies from the first byte leave out this wait",
        action: "use the latencies from the intended time, or raise --max-concurrency",
        check: cap_hits,
    },
    NoteRule {
        code: NoteCode::SlowRefill,
        severity: ByEffect,
        about: CONCURRENCY,
        limit: 10.0,
        threshold: "1 % of the slots of a closed loop stayed empty for more than {} ms, or empty slots moved a figure by more than 1 %",
        why: "the server had fewer requests than planned because the client was slow to send the next one",
        action: "use fewer streams per client, or --connections preopen",
        check: slow_refill,
    },
    NoteRule {
        code: NoteCode::DescriptorLimit,
        severity: Suspect,
        about: PEAK,
        limit: 0.9,
        threshold: "requests in flight reached {} % of the file-descriptor limit of this process",
        why: "connections beyond the limit fail or wait",
        action: "raise `ulimit -n`",
        check: descriptor_limit,
    },
    NoteRule {
        code: NoteCode::PortLimit,
        severity: Suspect,
        about: ALL,
        limit: 0.8,
        threshold: "connections opened reached {} % of the local ports",
        why: "a closed connection keeps its port for a minute; without a free port, new connections fail",
        action: "keep connections open (--connections preopen)",
        check: port_limit,
    },
    NoteRule {
        code: NoteCode::ClientLimit,
        severity: Invalid,
        about: ALL,
        limit: 0.0,
        threshold: "a request failed because this machine could not open a connection",
        why: "the load was not the requested one, and the server is not to blame",
        action: "raise the limit that is named, or send from several machines",
        check: client_limit,
    },
    NoteRule {
        code: NoteCode::OneCore,
        severity: Suspect,
        about: ALL,
        limit: 1.0,
        threshold: "this client can use only one core, and the server runs on the same host",
        why: "if they share that core, each waits while the other runs, and the server appears slower than it is",
        action: "give the client its own core, or measure from another host",
        check: one_core,
    },
    NoteRule {
        code: NoteCode::SameHost,
        severity: Remark,
        about: ALL,
        limit: 0.0,
        threshold: "client and server run on one host",
        why: "they share CPUs, and no network is between them",
        action: "measure from another host to include the network",
        check: same_host,
    },
    NoteRule {
        code: NoteCode::SlowDisk,
        severity: Remark,
        about: ALL,
        limit: 1.0,
        threshold: "the disk took longer than {} s for one write of the record",
        why: "rows wait in memory, which delays no request; at 256 MiB of them the run stops",
        action: "put the run folder on a faster disk with `--run-dir`",
        check: slow_disk,
    },
];

fn late_sends(run: &Unjudged, effects: &Effects, limit: f64) -> Found {
    let sends = run.observed.sends;
    let is_burst = run.summary.load_class == LoadClass::Burst;
    if is_burst {
        let (first, last) = (run.observed.first_send?, run.observed.last_send?);
        return has_moved(effects, NoteCode::LateSends)
            .then(|| format!("sending the burst took {}", last - first));
    }
    let is_open = run.summary.load_class != LoadClass::Closed;
    let is_late = is_open && share(sends.late, sends.judged) > limit;
    (is_late || has_moved(effects, NoteCode::LateSends)).then(|| {
        let cause = match effects.late_in_stalls() {
            Some(share) if share > 0.5 => {
                "; the control thread was late too, so the machine or the process stalled"
            }
            Some(_) => "; the control thread was on time, so this client was slow",
            None => "",
        };
        format!("{sends}{cause}")
    })
}

fn rate_missed(run: &Unjudged, effects: &Effects, limit: f64) -> Found {
    let (_, share) = effects.of_note(NoteCode::RateMissed)?;
    let (due, achieved) = (run.observed.due_rate()?, run.observed.achieved_rate()?);
    (share > limit)
        .then(|| format!("{achieved:.2} requests per second were sent, {due:.2} were planned"))
}

fn starved(run: &Unjudged, _: &Effects, limit: f64) -> Found {
    let delays = run.health.as_ref()?.workers.iter().filter_map(|worker| worker.run_queue_delay);
    let worst = of_run(run, delays.max())?;
    (worst > limit)
        .then(|| format!("a worker thread waited for a CPU for {} of the run", percent(worst)))
}

fn throttled(run: &Unjudged, _: &Effects, limit: f64) -> Found {
    let found = of_run(run, run.health.as_ref()?.throttled)?;
    (found > limit)
        .then(|| format!("a cgroup throttled the client for {} of the run", percent(found)))
}

fn stalls(run: &Unjudged, effects: &Effects, limit: f64) -> Found {
    let stalls = run.health.as_ref()?.stalls.as_deref().filter(|stalls| !stalls.is_empty())?;
    let lengths = || stalls.iter().map(|stall| stall.end - stall.begin);
    let total = of_run(run, Some(lengths().fold(Nanos::ZERO, |sum, one| sum + one)))?;
    let longest = lengths().max()?;
    (total > limit || has_moved(effects, NoteCode::Stalls)).then(|| {
        let count = counted(stalls.len(), "stall");
        format!("{count}, {} of the run together, the longest {longest}", percent(total))
    })
}

fn slow_reads(run: &Unjudged, effects: &Effects, limit_ms: f64) -> Found {
    let workers = &run.health.as_ref()?.workers;
    let delays = workers.iter().filter_map(|worker| worker.kernel_to_user.quantile(0.99));
    let worst = delays.max()?;
    (worst.as_millis_f64() > limit_ms || has_moved(effects, NoteCode::SlowReads))
        .then(|| format!("p99 delay from the kernel's timestamp to the read: up to {worst}"))
}

fn busy_client(run: &Unjudged, _: &Effects, limit: f64) -> Found {
    let times = run.health.as_ref()?.workers.iter().filter_map(|worker| worker.cpu_time);
    let found = of_run(run, times.max())?;
    (found > limit).then(|| format!("a worker used {} of a core", percent(found)))
}

fn stolen_time(run: &Unjudged, _: &Effects, limit: f64) -> Found {
    let health = run.health.as_ref()?;
    let cores = f64::from(health.cores.unwrap_or(1).max(1));
    let found = of_run(run, health.stolen)? / cores;
    (found > limit)
        .then(|| format!("the hypervisor took {} of the run (steal time)", percent(found)))
}

fn cpu_pressure(run: &Unjudged, _: &Effects, limit: f64) -> Found {
    // The kernel updates this value at intervals that may be longer than a short run.
    let found = of_run(run, run.health.as_ref()?.cpu_pressure)?;
    (found > limit).then(|| format!("tasks waited for CPU during {} of the run", percent(found)))
}

fn cap_hits(run: &Unjudged, _: &Effects, limit: f64) -> Found {
    let waits = run.health.as_ref()?.cap_waits;
    let sent = run.summary.counts.sent;
    let is_open = run.summary.load_class == LoadClass::Open;
    (is_open && share(waits, sent) > limit)
        .then(|| format!("{waits} of {sent} requests waited for the concurrency cap"))
}

fn slow_refill(run: &Unjudged, effects: &Effects, limit_ms: f64) -> Found {
    if run.summary.load_class != LoadClass::Closed {
        return None;
    }
    let found = run.health.as_ref()?.refill_delay.quantile(0.99)?;
    (found.as_millis_f64() > limit_ms || has_moved(effects, NoteCode::SlowRefill))
        .then(|| format!("p99 delay before an empty slot was refilled: up to {found}"))
}

fn descriptor_limit(run: &Unjudged, _: &Effects, limit: f64) -> Found {
    let allowed = run.health.as_ref()?.descriptor_limit.filter(|allowed| *allowed > 0)?;
    let peak = run.summary.figure("peak_in_flight")?;
    (peak >= limit * allowed as f64).then(|| {
        format!("{peak:.0} requests were in flight, the file-descriptor limit is {allowed}")
    })
}

fn port_limit(run: &Unjudged, _: &Effects, limit: f64) -> Found {
    let health = run.health.as_ref()?;
    let ports = health.port_limit.filter(|ports| *ports > 0)?;
    let opened = health.connections_opened;
    (opened as f64 >= limit * f64::from(ports))
        .then(|| format!("{opened} connections were opened, there are {ports} local ports"))
}

fn client_limit(run: &Unjudged, _: &Effects, _: f64) -> Found {
    let failed = failed_here(run);
    let mut groups = run.summary.failures.iter();
    let group = groups.find(|group| group.kind == FailureKind::Client)?;
    Some(format!("{failed} requests could not be sent: {}", group.example))
}

fn one_core(run: &Unjudged, _: &Effects, limit: f64) -> Found {
    let health = run.health.as_ref()?;
    let is_alone = f64::from(health.cores?) <= limit;
    (is_alone && health.is_same_host == Some(true))
        .then(|| "this client has one core, and the server runs on the same host".to_owned())
}

fn same_host(run: &Unjudged, _: &Effects, _: f64) -> Found {
    let is_simulated = run.info.targets.iter().any(|target| target.is_simulated);
    let health = run.health.as_ref()?;
    // One core is the more severe form of the same remark.
    (health.is_same_host == Some(true) && !is_simulated && health.cores != Some(1))
        .then(|| "client and server share this host".to_owned())
}

fn slow_disk(run: &Unjudged, _: &Effects, limit: f64) -> Found {
    let health = run.health.as_ref()?;
    let wait = health.disk_wait.filter(|wait| wait.as_secs_f64() >= limit)?;
    let rows = health.rows_waiting_max;
    let seconds = wait.as_secs_f64();
    Some(format!(
        "the disk took {seconds:.1} s for one write, and up to {rows} rows waited in memory"
    ))
}
