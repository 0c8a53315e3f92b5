//! What the engine is asked to do, and its state while it does it.

/// One request as the engine sees it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Job {
    /// The caller's name for it; unique among the requests in the engine.
    pub id: u64,
    pub prompt_tokens: u32,
    /// Tokens that the answer will have. At least one is produced.
    pub output_tokens: u32,
    /// Tokens that the answer may have: what a router that reserves memory counts with.
    pub output_limit: u32,
    /// A hash per full block of prompt and answer, each covering everything before it. May stop
    /// early: later blocks are then never shared.
    pub block_hashes: Box<[u64]>,
    /// Whether another engine has computed its prompt, all but the last token, and sent keys and values
    /// along.
    pub has_kv: bool,
    /// Smaller is more urgent. Ignored under first come, first served.
    pub priority: i32,
    /// The adapter it needs.
    pub lora: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JobRefusal {
    #[error(
        "the request can never run: {prompt_tokens} prompt and {output_tokens} answer tokens do not fit into {what} of {capacity} tokens"
    )]
    NeverFits {
        prompt_tokens: u32,
        /// Tokens of its answer, as far as the limit counts them.
        output_tokens: u32,
        what: &'static str,
        capacity: u64,
    },
    #[error("a request with id {0} is already in the engine")]
    DuplicateId(u64),
}

/// A request's rank in the queue: urgency first, then order of arrival.
pub(crate) type QueueRank = (i32, u64);

/// A request inside the engine.
#[derive(Debug)]
pub(crate) struct Sequence {
    pub(crate) job: Job,
    pub(crate) rank: QueueRank,
    /// Answer tokens produced so far.
    pub(crate) generated: u32,
    /// Tokens whose keys and values are in the cache.
    pub(crate) computed: u32,
    /// Tokens that must be in the cache before the next token can be produced.
    pub(crate) target: u32,
    /// Blocks it holds, shared ones included.
    pub(crate) held: u32,
    /// The blocks among them that the prefix cache knows.
    pub(crate) shared: Vec<u64>,
    /// Full blocks that were offered to the prefix cache or found in it.
    pub(crate) offered: u32,
    pub(crate) state: JobState,
    /// The first step that can admit it.
    pub(crate) visible_from: u64,
    /// Whether the decoders hold it; its counts stand still while they do.
    pub(crate) is_entered: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobState {
    /// In the queue, with nothing in the cache.
    Waiting,
    /// Running, its prompt not wholly computed.
    Prefilling,
    /// Running, one token per step.
    Decoding,
    /// Its last token is in the step that is under way; it leaves when the next one begins.
    Finished,
}

impl Sequence {
    pub(crate) fn new(job: Job, rank: QueueRank) -> Self {
        let target = job.prompt_tokens.max(1);
        Self {
            job,
            rank,
            generated: 0,
            computed: 0,
            target,
            held: 0,
            shared: Vec::new(),
            offered: 0,
            state: JobState::Waiting,
            visible_from: 0,
            is_entered: false,
        }
    }

    /// Tokens to compute before the next token can be produced.
    pub(crate) fn missing(&self) -> u32 {
        self.target - self.computed
    }
}
