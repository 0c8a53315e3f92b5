//! The side of shard 0: lets the others in, opens the barrier, follows them and takes their records.
//!
//! One thread accepts connections, one per shard reads what it says. Nothing is believed before the
//! secret was proved; strangers have a few seconds and a few kilobytes.

use std::fs::{self, File};
use std::io::Write as _;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokometer_base::{Background, Clock, Nanos, WallNanos};
use tokometer_record::folder::{create_private, names};

use crate::attendance::{Attendance, Barrier, ShardState};
use crate::message::{Applicant, ShardCounts, ToFollower, ToLeader, Welcome};
use crate::secret::{SharedSecret, Speaker, hex, nonce, unhex};
use crate::wire::{Inbound, MessageReader, MessageWriter, WireError};
use crate::{RUN_MARK, shard_folder};

/// Time for a stranger to prove that it knows the secret.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// Strangers at a time, beyond the shards that are expected.
const STRANGERS_MAX: usize = 64;

/// Time from the decision to begin to the start: every shard must have heard of it.
const START_AHEAD: Nanos = Nanos::from_millis(500);

/// How often the state is looked at while something is waited for.
const LOOK: Duration = Duration::from_millis(20);

/// Memory of a thread that reads from one shard.
const STACK_BYTES: usize = 256 << 10;

/// What a leader is told about its run.
#[derive(Debug, Clone)]
pub struct LeaderConfig {
    /// Proves who may join.
    pub secret: SharedSecret,
    /// Version of the program.
    pub version: String,
    /// Fingerprint of the plan.
    pub plan: String,
    /// Number of shards, the leader's own among them.
    pub count: u32,
    /// Name of the run.
    pub run: String,
    /// Stands for the time of the run where the content of prompts depends on it.
    pub content_root: WallNanos,
    /// Folder of the measurement.
    pub folder: PathBuf,
}

/// Shard 0 of a run.
pub struct Leader {
    shared: Arc<LeaderShared>,
    address: SocketAddr,
    mark: PathBuf,
    /// Behind a lock because a background thread cannot be shared, and a leader is.
    _accept: Mutex<Background>,
}

struct LeaderShared {
    config: LeaderConfig,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    changed: Condvar,
    strangers: AtomicUsize,
}

struct State {
    attendance: Attendance,
    links: Vec<Arc<MemberLink>>,
    /// Folder of each point that was waited for.
    folders: Vec<(u32, PathBuf)>,
    /// The last point that has begun.
    begun: Option<u32>,
}

/// The connection to a shard.
struct MemberLink {
    rank: u32,
    sender: Mutex<MessageWriter<TcpStream>>,
    stream: TcpStream,
}

impl MemberLink {
    /// Ends the connection, also while something is being sent.
    fn close(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl State {
    fn link(&self, rank: u32) -> Option<Arc<MemberLink>> {
        self.links.iter().find(|link| link.rank == rank).map(Arc::clone)
    }
}

impl LeaderShared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.notify_all();
    }

    /// Sends to a shard; one that cannot be reached is lost.
    fn send(&self, rank: u32, message: &ToFollower) {
        let Some(link) = self.state().link(rank) else { return };
        let sent = link.sender.lock().unwrap_or_else(PoisonError::into_inner).send(message);
        if let Err(why) = sent {
            self.lose(rank, &why.to_string());
        }
    }

    fn lose(&self, rank: u32, why: &str) {
        self.update(|state| {
            state.attendance.set(rank, ShardState::Lost { why: why.to_owned() });
            if let Some(link) = state.link(rank) {
                link.close();
            }
        });
    }

    /// Goes on without a shard that was not ready in time.
    fn leave_out(&self, rank: u32) {
        let why = "the run began without this shard: it was not ready in time".to_owned();
        self.send(rank, &ToFollower::Over { why });
        self.lose(rank, "it was not ready in time");
    }

    /// Marks silent shards as lost and closes their connections.
    fn drop_silent(&self) {
        let now = self.clock.now();
        let mut state = self.state();
        for rank in state.attendance.find_silent(now) {
            if let Some(link) = state.link(rank) {
                link.close();
            }
        }
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        match self.changed.wait_timeout(state, LOOK) {
            Ok((state, _)) => state,
            Err(poisoned) => poisoned.into_inner().0,
        }
    }
}

/// Why nobody can be led.
#[derive(Debug, thiserror::Error)]
pub enum LeadError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address} for the other shards: {source}")]
    Listen {
        /// As given.
        address: String,
        /// From the operating system.
        source: std::io::Error,
    },
    /// The folder of the run cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// From the operating system.
        source: std::io::Error,
    },
}

impl Leader {
    /// Listens for the other shards.
    pub fn listen(
        address: &str,
        config: LeaderConfig,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, LeadError> {
        let refused = |source| LeadError::Listen { address: address.to_owned(), source };
        let listener = TcpListener::bind(address).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let bound = listener.local_addr().map_err(refused)?;
        let mark = config.folder.join(RUN_MARK);
        fs::write(&mark, &config.run)
            .map_err(|source| LeadError::Write { path: mark.clone(), source })?;
        let state = State {
            attendance: Attendance::new(config.count),
            links: Vec::new(),
            folders: Vec::new(),
            begun: None,
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

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for the others and begins a point with those that are ready. Returns the start, or `None`
    /// when `is_stopped` before that.
    pub fn begin(
        &self,
        (point, prompts): (u32, &str),
        folder: &Path,
        wait: Nanos,
        is_stopped: &dyn Fn() -> bool,
    ) -> Option<Nanos> {
        self.shared.update(|state| state.folders.push((point, folder.to_owned())));
        let deadline = self.shared.clock.now() + wait;
        loop {
            if is_stopped() {
                return None;
            }
            self.shared.drop_silent();
            self.refuse_other_prompts(point, prompts);
            let state = self.shared.state();
            if state.attendance.barrier(point) == Barrier::Open
                || self.shared.clock.now() >= deadline
            {
                break;
            }
            drop(self.shared.wait(state));
        }
        let mut state = self.shared.state();
        let late = match state.attendance.barrier(point) {
            Barrier::Waiting(late) => late,
            Barrier::Open => Vec::new(),
        };
        let ready = state.attendance.begin(point);
        state.begun = Some(point);
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

    fn refuse_other_prompts(&self, point: u32, own: &str) {
        let differing = self.shared.state().attendance.with_other_prompts(point, own);
        for (rank, prompts) in differing {
            let why = format!(
                "its prompts ({prompts}) are not those of shard 0 ({own}): dataset files or tokenizers differ"
            );
            self.shared.send(rank, &ToFollower::Over { why: why.clone() });
            self.shared.lose(rank, &why);
        }
    }

    /// The counters of all other shards.
    pub fn counts(&self) -> ShardCounts {
        self.shared.state().attendance.counts()
    }

    /// Asks all shards to send no more requests of a point.
    pub fn stop(&self, point: u32) {
        let running = self.shared.state().attendance.running(point);
        for rank in running {
            self.shared.send(rank, &ToFollower::Stop { point });
        }
    }

    /// Waits until every shard has ended a point or is lost, or until `is_stopped`. Returns those that
    /// are lost, with the reason.
    pub fn finish(&self, point: u32, is_stopped: &dyn Fn() -> bool) -> Vec<(u32, String)> {
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
            self.shared.send(link.rank, &ToFollower::Over { why: "the run has ended".to_owned() });
            link.close();
        }
        let _ = fs::remove_file(&self.mark);
    }
}

/// Starts a thread for somebody who has connected.
fn greet(shared: &Arc<LeaderShared>, stream: TcpStream) {
    let limit = STRANGERS_MAX + usize::try_from(shared.config.count).unwrap_or(usize::MAX);
    if shared.strangers.fetch_add(1, Ordering::AcqRel) >= limit {
        let _ = shared.strangers.fetch_sub(1, Ordering::AcqRel);
        return;
    }
    let own = Arc::clone(shared);
    let serve = move || {
        let joined = let_in(&own, &stream);
        let _ = own.strangers.fetch_sub(1, Ordering::AcqRel);
        let Ok((rank, receiver)) = joined else { return };
        let why = follow(&own, rank, receiver);
        own.lose(rank, &why.to_string());
    };
    let thread = std::thread::Builder::new().name("shard".to_owned()).stack_size(STACK_BYTES);
    if thread.spawn(serve).is_err() {
        let _ = shared.strangers.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The handshake: a shard that knows the secret and has the same version and plan.
fn let_in(
    shared: &Arc<LeaderShared>,
    stream: &TcpStream,
) -> Result<(u32, MessageReader<TcpStream>), WireError> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(HANDSHAKE))?;
    stream.set_write_timeout(Some(HANDSHAKE))?;
    let own = nonce().ok_or(WireError::Seal)?;
    let mut sender = MessageWriter::new(stream.try_clone()?);
    let mut receiver = MessageReader::new(stream.try_clone()?);
    sender.send(&ToFollower::Hello { nonce: hex(&own) })?;
    let (message, _) = receiver.receive_reply::<ToLeader>()?;
    let ToLeader::Join { applicant, nonce, proof } = message else { return Err(WireError::Seal) };
    let other = unhex(&nonce).and_then(|bytes| bytes.try_into().ok()).ok_or(WireError::Seal)?;
    let proof = unhex(&proof).ok_or(WireError::Seal)?;
    let secret = &shared.config.secret;
    let mut refuse = |why: String| {
        let _ = sender.send(&ToFollower::Refused { why });
        Err(WireError::Seal)
    };
    if !secret.is_proof((&own, &other), &applicant.identity(), &proof) {
        return refuse("its secret is not that of the leader".to_owned());
    }
    if let Some(why) = difference(&shared.config, &applicant) {
        return refuse(why);
    }
    if let Err(why) = shared.state().attendance.join(applicant.rank, shared.clock.now()) {
        return refuse(why);
    }
    let key = secret.session(&own, &other);
    sender.seal_by(key.clone(), Speaker::Leader);
    receiver.expect_seal(key, Speaker::Follower);
    let link = MemberLink {
        rank: applicant.rank,
        sender: Mutex::new(sender),
        stream: stream.try_clone()?,
    };
    shared.update(|state| state.links.push(Arc::new(link)));
    shared.send(
        applicant.rank,
        &ToFollower::Welcome(Welcome {
            run: shared.config.run.clone(),
            content_root: shared.config.content_root,
            folder: shared.config.folder.display().to_string(),
        }),
    );
    stream.set_read_timeout(None)?;
    Ok((applicant.rank, receiver))
}

/// What keeps a shard out that knows the secret.
fn difference(config: &LeaderConfig, applicant: &Applicant) -> Option<String> {
    let Applicant { rank, count, version, plan } = applicant;
    if *version != config.version {
        return Some(format!("it is {version}, and the leader is {}", config.version));
    }
    if *count != config.count {
        return Some(format!("it is shard {rank} of {count}, and the leader has {}", config.count));
    }
    (*plan != config.plan).then(|| {
        format!(
            "its plan ({plan}) is not that of the leader ({}): give all shards the same flags",
            config.plan
        )
    })
}

/// Follows a shard until its connection ends, and returns why it did.
fn follow(shared: &Arc<LeaderShared>, rank: u32, mut from: MessageReader<TcpStream>) -> WireError {
    let mut file: Option<IncomingFile> = None;
    loop {
        let received = match from.receive::<ToLeader>() {
            Ok(received) => received,
            Err(why) => return why,
        };
        let now = shared.clock.now();
        shared.state().attendance.heard(rank, now);
        match received {
            Inbound::Message(ToLeader::Ping { sent }) => {
                let replied = shared.clock.now();
                shared.send(rank, &ToFollower::Pong { sent, received: now, replied });
            }
            Inbound::Message(ToLeader::Ready { point, prompts }) => {
                if shared.state().begun.is_some_and(|begun| begun >= point) {
                    shared.leave_out(rank);
                }
                let ready = ShardState::Ready { point, prompts };
                shared.update(|state| state.attendance.set(rank, ready));
            }
            Inbound::Message(ToLeader::Progress { counts, .. }) => {
                shared.state().attendance.progress(rank, counts);
            }
            Inbound::Message(ToLeader::File { point, name, bytes }) => {
                file = match IncomingFile::create(shared, (rank, point), &name, bytes) {
                    Ok(file) => Some(file),
                    Err(why) => return why,
                };
            }
            Inbound::Bytes(content) => match &mut file {
                Some(open) => {
                    if let Err(why) = open.write(&content) {
                        return why;
                    }
                }
                None => return WireError::Garbage("content without a file".to_owned()),
            },
            Inbound::Message(ToLeader::Ended { point }) => {
                shared.update(|state| state.attendance.set(rank, ShardState::Ended { point }));
                shared.send(rank, &ToFollower::Taken { point });
            }
            Inbound::Message(ToLeader::Join { .. }) => {
                return WireError::Garbage("it joined twice".to_owned());
            }
        }
    }
}

/// A file of a shard's record that is being received.
struct IncomingFile {
    file: File,
    left: u64,
}

/// Files that a shard may send.
const TAKEN: [&str; 6] =
    [names::PLAN, names::REQUESTS, names::STARTS, names::SERVER, names::CLOCK, names::END];

impl IncomingFile {
    fn create(
        shared: &LeaderShared,
        (rank, point): (u32, u32),
        name: &str,
        bytes: u64,
    ) -> Result<Self, WireError> {
        let folder =
            shared.state().folders.iter().find(|(of, _)| *of == point).map(|(_, at)| at.clone());
        let (Some(folder), true) = (folder, TAKEN.contains(&name)) else {
            return Err(WireError::Garbage(format!("a file `{name}` of point {point}")));
        };
        let folder = shard_folder(&folder, rank);
        create_private(&folder)?;
        Ok(Self { file: File::create(folder.join(name))?, left: bytes })
    }

    fn write(&mut self, content: &[u8]) -> Result<(), WireError> {
        self.left = self
            .left
            .checked_sub(content.len() as u64)
            .ok_or_else(|| WireError::Garbage("more content than announced".to_owned()))?;
        Ok(self.file.write_all(content)?)
    }
}
