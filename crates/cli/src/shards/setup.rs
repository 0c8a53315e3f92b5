//! From flags and the launcher's variables to a role.

use std::path::Path;
use std::sync::{Arc, Mutex};

use tokometer_base::units::parse_span;
use tokometer_base::{Nanos, WallNanos};
use tokometer_plan::{Address, Content, Shown};
use tokometer_report::Style;
use tokometer_schedule::Share;
use tokometer_shards::{
    self as shards, Follower, FollowerConfig, JoinError, Leader, LeaderConfig, Membership,
    RankSource, RecordStorage, ShardFlags, SharedSecret,
};

use super::coordination::{AloneShard, FollowingShard, LeadingShard, ShardIdentity};
use super::remote::RemoteStart;
use super::role::Role;
use crate::args::{BenchArgs, ShardArgs};
use crate::bench::{self, Bar, Earlier, RunFolder, measurement_of};
use crate::commands::Given;
use crate::exit::{Exit, Refusal};
use crate::lower::Lowered;
use crate::terminal::print_message;
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
        "shards are parts of a `tokometer bench`",
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
    let Some(found) = found else { return Ok(None) };
    let targets = lowered.points.iter().flat_map(|point| &point.plan.targets);
    if targets.into_iter().any(|target| matches!(target.address, Address::Simulator(_))) {
        return Err(Refusal::usage(
            "cannot divide a run against the embedded simulated server: every shard would start its own",
            "start one with `tokometer sim` and pass its address with `--base-url`",
        ));
    }
    if args.output.resume {
        return Err(Refusal::usage(
            "cannot resume a run that is divided into shards",
            "use another `--run-dir`, or `--overwrite`",
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

/// What a plan measures, as one word: equal in shards that make one run.
fn plan_fingerprint(lowered: &Lowered) -> Result<String, Refusal> {
    let unwritable = |why: serde_json::Error| Refusal::new(Exit::Internal, why.to_string());
    let mut plan = serde_json::to_value(&lowered.plan).map_err(unwritable)?;
    if let Some(plan) = plan.as_object_mut() {
        // How a run is called, shown and stored is every shard's own.
        for field in ["name", "output", "metrics"] {
            let _ = plan.remove(field);
        }
    }
    Ok(shards::fingerprint(&plan.to_string()))
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
        .map_err(|why| Refusal::usage(format!("cannot use the shared secret: {why}"), ""))
}

fn wait(args: &ShardArgs) -> Result<Nanos, Refusal> {
    let Some(text) = &args.shard_wait else { return Ok(WAIT) };
    parse_span(text, Nanos::from_secs(1))
        .map_err(|why| Refusal::usage(format!("cannot use `--shard-wait {text}`: {why}"), ""))
}

/// Makes this process's part of a run.
pub(crate) fn bench(
    found: &Membership,
    args: &BenchArgs,
    lowered: &mut Lowered,
    (given, bar, style): (&Given, Bar, Style),
) -> Result<Exit, Refusal> {
    let earlier = Earlier::checked(&args.output, &lowered.plan.output)?;
    let (role, place) = open(found, args, lowered, (given, earlier))?;
    let bar = if found.share.is_first() { bar } else { Bar::Hidden };
    let mut measurement =
        measurement_of((&lowered.secrets, role.coordination()), &given.signals, bar, &given.clock);
    let around = (&role, &given.signals, style);
    let exit = bench::run_in(&mut measurement, lowered, (&place, earlier), around)?;
    if let Role::Leader(leading) = &role {
        leading.end_remote();
    }
    Ok(exit)
}

fn open(
    found: &Membership,
    args: &BenchArgs,
    lowered: &mut Lowered,
    (given, earlier): (&Given, Earlier),
) -> Result<(Role, RunFolder), Refusal> {
    let (share, plan) = (found.share, plan_fingerprint(lowered)?);
    let started = given.clock.wall();
    let (output, name) = (&lowered.plan.output, &lowered.plan.name);
    let identity = |run: String, content_root| ShardIdentity { share, run, content_root };
    let Some(address) = &found.leader else {
        let place = match &output.run_dir {
            Some(folder) => RunFolder::shared(folder)?,
            None => RunFolder::open(output, name, (started, earlier))?,
        };
        let identity = identity(plan, WallNanos::default());
        return Ok((Role::Alone(Arc::new(AloneShard { identity })), place));
    };
    let (text, wait) = (secret(&args.shards, given)?, wait(&args.shards)?);
    let secret = proved(&text)?;
    let version = version::long();
    if share.is_first() {
        let place = RunFolder::open(output, name, (started, earlier))?;
        let folder = std::path::absolute(place.path()).unwrap_or_else(|_| place.path().to_owned());
        let (run, content_root, count) = (shards::run_id(), started, share.count());
        let identity = identity(run.clone(), content_root);
        let config = LeaderConfig { secret, version, plan, count, run, content_root, folder };
        let leader = listen(address, config, given)?;
        if output.shown != Shown::Nothing {
            print_message(&format!(
                "note: waiting on {} for {} other shards",
                leader.address(),
                share.count() - 1
            ));
        }
        let remote = RemoteStart {
            words: &std::env::args().skip(1).collect::<Vec<_>>(),
            hosts: &args.shards.workers_on,
            leader: &advertised(address, leader.address().port()),
            secret: &text,
        };
        let leading = LeadingShard {
            identity,
            remote: Mutex::new(remote.start()?),
            leader: Arc::new(leader),
            wait,
            signals: given.signals.clone(),
            clock: Arc::clone(&given.clock),
            following: Mutex::new(None),
        };
        return Ok((Role::Leader(Arc::new(leading)), place));
    }
    let config = FollowerConfig { secret, version, plan, rank: share.rank(), count: share.count() };
    let is_stopped = || given.signals.is_interrupted();
    let follower = Follower::join(address, &config, (&given.clock, wait), &is_stopped)
        .map_err(|why| unjoined(&why))?;
    let storage = shards::storage_of(&follower.welcome);
    let place = match (storage, &output.run_dir) {
        (RecordStorage::Shared, _) => RunFolder::shared(Path::new(&follower.welcome.folder))?,
        (RecordStorage::Own, Some(folder)) => RunFolder::shared(folder)?,
        (RecordStorage::Own, None) => RunFolder::open(output, name, (started, earlier))?,
    };
    let identity = identity(follower.welcome.run.clone(), follower.welcome.content_root);
    // Shard 0 reports.
    for output in std::iter::once(&mut lowered.plan.output)
        .chain(lowered.points.iter_mut().map(|point| &mut point.plan.output))
    {
        (output.shown, output.vllm_result, output.sglang_result) = (Shown::Nothing, None, None);
    }
    Ok((Role::Follower(Arc::new(FollowingShard { identity, follower, storage })), place))
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
        let exit = match why {
            shards::LeadError::Listen { .. } => Exit::Usage,
            shards::LeadError::Write { .. } => Exit::Write,
        };
        Refusal::new(exit, why.to_string()).hint("choose another address with `--leader HOST:PORT`")
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
    let exit = match why {
        JoinError::Stopped => Exit::Interrupted,
        JoinError::Refused { .. } | JoinError::Untrusted { .. } => Exit::Usage,
        JoinError::Unreached { .. } => Exit::Points,
    };
    Refusal::new(exit, why.to_string())
}
