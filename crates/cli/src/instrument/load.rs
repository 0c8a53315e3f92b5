//! The load that an instrument is asked about, as typed.

use tokometer_base::{Nanos, units};

use crate::exit::Refusal;
use crate::plan::{Address, Plan};

/// Streams open at once, and their pace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    /// Streams open at once.
    pub(crate) concurrency: u32,
    /// Time to the first token of each.
    pub(crate) ttft: Nanos,
    /// Time between tokens of each.
    pub(crate) itl: Nanos,
    /// Tokens of each answer.
    pub(crate) tokens: u32,
    /// Whether the server speaks TLS.
    pub(crate) is_tls: bool,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            concurrency: 64,
            ttft: Nanos::from_millis(50),
            itl: Nanos::from_millis(20),
            tokens: 200,
            is_tls: false,
        }
    }
}

const HINT: &str = "write it as `concurrency=2048 itl=20ms`, also with ttft=, tokens= and tls";

impl Load {
    /// The load that a plan will probably make: its cap, else two seconds of its rate, else all its
    /// requests, each at the default pace.
    pub(crate) fn of(plan: &Plan) -> Self {
        const STREAMS_MAX: u64 = 4_096;
        let by_rate = Some(plan.load.request_rate.0).filter(|rate| rate.is_finite());
        let streams = plan.load.max_concurrency.map(u64::from);
        let streams =
            streams.or(by_rate.map(|rate| Nanos::from_secs_f64(2.0 * rate).0 / 1_000_000_000));
        let streams = streams.or(plan.load.num_prompts).unwrap_or(64).clamp(1, STREAMS_MAX);
        let is_tls = plan.targets.first().is_some_and(
            |target| matches!(&target.address, Address::Server(url) if url.is_encrypted()),
        );
        let concurrency = u32::try_from(streams).unwrap_or(64);
        Self { concurrency, tokens: 100, is_tls, ..Self::default() }
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
                        format!("cannot use `{word}`: a whole number above zero is needed"),
                        HINT,
                    )
                })
            };
            match name {
                "concurrency" | "streams" => load.concurrency = count()?,
                "tokens" => load.tokens = count()?.max(2),
                "ttft" => load.ttft = span()?,
                "itl" => load.itl = span()?,
                "tls" => load.is_tls = true,
                _ => return Err(Refusal::usage(format!("cannot use `{word}` of `--load`"), HINT)),
            }
        }
        if load.itl == Nanos::ZERO {
            return Err(Refusal::usage(
                "cannot use `itl=0`: tokens need some time between them",
                HINT,
            ));
        }
        Ok(load)
    }

    /// Events per second that this load sends.
    pub(crate) fn events_per_s(&self) -> f64 {
        f64::from(self.concurrency) / self.itl.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_read_as_typed_and_the_rest_is_by_default() {
        let load = Load::parse("concurrency=2048 itl=20ms, tls").unwrap();
        assert_eq!(
            (load.concurrency, load.itl, load.is_tls),
            (2_048, Nanos::from_millis(20), true)
        );
        assert_eq!(load.ttft, Load::default().ttft);
        assert!((load.events_per_s() - 102_400.0).abs() < 1e-6);
        for bad in ["concurrency=0", "speed=3", "itl=0ms", "itl=soon"] {
            assert!(Load::parse(bad).is_err(), "{bad}");
        }
    }
}
