//! What an engine reports: its steps, the tokens they made, its load and its counters.

use base::Nanos;
use tokometer_base as base;

use crate::cost::Batch;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// When the step ends: its tokens are ready, and `step` must be called again. For an idle
    /// engine the time of its next step, or [`Nanos::MAX`] when only a new request can wake it.
    pub until: Nanos,
    pub kind: StepKind,
    pub batch: Batch,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepKind {
    /// Nothing to do yet.
    Idle,
    /// Prompts only.
    Prefill,
    /// Next tokens only.
    Decode,
    /// Both.
    Mixed,
}

/// A request that leaves the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admission {
    /// The request's id.
    pub id: u64,
    /// Tokens of its prompt that the prefix cache has. `None` without one.
    pub cached_tokens: Option<u32>,
}

/// What one request gets at the end of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Produced {
    pub id: u64,
    /// Tokens it gets.
    pub tokens: u32,
    /// Answer tokens it has then.
    pub generated: u32,
    /// Whether these are its last.
    pub is_last: bool,
}

/// How full the engine is at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Occupancy {
    pub running: u32,
    /// Requests that wait for admission.
    pub waiting: u32,
    /// Share of the cache's blocks that running requests hold. `None` without a limit.
    pub kv_share: Option<f64>,
}

/// What happened since the engine was made. Counters only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Requests taken.
    pub submitted: u64,
    /// Requests that got their last token.
    pub finished: u64,
    /// Requests that were cancelled.
    pub cancelled: u64,
    /// Running requests that were preempted because memory ran out.
    pub preemptions: u64,
    /// Prompt tokens of the requests that got their first token.
    pub prompt_tokens: u64,
    /// Tokens produced.
    pub generation_tokens: u64,
    /// Prompt tokens looked up in the prefix cache.
    pub prefix_queries: u64,
    /// Prompt tokens found there.
    pub prefix_hits: u64,
    /// Steps that did something.
    pub steps: u64,
    /// Prompt tokens computed, those computed again after a preemption included.
    pub computed_prompt_tokens: u64,
}
