//! From flags and the launcher's variables to a role.

use std::path::Path;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};

use tokometer_base::units::{counted, parse_span};
use tokometer_base::{Nanos, WallNanos};
use tokometer_measure::{CapRule, check_division};
use tokometer_plan::{Address, Content, Shown};
use tokometer_schedule::Share;
use tokometer_shards::{
    self as shards, Follower, FollowerConfig, JoinError, Leader, LeaderConfig, Membership,
    RankSource, RecordStorage, ShardFlags, ShardTls, SharedSecret, TlsFiles, Welcome,
};

use super::coordination::{
    AloneShard, FollowingShard, LeadingShard, ShardIdentity, SharedPlaces, clock_name,
};
use super::order::{Varied, plan_fields, plan_fingerprint};
use super::part::PartRequest;
use super::remote::RemoteStart;
use super::role::Role;
use crate::args::{BenchArgs, ShardArgs};
use crate::bench::RunFolder;
use crate::commands::Given;
use crate::exit::{Refusal, RefusalKind};
use crate::lower::{Lowered, ProgressView};
use crate::terminal::print_note;
use crate::version;

/// Any free port of this machine.
const ANY_PORT: &str = "0.0.0.0:0";

/// How long shards may take to become ready, unless the user says otherwise.
const WAIT: Nanos = Nanos::from_secs(300);

/// Refuses shards for a command that one process makes.
pub(crate) fn refuse(args: &ShardArgs, command: &str) -> Result<(), Refusal> {
    if !args.is_given() {
        return Ok(());
    }
    Err(Refusal::usage(
        format!("cannot divide `tokometer {command}` into shards"),
        "shards are parts of a `tokometer bench` or `tokometer capacity`",
    ))
}

/// Which part of the run this process makes; `None` where it makes all of it.
pub(crate) fn membership(
    args: &BenchArgs,
    lowered: &Lowered,
    given: &Given,
) -> Result<Option<Membership>, Refusal> {
    let ShardArgs { shard, shards: count, leader, .. } = args.shards.clone();
    let flags = ShardFlags { shard, shards: count, leader };
    let variables = |name: &str| given.environment.launcher.get(name).cloned();
    let found = match leading(&args.shards) {
        Some(found) => Some(found),
        None => shards::discover(&flags, &variables)
            .map_err(|why| Refusal::usage(why.to_string(), ""))?,
    };
    let Some(found) = found else {
        for flag in args.shards.for_several() {
            print_note(&format!("note: `{flag}` has no effect: one process makes the whole run"));
        }
        return Ok(None);
    };
    let targets = lowered.points.iter().flat_map(|point| &point.plan.targets);
    if targets.into_iter().any(|target| matches!(target.address, Address::Simulator(_))) {
        return Err(Refusal::usage(
            "cannot divide a run against the embedded simulated server: every shard would start its own",
            "start one with `tokometer sim` and pass its address with `--base-url`",
        ));
    }
    let has_blocks = lowered.points.iter().any(|point| point.plan.targets.len() > 1);
    if found.leader.is_none() && has_blocks {
        return Err(Refusal::usage(
            "cannot make a shard of an A/B measurement without a leader: its blocks wait for each other",
            "add `--leader HOST:PORT` to all shards",
        ));
    }
    if found.leader.is_none() && args.shards.global_cap {
        return Err(Refusal::usage(
            "cannot use `--global-cap` without a leader: shard 0 lends the places",
            "add `--leader HOST:PORT` to all shards",
        ));
    }
    let is_fresh = lowered.points.iter().any(|point| point.plan.content == Content::Fresh);
    if found.leader.is_none() && is_fresh {
        return Err(Refusal::usage(
            "cannot make a shard without a leader: the content of prompts would differ between shards",
            "add `--seed N` to all shards, or `--leader HOST:PORT`",
        ));
    }
    Ok(Some(found))
}

/// This process where it starts the others itself: shard 0, on a port of its own unless one is given.
fn leading(args: &ShardArgs) -> Option<Membership> {
    let others = u32::try_from(args.workers_on.len()).ok()?;
    let share = Share::new(0, others.checked_add(1)?).filter(|share| !share.is_whole())?;
    let leader = Some(args.leader.clone().unwrap_or_else(|| ANY_PORT.to_owned()));
    Some(Membership { share, leader, source: RankSource::Flag })
}

fn secret(args: &ShardArgs, given: &Given) -> Result<String, Refusal> {
    let text = match &args.shard_secret_file {
        Some(path) => std::fs::read_to_string(path).map_err(|why| {
            Refusal::usage(format!("cannot read `{}`: {why}", path.display()), "")
        })?,
        None if !args.workers_on.is_empty() => {
            given.environment.shard_secret.clone().unwrap_or_else(shards::fresh_secret)
        }
        None => given.environment.shard_secret.clone().ok_or_else(|| {
            Refusal::usage(
                "cannot make one run with other shards: there is no shared secret",
                "set the same TOKOMETER_SHARD_SECRET for all shards, or use `--shard-secret-file`",
            )
        })?,
    };
    Ok(text)
}

fn proved(text: &str) -> Result<SharedSecret, Refusal> {
    SharedSecret::new(text)
        .map_err(|why| Refusal::usage(why.to_string(), "make one with `openssl rand -hex 16`"))
}

/// TLS between the shards, where it is asked for.
fn tls(args: &ShardArgs) -> Result<Option<ShardTls>, Refusal> {
    let files = args.shard_tls_cert.clone().zip(args.shard_tls_key.clone());
    let Some(((certificate, key), authorities)) = files.zip(args.shard_tls_ca.clone()) else {
        return Ok(None);
    };
    let read = ShardTls::read(&TlsFiles { certificate, key, authorities });
    read.map(Some).map_err(|why| Refusal::usage(why.to_string(), ""))
}

fn wait(args: &ShardArgs) -> Result<Nanos, Refusal> {
    let Some(text) = &args.shard_wait else { return Ok(WAIT) };
    parse_span(text, Nanos::from_secs(1))
        .map_err(|why| Refusal::usage(format!("cannot use `--shard-wait {text}`: {why}"), ""))
}

/// Says where `--global-cap` has no effect.
pub(crate) fn note_unused_cap(found: &Membership, args: &ShardArgs, lowered: &Lowered) {
    let is_capped = lowered.points.iter().any(|point| point.plan.load.max_concurrency.is_some());
    if args.global_cap && !is_capped && found.share.is_first() {
        print_note("note: `--global-cap` has no effect: there is no `--max-concurrency`");
    }
}

/// Says where a closed loop is split unevenly: its load falls before its end.
pub(crate) fn note_uneven_cap(found: &Membership, args: &ShardArgs, lowered: &Lowered) {
    let is_said = found.share.is_first() && lowered.plan.output.shown != Shown::Nothing;
    if args.global_cap || !is_said {
        return;
    }
    let caps = lowered.points.iter().filter_map(|point| point.plan.load.max_concurrency);
    let uneven = caps.into_iter().find_map(|cap| uneven_cap(cap, found.share.count()));
    if let Some(note) = uneven {
        print_note(&note);
    }
}

/// `None` where every shard has as many places. Fewer places than shards are refused elsewhere.
fn uneven_cap(cap: u32, count: u32) -> Option<String> {
    let (least, most) = (cap / count, cap.div_ceil(count));
    (least > 0 && least < most).then(|| {
        format!(
            "note: `--max-concurrency {cap}` is split unevenly: {count} shards have {least} or {most} places, and those with {most} end first\n  add `--global-cap`, or use a multiple of {count}"
        )
    })
}

/// Opens the folder of one of several processes and finds the others.
pub(super) fn join(
    found: &Membership,
    request: &PartRequest<'_>,
    lowered: &mut Lowered,
) -> Result<(Role, RunFolder), Refusal> {
    let PartRequest { args, varied, earlier, given, .. } = *request;
    let share = found.share;
    let cap = if args.shards.global_cap { CapRule::Shared } else { CapRule::Split };
    let (output, name) = (&lowered.plan.output, &lowered.plan.name);
    let own_folder = || RunFolder::open(output, name, given.clock.wall(), earlier);
    let Some(address) = &found.leader else {
        refuse_undivided(lowered, varied, (share, cap))?;
        let place = match &output.run_dir {
            Some(folder) => RunFolder::shared(folder)?,
            None => own_folder()?,
        };
        let run = format!("{varied:?} {cap:?} {}", plan_fingerprint(&lowered.plan)?);
        let identity = ShardIdentity { share, run, content_root: WallNanos::default(), cap };
        return Ok((Role::Alone(Arc::new(AloneShard { identity })), place));
    };
    let (text, wait) = (secret(&args.shards, given)?, wait(&args.shards)?);
    let (secret, tls) = (proved(&text)?, tls(&args.shards)?);
    refuse_undivided(lowered, varied, (share, cap))?;
    let plan = format!("search={varied:?} --global-cap={cap:?} {}", plan_fields(&lowered.plan)?);
    let shows_latencies = lowered.display.progress == ProgressView::Live;
    let setting = JoinSetting { share, address, secret, tls, plan, wait, cap, shows_latencies };
    if share.is_first() {
        let place = own_folder()?;
        let remote = RemoteHosts { hosts: &args.shards.workers_on, secret: &text };
        let led = setting.lead(&remote, place.path(), output.shown, given);
        if led.is_err() {
            place.leave_if_empty();
        }
        return Ok((Role::Leader(Arc::new(led?)), place));
    }
    let follower = setting.follow(given)?;
    let storage = shards::storage_of(&follower.welcome);
    let place = match (storage, &output.run_dir) {
        (RecordStorage::Shared, _) => RunFolder::of_leader(Path::new(&follower.welcome.folder))?,
        (RecordStorage::Own, Some(folder)) => RunFolder::shared(folder)?,
        (RecordStorage::Own, None) => own_folder()?,
    };
    let Welcome { run, content_root, .. } = follower.welcome.clone();
    // Shard 0 reports.
    for output in std::iter::once(&mut lowered.plan.output)
        .chain(lowered.points.iter_mut().map(|point| &mut point.plan.output))
    {
        (output.shown, output.vllm_result, output.sglang_result) = (Shown::Nothing, None, None);
        // It serves the counters of all shards; here its port would be taken on one machine.
        output.prometheus_port = None;
    }
    let following = FollowingShard {
        identity: ShardIdentity { share, run, content_root, cap },
        follower: Arc::new(follower),
        storage,
        turn: AtomicU32::new(0),
        is_ruled: Arc::default(),
        places: SharedPlaces::default(),
    };
    Ok((Role::Follower(Arc::new(following)), place))
}

/// Refuses a measurement of which no point can be divided. Each shard finds it by itself: the others would
/// wait for a shard 0 that has ended. The points of a search are not known yet.
fn refuse_undivided(
    lowered: &Lowered,
    varied: Varied,
    part: (Share, CapRule),
) -> Result<(), Refusal> {
    if varied != Varied::Nothing {
        return Ok(());
    }
    let mut checks = lowered.points.iter().map(|point| check_division(&point.plan, part));
    let Some(first) = checks.next() else { return Ok(()) };
    if checks.all(|check| check.is_err()) { Ok(first?) } else { Ok(()) }
}

/// The shards that shard 0 starts on other machines.
struct RemoteHosts<'a> {
    hosts: &'a [String],
    /// What they prove that they belong to the run with.
    secret: &'a str,
}

/// How the shards of a run find and know each other.
struct JoinSetting<'a> {
    share: Share,
    address: &'a str,
    secret: SharedSecret,
    tls: Option<ShardTls>,
    /// Fingerprint of the plan.
    plan: String,
    wait: Nanos,
    cap: CapRule,
    /// Whether shard 0 shows latencies while it measures.
    shows_latencies: bool,
}

impl JoinSetting<'_> {
    fn follow(self, given: &Given) -> Result<Follower, Refusal> {
        let Self { share, address, secret, tls, plan, wait, .. } = self;
        let (rank, count, version) = (share.rank(), share.count(), version::long());
        let clock = clock_name();
        let config = FollowerConfig { secret, tls, version, plan, rank, count, clock };
        let is_stopped = || given.signals.is_interrupted();
        Follower::join(address, &config, (&given.clock, wait), &is_stopped)
            .map_err(|why| unjoined(&why))
    }

    /// Listens for the other shards, and starts those that are on other machines.
    fn lead(
        self,
        remote: &RemoteHosts<'_>,
        place: &Path,
        shown: Shown,
        given: &Given,
    ) -> Result<LeadingShard, Refusal> {
        let Self { share, address, secret, tls, plan, wait, cap, shows_latencies } = self;
        let folder = std::path::absolute(place).unwrap_or_else(|_| place.to_owned());
        let (run, content_root, count) = (shards::run_id(), given.clock.wall(), share.count());
        let identity = ShardIdentity { share, run: run.clone(), content_root, cap };
        let config = LeaderConfig {
            secret,
            tls,
            version: version::long(),
            plan,
            count,
            run,
            content_root,
            folder,
            clock: clock_name(),
            shows_latencies,
        };
        let leader = listen(address, config, given)?;
        if shown != Shown::Nothing {
            let (address, others) = (leader.address(), counted(count - 1, "other shard"));
            print_note(&format!("note: waiting on {address} for {others}"));
        }
        let remote = RemoteStart {
            words: &crate::command_line::words()?,
            hosts: remote.hosts,
            leader: &advertised(address, leader.address().port()),
            secret: remote.secret,
        };
        Ok(LeadingShard {
            identity,
            remote: Mutex::new(remote.start()?),
            leader: Arc::new(leader),
            place: place.to_owned(),
            turns: AtomicU32::new(0),
            wait,
            signals: given.signals.clone(),
            clock: Arc::clone(&given.clock),
            following: Mutex::new(None),
            places: SharedPlaces::default(),
        })
    }
}

/// The address that other machines use. A port that the system chose belongs to this machine's name.
fn advertised(given: &str, port: u16) -> String {
    if given != ANY_PORT {
        return given.to_owned();
    }
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}:{port}", host.trim())
}

/// Listens on the address of the leader; on every address of this machine where the name is that of a
/// proxy or a service in front of it.
fn listen(address: &str, config: LeaderConfig, given: &Given) -> Result<Leader, Refusal> {
    let failed = |why: shards::LeadError| {
        let kind = match why {
            shards::LeadError::Listen { .. } => RefusalKind::Usage,
            shards::LeadError::Write { .. } => RefusalKind::Write,
        };
        Refusal::new(kind, why.to_string()).hint("choose another address with `--leader HOST:PORT`")
    };
    match Leader::listen(address, config.clone(), &given.clock) {
        Err(shards::LeadError::Listen { source, address })
            if source.kind() == std::io::ErrorKind::AddrNotAvailable =>
        {
            let port = address.rsplit(':').next().unwrap_or_default();
            Leader::listen(&format!("0.0.0.0:{port}"), config, &given.clock).map_err(failed)
        }
        other => other.map_err(failed),
    }
}

fn unjoined(why: &JoinError) -> Refusal {
    let kind = match why {
        JoinError::Stopped => RefusalKind::Interrupted,
        JoinError::Refused { .. }
        | JoinError::Untrusted { .. }
        | JoinError::Tls { .. }
        | JoinError::Silent { .. } => RefusalKind::Usage,
        JoinError::Unreached { .. } | JoinError::Closed { .. } => RefusalKind::Points,
    };
    Refusal::new(kind, why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_uneven_split_of_the_places_is_named() {
        let said = uneven_cap(7, 4).unwrap();
        assert!(said.contains("1 or 2 places") && said.contains("`--global-cap`"), "{said}");
        for (cap, count) in [(8, 4), (4, 4), (3, 4)] {
            assert_eq!(uneven_cap(cap, count), None, "{cap} places, {count} shards");
        }
    }
}
