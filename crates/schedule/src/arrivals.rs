//! The arrival process as the plan states it.
//!
//! Syntax and sense only: a rate that can never send is refused here, so that everything behind this
//! file works with numbers above zero.

use serde::{Deserialize, Serialize};

/// A load that cannot be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    #[error(
        "cannot send at a rate of {0} requests per second: a rate must be greater than zero\n  try `inf` to send without waiting"
    )]
    Rate(f64),
    #[error("cannot use a burstiness of {0}: it must be above zero (1 is a Poisson process)")]
    Burstiness(f64),
    #[error(
        "cannot ramp from {from} down to {to} requests per second: the first rate must not exceed the last"
    )]
    FallingRamp { from: f64, to: f64 },
    #[error(
        "cannot ramp in a run without a number of requests or a duration: the ramp's end is unknown"
    )]
    EndlessRamp,
}

/// How the rate moves over the run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "shape")]
pub enum RateCurve {
    Flat {
        /// Requests per second.
        rate: f64,
    },
    /// Equal steps from request to request.
    Linear {
        /// Requests per second at the first request.
        from: f64,
        /// Requests per second at the last request.
        to: f64,
    },
    /// Equal ratios from request to request.
    Exponential {
        /// Requests per second at the first request.
        from: f64,
        /// Requests per second at the last request.
        to: f64,
    },
}

/// What happens before the first request, which is where tools differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum First {
    /// vLLM's rule: the first request waits a gap of its own, and at one rate over a known number of
    /// requests the gaps are stretched so that the last request starts at number ÷ rate exactly. Over a
    /// known time they are stretched so that rate × time requests start in it.
    #[default]
    Waits,
    /// SGLang's rule: the first request goes at once and nothing is stretched.
    Immediate,
}

/// Requests spread over time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Pace {
    #[serde(flatten)]
    pub curve: RateCurve,
    /// Shape of the gamma distribution of gaps: 1 is a Poisson process, below 1 is burstier.
    /// `None` stands for an infinite shape: equal gaps.
    pub burstiness: Option<f64>,
    /// The rule for the first request.
    #[serde(default)]
    pub first: First,
}

/// When requests are intended to start.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "process")]
pub enum Arrivals {
    /// An infinite rate: each as soon as the gate lets it pass. Intended times mean nothing.
    #[default]
    AtOnce,
    /// At a rate.
    Paced(Pace),
    /// The items bring their own times.
    Traced,
}

fn positive(rate: f64) -> Result<(), Error> {
    if rate > 0.0 && rate.is_finite() { Ok(()) } else { Err(Error::Rate(rate)) }
}

impl Arrivals {
    /// A Poisson process of this rate with vLLM's rules; an infinite rate is [`Arrivals::AtOnce`].
    pub fn poisson(rate: f64) -> Self {
        if rate == f64::INFINITY {
            return Self::AtOnce;
        }
        let curve = RateCurve::Flat { rate };
        Self::Paced(Pace { curve, burstiness: Some(1.0), first: First::Waits })
    }

    /// Refuses loads that cannot be made.
    pub fn check(&self) -> Result<(), Error> {
        let Self::Paced(pace) = self else { return Ok(()) };
        if let Some(shape) = pace.burstiness.filter(|shape| !(*shape > 0.0 && shape.is_finite())) {
            return Err(Error::Burstiness(shape));
        }
        match pace.curve {
            RateCurve::Flat { rate } => positive(rate),
            RateCurve::Linear { from, to } | RateCurve::Exponential { from, to } => {
                positive(from)?;
                positive(to)?;
                if from > to { Err(Error::FallingRamp { from, to }) } else { Ok(()) }
            }
        }
    }
}

impl RateCurve {
    /// The rate when this fraction of the run, between 0 and 1, has passed.
    pub fn rate_at(self, fraction: f64) -> f64 {
        match self {
            Self::Flat { rate } => rate,
            Self::Linear { from, to } => from + (to - from) * fraction,
            Self::Exponential { from, to } => from * libm::pow(to / from, fraction),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_that_could_never_send_are_refused() {
        let paced = |curve, burstiness| {
            Arrivals::Paced(Pace { curve, burstiness, first: First::Waits }).check()
        };
        assert_eq!(paced(RateCurve::Flat { rate: 0.0 }, None), Err(Error::Rate(0.0)));
        assert!(matches!(paced(RateCurve::Flat { rate: f64::NAN }, None), Err(Error::Rate(_))));
        assert_eq!(paced(RateCurve::Flat { rate: 1.0 }, Some(0.0)), Err(Error::Burstiness(0.0)));
        let falling = RateCurve::Linear { from: 2.0, to: 1.0 };
        assert_eq!(paced(falling, None), Err(Error::FallingRamp { from: 2.0, to: 1.0 }));
        assert_eq!(paced(RateCurve::Linear { from: 0.0, to: 1.0 }, None), Err(Error::Rate(0.0)));
        assert_eq!(Arrivals::poisson(3.0).check(), Ok(()));
        assert_eq!(Arrivals::poisson(f64::INFINITY), Arrivals::AtOnce);
    }

    #[test]
    fn ramps_meet_their_ends_and_the_middle() {
        let check = |curve: RateCurve, fraction, expected: f64| {
            assert!((curve.rate_at(fraction) - expected).abs() < 1e-12, "{curve:?} at {fraction}");
        };
        check(RateCurve::Linear { from: 2.0, to: 10.0 }, 0.0, 2.0);
        check(RateCurve::Linear { from: 2.0, to: 10.0 }, 0.5, 6.0);
        check(RateCurve::Linear { from: 2.0, to: 10.0 }, 1.0, 10.0);
        check(RateCurve::Exponential { from: 1.0, to: 100.0 }, 0.5, 10.0);
        check(RateCurve::Flat { rate: 4.0 }, 0.3, 4.0);
    }
}
