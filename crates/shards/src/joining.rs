//! How a follower reaches the leader and proves that it may join.

use std::io::ErrorKind;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use tokometer_base::{Clock, Nanos};

use crate::link::{self, ShardReader, ShardWriter};
use crate::message::{Applicant, ToFollower, ToLeader, Welcome};
use crate::secret::{SharedSecret, Speaker, hex, nonce, unhex};
use crate::tls::{self, ShardTls};
use crate::wire::{MessageReader, MessageWriter, WireError};

/// Without a word from the leader for so long, it is lost. It answers twice a second.
pub(crate) const SILENCE_MAX: Nanos = Nanos::from_secs(30);

/// Time for a handshake with a leader that has nothing else to do, and for each other shard that may have
/// come at the same time.
const HANDSHAKE: Nanos = Nanos::from_secs(5);
const HANDSHAKE_PER_SHARD: Nanos = Nanos::from_millis(20);

/// Time for the handshake of one of `count` shards, on both sides.
pub(crate) fn handshake_time(count: u32) -> Nanos {
    HANDSHAKE + Nanos(HANDSHAKE_PER_SHARD.0.saturating_mul(u64::from(count)))
}

/// Time for one attempt to connect.
const CONNECT: Duration = Duration::from_secs(5);

/// What a follower is told about its run.
#[derive(Debug, Clone)]
pub struct FollowerConfig {
    /// Proves that it may join.
    pub secret: SharedSecret,
    /// Encrypts what the shards send each other.
    pub tls: Option<ShardTls>,
    pub version: String,
    /// Fingerprint of the plan.
    pub plan: String,
    /// From 1.
    pub rank: u32,
    /// Number of shards.
    pub count: u32,
    /// Identifies the clock that this process reads, where the system has a name for it.
    pub clock: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    #[error(
        "cannot join the leader at {address}: {why}\n  shard 0 must run there; check `--leader` and firewalls"
    )]
    Unreached { address: String, why: String },
    #[error("the leader at {address} refused shard {rank}: {why}")]
    Refused { address: String, rank: u32, why: String },
    #[error(
        "cannot trust the leader at {address}: {why}\n  check that all shards have the same secret"
    )]
    Untrusted { address: String, why: String },
    #[error("cannot make a TLS connection to the leader at {address}: {why}")]
    Tls { address: String, why: String },
    #[error(
        "cannot join the leader at {address}: it sent nothing\n  if shard 0 uses TLS, give this shard the same `--shard-tls-…` flags"
    )]
    Silent { address: String },
    #[error(
        "cannot join the leader at {address}: it closed the connection ({why})\n  shard 0 has exited, or a firewall ends connections; see the messages of shard 0"
    )]
    Closed { address: String, why: String },
    #[error("interrupted before joining the leader")]
    Stopped,
}

pub(crate) fn connect(address: &str) -> Result<TcpStream, String> {
    let found = address.to_socket_addrs().map_err(|why| why.to_string())?;
    let mut last = "the name has no address".to_owned();
    for address in found {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => return Ok(stream),
            Err(why) => last = why.to_string(),
        }
    }
    Err(last)
}

pub(crate) type Entered = (Welcome, MessageWriter<ShardWriter>, MessageReader<ShardReader>);

/// Why nothing could be read or written during the handshake.
fn refusal(address: &str, why: WireError) -> JoinError {
    let address = address.to_owned();
    match why {
        WireError::Io(why) if matches!(why.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock) => {
            JoinError::Silent { address }
        }
        WireError::Closed => JoinError::Closed { address, why: WireError::Closed.to_string() },
        WireError::Io(why) => match tls::explain(&why) {
            Some(why) => JoinError::Tls { address, why },
            None if is_closed(why.kind()) => JoinError::Closed { address, why: why.to_string() },
            None => JoinError::Untrusted { address, why: why.to_string() },
        },
        other => JoinError::Untrusted { address, why: other.to_string() },
    }
}

/// What a process that exits leaves of its connections.
fn is_closed(kind: ErrorKind) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(kind, BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// The handshake.
pub(crate) fn enter(
    address: &str,
    config: &FollowerConfig,
    stream: &TcpStream,
    clock: &Arc<dyn Clock>,
) -> Result<Entered, JoinError> {
    let untrusted = |why: WireError| refusal(address, why);
    let io = |why: std::io::Error| untrusted(WireError::Io(why));
    stream.set_nodelay(true).map_err(io)?;
    stream.set_write_timeout(Some(SILENCE_MAX.to_duration())).map_err(io)?;
    let tls = config.tls.as_ref().map(|tls| tls.connect(address)).transpose().map_err(io)?;
    let deadline = clock.now() + handshake_time(config.count);
    let (reader, writer) = link::open(stream, clock, deadline, tls).map_err(io)?;
    let (mut sender, mut receiver) = (MessageWriter::new(writer), MessageReader::new(reader));
    let (hello, _) = receiver.receive_reply::<ToFollower>().map_err(|why| match why {
        // A leader with TLS waits for this side to begin.
        WireError::Closed => JoinError::Silent { address: address.to_owned() },
        why => untrusted(why),
    })?;
    let ToFollower::Hello { nonce: leader } = hello else { return Err(untrusted(WireError::Seal)) };
    let leader = unhex(&leader).and_then(|bytes| bytes.try_into().ok());
    let (Some(leader), Some(own)) = (leader, nonce()) else {
        return Err(untrusted(WireError::Seal));
    };
    let FollowerConfig { secret, version, plan, rank, count, .. } = config;
    let (version, plan) = (version.clone(), plan.clone());
    let applicant = Applicant { rank: *rank, count: *count, version, plan };
    let proof = hex(&secret.proof(&leader, &own, &applicant.identity()));
    sender.send(&ToLeader::Join { applicant, nonce: hex(&own), proof }).map_err(io)?;
    let key = secret.session(&leader, &own);
    receiver.expect_seal(key.clone(), Speaker::Leader);
    sender.seal_by(key, Speaker::Follower);
    let (reply, is_sealed) = receiver.receive_reply::<ToFollower>().map_err(untrusted)?;
    match reply {
        ToFollower::Refused { why } => {
            Err(JoinError::Refused { address: address.to_owned(), rank: *rank, why })
        }
        ToFollower::Welcome(welcome) if is_sealed => {
            receiver.source().lift_deadline();
            Ok((welcome, sender, receiver))
        }
        _ => Err(untrusted(WireError::Seal)),
    }
}
