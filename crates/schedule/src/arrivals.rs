//! The arrival process as the plan states it.
//!
//! Syntax and sense only: a rate that can never send is refused here, so that everything behind this
//! file works with numbers above zero.

use serde::{Deserialize, Serialize};

use crate::stage::{Length, Stage, StageLoad};

/// A load that cannot be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    #[error(
        "cannot send at a rate of {0} requests per second: a rate must be greater than zero\n  try `inf` to send without waiting"
    )]
    Rate(f64),
    #[error("cannot use a burstiness of {0}: it must be above zero (1 is a Poisson process)")]
    Burstiness(f64),
    #[error("cannot use the stage `{stage}`: {why}")]
    Stage { stage: String, why: &'static str },
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
#[derive(Debug, Clone, PartialEq)]
pub struct Pace {
    /// One after the other. A rate over the whole run is one stage as long as the run.
    pub stages: Vec<Stage>,
    /// Shape of the gamma distribution of gaps: 1 is a Poisson process, below 1 is burstier.
    /// `None` stands for an infinite shape: equal gaps.
    pub burstiness: Option<f64>,
    /// The rule for the first request of a stage as long as the run.
    pub first: First,
}

/// When requests are intended to start.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Arrivals {
    /// An infinite rate: each as soon as the gate lets it pass. Intended times mean nothing.
    #[default]
    AtOnce,
    /// In stages, each at a rate or with a number of sessions in progress.
    Paced(Pace),
    /// The items bring their own times.
    Traced,
}

impl Pace {
    /// One rate over the whole run.
    pub fn flat(rate: f64, burstiness: Option<f64>, first: First) -> Self {
        Self { stages: vec![Stage::whole_run(StageLoad::Flat { rate })], burstiness, first }
    }

    /// Whether a number of sessions in progress decides, at some time, when requests start.
    pub fn has_closed_stages(&self) -> bool {
        self.stages.iter().any(|stage| matches!(stage.load, StageLoad::Sessions { .. }))
    }
}

impl Arrivals {
    /// A Poisson process of this rate with vLLM's rules; an infinite rate is [`Arrivals::AtOnce`].
    pub fn poisson(rate: f64) -> Self {
        if rate == f64::INFINITY {
            return Self::AtOnce;
        }
        Self::Paced(Pace::flat(rate, Some(1.0), First::Waits))
    }

    /// The pace of requests that are spread over time.
    pub fn pace(&self) -> Option<&Pace> {
        match self {
            Self::Paced(pace) => Some(pace),
            Self::AtOnce | Self::Traced => None,
        }
    }

    /// Refuses loads that cannot be made.
    pub fn check(&self) -> Result<(), Error> {
        let Some(pace) = self.pace() else { return Ok(()) };
        if let Some(shape) = pace.burstiness.filter(|shape| !(*shape > 0.0 && shape.is_finite())) {
            return Err(Error::Burstiness(shape));
        }
        if let [Stage { load: StageLoad::Flat { rate }, length: Length::Run }] = pace.stages[..] {
            return if rate > 0.0 && rate.is_finite() { Ok(()) } else { Err(Error::Rate(rate)) };
        }
        let fault = pace.stages.iter().find_map(|stage| Some((stage, stage.fault()?)));
        let others = pace.stages.iter().filter(|_| pace.stages.len() > 1);
        let whole = others.into_iter().find(|stage| stage.length == Length::Run);
        let fault =
            fault.or(whole.map(|stage| (stage, "it is as long as the run: omit the others")));
        match fault {
            Some((stage, why)) => Err(Error::Stage { stage: stage.to_string(), why }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_that_could_never_send_are_refused() {
        let paced =
            |rate, burstiness| Arrivals::Paced(Pace::flat(rate, burstiness, First::Waits)).check();
        assert_eq!(paced(0.0, None), Err(Error::Rate(0.0)));
        assert!(matches!(paced(f64::NAN, None), Err(Error::Rate(_))));
        assert_eq!(paced(1.0, Some(0.0)), Err(Error::Burstiness(0.0)));
        assert_eq!(Arrivals::poisson(3.0).check(), Ok(()));
        assert_eq!(Arrivals::poisson(f64::INFINITY), Arrivals::AtOnce);
    }
}
