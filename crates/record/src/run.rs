//! Everything recorded about a run besides its requests.

use serde::{Deserialize, Deserializer, Serialize};
use tokometer_base::printable::short;
use tokometer_base::{Backend, Conventions, Nanos, Seed, WallNanos};

use crate::health::Health;
use crate::sharding::{MergedRun, ShardInfo, Sharding};

/// Version of the record's format. Raised when a column changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// The version of a record whose events were packed after the run
/// ([`RunReader::pack_events`](crate::RunReader::pack_events)).
pub const PACKED_SCHEMA: u32 = 2;

/// The newest version that can be read.
pub const NEWEST_SCHEMA: u32 = PACKED_SCHEMA;

fn infinite_if_null<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::INFINITY))
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TargetInfo {
    /// Scheme, host, port and the path before the server's routes, without keys.
    pub base_url: String,
    /// Path of the measured route from the root of the host, so with the path before it.
    pub endpoint: String,
    /// Backend name as the user gave it, such as `vllm`.
    pub backend: String,
    pub model: String,
    /// True for the embedded simulator, and for a prediction without a server: every view of the
    /// figures must say so.
    pub is_simulated: bool,
    /// The server's name and version. `None` where it does not report them.
    pub server: Option<String>,
    /// The addresses that connections went to: those of the server, or of its proxy. Requests name them
    /// by index.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// The proxy that every request passed, without its password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
}

/// Prefix of `base_url` in a run that was computed; the engine's name follows.
pub const PREDICTION: &str = "prediction:";

impl TargetInfo {
    /// The backend's facts; `None` for a name of another version.
    pub fn backend(&self) -> Option<&'static Backend> {
        Backend::named(&self.backend)
    }

    /// The whole address of the measured route.
    pub fn route_url(&self) -> String {
        if let Some(rest) = self.base_url.strip_prefix("unix:") {
            let socket = rest.split_once(":/").map_or(rest, |(socket, _)| socket);
            return format!("unix:{socket}:{}", self.endpoint);
        }
        let host = self.base_url.find("://").map_or(0, |at| at + 3);
        let path = self.base_url[host..].find('/').map_or(self.base_url.len(), |at| host + at);
        format!("{}{}", &self.base_url[..path], self.endpoint)
    }

    /// The engine of a prediction; `None` for a measured run.
    pub fn predicted_engine(&self) -> Option<&str> {
        self.base_url.strip_prefix(PREDICTION)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedLoad {
    /// Requests per second; `None` is an infinite rate.
    pub request_rate: Option<f64>,
    /// Shape of the gaps between arrivals; 1 is a Poisson process, infinite is even spacing. JSON has
    /// no infinite number and holds `null` for it.
    #[serde(deserialize_with = "infinite_if_null")]
    pub burstiness: f64,
    /// Most requests in flight; `None` is no limit.
    pub max_concurrency: Option<u32>,
    pub planned_requests: Option<u64>,
    /// Requested duration, when time ends the run.
    pub duration: Option<Nanos>,
    /// Whether arrival times come from a trace or from conversations.
    #[serde(default)]
    pub is_traced: bool,
    /// The ramp's name, first and last rate.
    #[serde(default)]
    pub ramp: Option<(String, f64, f64)>,
}

/// Everything known before the first request: `plan.json` of the run folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    /// See [`SCHEMA_VERSION`].
    pub schema: u32,
    /// Version, build profile and commit of the program.
    pub version: String,
    /// As given by the user, or made from time and model.
    pub name: String,
    /// On the wall clock.
    pub started: WallNanos,
    /// `started` on the monotonic clock. All times on disk are relative to it.
    pub origin: Nanos,
    /// Root seed of lengths and arrivals.
    pub seed: Seed,
    /// Makes the content of prompts differ between runs with one seed.
    pub salt: u64,
    /// The tool whose conventions were followed.
    pub family: Conventions,
    /// Requests name their target by its index here.
    pub targets: Vec<TargetInfo>,
    /// As requested, not as achieved.
    pub load: RecordedLoad,
    /// Such as `random` or `sharegpt`.
    pub dataset: String,
    /// The tokenizer that counted prompts. `None` where none was needed.
    pub tokenizer: Option<String>,
    /// The whole resolved plan, in the form that `bench --plan` reads.
    pub plan: serde_json::Value,
    /// Facts about machine and environment.
    pub environment: serde_json::Value,
    /// Messages from the preparation, such as a tokenizer that was replaced.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// The shard that made the record, in a run of several processes. `None`: one process made the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharding: Option<Sharding>,
}

impl RunInfo {
    pub fn merged(&self) -> Option<&MergedRun> {
        match &self.sharding {
            Some(Sharding::Merged(merged)) => Some(merged),
            _ => None,
        }
    }

    /// The number of this record among the shards of its run.
    pub fn shard(&self) -> Option<&ShardInfo> {
        match &self.sharding {
            Some(Sharding::Shard(shard)) => Some(shard),
            _ => None,
        }
    }

    pub fn is_prediction(&self) -> bool {
        self.targets.iter().any(|target| target.predicted_engine().is_some())
    }

    /// The same with every text fit for a terminal: a folder may come from anybody, and holds what a
    /// server said.
    #[must_use]
    pub fn printable(mut self) -> Self {
        let clean = |text: &mut String| *text = short(text);
        [&mut self.version, &mut self.name, &mut self.dataset].into_iter().for_each(clean);
        self.tokenizer.iter_mut().chain(&mut self.remarks).for_each(clean);
        for target in &mut self.targets {
            let texts = [
                &mut target.base_url,
                &mut target.endpoint,
                &mut target.backend,
                &mut target.model,
            ];
            let optional = target.server.iter_mut().chain(&mut target.proxy);
            texts.into_iter().chain(optional).chain(&mut target.addresses).for_each(clean);
        }
        self.load.ramp.iter_mut().map(|(name, ..)| name).for_each(clean);
        if let Some(sharding) = &mut self.sharding {
            sharding.texts().for_each(clean);
        }
        self
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// All planned requests ended, or the duration was over.
    Complete,
    /// A signal ended it early.
    Interrupted,
    /// It was stopped early because the server was overloaded.
    Overloaded,
    DiskFull,
    TargetLost,
    /// The server refused the first requests, all in the same way.
    Refused,
    /// Shards of the run have no record or one that breaks off, or ended early.
    ShardsLost,
}

impl Stop {
    /// Whether requests were not sent for a reason that the plan does not have.
    pub fn is_early_end(self) -> bool {
        matches!(self, Self::Interrupted | Self::DiskFull | Self::TargetLost | Self::Refused)
    }

    pub fn reason(self) -> &'static str {
        match self {
            Self::Complete => "all requests ended",
            Self::Interrupted => "interrupted",
            Self::Overloaded => "the server was overloaded",
            Self::DiskFull => "the record could not be written any further",
            Self::TargetLost => "the server became unreachable",
            Self::Refused => "the server refused the first requests, all in the same way",
            Self::ShardsLost => "shards of the run were lost",
        }
    }
}

/// Everything known after the last request: `end.json` of the run folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunEnd {
    /// Anything but [`Stop::Complete`] makes the figures partial.
    pub stop: Stop,
    /// Start of the measured phase, just before its first request was due.
    pub measure_begin: Nanos,
    pub measure_end: Nanos,
    /// Requests in flight when the drain time was over.
    pub abandoned: u64,
    pub never_sent: u64,
    pub health: Health,
}

#[derive(Debug, Clone, PartialEq)]
pub enum RunState {
    /// The run wrote its end, whatever the reason for it.
    Ended(Box<RunEnd>),
    /// The writer was killed: only what was written until then exists.
    Killed {
        /// Measured attempts that were sent and have no end.
        in_flight: u64,
        /// Of these, retries whose previous attempt has ended.
        retrying: u64,
    },
}

impl RunState {
    /// `None` for a run that was killed.
    pub fn end(&self) -> Option<&RunEnd> {
        if let Self::Ended(end) = self { Some(end) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run with `--burstiness inf` could not be read again.
    #[test]
    fn every_number_of_the_load_survives_the_file() {
        for burstiness in [f64::INFINITY, 1.0, 0.1, 1e-300, f64::MAX] {
            let load = RecordedLoad {
                request_rate: Some(1.0 / 3.0),
                burstiness,
                max_concurrency: Some(u32::MAX),
                planned_requests: Some(u64::MAX),
                duration: Some(Nanos::MAX),
                is_traced: true,
                ramp: Some(("linear".to_owned(), 1e-9, 1e9)),
            };
            let text = serde_json::to_string(&load).unwrap();
            assert_eq!(serde_json::from_str::<RecordedLoad>(&text).unwrap(), load, "{text}");
        }
    }

    /// An address with a path showed that path twice.
    #[test]
    fn the_address_of_the_route_has_the_path_before_it_once() {
        let check = |base_url: &str, endpoint: &str, expected: &str| {
            let target = TargetInfo {
                base_url: base_url.to_owned(),
                endpoint: endpoint.to_owned(),
                backend: "openai".to_owned(),
                model: "m".to_owned(),
                is_simulated: false,
                server: None,
                addresses: Vec::new(),
                proxy: None,
            };
            assert_eq!(target.route_url(), expected);
        };
        check("http://h:8000", "/v1/completions", "http://h:8000/v1/completions");
        check("https://h/a/b", "/a/b/v1/completions?x=1", "https://h/a/b/v1/completions?x=1");
        check("http://h/v1", "/v1/completions", "http://h/v1/completions");
        check("unix:/run/s.sock", "/v1/completions", "unix:/run/s.sock:/v1/completions");
        check("unix:/run/s.sock:/a", "/a/v1/x", "unix:/run/s.sock:/a/v1/x");
    }
}
