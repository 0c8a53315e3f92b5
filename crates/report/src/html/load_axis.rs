//! Kinds of load, each with an axis of its own.

use tokometer_record::RecordedLoad;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LoadAxis {
    InFlight,
    Rate,
    Burst,
    /// A trace or stages: no single number.
    Course,
}

impl LoadAxis {
    pub(super) fn of(load: &RecordedLoad) -> Self {
        match (load.request_rate, load.max_concurrency) {
            _ if load.is_traced || !load.stages.is_empty() => Self::Course,
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

    /// The label of the axis, the title of its charts, the kind of load in words, and its unit.
    fn texts(self) -> [&'static str; 4] {
        match self {
            Self::InFlight => [
                "maximum requests in flight",
                "Concurrency sweep (closed loop)",
                "closed loop",
                "in flight",
            ],
            Self::Rate => {
                ["request rate (req/s)", "Request-rate sweep (open loop)", "open loop", "req/s"]
            }
            Self::Burst => {
                ["requests sent at once", "Bursts (all requests at once)", "bursts", "at once"]
            }
            Self::Course => ["", "Traces and stages", "", ""],
        }
    }

    pub(super) fn label(self) -> &'static str {
        self.texts()[0]
    }

    pub(super) fn title(self) -> &'static str {
        self.texts()[1]
    }

    pub(super) fn words(self) -> &'static str {
        self.texts()[2]
    }

    pub(super) fn unit(self) -> &'static str {
        self.texts()[3]
    }
}
