//! The side of shard 0: lets the others in, opens the barrier, follows them and takes their records.
//!
//! One thread accepts connections, one per shard reads what it says. Nothing is believed before the
//! secret was proved; strangers have a few seconds and a few kilobytes.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Condvar, Mutex};

use nix::sys::socket;
use tokometer_base::{Background, Clock, Nanos};
use tokometer_schedule::Share;

use crate::RUN_MARK;
use crate::admission::greet;
use crate::attendance::Attendance;
use crate::leases::LeasePool;
use crate::local_run::LocalRun;
use crate::members::{LOOK, LeaderConfig, LeaderShared, Lending, Members};
use crate::message::{LatencyBins, ShardCounts, StopCause, ToFollower};

/// Time from the decision to begin to the start: every shard must have heard of it.
const START_AHEAD: Nanos = Nanos::from_millis(500);

/// The same for a block, which nobody has to prepare for.
const BLOCK_AHEAD: Nanos = Nanos::from_millis(100);

/// Shard 0 of a run.
pub struct Leader {
    shared: Arc<LeaderShared>,
    address: SocketAddr,
    mark: PathBuf,
    /// Behind a lock because a background thread cannot be shared, and a leader is.
    _accept: Mutex<Background>,
}

#[derive(Debug, thiserror::Error)]
pub enum LeadError {
    #[error("cannot listen on {address} for the other shards: {source}")]
    Listen { address: String, source: std::io::Error },
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
}

/// Lets all shards connect at once. The standard library keeps 128 connections until they are accepted; where
/// more come, the kernel takes them without keeping them, and a shard that waits for the first word of the leader
/// never hears it.
fn await_many(listener: &TcpListener) -> std::io::Result<()> {
    Ok(socket::listen(listener, socket::Backlog::MAXCONN)?)
}

impl Leader {
    pub fn listen(
        address: &str,
        config: LeaderConfig,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, LeadError> {
        let refused = |source| LeadError::Listen { address: address.to_owned(), source };
        let listener = TcpListener::bind(address).map_err(refused)?;
        await_many(&listener).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let bound = listener.local_addr().map_err(refused)?;
        let mark = config.folder.join(RUN_MARK);
        fs::write(&mark, &config.run)
            .map_err(|source| LeadError::Write { path: mark.clone(), source })?;
        let state = Members {
            attendance: Attendance::new(config.count),
            links: Vec::new(),
            next: None,
            folders: Vec::new(),
            begun: None,
            lending: None,
        };
        let shared = Arc::new(LeaderShared {
            config,
            clock: Arc::clone(clock),
            state: Mutex::new(state),
            changed: Condvar::new(),
            strangers: AtomicUsize::new(0),
        });
        let accepting = Arc::clone(&shared);
        let accept = Background::start("shards", move |stop| {
            while !stop.is_raised_within(LOOK) {
                while let Ok((stream, _)) = listener.accept() {
                    greet(&accepting, stream);
                }
            }
        });
        Ok(Self { shared, address: bound, mark, _accept: Mutex::new(accept) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Hands the next point to all shards, also to those that join later. Points are numbered upwards;
    /// records of this one are received below `folder`.
    pub fn hand_out(&self, point: u32, folder: &Path, order: &str) {
        let mut ranks = Vec::new();
        self.shared.update(|state| {
            state.folders.push((point, folder.to_owned()));
            state.next = Some((point, order.to_owned()));
            ranks = state.links.iter().map(|link| link.rank).collect();
        });
        for rank in ranks {
            self.shared.send(rank, &ToFollower::Next { point, order: order.to_owned() });
        }
    }

    /// Waits for the others and begins a point with those that are ready. Returns the start, or `None`
    /// when `is_stopped` before that. Where they share a limit on requests in flight, each begins with its
    /// part of it, and the parts of those that do not begin are free; the leader's own run is told of its
    /// slots like the others.
    pub fn begin(
        &self,
        point: u32,
        prompts: &str,
        wait: Nanos,
        shared_cap: Option<(u32, Arc<dyn LocalRun>)>,
        is_stopped: &dyn Fn() -> bool,
    ) -> Option<Nanos> {
        let deadline = self.shared.clock.now() + wait;
        loop {
            if is_stopped() {
                return None;
            }
            self.shared.drop_silent();
            self.refuse_other_prompts(point, prompts);
            let state = self.shared.state();
            if state.attendance.missing(point).is_empty() || self.shared.clock.now() >= deadline {
                break;
            }
            drop(self.shared.wait(state));
        }
        let mut state = self.shared.state();
        let late = state.attendance.missing(point);
        let ready = state.attendance.begin(point);
        state.begun = Some(point);
        state.lending = shared_cap.map(|(cap, own)| {
            let part = |rank: &u32| Share::new(*rank, self.shared.config.count);
            let ranks = std::iter::once(&0).chain(&ready);
            let parts = ranks.filter_map(|rank| Some((*rank, part(rank)?.of_cap(cap))));
            Lending { point, pool: LeasePool::new(cap, parts), own }
        });
        drop(state);
        for rank in late {
            self.shared.leave_out(rank);
        }
        let at = self.shared.clock.now() + START_AHEAD;
        for rank in ready {
            self.shared.send(rank, &ToFollower::Start { point, at });
        }
        Some(at)
    }

    /// Whether a point has begun, with whoever was ready for it.
    pub fn has_begun(&self, point: u32) -> bool {
        self.shared.state().begun == Some(point)
    }

    /// Shards that must become ready before a point begins.
    pub fn awaited(&self, point: u32) -> usize {
        self.shared.state().attendance.missing(point).len()
    }

    fn refuse_other_prompts(&self, point: u32, own: &str) {
        let differing = self.shared.state().attendance.with_other_prompts(point, own);
        for (rank, prompts) in differing {
            let why = format!(
                "its prompts ({prompts}) are not those of shard 0 ({own}): dataset files or tokenizers differ"
            );
            self.shared.send(rank, &ToFollower::Refused { why: why.clone() });
            self.shared.lose(rank, &why);
        }
    }

    pub fn counts(&self) -> ShardCounts {
        self.shared.state().attendance.counts()
    }

    /// The latencies of all other shards, as far as they have sent them.
    pub fn latencies(&self) -> LatencyBins {
        self.shared.state().attendance.latencies()
    }

    /// The leader's own slots of the shared limit: given back, and requests that wait for one.
    pub fn report_places(&self, point: u32, freed: u32, want: u32) {
        self.shared.lend(point, |pool| pool.report(0, freed, want));
    }

    /// Waits until no shard has a request of an earlier block in flight, and begins a block of a point.
    /// Returns its start, or `None` when `is_stopped` before that.
    pub fn begin_block(
        &self,
        point: u32,
        block: u64,
        is_stopped: &dyn Fn() -> bool,
    ) -> Option<Nanos> {
        loop {
            if is_stopped() {
                return None;
            }
            self.shared.drop_silent();
            let state = self.shared.state();
            if state.attendance.is_block_ready(point, block) {
                break;
            }
            drop(self.shared.wait(state));
        }
        let running = self.shared.state().attendance.running(point);
        let at = self.shared.clock.now() + BLOCK_AHEAD;
        for rank in running {
            self.shared.send(rank, &ToFollower::StartBlock { point, block, at });
        }
        Some(at)
    }

    /// Asks all shards to send no more requests of a point.
    pub fn stop(&self, point: u32, cause: StopCause) {
        let running = self.shared.state().attendance.running(point);
        for rank in running {
            self.shared.send(rank, &ToFollower::Stop { point, cause });
        }
    }

    /// Tells all shards that there are no more points.
    pub fn dismiss(&self) {
        let links = self.shared.state().links.clone();
        for link in links {
            self.shared.send(link.rank, &ToFollower::Finished);
        }
    }

    /// Waits until every shard has ended a point or is lost, or until `is_stopped`. Returns those that
    /// are lost, with the reason.
    pub fn finish(&self, point: u32, is_stopped: &dyn Fn() -> bool) -> Vec<(u32, String)> {
        self.shared.lend(point, |pool| pool.remove(0));
        loop {
            self.shared.drop_silent();
            let state = self.shared.state();
            if state.attendance.running(point).is_empty() || is_stopped() {
                return state.attendance.lost(point);
            }
            drop(self.shared.wait(state));
        }
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        let links = self.shared.state().links.clone();
        for link in &links {
            let why = "there is no leader any more: shard 0 has ended".to_owned();
            self.shared.send(link.rank, &ToFollower::Over { why });
            link.close();
        }
        let _ = fs::remove_file(&self.mark);
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::time::Duration;

    use super::*;

    /// A thousand shards that came at once were taken by the kernel, and a third of them never heard a word.
    #[test]
    fn many_shards_may_connect_before_one_is_accepted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        await_many(&listener).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let limit = Duration::from_secs(20);
        let came: Vec<TcpStream> =
            (0..300).map(|_| TcpStream::connect_timeout(&address, limit).unwrap()).collect();
        let accepted = std::iter::from_fn(|| listener.accept().ok()).count();
        assert_eq!(accepted, came.len());
    }
}
