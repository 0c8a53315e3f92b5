//! The engines of one replica: one for everything, or disaggregated prefill and decode engines.

use std::ops::Range;

use base::Nanos;
use sim::engine::Job;
use sim::profile::Disaggregation;
use tokometer_base as base;
use tokometer_sim as sim;

#[derive(Debug, Clone, Copy)]
pub(crate) struct ReplicaEngines {
    prefill: usize,
    decode: usize,
    transfer: Option<Disaggregation>,
}

impl ReplicaEngines {
    pub(crate) fn new(transfer: Option<Disaggregation>) -> Self {
        let (prefill, decode) = transfer.map_or((1, 0), |parts| {
            (parts.prefill_engines as usize, parts.decode_engines as usize)
        });
        Self { prefill, decode, transfer }
    }

    pub(crate) fn engines(self) -> usize {
        self.prefill + self.decode
    }

    /// The numbers of a replica's engines in the fleet.
    pub(crate) fn of(self, replica: usize) -> Range<usize> {
        replica * self.engines()..(replica + 1) * self.engines()
    }

    pub(crate) fn prefill_of(self, replica: usize) -> Range<usize> {
        let all = self.of(replica);
        all.start..all.start + self.prefill
    }

    pub(crate) fn decode_of(self, replica: usize) -> Range<usize> {
        let all = self.of(replica);
        all.start + self.prefill..all.end
    }

    /// Leaves a request only its first token, where another engine writes the others, and returns
    /// those. `None` where one engine does everything.
    pub(crate) fn split(self, job: &mut Job) -> Option<Box<Job>> {
        if self.transfer.is_none() || job.output_tokens < 2 {
            return None;
        }
        let rest = Job {
            prompt_tokens: job.prompt_tokens + 1,
            output_tokens: job.output_tokens - 1,
            output_limit: job.output_limit.saturating_sub(1),
            block_hashes: Box::default(),
            has_kv: true,
            ..job.clone()
        };
        (job.output_tokens, job.output_limit) = (1, 1);
        Some(Box::new(rest))
    }

    /// How long the keys and values of a prompt take from one engine to the other.
    pub(crate) fn transfer(self, prompt_tokens: u32) -> Nanos {
        let millis = self.transfer.map_or(0.0, |parts| {
            parts.transfer_ms + parts.transfer_token_ms * f64::from(prompt_tokens)
        });
        Nanos::from_millis_f64(millis)
    }
}
