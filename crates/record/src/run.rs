//! What is known of a run before its first request.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tokometer_base::printable::short;
use tokometer_base::{Backend, Conventions, Nanos, Seed, WallNanos};

use crate::load::RecordedLoad;
use crate::sharding::{MergedRun, ShardInfo, Sharding};

/// Version of the record's format. Raised when a column changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// The version of a record whose events were packed after the run
/// ([`RunReader::pack_events`](crate::RunReader::pack_events)).
pub const PACKED_SCHEMA: u32 = 2;

/// The newest version that can be read.
pub const NEWEST_SCHEMA: u32 = PACKED_SCHEMA;

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

/// A class of requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedClass {
    pub name: String,
    /// What it is entitled to.
    pub weight: f64,
    /// In milliseconds by metric: `ttft`, `tpot`, `e2el`.
    #[serde(default)]
    pub objectives: BTreeMap<String, f64>,
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
    /// The classes that the plan names; requests name theirs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<RecordedClass>,
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
        self.load.stages.iter_mut().map(|stage| &mut stage.text).for_each(clean);
        for class in &mut self.classes {
            clean(&mut class.name);
            class.objectives.retain(|name, _| name.chars().all(char::is_alphanumeric));
        }
        if let Some(sharding) = &mut self.sharding {
            sharding.texts().for_each(clean);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
