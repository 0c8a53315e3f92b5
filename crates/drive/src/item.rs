//! What goes into a run and what comes out of it, request by request.

use tokometer_base::Nanos;
use tokometer_client::PreparedRequest;
use tokometer_record::{Identity, Timeline};

use crate::turns::{FollowUp, TurnEnd};

/// One request, ready to be sent.
#[derive(Debug, Clone)]
pub struct Item {
    /// The bytes to send and how to read the answer.
    pub request: PreparedRequest,
    /// Which request of the run it is. Items of [`Phase::Warmup`](tokometer_record::Phase) come
    /// before all others; the attempt is counted by the run.
    pub identity: Identity,
    /// Its own intended time, counted from the start of the measured phase, or of its block: a trace.
    /// `None` leaves it to the arrivals of the [`Config`](crate::Config).
    pub due: Option<Nanos>,
}

/// Why no further item could be made.
pub type PrepareError = Box<dyn std::error::Error + Send + Sync>;

/// Makes items, on a thread of its own, ahead of their time.
pub trait Prepare: Send {
    /// The next item; `Ok(None)` when there are no more.
    fn prepare(&mut self) -> Result<Option<Item>, PrepareError>;

    /// The turn that follows one that has ended; `Ok(None)` when the conversation is over. Asked once
    /// for each request of a conversation (its identity names a session), sent or not. Only first
    /// turns come from [`Prepare::prepare`].
    fn follow(&mut self, _ended: &TurnEnd) -> Result<Option<FollowUp>, PrepareError> {
        Ok(None)
    }

    /// Whether the item begins a block: it is not sent before everything sent earlier has ended, and
    /// the intended times of its block count from that moment. A run without blocks has none.
    fn begins_block(&self, _item: &Item) -> bool {
        false
    }

    /// Called before the first item of a block is sent, while nothing is in flight. It gets the time
    /// it needs, and its failure ends the run.
    fn enter_block(&mut self, _item: &Item) -> Result<(), PrepareError> {
        Ok(())
    }
}

/// Any function that yields items prepares them.
impl<F> Prepare for F
where
    F: FnMut() -> Result<Option<Item>, PrepareError> + Send,
{
    fn prepare(&mut self) -> Result<Option<Item>, PrepareError> {
        self()
    }
}

/// What a run tells while it goes on.
#[derive(Debug, Clone)]
pub enum Notice {
    /// The first byte of a request was about to be sent.
    Started {
        /// Index of the request.
        index: u64,
        /// Its attempt.
        attempt: u32,
        /// When.
        at: Nanos,
    },
    /// An attempt ended, well or not.
    Ended(Box<Timeline>),
}
