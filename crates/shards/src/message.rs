//! What leader and followers say to each other.

use serde::{Deserialize, Serialize};
use tokometer_base::{Nanos, WallNanos};

use crate::leases::LeaseChange;

/// Requests of one shard so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ShardCounts {
    /// Requests whose first byte was sent.
    pub sent: u64,
    /// Requests with a complete response.
    pub succeeded: u64,
    /// Requests that failed after their last attempt.
    pub failed: u64,
    /// Requests that their user cancelled, as the plan says.
    #[serde(default)]
    pub cancelled: u64,
    /// Content events so far.
    pub tokens: u64,
    /// Of requests that have ended.
    pub sends: SendCounts,
}

/// How late requests were sent. When a send is late is the program's matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SendCounts {
    /// Requests with a planned time.
    pub judged: u64,
    /// Late ones among them.
    pub late: u64,
    /// The largest lateness.
    pub worst: Nanos,
}

impl ShardCounts {
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            sent: self.sent.saturating_add(other.sent),
            succeeded: self.succeeded.saturating_add(other.succeeded),
            cancelled: self.cancelled.saturating_add(other.cancelled),
            failed: self.failed.saturating_add(other.failed),
            tokens: self.tokens.saturating_add(other.tokens),
            sends: SendCounts {
                judged: self.sends.judged.saturating_add(other.sends.judged),
                late: self.sends.late.saturating_add(other.sends.late),
                worst: self.sends.worst.max(other.sends.worst),
            },
        }
    }
}

/// Latencies of a shard's ended requests, for the display of shard 0: for each latency the numbers of bins,
/// and the requests in each. What the bins are is the program's matter.
pub type LatencyBins = [Vec<(u16, u64)>; 2];

/// Who wants to join, and with what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Applicant {
    pub(crate) rank: u32,
    pub(crate) count: u32,
    pub(crate) version: String,
    /// Fingerprint of the plan.
    pub(crate) plan: String,
}

impl Applicant {
    /// What a proof is made over.
    pub(crate) fn identity(&self) -> String {
        let Self { rank, count, version, plan } = self;
        format!("{rank}/{count}\n{version}\n{plan}")
    }
}

/// What follows of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FilePart {
    pub(crate) point: u32,
    pub(crate) name: String,
    /// Where it begins.
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(crate) enum ToLeader {
    /// The answer to [`ToFollower::Hello`].
    Join {
        applicant: Applicant,
        /// Hexadecimal digits, like the next one.
        nonce: String,
        proof: String,
    },
    /// Measures the clock.
    Ping { sent: Nanos },
    /// Everything is prepared for a point of the measurement.
    Ready { point: u32, prompts: String },
    /// How far it is.
    Progress { point: u32, counts: ShardCounts },
    /// Its latencies so far, where the leader shows them.
    Latencies { point: u32, bins: LatencyBins },
    /// A file of the record follows in pieces, or more of one that has `offset` bytes already.
    File(FilePart),
    /// Its part has ended and its record is complete.
    Ended { point: u32 },
    /// It takes no part in a point.
    Unable { point: u32, why: String },
    /// Slots of the shared limit that it gives back, and requests that wait for one.
    Slots { point: u32, freed: u32, want: u32 },
    /// It has nothing in flight and waits for the start of a block of a point.
    BlockReady { point: u32, block: u64 },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(crate) enum ToFollower {
    /// The first message of all.
    Hello { nonce: String },
    /// The follower is let in.
    Welcome(Welcome),
    /// It is not.
    Refused { why: String },
    /// The answer to [`ToLeader::Ping`].
    Pong { sent: Nanos, received: Nanos, replied: Nanos },
    /// Prepare a point; the order says what it measures.
    Next { point: u32, order: String },
    /// The measured phase of a point begins at this time of the leader's clock.
    Start { point: u32, at: Nanos },
    /// A block of a point begins at this time of the leader's clock.
    StartBlock { point: u32, block: u64, at: Nanos },
    /// Its slots of the shared limit change.
    Lease { point: u32, change: LeaseChange },
    /// Send no more requests.
    Stop { point: u32, cause: StopCause },
    /// The answer to [`ToLeader::Ended`].
    Taken { point: u32 },
    /// The follower has no part in the rest of the run.
    Over { why: String },
    /// All points were measured.
    Finished,
}

/// Why the leader asks the others to send no more requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopCause {
    /// A rule of the plan ended the run: the shards' parts are complete.
    Rule,
    /// The user interrupted it.
    Interrupt,
}

/// What a follower learns when it is let in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// Name of the run, equal in all shards.
    pub run: String,
    /// Stands for the time of the run where the content of prompts depends on it.
    pub content_root: WallNanos,
    /// The leader's folder of the measurement. A follower that finds the run's name in it shares the
    /// leader's storage.
    pub folder: String,
    /// Identifies the leader's clock. A follower that reads the same one needs no offset.
    pub clock: Option<String>,
    #[serde(default)]
    pub shows_latencies: bool,
}
