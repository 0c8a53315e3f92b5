//! Engine profiles: how one server schedules, what its steps cost, and where those numbers come from.
//!
//! A profile is a TOML document. Unknown keys, missing keys, negative costs and settings that could
//! never make progress are refused with the name of the key; nothing is filled in silently except
//! terms whose absence means zero. The shipped profiles are part of the binary.

use std::path::Path;

use serde::{Deserialize, Serialize};
use tokometer_base::printable;

use crate::cost::Cost;

/// One engine: its rules and its costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Its name on the command line.
    pub name: String,
    /// Where the numbers come from and how far to trust them.
    pub provenance: String,
    /// The longest prompt and answer together, in tokens.
    pub max_model_len: u32,
    pub scheduler: Scheduler,
    /// The cache of keys and values. Absent: memory never runs out and nothing is reused.
    #[serde(default)]
    pub kv: Option<Kv>,
    pub cost: Cost,
    #[serde(default)]
    pub front_end: FrontEnd,
    /// Disaggregated prefill and decode engines. Absent: every engine does both.
    #[serde(default)]
    pub disaggregation: Option<Disaggregation>,
    /// What is known of its errors. Absent: nothing was held out.
    #[serde(default)]
    pub evidence: Option<Evidence>,
    /// The client of the table that the profile was fitted to. Predictions include its work, because the
    /// stated errors do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<OldClient>,
    /// Spread of the answers' lengths in that table, relative to their mean. Absent: they were equally long,
    /// or known one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_spread: Option<f64>,
}

/// What a single-threaded client costs. All zero is a perfect client.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OldClient {
    /// Work before a request is on the wire, one request at a time; the clock of the request runs.
    #[serde(default)]
    pub request_ms: f64,
    /// Work per event, one event at a time; an event is stamped when its turn has come.
    #[serde(default)]
    pub event_ms: f64,
}

/// Disaggregated prefill and decode, with the KV cache sent from one to the other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disaggregation {
    /// Engines that compute prompts, per replica.
    pub prefill_engines: u32,
    /// Engines that write answers, per replica.
    pub decode_engines: u32,
    /// Sending the keys and values of a request.
    pub transfer_ms: f64,
    /// The same, per token of its prompt.
    pub transfer_token_ms: f64,
}

/// How well a fitted profile predicted what it had not seen.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// Median error of held-out cells, as a share.
    #[serde(default)]
    pub held_out_median: Option<f64>,
    /// Share of held-out cells within 10 %.
    #[serde(default)]
    pub held_out_within_10: Option<f64>,
    /// Parameters that the data do not determine.
    #[serde(default)]
    pub not_identified: Vec<String>,
    /// Mechanisms that the data exercise. What else a prediction uses is not validated.
    #[serde(default)]
    pub validated: Vec<String>,
    /// Tokens of the longest prompt in the data; the mean length of a row where only that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_prompt: Option<u32>,
    /// The same of the answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_answer: Option<u32>,
    /// Most requests in flight in the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_in_flight: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scheduler {
    /// Sequences that may run at once.
    pub max_seqs: u32,
    #[serde(default)]
    pub order: AdmissionOrder,
    pub policy: Policy,
    /// Adapters that may be resident at once. Absent: all of them.
    #[serde(default)]
    pub lora_slots: Option<u32>,
    /// Whether a step is scheduled while the one before it runs: a new request misses one step, and a
    /// request that ended takes part in one more.
    #[serde(default)]
    pub is_async: bool,
    /// Speculative decoding. Absent: one token per step.
    #[serde(default)]
    pub speculation: Option<SpeculativeDecoding>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpeculativeDecoding {
    /// Draft tokens per sequence and step.
    pub tokens: u32,
    /// Probability that a draft token is accepted, given that those before it were.
    pub acceptance: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdmissionOrder {
    #[default]
    Fcfs,
    /// Smallest priority number first, then first come, first served.
    Priority,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Policy {
    /// Every step has a budget of tokens: decodes first, the rest goes to pieces of prompts.
    Chunked {
        /// Tokens per step.
        token_budget: u32,
    },
    /// A step prefills whole prompts while any can be admitted, and decodes otherwise.
    Blocking {
        /// Prompt tokens per prefill step; a longer prompt runs alone.
        prefill_budget: u32,
    },
    /// The router of text-generation-inference: it reserves the whole answer before it admits.
    Tgi {
        /// Prompt tokens of one admission.
        max_batch_prefill_tokens: u32,
        /// Prompt and possible answer tokens of all running requests.
        max_batch_total_tokens: u64,
        /// A new batch must be at least this share of the running one, unless it waited long.
        waiting_served_ratio: f64,
        /// Decode steps after which the share no longer matters.
        max_waiting_tokens: u32,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kv {
    /// Tokens that fit.
    pub tokens: u64,
    pub block_tokens: u32,
    /// Whether finished blocks are kept for prompts with the same prefix.
    pub prefix_cache: PrefixCache,
}

/// Whether blocks are kept for later prompts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PrefixCache {
    /// Least recently used blocks go first.
    Lru,
    Off,
}

/// What happens between the network and the engine. Drivers apply it; the engine only gathers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrontEnd {
    /// From the request's arrival to the engine's queue.
    #[serde(default)]
    pub arrival_ms: f64,
    /// Work per request that only one request at a time can do.
    #[serde(default)]
    pub serial_ms: f64,
    /// An idle engine waits this long for more requests before its first step.
    #[serde(default)]
    pub gather_ms: f64,
    /// Probability that an event waits for the next one and travels with it.
    #[serde(default)]
    pub coalesce: f64,
    /// Whether an answer that ends by itself costs one more step, whose event carries no text.
    #[serde(default)]
    pub eos_step: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    #[error("unknown engine profile `{name}`\n  use one of {shipped}, or the path of a TOML file")]
    Unknown { name: String, shipped: String },
    #[error("cannot read the engine profile {path}: {source}")]
    Read { path: String, source: std::io::Error },
    #[error("cannot read the engine profile `{name}`: {message}")]
    Syntax { name: String, message: String },
    #[error("the engine profile `{name}` has `{key} = {value}`: {why}")]
    Value { name: String, key: String, value: String, why: &'static str },
}

/// Every shipped profile: its name and its text.
const SHIPPED: [(&str, &str); 8] = [
    ("default", include_str!("../profiles/default.toml")),
    ("small", include_str!("../profiles/small.toml")),
    ("vllm-405b", include_str!("../profiles/vllm-405b.toml")),
    ("tgi-405b", include_str!("../profiles/tgi-405b.toml")),
    ("vllm-percentiles", include_str!("../profiles/vllm-percentiles.toml")),
    ("vllm-prefill-decode", include_str!("../profiles/vllm-prefill-decode.toml")),
    ("sglang-rust", include_str!("../profiles/sglang-rust.toml")),
    ("sglang-golang", include_str!("../profiles/sglang-golang.toml")),
];

impl Default for Profile {
    fn default() -> Self {
        Self::shipped("default").expect("a test reads every shipped profile")
    }
}

impl Profile {
    pub fn names() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().map(|(name, _)| *name)
    }

    pub fn shipped(name: &str) -> Result<Self, ProfileError> {
        let Some((_, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) else {
            let shipped = Self::names().collect::<Vec<_>>().join(", ");
            return Err(ProfileError::Unknown { name: name.to_owned(), shipped });
        };
        Self::parse(name, text)
    }

    /// A shipped profile by its name, the profile in the file of that path, or for `-` the one on
    /// standard input.
    pub fn open(name_or_path: &str) -> Result<Self, ProfileError> {
        if name_or_path == "-" {
            let text = std::io::read_to_string(std::io::stdin())
                .map_err(|source| ProfileError::Read { path: "standard input".into(), source })?;
            return Self::parse("standard input", &text);
        }
        let path = Path::new(name_or_path);
        let looks_like_a_path = path.extension().is_some() || path.components().count() > 1;
        if !looks_like_a_path {
            return Self::shipped(name_or_path);
        }
        let text = std::fs::read_to_string(path)
            .map_err(|source| ProfileError::Read { path: name_or_path.to_owned(), source })?;
        Self::parse(name_or_path, &text)
    }

    /// The profile that `text` describes; `name` is only for messages.
    pub fn parse(name: &str, text: &str) -> Result<Self, ProfileError> {
        let mut profile: Self = toml::from_str(text).map_err(|error| ProfileError::Syntax {
            name: name.to_owned(),
            message: error.to_string(),
        })?;
        // A profile may come from anybody, and these two are shown beside the program's own words.
        profile.name = printable::short(&profile.name);
        profile.provenance = printable::line(&profile.provenance, usize::MAX);
        // A profile may be called otherwise than its file.
        profile.check().map_err(|fault| match fault {
            ProfileError::Value { key, value, why, .. } => {
                ProfileError::Value { name: name.to_owned(), key, value, why }
            }
            other => other,
        })?;
        Ok(profile)
    }

    pub fn to_toml(&self) -> String {
        // By way of a table: the writer is then compiled once, not for every part of a profile.
        toml::Table::try_from(self)
            .and_then(|table| toml::to_string(&table))
            .expect("a profile holds only tables, strings and numbers")
    }

    /// The same engine with every step `factor` times as long.
    #[must_use]
    pub fn scaled(mut self, factor: f64) -> Self {
        self.cost.scale *= factor;
        self
    }

    /// Refuses what no engine can have.
    pub fn check(&self) -> Result<(), ProfileError> {
        let fault = |key: &str, value: String, why| {
            Err(ProfileError::Value { name: self.name.clone(), key: key.to_owned(), value, why })
        };
        let table = toml::Table::try_from(self).expect("a profile holds only tables and values");
        let engine = table.iter().filter(|(key, _)| *key != "evidence");
        for (key, value) in engine.flat_map(|(key, value)| numbers(key.clone(), value)) {
            if !value.is_finite() || value < 0.0 {
                return fault(&key, value.to_string(), "must be a number of at least 0");
            }
        }
        if self.front_end.coalesce >= 1.0 {
            let value = self.front_end.coalesce.to_string();
            return fault("front_end.coalesce", value, "must be a probability below 1");
        }
        let shares = [
            ("cost.experts.share", self.cost.experts.map(|experts| experts.share)),
            ("scheduler.speculation.acceptance", self.scheduler.speculation.map(|s| s.acceptance)),
        ];
        for (key, share) in shares {
            if let Some(share) = share.filter(|share| !(0.0..=1.0).contains(share)) {
                return fault(key, share.to_string(), "must be between 0 and 1");
            }
        }
        self.check_limits()
    }

    fn check_limits(&self) -> Result<(), ProfileError> {
        let fault = |key: &str, value: u64, why| {
            let (name, key) = (self.name.clone(), key.to_owned());
            Err(ProfileError::Value { name, key, value: value.to_string(), why })
        };
        let positive = "must be at least 1";
        let mut limits = vec![
            ("max_model_len", u64::from(self.max_model_len)),
            ("scheduler.max_seqs", u64::from(self.scheduler.max_seqs)),
        ];
        match &self.scheduler.policy {
            Policy::Chunked { token_budget } => {
                limits.push(("scheduler.policy.token_budget", u64::from(*token_budget)));
            }
            Policy::Blocking { prefill_budget } => {
                limits.push(("scheduler.policy.prefill_budget", u64::from(*prefill_budget)));
            }
            Policy::Tgi { max_batch_prefill_tokens, max_batch_total_tokens, .. } => {
                let prefill = u64::from(*max_batch_prefill_tokens);
                limits.push(("scheduler.policy.max_batch_prefill_tokens", prefill));
                limits.push(("scheduler.policy.max_batch_total_tokens", *max_batch_total_tokens));
            }
        }
        if let Some(parts) = &self.disaggregation {
            limits.push(("disaggregation.prefill_engines", u64::from(parts.prefill_engines)));
            limits.push(("disaggregation.decode_engines", u64::from(parts.decode_engines)));
        }
        if let Some(kv) = &self.kv {
            limits.push(("kv.block_tokens", u64::from(kv.block_tokens)));
            limits.push(("kv.tokens", kv.tokens));
        }
        if let Some((key, value)) = limits.into_iter().find(|(_, value)| *value == 0) {
            return fault(key, value, positive);
        }
        Ok(())
    }
}

/// The numbers with a fraction at and below a key, by their paths.
fn numbers(key: String, value: &toml::Value) -> Vec<(String, f64)> {
    match value {
        toml::Value::Float(number) => vec![(key, *number)],
        toml::Value::Table(inner) => {
            let below =
                |(name, value): (&String, &toml::Value)| numbers(format!("{key}.{name}"), value);
            inner.iter().flat_map(below).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name of a stranger's profile changed the colour of the terminal and began lines of its own.
    #[test]
    fn the_words_of_a_profile_are_one_line_without_control_characters() {
        let mut profile = Profile::shipped("small").unwrap();
        profile.name = "\u{1b}[31mevil\nverdict VALID".to_owned();
        profile.provenance = "measured\nby \u{9b}me".to_owned();
        let read = Profile::parse("mine", &profile.to_toml()).unwrap();
        assert_eq!(read.name, "\u{fffd}[31mevil verdict VALID");
        assert_eq!(read.provenance, "measured by \u{fffd}me");
    }

    #[test]
    fn every_shipped_profile_is_sound_and_says_where_it_comes_from() {
        for name in Profile::names() {
            let profile = Profile::shipped(name).unwrap();
            assert_eq!(profile.name, name);
            assert!(profile.provenance.len() > 40, "{name}: {}", profile.provenance);
            assert_eq!(Profile::parse(name, &profile.to_toml()).unwrap(), profile);
        }
    }

    #[test]
    fn a_wrong_profile_is_refused_with_the_key_that_is_wrong() {
        let good = SHIPPED[0].1;
        let check = |from: &str, to: &str, expected: &str| {
            assert!(good.contains(from), "{from}");
            let error =
                Profile::parse("mine", &good.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check("base_ms = ", "base_ms = -", "`cost.base_ms = -");
        check("base_ms = ", "bass_ms = ", "unknown field `bass_ms`");
        check("max_seqs = 256\n", "", "missing field `max_seqs`");
        check("max_seqs = 256\n", "max_seqs = 0\n", "at least 1");
        check("max_seqs = 256\n", "max_seqs = 256\n=", "TOML parse error");
    }

    #[test]
    fn an_unknown_name_lists_the_shipped_ones() {
        let error = Profile::open("vllm-406b").unwrap_err().to_string();
        assert!(error.contains("vllm-405b"), "{error}");
        assert!(matches!(Profile::open("no/such.toml"), Err(ProfileError::Read { .. })));
    }
}
