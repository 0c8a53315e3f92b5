//! The configuration of a simulated server, as plain data.

use std::path::PathBuf;

use base::Nanos;
use serde::{Deserialize, Serialize};
use tokometer_base as base;

use crate::faults::Faults;
use crate::profile::Profile;

/// What a server does. [`SimConfig::default`] has no faults and listens on a free loopback port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SimConfig {
    pub host: String,
    /// The port; 0 takes a free one.
    pub port: u16,
    /// The Unix-domain socket to listen on instead of an address and a port.
    pub unix: Option<PathBuf>,
    pub model: String,
    /// Names of adapters that are accepted as models too.
    pub loras: Vec<String>,
    /// Whose streams the OpenAI routes imitate.
    pub flavour: Flavour,
    pub pace: TokenTiming,
    pub seed: u64,
    /// How long answers are when the client lets them end by themselves.
    pub answer: AnswerLength,
    /// How many of its tokens are reasoning ahead of the answer, where the route has a field for it.
    pub reasoning_tokens: u32,
    /// Whether usage has the cached tokens of a prompt, where the flavour is vLLM's.
    pub reports_cached_tokens: bool,
    /// When given, requests without it are answered with 401.
    pub api_key: Option<String>,
    /// Whether the port uses TLS, with a certificate generated at start.
    pub transport: Transport,
    /// The file that gets the time of every token, in the form that [`crate::truth`] describes.
    pub truth: Option<PathBuf>,
    /// A further path that answers like `deepspeed-mii`.
    pub mii_path: String,
    pub faults: Faults,
}

impl Default for SimConfig {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: 0,
            unix: None,
            model: "simulated".to_owned(),
            loras: Vec::new(),
            flavour: Flavour::default(),
            pace: TokenTiming::default(),
            seed: 0,
            answer: AnswerLength::default(),
            reasoning_tokens: 0,
            reports_cached_tokens: false,
            api_key: None,
            transport: Transport::default(),
            truth: None,
            mii_path: "/mii".to_owned(),
            faults: Faults::default(),
        }
    }
}

/// Whose streams the OpenAI routes imitate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flavour {
    #[default]
    Vllm,
    Sglang,
    Llamacpp,
    /// Text-generation-inference.
    Tgi,
    Transformers,
}

impl Flavour {
    pub const ALL: [Self; 5] =
        [Self::Vllm, Self::Sglang, Self::Llamacpp, Self::Tgi, Self::Transformers];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::Llamacpp => "llamacpp",
            Self::Tgi => "tgi",
            Self::Transformers => "transformers",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenTiming {
    /// An engine that batches.
    Engine(Box<Profile>),
    /// No engine: each stream has its own absolute schedule.
    Fixed {
        /// From the complete request to the first token.
        ttft: Nanos,
        /// From one token to the next.
        itl: Nanos,
    },
    /// As fast as the socket takes it.
    Flood { events_per_write: u32 },
}

impl Default for TokenTiming {
    fn default() -> Self {
        Self::Engine(Box::default())
    }
}

impl TokenTiming {
    /// The same pace with every time `factor` times as long.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        let scale = |span: Nanos| Nanos::from_secs_f64(span.as_secs_f64() * factor);
        match self {
            Self::Engine(profile) => Self::Engine(Box::new(profile.scaled(factor))),
            Self::Fixed { ttft, itl } => Self::Fixed { ttft: scale(ttft), itl: scale(itl) },
            Self::Flood { .. } => self,
        }
    }
}

/// How long answers are when the client lets them end by themselves: log-normal, cut at what the
/// client allows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerLength {
    /// Half of the answers are shorter, in tokens.
    pub median_tokens: f64,
    pub sigma: f64,
}

impl Default for AnswerLength {
    fn default() -> Self {
        Self { median_tokens: 180.0, sigma: 0.7 }
    }
}

/// What lies under HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    #[default]
    Plain,
    Tls,
}
