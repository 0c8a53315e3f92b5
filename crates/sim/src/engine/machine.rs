//! The engine's state and its step.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;

use base::seed::{Generator, unit_float};
use base::{Nanos, Seed};
use tokometer_base as base;

use super::blocks::BlockPool;
use super::decoders::{DecoderEntry, Decoders};
use super::ids::IdHasher;
use super::job::{Job, JobRefusal, JobState, QueueRank, Sequence};
use super::reports::{Admission, Counters, Occupancy, Produced, Step, StepKind};
use crate::cost::Batch;
use crate::profile::{AdmissionOrder, Policy, Profile};

/// No step is shorter: with a profile of zero costs virtual time would otherwise stand still.
const STEP_MIN: Nanos = Nanos(1_000);

#[derive(Debug)]
pub struct Engine {
    pub(super) profile: Profile,
    pub(super) blocks: BlockPool,
    pub(super) sequences: Vec<Option<Sequence>>,
    free_slots: Vec<usize>,
    slots: HashMap<u64, usize, BuildHasherDefault<IdHasher>>,
    pub(super) waiting: BTreeMap<QueueRank, usize>,
    /// Slab of the running requests, most urgent first: the last one is preempted first.
    pub(super) running: Vec<usize>,
    pub(super) produced: Vec<Produced>,
    pub(super) admitted: Vec<Admission>,
    pub(super) preempted: Vec<u64>,
    /// Present when only first and last tokens are reported.
    pub(super) decoders: Option<Decoders>,
    /// Tokens that the running requests may come to, for the router that reserves them.
    pub(super) reserved_tokens: u64,
    pub(super) counters: Counters,
    /// Decode steps since the last admission, for the router that waits for larger batches.
    pub(super) decodes_since_admission: u32,
    resident_loras: Vec<u32>,
    has_finished: bool,
    /// Requests that ended in the step before, where the next was already scheduled.
    stale: u32,
    wake_at: Nanos,
    generator: Generator,
}

impl Engine {
    pub fn new(profile: Profile, seed: Seed) -> Self {
        Self {
            blocks: BlockPool::new(profile.kv.as_ref()),
            profile,
            sequences: Vec::new(),
            free_slots: Vec::new(),
            slots: HashMap::default(),
            waiting: BTreeMap::new(),
            running: Vec::new(),
            produced: Vec::new(),
            admitted: Vec::new(),
            preempted: Vec::new(),
            decoders: None,
            reserved_tokens: 0,
            counters: Counters::default(),
            decodes_since_admission: 0,
            resident_loras: Vec::new(),
            has_finished: false,
            stale: 0,
            wake_at: Nanos::ZERO,
            generator: seed.stream("engine-steps").at(0),
        }
    }

    /// The same engine, which reports only first and last tokens (and the first after a preemption) of
    /// each request in [`Engine::produced`]: every other decoding request gets one token in each step
    /// that decodes. The steps are the same, at a fraction of the work. Not for engines that cache
    /// prefixes: the blocks of their answers become known token by token.
    #[must_use]
    pub fn report_ends_only(mut self) -> Self {
        self.decoders = Some(Decoders::new(self.blocks.tokens_per_block()));
        self
    }

    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// How full it is. Requests whose last token is under way still count as running.
    pub fn load(&self) -> Occupancy {
        let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        Occupancy {
            running: count(self.running.len()),
            waiting: count(self.waiting.len()),
            kv_share: self
                .blocks
                .total()
                .map(|total| f64::from(self.blocks.held()) / f64::from(total)),
        }
    }

    /// What the last step produces, ready at its end. Valid until the next call of
    /// [`Engine::step`]; may name requests that were cancelled meanwhile.
    pub fn produced(&self) -> &[Produced] {
        &self.produced
    }

    /// Requests that the last step admitted, including previously preempted ones.
    pub fn admitted(&self) -> &[Admission] {
        &self.admitted
    }

    /// Requests that the last step preempted because memory ran out.
    pub fn preempted(&self) -> &[u64] {
        &self.preempted
    }

    /// Takes a request into the queue.
    pub fn submit(&mut self, now: Nanos, job: Job) -> Result<(), JobRefusal> {
        if self.slots.contains_key(&job.id) {
            return Err(JobRefusal::DuplicateId(job.id));
        }
        self.check_fit(&job)?;
        if self.slots.is_empty() {
            self.wake_at = now + Nanos::from_millis_f64(self.profile.front_end.gather_ms);
        }
        let urgency = match self.profile.scheduler.order {
            AdmissionOrder::Fcfs => 0,
            AdmissionOrder::Priority => job.priority,
        };
        let rank = (urgency, self.counters.submitted);
        self.counters.submitted += 1;
        let id = job.id;
        let mut sequence = Sequence::new(job, rank);
        if self.profile.scheduler.is_async {
            sequence.visible_from = self.counters.steps + 1;
        }
        let sequence = Some(sequence);
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.sequences.push(None);
            self.sequences.len() - 1
        });
        self.sequences[slot] = sequence;
        self.slots.insert(id, slot);
        self.waiting.insert(rank, slot);
        Ok(())
    }

    /// Rejects a request that could never run.
    fn check_fit(&self, job: &Job) -> Result<(), JobRefusal> {
        let refuse = |output_tokens: u32, what, capacity| {
            Err(JobRefusal::NeverFits {
                prompt_tokens: job.prompt_tokens,
                output_tokens,
                what,
                capacity,
            })
        };
        if let Policy::Tgi { max_batch_total_tokens, .. } = self.profile.scheduler.policy {
            let limit = job.output_limit.max(job.output_tokens);
            if reservation(job) > max_batch_total_tokens {
                return refuse(limit, "a batch", max_batch_total_tokens);
            }
        }
        let Some(total) = self.blocks.total() else { return Ok(()) };
        // The last token is sent, not computed on, so it needs no cache entry.
        let tokens = job.prompt_tokens.max(1).saturating_add(job.output_tokens.max(1) - 1);
        if self.blocks.covering(tokens) > total {
            let capacity = u64::from(total) * u64::from(self.blocks.tokens_per_block());
            return refuse(job.output_tokens, "a KV cache", capacity);
        }
        Ok(())
    }

    /// Drops a request wherever it is. `false` when it is not in the engine (any more).
    pub fn cancel(&mut self, id: u64) -> bool {
        let Some(slot) = self.slots.get(&id).copied() else { return false };
        self.withdraw(slot);
        let sequence = self.sequence(slot);
        let (rank, state) = (sequence.rank, sequence.state);
        match state {
            JobState::Waiting => {
                self.waiting.remove(&rank);
            }
            JobState::Prefilling | JobState::Decoding | JobState::Finished => {
                self.running.retain(|running| *running != slot);
                self.reserved_tokens -= reservation(&self.sequence(slot).job);
            }
        }
        match state {
            JobState::Finished => self.counters.finished += 1,
            _ => self.counters.cancelled += 1,
        }
        self.remove(slot);
        true
    }

    /// Evicts the blocks that no running request uses, and returns their number.
    pub fn reset_prefix_cache(&mut self) -> usize {
        self.blocks.forget()
    }

    /// Begins the step at `now`. Its tokens are in [`Engine::produced`] and become known to clients
    /// at [`Step::until`].
    pub fn step(&mut self, now: Nanos) -> Step {
        self.produced.clear();
        self.admitted.clear();
        self.preempted.clear();
        self.settle();
        let idle = |until| Step { until, kind: StepKind::Idle, batch: Batch::default() };
        if self.slots.is_empty() {
            return idle(Nanos::MAX);
        }
        if now < self.wake_at {
            return idle(self.wake_at);
        }
        let mut batch = self.plan();
        batch.stale = self.stale;
        batch.admissions = u32::try_from(self.admitted.len()).unwrap_or(u32::MAX);
        batch.waiting = u32::try_from(self.waiting.len()).unwrap_or(u32::MAX);
        let kind = match (batch.prefill_tokens, batch.decodes) {
            (0, 0) => {
                unreachable!("every request in the queue fits alone, so some step is possible")
            }
            (0, _) => StepKind::Decode,
            (_, 0) => StepKind::Prefill,
            _ => StepKind::Mixed,
        };
        self.counters.steps += 1;
        let span = self.profile.cost.step_ms(&batch, &mut self.generator);
        Step { until: now + Nanos::from_millis_f64(span).max(STEP_MIN), kind, batch }
    }

    /// Removes the requests that the previous step finished.
    fn settle(&mut self) {
        self.stale = 0;
        if !std::mem::take(&mut self.has_finished) {
            return;
        }
        let mut running = std::mem::take(&mut self.running);
        let before = running.len();
        running.retain(|slot| {
            let is_finished = self.sequence(*slot).state == JobState::Finished;
            if is_finished {
                self.counters.finished += 1;
                self.reserved_tokens -= reservation(&self.sequence(*slot).job);
                self.remove(*slot);
            }
            !is_finished
        });
        if self.profile.scheduler.is_async && !running.is_empty() {
            self.stale = u32::try_from(before - running.len()).unwrap_or(u32::MAX);
        }
        self.running = running;
    }

    fn remove(&mut self, slot: usize) {
        self.release(slot);
        let sequence = self.sequences[slot].take().expect("only occupied slots are removed");
        self.slots.remove(&sequence.job.id);
        self.free_slots.push(slot);
    }

    pub(super) fn sequence(&self, slot: usize) -> &Sequence {
        self.sequences[slot].as_ref().expect("queues name only occupied slots")
    }

    pub(super) fn sequence_mut(&mut self, slot: usize) -> &mut Sequence {
        self.sequences[slot].as_mut().expect("queues name only occupied slots")
    }

    pub(super) fn release(&mut self, slot: usize) {
        let sequence = self.sequences[slot].as_mut().expect("queues name only occupied slots");
        self.blocks.give_back(sequence.held, &sequence.shared);
        sequence.held = 0;
        sequence.shared.clear();
        sequence.offered = 0;
        sequence.computed = 0;
    }

    /// Makes the request hold enough blocks for `tokens` tokens. `false`, and nothing changed, when
    /// there are not enough.
    pub(super) fn grow(&mut self, slot: usize, tokens: u32) -> bool {
        let sequence = self.sequences[slot].as_mut().expect("queues name only occupied slots");
        let wanted = self.blocks.covering(tokens);
        if wanted <= sequence.held {
            return true;
        }
        let is_granted = self.blocks.take(wanted - sequence.held);
        if is_granted {
            sequence.held = wanted;
        }
        is_granted
    }

    /// Computes `tokens` tokens of a running request, whose blocks are there, and produces the next
    /// token when nothing is missing any more.
    pub(super) fn compute(&mut self, slot: usize, tokens: u32, batch: &mut Batch) {
        let is_caching = self.blocks.is_caching();
        let sequence = self.sequences[slot].as_mut().expect("queues name only occupied slots");
        let before = sequence.computed;
        sequence.computed += tokens;
        batch.longest_context = batch.longest_context.max(sequence.computed);
        if sequence.state == JobState::Decoding {
            batch.decodes += 1;
            batch.decode_context += u64::from(before);
        } else {
            batch.prefill_tokens += tokens;
            batch.prefill_pairs +=
                f64::from(tokens) * (f64::from(before) + f64::from(tokens) / 2.0);
            self.counters.computed_prompt_tokens += u64::from(tokens);
        }
        if sequence.computed == sequence.target {
            sequence.generated += 1;
            sequence.target += 1;
            let is_last = sequence.generated >= sequence.job.output_tokens;
            sequence.state = if is_last { JobState::Finished } else { JobState::Decoding };
            self.has_finished |= is_last;
            self.counters.generation_tokens += 1;
            if sequence.generated == 1 {
                self.counters.prompt_tokens += u64::from(sequence.job.prompt_tokens);
            }
            let (id, generated) = (sequence.job.id, sequence.generated);
            self.produced.push(Produced { id, tokens: 1, generated, is_last });
        }
        if is_caching {
            self.offer_full_blocks(slot);
        }
        self.enter(slot);
    }

    /// Hands a decoding request over to the decoders, where there are any.
    pub(super) fn enter(&mut self, slot: usize) {
        let Some(decoders) = &mut self.decoders else { return };
        let sequence = self.sequences[slot].as_mut().expect("queues name only occupied slots");
        // A request that still has blocks to offer must be looked at in every step.
        let has_offers = self.blocks.is_caching()
            && (sequence.offered as usize) < sequence.job.block_hashes.len();
        let is_irregular = has_offers || self.profile.scheduler.speculation.is_some();
        if sequence.state != JobState::Decoding || sequence.is_entered || is_irregular {
            return;
        }
        let remaining = sequence.job.output_tokens - sequence.generated;
        decoders.enter(slot, DecoderEntry { computed: sequence.computed, remaining });
        sequence.is_entered = true;
    }

    /// Takes a request back from the decoders, with what it got there.
    pub(super) fn withdraw(&mut self, slot: usize) {
        let Some(decoders) = &mut self.decoders else { return };
        let sequence = self.sequences[slot].as_mut().expect("queues name only occupied slots");
        if !std::mem::take(&mut sequence.is_entered) {
            return;
        }
        let gained = decoders.leave(slot).expect("the decoders hold every entered request");
        sequence.computed += gained;
        sequence.generated += gained;
        sequence.target += gained;
        sequence.held = sequence.held.max(self.blocks.covering(sequence.computed));
    }

    /// One token for every request that the decoders hold; returns how many. When budget or memory do
    /// not suffice nothing is done, and all are taken back to be looked at one by one.
    pub(super) fn advance_decoders(&mut self, budget: u32, batch: &mut Batch) -> u32 {
        let Some(decoders) = &mut self.decoders else { return 0 };
        let count = decoders.count();
        if count == 0 {
            return 0;
        }
        // Those that are looked at one by one may need a block each, and must not have to preempt one
        // that has already had its turn.
        let others = u32::try_from(self.running.len()).unwrap_or(u32::MAX) - count;
        let needed = decoders.blocks_needed();
        if count > budget || !self.blocks.has_room(needed + others) || !self.blocks.take(needed) {
            for at in 0..self.running.len() {
                self.withdraw(self.running[at]);
            }
            return 0;
        }
        batch.decodes += count;
        batch.decode_context += decoders.context();
        batch.longest_context = batch.longest_context.max(decoders.longest_after());
        self.counters.generation_tokens += u64::from(count);
        decoders.advance();
        while let Some(slot) = self.decoders.as_mut().and_then(Decoders::next_ended) {
            self.withdraw(slot);
            self.has_finished = true;
            let sequence = self.sequence_mut(slot);
            sequence.state = JobState::Finished;
            let (id, generated) = (sequence.job.id, sequence.generated);
            self.produced.push(Produced { id, tokens: 1, generated, is_last: true });
        }
        count
    }

    /// Draft tokens that the next step may verify for a decoding request.
    pub(super) fn drafts(&self, slot: usize, budget: u32) -> u32 {
        let Some(speculation) = self.profile.scheduler.speculation else { return 0 };
        let sequence = self.sequence(slot);
        let useful = sequence.job.output_tokens - sequence.generated;
        speculation.tokens.min(useful.saturating_sub(1)).min(budget.saturating_sub(1))
    }

    /// Verifies `drafts` draft tokens of a request that has just got a token, and hands on those that are
    /// right, up to the first that is wrong.
    pub(super) fn accept(&mut self, slot: usize, drafts: u32, batch: &mut Batch) {
        let Some(speculation) = self.profile.scheduler.speculation.filter(|_| drafts > 0) else {
            return;
        };
        let is_right = |_: &u32| unit_float(&mut self.generator) < speculation.acceptance;
        let right = u32::try_from((0..drafts).take_while(is_right).count()).unwrap_or(drafts);
        batch.draft_tokens += drafts;
        batch.draft_depth = batch.draft_depth.max(drafts);
        let sequence = self.sequences[slot].as_mut().expect("queues name only occupied slots");
        sequence.computed += right;
        sequence.target += right;
        sequence.generated += right;
        let is_last = sequence.generated >= sequence.job.output_tokens;
        if is_last {
            sequence.state = JobState::Finished;
            self.has_finished = true;
        }
        self.counters.generation_tokens += u64::from(right);
        if let Some(produced) = self.produced.last_mut() {
            produced.tokens += right;
            produced.generated += right;
            produced.is_last = is_last;
        }
        if self.blocks.is_caching() {
            self.offer_full_blocks(slot);
        }
    }

    fn offer_full_blocks(&mut self, slot: usize) {
        let sequence = self.sequences[slot].as_mut().expect("queues name only occupied slots");
        let full = sequence.computed / self.blocks.tokens_per_block();
        while sequence.offered < full {
            let Some(hash) = sequence.job.block_hashes.get(sequence.offered as usize) else {
                return;
            };
            if self.blocks.offer(*hash) {
                sequence.shared.push(*hash);
            }
            sequence.offered += 1;
        }
    }

    /// Counts the adapter of a request that is being admitted: 1 when it had to be loaded.
    pub(super) fn load_lora(&mut self, slot: usize) -> u32 {
        let Some(lora) = self.sequence(slot).job.lora else { return 0 };
        let was_resident = self.resident_loras.iter().position(|resident| *resident == lora);
        if let Some(at) = was_resident {
            self.resident_loras.remove(at);
        }
        self.resident_loras.push(lora);
        let slots = self.profile.scheduler.lora_slots.map_or(usize::MAX, |count| count as usize);
        if self.resident_loras.len() > slots.max(1) {
            self.resident_loras.remove(0);
        }
        u32::from(was_resident.is_none())
    }

    /// Panics when requests or blocks were lost or made up. For tests: it walks everything.
    pub fn audit(&self) {
        let in_engine = (self.running.len() + self.waiting.len()) as u64;
        let gone = self.counters.finished + self.counters.cancelled;
        assert_eq!(
            self.counters.submitted,
            in_engine + gone,
            "requests in = requests out + inside"
        );
        assert_eq!(in_engine, self.slots.len() as u64, "every request is in one queue");
        let is_sorted = self.running.is_sorted_by_key(|slot| self.sequence(*slot).rank);
        assert!(is_sorted, "running requests are in order of urgency");
        let reserved: u64 =
            self.running.iter().map(|slot| reservation(&self.sequence(*slot).job)).sum();
        assert_eq!(self.reserved_tokens, reserved, "what runs is what is reserved");
        for slot in self.running.iter().chain(self.waiting.values()) {
            let sequence = self.sequence(*slot);
            assert!(sequence.computed <= sequence.target, "{sequence:?}");
            assert!(sequence.held >= self.blocks.covering(sequence.computed), "{sequence:?}");
        }
        self.blocks.audit();
    }
}

/// Tokens that a router which plans for the longest answer counts for a request.
pub(super) fn reservation(job: &Job) -> u64 {
    u64::from(job.prompt_tokens) + u64::from(job.output_limit.max(job.output_tokens))
}
