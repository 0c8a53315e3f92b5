//! The load that an instrument is asked about, as typed.

use tokometer_base::units::nearest_count;
use tokometer_base::{Nanos, units};
use tokometer_plan::{Address, PartialLoad, Plan, Rate};

use crate::exit::Refusal;

/// Most streams that are opened for a plan without a cap.
const STREAMS_MAX: u64 = 4_096;

/// Streams open at once, and their pace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct StreamLoad {
    /// Most streams open at once.
    pub(crate) concurrency: u32,
    /// Requests per second where they arrive one by one; absent: all streams start at once.
    pub(crate) rate: Option<f64>,
    /// Time to the first token of each.
    pub(crate) ttft: Nanos,
    /// Time between tokens of each.
    pub(crate) itl: Nanos,
    /// Tokens of each answer.
    pub(crate) tokens: u32,
    /// Whether the server speaks TLS.
    pub(crate) is_tls: bool,
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

const HINT: &str = "write it as `concurrency=2048 itl=20ms`, also with rate=, ttft=, tokens= and tls, or give the flags of bench";

impl StreamLoad {
    /// The load of a plan: its rate and cap and the length of its answers, at the default pace. A
    /// burst without a cap opens all its requests.
    pub(crate) fn of(plan: &Plan) -> Self {
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

    /// The same as the load of a plan. A rate is kept up for the length of three answers.
    pub(crate) fn planned(&self) -> PartialLoad {
        let requests =
            self.rate.map(|rate| (rate * self.answer_secs() * 3.0).ceil().clamp(16.0, 1e5));
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

    /// Reads words such as `concurrency=2048 itl=20ms tls`.
    pub(crate) fn parse(text: &str) -> Result<Self, Refusal> {
        let mut load = Self::default();
        for word in text.split([' ', ',']).filter(|word| !word.is_empty()) {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let span = || {
                units::parse_span(value, Nanos::from_millis(1))
                    .map_err(|why| Refusal::usage(format!("cannot use `{word}`: {why}"), HINT))
            };
            let count = || {
                value.parse::<u32>().ok().filter(|count| *count > 0).ok_or_else(|| {
                    Refusal::usage(
                        format!("cannot use `{word}`: it must be a whole number greater than zero"),
                        HINT,
                    )
                })
            };
            let rate = || {
                rate(value).ok_or_else(|| {
                    let message =
                        format!("cannot use `{word}`: the rate must be a number greater than zero");
                    Refusal::usage(message, HINT)
                })
            };
            match name {
                "concurrency" | "streams" => load.concurrency = count()?,
                "tokens" => load.tokens = count()?.max(2),
                "ttft" => load.ttft = span()?,
                "itl" => load.itl = span()?,
                "rate" => load.rate = Some(rate()?),
                "tls" => load.is_tls = true,
                _ => {
                    return Err(Refusal::usage(
                        format!("cannot use `{word}` in `--load`: unknown key"),
                        HINT,
                    ));
                }
            }
        }
        if load.itl == Nanos::ZERO {
            return Err(Refusal::usage(
                "cannot use `itl=0`: the time between tokens must be greater than zero",
                HINT,
            ));
        }
        Ok(load)
    }

    /// Events per second that this load sends.
    pub(crate) fn events_per_s(&self) -> f64 {
        let by_streams = f64::from(self.concurrency) / self.itl.as_secs_f64();
        self.rate.map_or(by_streams, |rate| by_streams.min(rate * f64::from(self.tokens)))
    }
}

fn rate(text: &str) -> Option<f64> {
    text.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_read_as_typed_and_the_rest_is_by_default() {
        let load = StreamLoad::parse("concurrency=2048 itl=20ms, tls").unwrap();
        assert_eq!(
            (load.concurrency, load.itl, load.is_tls),
            (2_048, Nanos::from_millis(20), true)
        );
        assert_eq!(load.ttft, StreamLoad::default().ttft);
        assert!((load.events_per_s() - 102_400.0).abs() < 1e-6);
        let load = StreamLoad::parse("rate=50 tokens=100").unwrap();
        let planned = load.planned();
        assert_eq!(planned.request_rate, Some(Rate(50.0)));
        assert_eq!(planned.num_prompts, Some(Some(305)));
        assert_eq!(planned.max_concurrency, Some(Some(64)));
        for bad in ["concurrency=0", "rate=0", "rate=inf", "speed=3", "itl=0ms", "itl=soon"] {
            assert!(StreamLoad::parse(bad).is_err(), "{bad}");
        }
    }
}
