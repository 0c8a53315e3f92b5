//! Input and output of a run, request by request.

use tokometer_base::Nanos;
use tokometer_client::PreparedRequest;
use tokometer_record::{AttemptId, Timeline};

use crate::error::PrepareError;
use crate::transcript::Transcript;

#[derive(Debug, Clone)]
pub struct QueuedRequest {
    pub request: PreparedRequest,
    /// Items of [`Phase::Warmup`](tokometer_record::Phase) come before all others. The run sets the
    /// attempt number.
    pub identity: AttemptId,
    /// Intended time of a trace, relative to the start of the measured phase or of its block. `None`
    /// uses the arrivals of the [`RunConfig`](crate::RunConfig).
    pub due: Option<Nanos>,
    /// When a trace has it, relative to the start of the measured phase. It changes nothing.
    pub recorded: Option<Nanos>,
}

#[derive(Debug, Clone)]
pub struct TurnEnd {
    pub identity: AttemptId,
    /// The response's text, of a cancelled one as far as it came; `None` when the request failed or the text
    /// was not kept.
    pub answer: Option<String>,
    /// When the response ended. For a turn that was never sent, when it was dismissed.
    pub at: Nanos,
}

/// A turn whose predecessors have ended.
#[derive(Debug, Clone)]
pub struct FollowUp {
    /// Where it has a time of its own, it is not due before.
    pub item: QueuedRequest,
    /// When its delay is over, on the monotonic clock. `None`: as soon as the gate admits it.
    pub due: Option<Nanos>,
}

/// Makes items ahead of their time, on a thread of its own.
pub trait Prepare: Send {
    /// `Ok(None)` when there are no more items.
    fn prepare(&mut self) -> Result<Option<QueuedRequest>, PrepareError>;

    /// The turns that waited for one that has ended, and now for no other. Called once for each
    /// request of a session (its identity has one), whether sent or not. Only turns that wait for
    /// none come from [`Prepare::prepare`].
    fn follow(&mut self, _ended: &TurnEnd) -> Result<Vec<FollowUp>, PrepareError> {
        Ok(Vec::new())
    }

    /// Turns that were planned and never made, because their session ended early.
    fn lost_turns(&self) -> u64 {
        0
    }

    /// Sessions that ended because a turn does not fit into the server's context.
    fn overflows(&self) -> u64 {
        0
    }

    /// How many of the first `most` measured items are due before `end` by times of their own, made or
    /// not. Counting ends at the first one that is due later, as the run does. Zero for items without
    /// times.
    fn due_before(&self, _end: Nanos, _most: u64) -> u64 {
        0
    }

    /// Whether the item begins a block: it is sent after everything sent earlier has ended, and the
    /// intended times of its block count from that moment. False in a run without blocks.
    fn begins_block(&self, _item: &QueuedRequest) -> bool {
        false
    }

    /// Called before the first item of a block is sent, while nothing is in flight. It may take any
    /// time, and its failure ends the run. Returns the start of the block where other processes begin
    /// it at the same time; `None`: now.
    fn enter_block(&mut self, _item: &QueuedRequest) -> Result<Option<Nanos>, PrepareError> {
        Ok(None)
    }
}

/// A closure that returns items is a source.
impl<F> Prepare for F
where
    F: FnMut() -> Result<Option<QueuedRequest>, PrepareError> + Send,
{
    fn prepare(&mut self) -> Result<Option<QueuedRequest>, PrepareError> {
        self()
    }
}

/// A message from the run about one request.
#[derive(Debug, Clone)]
pub enum Notice {
    /// The first byte of a request is about to be written.
    Started {
        /// Of the request in the plan.
        index: u64,
        /// Zero for the first attempt.
        attempt: u32,
        /// On the monotonic clock.
        at: Nanos,
    },
    Ended(Box<Timeline>),
    /// The first exchange of the run has ended; see [`RunConfig::keeps_transcript`](crate::RunConfig).
    Exchanged(Transcript),
}
