//! Who runs in a step: the three scheduling rules.
//!
//! Each rule looks at the queue and at the running requests, makes progress for some of them and
//! returns the shape of the step. Each makes some progress whenever a request is in the engine: a
//! request that could not run alone was refused on arrival.

use super::job::JobState;
use super::machine::{Engine, reservation};
use super::reports::Admission;
use crate::cost::Batch;
use crate::profile::Policy;

impl Engine {
    /// Chooses and performs the work of one step.
    pub(super) fn plan(&mut self) -> Batch {
        self.admit_computed();
        match self.profile.scheduler.policy {
            Policy::Chunked { token_budget } => self.plan_chunked(token_budget),
            Policy::Blocking { prefill_budget } => self.plan_blocking(prefill_budget),
            Policy::Tgi {
                max_batch_prefill_tokens,
                max_batch_total_tokens,
                waiting_served_ratio,
                max_waiting_tokens,
            } => {
                let least = if self.decodes_since_admission >= max_waiting_tokens {
                    1.0
                } else {
                    libm::ceil(self.running.len() as f64 * waiting_served_ratio)
                };
                self.plan_tgi(max_batch_prefill_tokens, max_batch_total_tokens, least)
            }
        }
    }

    /// Lets requests decode whose prompt another engine has computed.
    fn admit_computed(&mut self) {
        while let Some(slot) = self.next_waiting().filter(|slot| self.sequence(*slot).job.has_kv) {
            let computed = self.sequence(slot).target - 1;
            if !self.grow(slot, computed + 1) {
                return;
            }
            self.admit(slot);
            let sequence = self.sequence_mut(slot);
            sequence.computed = computed;
            sequence.state = JobState::Decoding;
            self.enter(slot);
        }
    }

    /// Decodes first; what is left of the budget goes to pieces of prompts, in order.
    fn plan_chunked(&mut self, token_budget: u32) -> Batch {
        let mut batch = Batch::default();
        let preemptions = self.counters.preemptions;
        let budget = token_budget - self.advance_decoders(token_budget, &mut batch);
        let budget = budget - self.run(JobState::Decoding, budget, &mut batch);
        let mut budget = budget - self.run(JobState::Prefilling, budget, &mut batch);
        // A just preempted request must not preempt those for which it made room.
        while budget > 0 && preemptions == self.counters.preemptions {
            let Some(slot) = self.next_waiting() else { break };
            self.join_prefix(slot);
            let sequence = self.sequence(slot);
            let (computed, tokens) = (sequence.computed, sequence.missing().min(budget));
            if !self.grow(slot, computed + tokens) {
                self.release(slot);
                break;
            }
            batch.lora_loads += self.admit(slot);
            self.compute(slot, tokens, &mut batch);
            budget -= tokens;
        }
        assert!(
            batch.prefill_tokens + batch.decodes + batch.draft_tokens <= token_budget,
            "a step of {batch:?} has a budget of {token_budget}"
        );
        batch
    }

    /// Gives tokens to the running requests in this state, most urgent first, and returns how many.
    fn run(&mut self, state: JobState, budget: u32, batch: &mut Batch) -> u32 {
        let entered = self.decoders.as_ref().map_or(0, |decoders| decoders.count() as usize);
        let mut left = budget;
        let mut at = self.first_walked(entered);
        while at < self.running.len() && left > 0 {
            let slot = self.running[at];
            let sequence = self.sequence(slot);
            at += 1;
            if sequence.state != state || sequence.is_entered {
                continue;
            }
            let tokens = sequence.missing().min(left);
            let drafts = if state == JobState::Decoding { self.drafts(slot, left) } else { 0 };
            if !self.make_room(slot, tokens + drafts) {
                break;
            }
            self.compute(slot, tokens, batch);
            self.accept(slot, drafts, batch);
            left -= tokens + drafts;
        }
        budget - left
    }

    /// Where the running requests begin that must be looked at one by one. Those that the decoders
    /// hold are the older ones, except after a preemption.
    fn first_walked(&self, entered: usize) -> usize {
        let walked = self.running.len().saturating_sub(entered);
        let tail = self.running.iter().rev();
        let are_last = tail.clone().take(walked).all(|slot| !self.sequence(*slot).is_entered);
        if are_last { self.running.len() - walked } else { 0 }
    }

    /// Whole prompts while any can be admitted; decodes otherwise.
    fn plan_blocking(&mut self, prefill_budget: u32) -> Batch {
        let mut batch = Batch::default();
        while let Some(slot) = self.next_waiting() {
            self.join_prefix(slot);
            let sequence = self.sequence(slot);
            let (target, tokens) = (sequence.target, sequence.missing());
            let is_over =
                batch.prefill_tokens > 0 && batch.prefill_tokens + tokens > prefill_budget;
            if is_over || !self.grow(slot, target) {
                self.release(slot);
                break;
            }
            batch.lora_loads += self.admit(slot);
            self.compute(slot, tokens, &mut batch);
        }
        if batch.prefill_tokens == 0 {
            self.decode_all(&mut batch);
        }
        batch
    }

    /// Admits a batch when it is at least `least` requests large, with its whole answers reserved.
    fn plan_tgi(&mut self, prefill_limit: u32, total_limit: u64, least: f64) -> Batch {
        let reserved = self.reserved_tokens;
        let free = (self.profile.scheduler.max_seqs as usize).saturating_sub(self.running.len());
        let (mut prefill, mut total) = (0_u32, reserved);
        let mut chosen = Vec::new();
        for slot in self.waiting.values().take(free).take_while(|slot| self.is_visible(**slot)) {
            let job = &self.sequence(*slot).job;
            prefill = prefill.saturating_add(job.prompt_tokens);
            total += reservation(job);
            let is_over = prefill > prefill_limit && !chosen.is_empty();
            if is_over || total > total_limit {
                break;
            }
            chosen.push(*slot);
        }
        let mut batch = Batch::default();
        if !chosen.is_empty() && chosen.len() as f64 >= least {
            for slot in chosen {
                self.join_prefix(slot);
                let sequence = self.sequence(slot);
                let (target, tokens) = (sequence.target, sequence.missing());
                if !self.grow(slot, target) {
                    self.release(slot);
                    break;
                }
                batch.lora_loads += self.admit(slot);
                self.compute(slot, tokens, &mut batch);
            }
        }
        if batch.prefill_tokens > 0 {
            self.decodes_since_admission = 1;
        } else {
            self.decodes_since_admission += 1;
            self.decode_all(&mut batch);
        }
        batch
    }

    fn decode_all(&mut self, batch: &mut Batch) {
        self.advance_decoders(u32::MAX, batch);
        self.run(JobState::Decoding, u32::MAX, batch);
    }

    /// The request to admit next, if another one may run.
    fn next_waiting(&self) -> Option<usize> {
        let has_room = self.running.len() < self.profile.scheduler.max_seqs as usize;
        let first = self.waiting.first_key_value().map(|(_, slot)| *slot);
        first.filter(|slot| has_room && self.is_visible(*slot))
    }

    /// Whether the scheduler knew of a waiting request when it made this step. An idle engine has made
    /// none ahead.
    fn is_visible(&self, slot: usize) -> bool {
        self.running.is_empty() || self.sequence(slot).visible_from <= self.counters.steps
    }

    /// Lets a waiting request use the blocks that the prefix cache knows. The last token of its
    /// prompt is always computed: its output is the first token of the answer.
    fn join_prefix(&mut self, slot: usize) {
        if !self.blocks.is_caching() {
            return;
        }
        let block = self.blocks.tokens_per_block();
        let sequence = self.sequences[slot].as_mut().expect("queues name only occupied slots");
        let full = ((sequence.target - 1) / block) as usize;
        let hashes = &sequence.job.block_hashes[..full.min(sequence.job.block_hashes.len())];
        let joined = self.blocks.join(hashes);
        sequence.shared.extend_from_slice(&hashes[..joined as usize]);
        sequence.held = joined;
        sequence.offered = joined;
        sequence.computed = joined * block;
    }

    /// Moves a request from the queue to the running ones and returns how many adapters were loaded.
    fn admit(&mut self, slot: usize) -> u32 {
        let loads = self.load_lora(slot);
        let sequence = self.sequence_mut(slot);
        sequence.state = JobState::Prefilling;
        let (rank, asked, cached) = (sequence.rank, sequence.target, sequence.computed);
        if self.blocks.is_caching() {
            self.counters.prefix_queries += u64::from(asked);
            self.counters.prefix_hits += u64::from(cached);
        }
        self.waiting.remove(&rank);
        let job = &self.sequence(slot).job;
        let (id, reserved) = (job.id, reservation(job));
        let cached_tokens = self.blocks.is_caching().then_some(cached);
        self.admitted.push(Admission { id, cached_tokens });
        self.reserved_tokens += reserved;
        let at = self.running.partition_point(|running| self.sequence(*running).rank < rank);
        self.running.insert(at, slot);
        loads
    }

    /// Gets blocks for `tokens` more tokens of a running request, putting back less urgent ones as
    /// needed. `false` when the request itself had to go.
    fn make_room(&mut self, slot: usize, tokens: u32) -> bool {
        let wanted = self.sequence(slot).computed + tokens;
        while !self.grow(slot, wanted) {
            let victim = self.running.pop().expect("the request itself is running");
            self.preempt(victim);
            if victim == slot {
                return false;
            }
        }
        true
    }

    /// Preempts a running request: it returns to the queue. Everything it has computed is lost, so its answer
    /// so far is prefilled again with its prompt.
    fn preempt(&mut self, slot: usize) {
        self.withdraw(slot);
        self.release(slot);
        let sequence = self.sequence_mut(slot);
        sequence.state = JobState::Waiting;
        sequence.job.has_kv = false;
        let (rank, id, reserved) = (sequence.rank, sequence.job.id, reservation(&sequence.job));
        self.preempted.push(id);
        self.reserved_tokens -= reserved;
        self.waiting.insert(rank, slot);
        self.counters.preemptions += 1;
    }
}
