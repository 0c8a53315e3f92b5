//! How a follower reaches the leader and proves that it may join.

use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use crate::follower::{FollowerConfig, JoinError, SILENCE_MAX};
use crate::message::{Applicant, ToFollower, ToLeader, Welcome};
use crate::secret::{Speaker, hex, nonce, unhex};
use crate::wire::{MessageReader, MessageWriter, WireError};

/// Time for the leader to answer a handshake.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Time for one attempt to connect.
const CONNECT: Duration = Duration::from_secs(5);

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

pub(crate) type Entered = (Welcome, MessageWriter<TcpStream>, MessageReader<TcpStream>);

/// The handshake.
pub(crate) fn enter(
    address: &str,
    config: &FollowerConfig,
    stream: &TcpStream,
) -> Result<Entered, JoinError> {
    let address = || address.to_owned();
    let untrusted =
        |why: WireError| JoinError::Untrusted { address: address(), why: why.to_string() };
    let io = |why: std::io::Error| untrusted(WireError::Io(why));
    stream.set_nodelay(true).map_err(io)?;
    stream.set_read_timeout(Some(HANDSHAKE)).map_err(io)?;
    stream.set_write_timeout(Some(SILENCE_MAX.to_duration())).map_err(io)?;
    let mut sender = MessageWriter::new(stream.try_clone().map_err(io)?);
    let mut receiver = MessageReader::new(stream.try_clone().map_err(io)?);
    let (hello, _) = receiver.receive_reply::<ToFollower>().map_err(untrusted)?;
    let ToFollower::Hello { nonce: leader } = hello else { return Err(untrusted(WireError::Seal)) };
    let leader = unhex(&leader).and_then(|bytes| bytes.try_into().ok());
    let (Some(leader), Some(own)) = (leader, nonce()) else {
        return Err(untrusted(WireError::Seal));
    };
    let FollowerConfig { secret, version, plan, rank, count } = config;
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
            Err(JoinError::Refused { address: address(), rank: *rank, why })
        }
        ToFollower::Welcome(welcome) if is_sealed => {
            stream.set_read_timeout(None).map_err(io)?;
            Ok((welcome, sender, receiver))
        }
        _ => Err(untrusted(WireError::Seal)),
    }
}
