//! The figures of a predicted run, by the definitions of the old serving tables.
//!
//! Kept as weighted samples, not as timelines: a run of any size fits. TPOT is the time from the
//! first to the last event over the tokens after the first; ITL is the gap between events, the one
//! that only ends the answer included.

use base::Nanos;
use tokometer_base as base;

use crate::in_flight::Active;
use crate::sender::Due;
use crate::weighted::Weighted;

/// Distributions and totals of a run.
#[derive(Debug, Clone, Default)]
pub struct PredictedFigures {
    pub completed: u64,
    /// Requests that their user cancelled.
    pub cancelled: u64,
    /// From the first request's send to the last answer's end, in seconds.
    pub duration_s: f64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub ttft: Weighted,
    /// Time per output token after the first.
    pub tpot: Weighted,
    /// Gaps between events.
    pub itl: Weighted,
    /// From the send to the last event.
    pub e2el: Weighted,
    /// Gaps of one length that follow each other, and their number: they become one sample of `itl`.
    gap: u64,
    gap_weight: u32,
    first_send: Option<Nanos>,
}

impl PredictedFigures {
    /// Answer tokens per second; `None` for a run without length.
    pub fn output_throughput(&self) -> Option<f64> {
        self.per_second(self.output_tokens)
    }

    /// Requests that are over, complete or not.
    pub fn over(&self) -> u64 {
        self.completed + self.cancelled
    }

    pub fn total_tokens(&self) -> u64 {
        self.input_tokens + self.output_tokens
    }

    /// A count over the length of the run; `None` for a run without length.
    pub fn per_second(&self, count: u64) -> Option<f64> {
        (self.duration_s > 0.0).then(|| count as f64 / self.duration_s)
    }

    /// Adds the last gaps to their distribution.
    pub(crate) fn flush(&mut self) {
        if self.gap_weight > 0 {
            self.itl.push(self.gap, self.gap_weight);
            self.gap_weight = 0;
        }
    }

    /// Ends the run and puts all samples in order.
    pub(crate) fn close(&mut self, end: Nanos) {
        self.flush();
        self.duration_s = (end - self.first_send.unwrap_or(Nanos::ZERO)).as_secs_f64();
        for samples in [&mut self.ttft, &mut self.tpot, &mut self.itl, &mut self.e2el] {
            samples.sort();
        }
    }

    /// Adds the figures of another share of the same run.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.completed += other.completed;
        self.cancelled += other.cancelled;
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.ttft.merge(&other.ttft);
        self.tpot.merge(&other.tpot);
        self.itl.merge(&other.itl);
        self.e2el.merge(&other.e2el);
        self.gap = 0;
        let sends = [self.first_send, other.first_send];
        self.first_send = sends.into_iter().flatten().min();
    }

    pub(crate) fn sent(&mut self, request: &Active, due: &Due) {
        self.input_tokens += u64::from(due.ask.prompt_tokens);
        self.first_send.get_or_insert(request.sent);
    }

    /// Called before `request.first` and `request.last` take the event in.
    pub(crate) fn event(&mut self, request: &Active, at: Nanos) {
        if request.first.is_none() {
            self.ttft.push((at - request.sent).0, 1);
            return;
        }
        self.gaps(at - request.last, 1);
    }

    /// So many events of any requests came this long after the one before.
    pub(crate) fn gaps(&mut self, gap: Nanos, weight: u32) {
        if gap.0 != self.gap {
            self.flush();
            self.gap = gap.0;
        }
        self.gap_weight += weight;
    }

    /// Throughputs are those of complete answers.
    pub(crate) fn cancelled(&mut self, prompt_tokens: u32) {
        self.cancelled += 1;
        self.input_tokens -= u64::from(prompt_tokens);
    }

    pub(crate) fn ended(&mut self, request: &Active) {
        self.completed += 1;
        self.output_tokens += u64::from(request.output_tokens);
        self.e2el.push((request.last - request.sent).0, 1);
        let first = request.first.unwrap_or(request.last);
        if let Some(intervals) = request.output_tokens.checked_sub(1).filter(|count| *count > 0) {
            self.tpot.push((request.last - first).0 / u64::from(intervals), 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_length_has_no_rate() {
        let mut figures =
            PredictedFigures { input_tokens: 30, output_tokens: 10, ..PredictedFigures::default() };
        assert_eq!(figures.per_second(figures.total_tokens()), None);
        figures.duration_s = 4.0;
        assert_eq!(figures.per_second(figures.total_tokens()), Some(10.0));
        assert_eq!(figures.output_throughput(), Some(2.5));
    }
}
