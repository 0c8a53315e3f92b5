//! What shard 0 knows of the others, shared by its threads: who is there, who is lost, and which slots of a
//! shared limit each has.

use std::collections::BTreeMap;
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokometer_base::{Clock, WallNanos};

use crate::attendance::{Attendance, ShardState};
use crate::leases::{LeaseChange, LeasePool};
use crate::link::ShardWriter;
use crate::local_run::LocalRun;
use crate::message::ToFollower;
use crate::secret::SharedSecret;
use crate::tls::ShardTls;
use crate::wire::MessageWriter;

/// How often the state is looked at while something is waited for.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

#[derive(Debug, Clone)]
pub struct LeaderConfig {
    /// Proves who may join.
    pub secret: SharedSecret,
    /// Encrypts what the shards send each other.
    pub tls: Option<ShardTls>,
    /// Version of the program.
    pub version: String,
    pub plan: String,
    /// Number of shards, the leader's own among them.
    pub count: u32,
    pub run: String,
    /// Stands for the time of the run where the content of prompts depends on it.
    pub content_root: WallNanos,
    /// Folder of the measurement.
    pub folder: PathBuf,
    /// Identifies the clock that this process reads, where the system has a name for it.
    pub clock: Option<String>,
    pub shows_latencies: bool,
}

pub(crate) struct LeaderShared {
    pub(crate) config: LeaderConfig,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) state: Mutex<Members>,
    pub(crate) changed: Condvar,
    /// Connections that have not proved the secret yet.
    pub(crate) strangers: AtomicUsize,
}

pub(crate) struct Members {
    pub(crate) attendance: Attendance,
    pub(crate) links: Vec<Arc<MemberLink>>,
    /// The point that was handed out last, with its order.
    pub(crate) next: Option<(u32, String)>,
    /// Folder of each point that was handed out.
    pub(crate) folders: Vec<(u32, PathBuf)>,
    /// The last point that has begun.
    pub(crate) begun: Option<u32>,
    /// The limit on requests in flight of the point that has begun, where the shards share it.
    pub(crate) lending: Option<Lending>,
}

/// A limit that all shards share.
pub(crate) struct Lending {
    pub(crate) point: u32,
    pub(crate) pool: LeasePool,
    /// The leader's own part of the run.
    pub(crate) own: Arc<dyn LocalRun>,
}

/// The connection to a shard.
pub(crate) struct MemberLink {
    pub(crate) rank: u32,
    pub(crate) sender: Mutex<MessageWriter<ShardWriter>>,
    pub(crate) stream: TcpStream,
}

impl MemberLink {
    /// Ends the connection, also while something is being sent.
    pub(crate) fn close(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl Members {
    fn link(&self, rank: u32) -> Option<Arc<MemberLink>> {
        self.links.iter().find(|link| link.rank == rank).map(Arc::clone)
    }
}

impl LeaderShared {
    pub(crate) fn state(&self) -> MutexGuard<'_, Members> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut Members)) {
        change(&mut self.state());
        self.changed.notify_all();
    }

    /// Sends to a shard; one that cannot be reached is lost.
    pub(crate) fn send(&self, rank: u32, message: &ToFollower) {
        let Some(link) = self.state().link(rank) else { return };
        let sent = link.sender.lock().unwrap_or_else(PoisonError::into_inner).send(message);
        if let Err(why) = sent {
            self.lose(rank, &why.to_string());
        }
    }

    /// The connection of a shard has ended. One that has joined again has another connection.
    pub(crate) fn lose_link(&self, link: &Arc<MemberLink>, why: &str) {
        let current = self.state().link(link.rank);
        if current.is_some_and(|current| Arc::ptr_eq(&current, link)) {
            self.lose(link.rank, why);
        }
    }

    pub(crate) fn lose(&self, rank: u32, why: &str) {
        let mut begun = None;
        self.update(|state| {
            state.attendance.set(rank, ShardState::Lost { why: why.to_owned() });
            begun = state.begun;
            if let Some(link) = state.link(rank) {
                link.close();
            }
        });
        if let Some(point) = begun {
            self.lend(point, |pool| pool.remove(rank));
        }
    }

    /// Changes the slots of a shared limit, and tells the shards whose slots change.
    pub(crate) fn lend(
        &self,
        point: u32,
        change: impl FnOnce(&mut LeasePool) -> BTreeMap<u32, LeaseChange>,
    ) {
        let mut state = self.state();
        let Some(lending) = state.lending.as_mut().filter(|lending| lending.point == point) else {
            return;
        };
        let own = Arc::clone(&lending.own);
        let changes = change(&mut lending.pool);
        drop(state);
        for (rank, change) in changes {
            if rank == 0 {
                own.lease(change);
            } else {
                self.send(rank, &ToFollower::Lease { point, change });
            }
        }
    }

    /// Goes on without a shard that was not ready in time.
    pub(crate) fn leave_out(&self, rank: u32) {
        let why = "the run began without this shard: it was not ready in time".to_owned();
        self.send(rank, &ToFollower::Over { why });
        self.lose(rank, "it was not ready in time");
    }

    /// Marks silent shards as lost and closes their connections.
    pub(crate) fn drop_silent(&self) {
        let now = self.clock.now();
        let silent = self.state().attendance.find_silent(now);
        for rank in silent {
            // What is lost keeps its reason.
            self.lose(rank, "no message");
        }
    }

    pub(crate) fn wait<'a>(&self, state: MutexGuard<'a, Members>) -> MutexGuard<'a, Members> {
        match self.changed.wait_timeout(state, LOOK) {
            Ok((state, _)) => state,
            Err(poisoned) => poisoned.into_inner().0,
        }
    }
}
