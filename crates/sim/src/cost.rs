//! How long one engine step takes: a pure function of what the step does.
//!
//! In: the constants of a profile and the shape of a batch. Out: milliseconds. Randomness (jitter, the
//! tail of a completion quantum) comes in as a generator that the engine owns. Powers, exponentials and
//! logarithms are those of `libm`, so that one profile and one seed give the same bits on every machine.

use base::seed::{Generator, exponential, normal};
use serde::{Deserialize, Serialize};
use tokometer_base as base;

/// What one step does, as far as its duration depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Batch {
    /// Sequences that get their next token.
    pub decodes: u32,
    /// Prompt tokens computed in the step; those found in the prefix cache are not among them.
    pub prefill_tokens: u32,
    /// Sum of the contexts of the decoding sequences.
    pub decode_context: u64,
    /// Sum over prompt pieces of `p × (context before + p / 2)`: the pairs that attention looks at.
    pub prefill_pairs: f64,
    pub longest_context: u32,
    /// Requests that the step admits.
    pub admissions: u32,
    /// Requests that wait for admission while the step runs.
    pub waiting: u32,
    /// Adapters that must be loaded before the step can run.
    pub lora_loads: u32,
    /// Draft tokens that the step verifies besides the decodes.
    pub draft_tokens: u32,
    /// The longest run of draft tokens for one sequence.
    pub draft_depth: u32,
    /// Sequences that had ended when the step began but were already scheduled for it.
    pub stale: u32,
}

/// The constants of the step-time formula. Times are milliseconds; absent terms are zero.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Reading the weights once: the time of an almost empty step.
    pub base_ms: f64,
    /// Per token of the step, decoded or prefilled.
    pub token_ms: f64,
    /// Per token where arithmetic and not memory is the limit: a step takes at least its tokens times
    /// this, whatever reading the weights takes.
    #[serde(default)]
    pub compute_ms: f64,
    /// Height of a smooth jump where the kernels switch.
    #[serde(default)]
    pub cliff_ms: f64,
    /// Tokens per step at which half of the jump is reached.
    #[serde(default)]
    pub cliff_tokens: f64,
    /// How sudden the jump is (the exponent of a Hill curve).
    #[serde(default)]
    pub cliff_steepness: f64,
    /// Per decoding sequence.
    #[serde(default)]
    pub sequence_ms: f64,
    /// Per token of decode context.
    #[serde(default)]
    pub context_ms: f64,
    /// Tokens of decode context that cost nothing: reading them hides behind work that does not depend on
    /// them, so that the time of a step has a kink there.
    #[serde(default)]
    pub context_free: f64,
    /// Per pair of tokens that prefill attention looks at.
    #[serde(default)]
    pub pair_ms: f64,
    /// Added when the step cannot use a captured graph: it has prompt tokens or a context beyond
    /// `graph_context_max`.
    #[serde(default)]
    pub eager_ms: f64,
    /// The longest context that a captured graph covers. Absent: no limit.
    #[serde(default)]
    pub graph_context_max: Option<u32>,
    /// Numbers of tokens for which a graph was captured, rising. A step that only decodes is padded to
    /// the next of them and is eager beyond the last. Empty: no padding and no limit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub graph_sizes: Vec<u32>,
    /// The weights of a mixture of experts, read as far as tokens need them.
    #[serde(default)]
    pub experts: Option<Experts>,
    /// A step that only prefills costs this instead. Absent: the one formula holds for it too.
    #[serde(default)]
    pub prefill: Option<PrefillCost>,
    /// Sigma of the log-normal factor on every step. Zero: every step is exact.
    #[serde(default)]
    pub jitter: f64,
    /// Completion of a step that takes longer than this is only noticed at multiples of it. Zero: at once.
    #[serde(default)]
    pub quantum_ms: f64,
    /// Mean of the exponential delay after a quantum.
    #[serde(default)]
    pub quantum_tail_ms: f64,
    /// Per request that the step admits: broadcasting it to every worker.
    #[serde(default)]
    pub admission_ms: f64,
    #[serde(default)]
    pub waiting_ms: f64,
    /// Per token of the longest draft: the draft model generates one token after the other.
    #[serde(default)]
    pub draft_ms: f64,
    /// Per adapter that is not resident when its request is admitted.
    #[serde(default)]
    pub lora_load_ms: f64,
    /// Multiplies every step: 1.03 makes the engine 3 % slower.
    #[serde(default = "one")]
    pub scale: f64,
}

/// Reading the experts of a mixture: the more tokens a step has, the more of them are needed, until all
/// are. The time is `all_ms × (1 − (1 − share)^tokens)`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experts {
    /// Reading all experts once.
    pub all_ms: f64,
    /// Share of the experts that one token uses.
    pub share: f64,
}

/// Time of a step that only prefills: `base_ms + token_ms × tokens + pair_ms × pairs`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefillCost {
    /// Time of an almost empty prefill.
    pub base_ms: f64,
    pub token_ms: f64,
    /// Per pair of tokens that attention looks at.
    #[serde(default)]
    pub pair_ms: f64,
}

fn one() -> f64 {
    1.0
}

impl Cost {
    /// Weight read, per-token work and the cliff, for a step of `tokens` tokens.
    fn dense_ms(&self, tokens: f64) -> f64 {
        let cliff = if self.cliff_ms > 0.0 && tokens > 0.0 {
            self.cliff_ms / (1.0 + libm::pow(self.cliff_tokens / tokens, self.cliff_steepness))
        } else {
            0.0
        };
        let experts = self.experts.map_or(0.0, |experts| {
            experts.all_ms * (1.0 - libm::pow((1.0 - experts.share).max(0.0), tokens))
        });
        (self.base_ms + self.token_ms * tokens + cliff + experts).max(self.compute_ms * tokens)
    }

    /// Milliseconds of the step before anything random.
    pub fn mean_ms(&self, batch: &Batch) -> f64 {
        let work = match &self.prefill {
            Some(prefill) if batch.decodes == 0 => {
                prefill.base_ms
                    + prefill.token_ms * f64::from(batch.prefill_tokens)
                    + prefill.pair_ms * batch.prefill_pairs
            }
            _ => self.mixed_ms(batch),
        };
        work + self.admission_ms * f64::from(batch.admissions)
            + self.lora_load_ms * f64::from(batch.lora_loads)
    }

    fn mixed_ms(&self, batch: &Batch) -> f64 {
        let sequences = batch.decodes + batch.stale;
        let tokens = sequences + batch.draft_tokens + batch.prefill_tokens;
        let padded = self.graph_sizes.iter().copied().find(|size| *size >= tokens);
        let outgrows_graph =
            self.graph_context_max.is_some_and(|limit| batch.longest_context > limit)
                || (padded.is_none() && !self.graph_sizes.is_empty());
        let is_eager = batch.prefill_tokens > 0 || outgrows_graph;
        let eager = if is_eager { self.eager_ms } else { 0.0 };
        let tokens = if is_eager { tokens } else { padded.unwrap_or(tokens) };
        self.dense_ms(f64::from(tokens))
            + self.sequence_ms * f64::from(sequences)
            + self.context_ms * (batch.decode_context as f64 - self.context_free).max(0.0)
            + self.pair_ms * batch.prefill_pairs
            + self.draft_ms * f64::from(batch.draft_depth)
            + eager
    }

    /// Milliseconds of the step as it happens: jitter, quantum, the cost of a queue, the scale.
    pub fn step_ms(&self, batch: &Batch, generator: &mut Generator) -> f64 {
        let mut step = self.mean_ms(batch);
        if self.jitter > 0.0 {
            step *= libm::exp(self.jitter * normal(generator));
        }
        if self.quantum_ms > 0.0 && step > self.quantum_ms {
            step = self.quantum_ms * libm::ceil(step / self.quantum_ms)
                + self.quantum_tail_ms * exponential(generator);
        }
        (step + self.waiting_ms * f64::from(batch.waiting)) * self.scale
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunked() -> Cost {
        Cost {
            base_ms: 50.0,
            token_ms: 0.3,
            compute_ms: 0.0,
            cliff_ms: 120.0,
            cliff_tokens: 50.0,
            cliff_steepness: 4.0,
            sequence_ms: 0.1,
            context_ms: 1e-4,
            context_free: 0.0,
            pair_ms: 1e-5,
            eager_ms: 17.0,
            graph_context_max: Some(8192),
            graph_sizes: Vec::new(),
            experts: None,
            prefill: None,
            jitter: 0.0,
            quantum_ms: 0.0,
            quantum_tail_ms: 0.0,
            admission_ms: 0.0,
            waiting_ms: 0.0,
            draft_ms: 0.0,
            lora_load_ms: 0.0,
            scale: 1.0,
        }
    }

    #[test]
    fn each_term_of_the_formula_adds_what_it_says() {
        let cost = chunked();
        let check = |batch: Batch, expected: f64| {
            let got = cost.mean_ms(&batch);
            assert!((got - expected).abs() < 1e-9, "{batch:?}: {got} instead of {expected}");
        };
        let decode = Batch { decodes: 50, decode_context: 10_000, ..Batch::default() };
        // 50 + 0.3 × 50 + 120 / 2 + 0.1 × 50 + 1e-4 × 10,000
        check(decode, 131.0);
        check(Batch { longest_context: 8192, ..decode }, 131.0);
        check(Batch { longest_context: 8193, ..decode }, 148.0);
        let prefill = Batch { prefill_tokens: 50, prefill_pairs: 1e6, ..Batch::default() };
        // 50 + 15 + 60 + 10 + 17
        check(prefill, 152.0);
    }

    #[test]
    fn a_decode_is_padded_to_the_next_captured_graph_and_eager_beyond_the_last() {
        let graph_sizes = vec![1, 8, 16];
        let cost = Cost { cliff_ms: 0.0, sequence_ms: 0.0, graph_sizes, ..chunked() };
        let check = |batch: Batch, expected: f64| {
            let got = cost.mean_ms(&batch);
            assert!((got - expected).abs() < 1e-9, "{batch:?}: {got} instead of {expected}");
        };
        let decode = |decodes| Batch { decodes, ..Batch::default() };
        check(decode(1), 50.3);
        check(decode(2), 52.4);
        check(decode(8), 52.4);
        check(decode(16), 54.8);
        check(decode(17), 50.0 + 5.1 + 17.0);
        check(Batch { stale: 7, ..decode(9) }, 54.8);
        check(Batch { prefill_tokens: 3, ..decode(1) }, 50.0 + 1.2 + 17.0);
    }

    #[test]
    fn arithmetic_takes_over_where_a_step_has_many_tokens() {
        let cost = Cost { cliff_ms: 0.0, sequence_ms: 0.0, compute_ms: 0.8, ..chunked() };
        let at = |decodes| cost.mean_ms(&Batch { decodes, ..Batch::default() });
        assert!((at(50) - 65.0).abs() < 1e-9 && (at(200) - 160.0).abs() < 1e-9);
    }

    #[test]
    fn admissions_cost_each_and_context_costs_only_beyond_what_is_free() {
        let cost = Cost { admission_ms: 5.0, context_free: 4_000.0, cliff_ms: 0.0, ..chunked() };
        let at = |admissions, decode_context| {
            cost.mean_ms(&Batch { decodes: 10, admissions, decode_context, ..Batch::default() })
        };
        assert!((at(0, 0) - 54.0).abs() < 1e-9 && (at(0, 4_000) - 54.0).abs() < 1e-9);
        assert!((at(0, 14_000) - 55.0).abs() < 1e-9 && (at(3, 0) - 69.0).abs() < 1e-9);
    }

    #[test]
    fn a_mixture_of_experts_is_read_as_far_as_tokens_need_it() {
        let experts = Some(Experts { all_ms: 40.0, share: 0.25 });
        let cost = Cost { cliff_ms: 0.0, token_ms: 0.0, sequence_ms: 0.0, experts, ..chunked() };
        let at = |decodes| cost.mean_ms(&Batch { decodes, ..Batch::default() });
        assert!((at(1) - 60.0).abs() < 1e-9 && (at(2) - 67.5).abs() < 1e-9);
        assert!((at(200) - 90.0).abs() < 1e-9, "all experts are read once");
    }

    #[test]
    fn a_blocking_prefill_has_its_own_line_and_a_decode_does_not_use_it() {
        let prefill = PrefillCost { base_ms: 70.0, token_ms: 0.4, pair_ms: 0.0 };
        let cost = Cost { prefill: Some(prefill), ..chunked() };
        let batch = Batch { prefill_tokens: 100, ..Batch::default() };
        assert!((cost.mean_ms(&batch) - 110.0).abs() < 1e-9);
        let decode = Batch { decodes: 50, ..Batch::default() };
        assert!((cost.mean_ms(&decode) - chunked().mean_ms(&decode)).abs() < 1e-9);
    }

    #[test]
    fn a_quantum_rounds_up_only_steps_beyond_it() {
        let cost = Cost { quantum_ms: 100.0, cliff_ms: 0.0, ..chunked() };
        let mut generator = base::Seed(1).stream("test").at(0);
        let small = Batch { decodes: 1, ..Batch::default() };
        assert!(cost.step_ms(&small, &mut generator) < 100.0);
        let large = Batch { decodes: 300, ..Batch::default() };
        assert!((cost.step_ms(&large, &mut generator) - 200.0).abs() < 1e-9);
    }

    #[test]
    fn the_bits_of_a_jittered_step_never_change() {
        let cost = Cost { jitter: 0.05, ..chunked() };
        let mut generator = base::Seed(1).stream("test").at(0);
        let batch = Batch { decodes: 7, decode_context: 900, ..Batch::default() };
        let bits: Vec<u64> =
            (0..3).map(|_| cost.step_ms(&batch, &mut generator).to_bits()).collect();
        assert_eq!(bits, [0x4049_0c43_fb2a_a9bb, 0x404a_2b5d_ae51_01cb, 0x404a_97b0_e5ac_b8b7]);
    }
}
