//! The load that an instrument is asked about, as typed.

use tokometer_base::{Nanos, units};
use tokometer_measure::StreamLoad;

use crate::exit::Refusal;

const HINT: &str = "write it as `concurrency=2048 itl=20ms`, also with rate=, ttft=, tokens= and tls, or give the flags of bench";

/// Reads words such as `concurrency=2048 itl=20ms tls`.
pub(crate) fn parse(text: &str) -> Result<StreamLoad, Refusal> {
    let mut load = StreamLoad::default();
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

fn rate(text: &str) -> Option<f64> {
    text.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_read_as_typed_and_the_rest_is_by_default() {
        let load = parse("concurrency=2048 itl=20ms, tls").unwrap();
        assert_eq!(
            (load.concurrency, load.itl, load.is_tls),
            (2_048, Nanos::from_millis(20), true)
        );
        assert_eq!(load.ttft, StreamLoad::default().ttft);
        let load = parse("rate=50 tokens=100").unwrap();
        assert_eq!((load.rate, load.tokens), (Some(50.0), 100));
        for bad in ["concurrency=0", "rate=0", "rate=inf", "speed=3", "itl=0ms", "itl=soon"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
