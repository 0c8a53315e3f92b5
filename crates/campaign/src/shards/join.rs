//! A process finds the others of its run.

use std::path::Path;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};

use tokometer_base::refusal::{Refusal, RefusalKind};
use tokometer_base::units::counted;
use tokometer_base::{Clock, Nanos, WallNanos};
use tokometer_measure::{CapRule, check_division};
use tokometer_plan::{Output, Plan, Shown};
use tokometer_schedule::Share;
use tokometer_shards::{
    self as shards, Follower, FollowerConfig, JoinError, LeadError, Leader, LeaderConfig,
    RecordStorage, ShardTls, SharedSecret, Welcome,
};

use super::coordination::{
    AloneShard, FollowingShard, Interrupted, LeadingShard, ShardIdentity, SharedSlots, clock_name,
};
use super::order::{Varied, plan_fields, plan_fingerprint};
use super::sharded::Role;
use crate::event::{Observer, note};
use crate::folder::{Earlier, RunFolder};

/// How the shards of a run find and know each other.
pub struct LeaderSetting {
    /// Where shard 0 listens.
    pub address: String,
    /// What they prove that they belong to the run with.
    pub secret: SharedSecret,
    /// Absent: without TLS.
    pub tls: Option<ShardTls>,
    /// How long the others may take to become ready.
    pub wait: Nanos,
}

/// The part that this process makes, as its flags say.
pub struct JoinSetting<'a> {
    /// Its part of the requests.
    pub share: Share,
    /// Absent: the shards are merged by hand.
    pub leader: Option<LeaderSetting>,
    /// How a limit on requests in flight is divided.
    pub cap: CapRule,
    /// What shard 0 may change in the points of the command line.
    pub varied: Varied,
    /// What becomes of an earlier run in the folder.
    pub earlier: Earlier,
    /// The plan of the command line.
    pub plan: &'a Plan,
    /// The plans of its points.
    pub points: Vec<&'a Plan>,
    /// Whether shard 0 shows latencies while it measures.
    pub shows_latencies: bool,
    pub version: String,
    pub clock: Arc<dyn Clock>,
    pub is_interrupted: Interrupted,
}

impl JoinSetting<'_> {
    /// Opens the folder of this process and finds the others.
    pub fn join(self, observer: &mut dyn Observer) -> Result<(Role, RunFolder), Refusal> {
        self.refuse_undivided()?;
        let Self { share, cap, varied, plan, .. } = self;
        let output = &plan.output;
        let Some(leader) = &self.leader else {
            let folder = match &output.run_dir {
                Some(folder) => RunFolder::shared(folder)?,
                None => self.own_folder()?,
            };
            let run = format!("{varied:?} {cap:?} {}", plan_fingerprint(plan)?);
            let identity = ShardIdentity { share, run, content_root: WallNanos::default(), cap };
            return Ok((Role::Alone(Arc::new(AloneShard { identity })), folder));
        };
        let fields = format!("search={varied:?} --global-cap={cap:?} {}", plan_fields(plan)?);
        if share.is_first() {
            let folder = self.own_folder()?;
            let led = self.lead(leader, fields, folder.path(), observer);
            if led.is_err() {
                folder.leave_if_empty();
            }
            return Ok((Role::Leader(Arc::new(led?)), folder));
        }
        let follower = self.follow(leader, fields)?;
        let storage = shards::storage_of(&follower.welcome);
        let folder = self.follower_folder(storage, output, &follower.welcome)?;
        let Welcome { run, content_root, .. } = follower.welcome.clone();
        let following = FollowingShard {
            identity: ShardIdentity { share, run, content_root, cap },
            follower: Arc::new(follower),
            storage,
            turn: AtomicU32::new(0),
            is_ruled: Arc::default(),
            slots: SharedSlots::default(),
        };
        Ok((Role::Follower(Arc::new(following)), folder))
    }

    fn own_folder(&self) -> Result<RunFolder, Refusal> {
        let (output, name) = (&self.plan.output, &self.plan.name);
        RunFolder::open(output, name, self.clock.wall(), self.earlier)?.without_earlier()
    }

    fn follower_folder(
        &self,
        storage: RecordStorage,
        output: &Output,
        welcome: &Welcome,
    ) -> Result<RunFolder, Refusal> {
        match (storage, &output.run_dir) {
            (RecordStorage::Shared, _) => RunFolder::of_leader(Path::new(&welcome.folder)),
            (RecordStorage::Own, Some(folder)) => RunFolder::shared(folder),
            (RecordStorage::Own, None) => self.own_folder(),
        }
    }

    /// Refuses a measurement of which no point can be divided. Each shard finds it by itself: the others would
    /// wait for a shard 0 that has ended. The points of a search are not known yet.
    fn refuse_undivided(&self) -> Result<(), Refusal> {
        if self.varied != Varied::Nothing {
            return Ok(());
        }
        let check = |plan: &&Plan| check_division(plan, self.share, self.cap);
        let mut checks = self.points.iter().map(check);
        let Some(first) = checks.next() else { return Ok(()) };
        if checks.all(|check| check.is_err()) { first } else { Ok(()) }
    }

    fn follow(&self, leader: &LeaderSetting, plan: String) -> Result<Follower, Refusal> {
        let config = FollowerConfig {
            secret: leader.secret.clone(),
            tls: leader.tls.clone(),
            version: self.version.clone(),
            plan,
            rank: self.share.rank(),
            count: self.share.count(),
            clock: clock_name(),
        };
        let (address, wait) = (&leader.address, leader.wait);
        Follower::join(address, &config, &self.clock, wait, &*self.is_interrupted)
            .map_err(|why| unjoined(&why))
    }

    /// Listens for the other shards.
    fn lead(
        &self,
        setting: &LeaderSetting,
        plan: String,
        measurement: &Path,
        observer: &mut dyn Observer,
    ) -> Result<LeadingShard, Refusal> {
        let folder = std::path::absolute(measurement).unwrap_or_else(|_| measurement.to_owned());
        let (run, content_root) = (shards::run_id(), self.clock.wall());
        let (share, cap, count) = (self.share, self.cap, self.share.count());
        let identity = ShardIdentity { share, run: run.clone(), content_root, cap };
        let config = LeaderConfig {
            secret: setting.secret.clone(),
            tls: setting.tls.clone(),
            version: self.version.clone(),
            plan,
            count,
            run,
            content_root,
            folder,
            clock: clock_name(),
            shows_latencies: self.shows_latencies,
        };
        let leader = listen(&setting.address, config, &self.clock)?;
        if self.plan.output.shown != Shown::Nothing {
            let (address, others) = (leader.address(), counted(count - 1, "other shard"));
            note(observer, format!("note: waiting on {address} for {others}"));
        }
        Ok(LeadingShard {
            identity,
            leader: Arc::new(leader),
            measurement: measurement.to_owned(),
            turns: AtomicU32::new(0),
            wait: setting.wait,
            is_interrupted: Arc::clone(&self.is_interrupted),
            clock: Arc::clone(&self.clock),
            following: Mutex::new(None),
            slots: SharedSlots::default(),
        })
    }
}

/// Listens on the address of the leader; on every address of this machine where the name is that of a
/// proxy or a service in front of it.
fn listen(address: &str, config: LeaderConfig, clock: &Arc<dyn Clock>) -> Result<Leader, Refusal> {
    let failed = |why: LeadError| {
        let kind = match why {
            LeadError::Listen { .. } => RefusalKind::Usage,
            LeadError::Write { .. } => RefusalKind::Write,
        };
        Refusal::new(kind, why.to_string()).hint("choose another address with `--leader HOST:PORT`")
    };
    match Leader::listen(address, config.clone(), clock) {
        Err(LeadError::Listen { source, address })
            if source.kind() == std::io::ErrorKind::AddrNotAvailable =>
        {
            let port = address.rsplit(':').next().unwrap_or_default();
            Leader::listen(&format!("0.0.0.0:{port}"), config, clock).map_err(failed)
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
