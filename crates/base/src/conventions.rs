//! Which tool's conventions a measurement follows.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The tool whose conventions to follow where the known benchmark clients differ: in prompts,
/// arrivals, bodies, ports and defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Conventions {
    /// `vllm bench serve` and its ancestors.
    #[default]
    Vllm,
    /// SGLang's `bench_serving`.
    Sglang,
}

impl Conventions {
    pub const ALL: [Self; 2] = [Self::Vllm, Self::Sglang];

    /// The name in plans, records and flags.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot follow the conventions of `{0}`: the known tools are vllm and sglang")]
pub struct UnknownTool(String);

impl FromStr for Conventions {
    type Err = UnknownTool;

    fn from_str(name: &str) -> Result<Self, UnknownTool> {
        let found = Self::ALL.into_iter().find(|conventions| conventions.name() == name);
        found.ok_or_else(|| UnknownTool(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_to_its_tool_and_others_are_refused() {
        for conventions in Conventions::ALL {
            assert_eq!(conventions.name().parse(), Ok(conventions));
        }
        let refused = "tgi".parse::<Conventions>().unwrap_err().to_string();
        assert!(refused.contains("`tgi`") && refused.contains("sglang"), "{refused}");
    }
}
