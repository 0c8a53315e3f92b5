//! Kinds of load, each with an axis of its own.

use tokometer_record::RecordedLoad;

/// What a load is a number of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LoadAxis {
    InFlight,
    Rate,
    Burst,
    /// A trace or a ramp: no single number.
    Course,
}

impl LoadAxis {
    pub(super) fn of(load: &RecordedLoad) -> Self {
        match (load.request_rate, load.max_concurrency) {
            _ if load.is_traced || load.ramp.is_some() => Self::Course,
            (Some(_), _) => Self::Rate,
            (None, Some(_)) => Self::InFlight,
            (None, None) if load.planned_requests.is_some() => Self::Burst,
            (None, None) => Self::Course,
        }
    }

    pub(super) fn value(self, load: &RecordedLoad) -> Option<f64> {
        match self {
            Self::InFlight => load.max_concurrency.map(f64::from),
            Self::Rate => load.request_rate,
            Self::Burst => load.planned_requests.map(|planned| planned as f64),
            Self::Course => None,
        }
    }

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::InFlight => "maximum requests in flight",
            Self::Rate => "request rate (req/s)",
            Self::Burst => "requests sent at once",
            Self::Course => "",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::InFlight => "Concurrency sweep (closed loop)",
            Self::Rate => "Request-rate sweep (open loop)",
            Self::Burst => "Bursts (all requests at once)",
            Self::Course => "Traces and ramps",
        }
    }

    /// For the origin of a page.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::InFlight => "closed loop",
            Self::Rate => "open loop",
            Self::Burst => "bursts",
            Self::Course => "",
        }
    }

    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::InFlight => "in flight",
            Self::Rate => "req/s",
            Self::Burst => "at once",
            Self::Course => "",
        }
    }
}
