//! The load that an instrument is asked about: streams open at once, and their pace.

use tokometer_base::Nanos;
use tokometer_base::units::nearest_count;
use tokometer_plan::{Address, PartialLoad, Plan, Rate};

/// Most streams that are opened for a plan without a cap.
const STREAMS_MAX: u64 = 4_096;
/// Answers, one after the other, for which a rate is kept up.
const ANSWERS: f64 = 3.0;
/// Events of a flood, over all streams.
const FLOOD_EVENTS: u32 = 400_000;

/// Streams open at once, and their pace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StreamLoad {
    /// Most streams open at once.
    pub concurrency: u32,
    /// Requests per second where they arrive one by one; absent: all streams start at once.
    pub rate: Option<f64>,
    /// Time to the first token of each.
    pub ttft: Nanos,
    /// Time between tokens of each.
    pub itl: Nanos,
    /// Tokens of each answer.
    pub tokens: u32,
    /// Whether the server speaks TLS.
    pub is_tls: bool,
}

impl Default for StreamLoad {
    fn default() -> Self {
        Self {
            concurrency: 64,
            rate: None,
            ttft: Nanos::from_millis(50),
            itl: Nanos::from_millis(20),
            tokens: 200,
            is_tls: false,
        }
    }
}

impl StreamLoad {
    /// The load of a plan: its rate and cap and the length of its answers, at the default pace. A
    /// burst without a cap opens all its requests.
    pub fn of(plan: &Plan) -> Self {
        let rate = Some(plan.load.request_rate.0).filter(|rate| rate.is_finite());
        let streams = plan.load.max_concurrency.map(u64::from);
        // Without a cap a rate opens as many streams as it needs; this bounds the examination.
        let streams = streams.or(rate.map(|_| STREAMS_MAX)).or(plan.load.num_prompts);
        let streams = streams.unwrap_or(64).clamp(1, STREAMS_MAX);
        let is_tls = plan.targets.first().is_some_and(
            |target| matches!(&target.address, Address::Server(url) if url.is_encrypted()),
        );
        let concurrency = u32::try_from(streams).unwrap_or(64);
        Self { concurrency, rate, tokens: 100, is_tls, ..Self::default() }
    }

    /// The same as the load of a plan. A rate is kept up for the length of a few answers.
    pub fn planned(&self) -> PartialLoad {
        let requests =
            self.rate.map(|rate| (rate * self.answer_secs() * ANSWERS).ceil().clamp(16.0, 1e5));
        PartialLoad {
            request_rate: Some(Rate(self.rate.unwrap_or(f64::INFINITY))),
            max_concurrency: Some(Some(self.concurrency)),
            num_prompts: Some(Some(requests.map_or(u64::from(self.concurrency), nearest_count))),
            ..PartialLoad::default()
        }
    }

    fn answer_secs(&self) -> f64 {
        self.ttft.as_secs_f64() + f64::from(self.tokens - 1) * self.itl.as_secs_f64()
    }

    pub fn events_per_s(&self) -> f64 {
        let by_streams = f64::from(self.concurrency) / self.itl.as_secs_f64();
        self.rate.map_or(by_streams, |rate| by_streams.min(rate * f64::from(self.tokens)))
    }

    /// As many streams, all at once, with so many tokens that the client's speed shows.
    #[must_use]
    pub fn flooded(&self) -> Self {
        let tokens = (FLOOD_EVENTS / self.concurrency.max(1)).max(50);
        Self { tokens, rate: None, ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_those_of_all_streams_but_no_more_than_a_rate_sends() {
        let mut load = StreamLoad { concurrency: 2_048, ..StreamLoad::default() };
        assert!((load.events_per_s() - 102_400.0).abs() < 1e-6);
        load.rate = Some(50.0);
        assert!((load.events_per_s() - 10_000.0).abs() < 1e-6);
    }

    #[test]
    fn a_rate_is_planned_for_a_few_answers_and_a_burst_for_one_each() {
        let load = StreamLoad { rate: Some(50.0), tokens: 100, ..StreamLoad::default() };
        let planned = load.planned();
        assert_eq!(planned.request_rate, Some(Rate(50.0)));
        assert_eq!(planned.num_prompts, Some(Some(305)));
        assert_eq!(planned.max_concurrency, Some(Some(64)));
        let burst = StreamLoad::default().planned();
        assert_eq!(burst.request_rate, Some(Rate(f64::INFINITY)));
        assert_eq!(burst.num_prompts, Some(Some(64)));
    }

    #[test]
    fn a_flood_has_many_events_whatever_the_number_of_streams() {
        let flood = |concurrency| {
            let load = StreamLoad { concurrency, rate: Some(2.0), ..StreamLoad::default() };
            (load.flooded().tokens, load.flooded().rate)
        };
        assert_eq!((flood(100), flood(100_000)), ((4_000, None), (50, None)));
    }
}
