//! The leader's side of one connection: the handshake, then everything that the shard says.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use tokometer_base::Nanos;

use crate::attendance::ShardState;
use crate::incoming::IncomingFile;
use crate::joining::handshake_time;
use crate::link::{self, ShardReader, ShardWriter};
use crate::members::{LeaderConfig, LeaderShared, MemberLink};
use crate::message::{Applicant, ToFollower, ToLeader, Welcome};
use crate::secret::{Speaker, hex, nonce, unhex};
use crate::tls::ShardTls;
use crate::wire::{Inbound, MessageReader, MessageWriter, WireError};

/// Strangers at a time, beyond the shards that are expected.
const STRANGERS_MAX: usize = 64;

/// Fields of a plan that a refusal names.
const FIELDS_NAMED: usize = 6;

/// Memory of a thread that reads from one shard. Checking a certificate needs more.
const STACK_BYTES: usize = 256 << 10;
const TLS_STACK_BYTES: usize = 1 << 20;

/// Starts a thread for somebody who has connected.
pub(crate) fn greet(shared: &Arc<LeaderShared>, stream: TcpStream) {
    let limit = STRANGERS_MAX + usize::try_from(shared.config.count).unwrap_or(usize::MAX);
    if shared.strangers.fetch_add(1, Ordering::AcqRel) >= limit {
        let _ = shared.strangers.fetch_sub(1, Ordering::AcqRel);
        return;
    }
    let own = Arc::clone(shared);
    let serve = move || {
        let joined = let_in(&own, &stream);
        let _ = own.strangers.fetch_sub(1, Ordering::AcqRel);
        let Ok((link, receiver)) = joined else { return };
        let why = follow(&own, link.rank, receiver);
        own.lose_link(&link, &why.to_string());
    };
    let stack = if shared.config.tls.is_some() { TLS_STACK_BYTES } else { STACK_BYTES };
    let thread = std::thread::Builder::new().name("shard".to_owned()).stack_size(stack);
    if thread.spawn(serve).is_err() {
        let _ = shared.strangers.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The handshake: a shard that knows the secret and has the same version and plan.
fn let_in(
    shared: &Arc<LeaderShared>,
    stream: &TcpStream,
) -> Result<(Arc<MemberLink>, MessageReader<ShardReader>), WireError> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    let time = handshake_time(shared.config.count);
    stream.set_write_timeout(Some(time.to_duration()))?;
    let deadline = shared.clock.now() + time;
    let tls = shared.config.tls.as_ref().map(ShardTls::accept).transpose()?;
    let (reader, writer) = link::open(stream, &shared.clock, deadline, tls)?;
    let own = nonce().ok_or(WireError::Seal)?;
    let (mut sender, mut receiver) = (MessageWriter::new(writer), MessageReader::new(reader));
    sender.send(&ToFollower::Hello { nonce: hex(&own) })?;
    let (message, _) = receiver.receive_reply::<ToLeader>()?;
    let ToLeader::Join { applicant, nonce, proof } = message else { return Err(WireError::Seal) };
    let other = unhex(&nonce).and_then(|bytes| bytes.try_into().ok()).ok_or(WireError::Seal)?;
    let proof = unhex(&proof).ok_or(WireError::Seal)?;
    let secret = &shared.config.secret;
    let rank = applicant.rank;
    let mut refuse = |why: String| {
        // Shard 0 names it where the shard does not come back.
        shared.state().attendance.refuse(rank, &why);
        let _ = sender.send(&ToFollower::Refused { why });
        Err(WireError::Seal)
    };
    if !secret.is_proof(&own, &other, &applicant.identity(), &proof) {
        return refuse("its secret is not that of the leader".to_owned());
    }
    if let Some(why) = difference(&shared.config, &applicant) {
        return refuse(why);
    }
    let joined = shared.state().attendance.join(rank, shared.clock.now());
    if let Err(why) = joined {
        return refuse(why);
    }
    let key = secret.session(&own, &other);
    sender.seal_by(key.clone(), Speaker::Leader);
    receiver.expect_seal(key, Speaker::Follower);
    let link = welcome(shared, rank, sender, stream)?;
    receiver.source().lift_deadline();
    Ok((link, receiver))
}

/// Adds a shard to the run and says so, then what is being measured.
fn welcome(
    shared: &LeaderShared,
    rank: u32,
    sender: MessageWriter<ShardWriter>,
    stream: &TcpStream,
) -> Result<Arc<MemberLink>, WireError> {
    let (sender, stream) = (Mutex::new(sender), stream.try_clone()?);
    let link = Arc::new(MemberLink { rank, sender, stream });
    // Held over both messages: whoever finds the link must not send anything before the welcome.
    let mut sender = link.sender.lock().unwrap_or_else(PoisonError::into_inner);
    let mut next = None;
    shared.update(|state| {
        // That of a connection which was lost before.
        state.links.retain(|link| link.rank != rank);
        state.links.push(Arc::clone(&link));
        next.clone_from(&state.next);
    });
    sender.send(&ToFollower::Welcome(Welcome {
        run: shared.config.run.clone(),
        content_root: shared.config.content_root,
        folder: shared.config.folder.display().to_string(),
        clock: shared.config.clock.clone(),
        shows_latencies: shared.config.shows_latencies,
    }))?;
    if let Some((point, order)) = next {
        sender.send(&ToFollower::Next { point, order })?;
    }
    drop(sender);
    Ok(link)
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
    let fields = differing(plan, &config.plan);
    (*plan != config.plan).then(|| {
        format!(
            "its plan differs from that of the leader in {}: give all shards the same flags and files",
            if fields.is_empty() { "some values".to_owned() } else { fields.join(", ") }
        )
    })
}

/// Fields of two plans that differ, at most [`FIELDS_NAMED`] of them. A plan is described by `NAME=DIGEST`
/// for each field.
fn differing(one: &str, other: &str) -> Vec<String> {
    let fields = |text: &str| -> BTreeMap<String, String> {
        let field = |word: &str| word.split_once('=').map(|(name, of)| (name.into(), of.into()));
        text.split(' ').filter_map(field).collect()
    };
    let (one, other) = (fields(one), fields(other));
    let all: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    let differs = |name: &&&String| one.get(**name) != other.get(**name);
    all.iter().filter(differs).take(FIELDS_NAMED).map(|name| format!("`{name}`")).collect()
}

/// Follows a shard until its connection ends, and returns why it did.
fn follow(shared: &LeaderShared, rank: u32, mut from: MessageReader<ShardReader>) -> WireError {
    let mut file: Option<IncomingFile> = None;
    loop {
        let received = match from.receive::<ToLeader>() {
            Ok(received) => received,
            Err(why) => return why,
        };
        let now = shared.clock.now();
        shared.state().attendance.heard(rank, now);
        let taken = match received {
            Inbound::Message(ToLeader::File(part)) => {
                IncomingFile::create(shared, rank, &part).map(|created| file = Some(created))
            }
            Inbound::Bytes(content) => match &mut file {
                Some(open) => open.write(&content),
                None => Err(WireError::Garbage("content without a file".to_owned())),
            },
            Inbound::Message(message) => take(shared, rank, message, now),
        };
        if let Err(why) = taken {
            return why;
        }
    }
}

/// Handles a message that needs no file.
fn take(shared: &LeaderShared, rank: u32, message: ToLeader, now: Nanos) -> Result<(), WireError> {
    match message {
        ToLeader::Ping { sent } => {
            let replied = shared.clock.now();
            shared.send(rank, &ToFollower::Pong { sent, received: now, replied });
        }
        ToLeader::Ready { point, prompts } => {
            if shared.state().begun.is_some_and(|begun| begun >= point) {
                shared.leave_out(rank);
            }
            let ready = ShardState::Ready { point, prompts };
            shared.update(|state| state.attendance.set(rank, ready));
        }
        ToLeader::Unable { point, why } => {
            shared.update(|state| state.attendance.set(rank, ShardState::Unable { point, why }));
        }
        ToLeader::BlockReady { point, block } => {
            shared.update(|state| state.attendance.wait_for_block(rank, point, block));
        }
        ToLeader::Slots { point, freed, want } => {
            shared.lend(point, |pool| pool.report(rank, freed, want));
        }
        ToLeader::Progress { counts, .. } => shared.state().attendance.progress(rank, counts),
        ToLeader::Latencies { point, bins } => {
            shared.state().attendance.spread(rank, point, bins);
        }
        ToLeader::Ended { point } => {
            shared.update(|state| state.attendance.set(rank, ShardState::Ended { point }));
            shared.lend(point, |pool| pool.remove(rank));
            shared.send(rank, &ToFollower::Taken { point });
        }
        ToLeader::Join { .. } | ToLeader::File(_) => {
            return Err(WireError::Garbage("it joined twice".to_owned()));
        }
    }
    Ok(())
}
