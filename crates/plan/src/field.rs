//! The fields of a plan that a sweep can vary, by the names that plan files have for them.

use std::fmt;
use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tokometer_base::neighbours::suggestion;
use tokometer_base::redact::hide_in_url;

use crate::sweep::SweepValue;
use crate::{PartialPlan, PartialTarget};

/// Why a field does not take a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// No such field.
    #[error("cannot sweep `{name}`: there is no such field; {near}")]
    Unknown {
        /// As written.
        name: String,
        /// What to write instead.
        near: String,
    },
    /// The field has another type.
    #[error("cannot set `{field}` to `{value}`: {why}")]
    Value {
        /// The field.
        field: PlanField,
        /// As written.
        value: String,
        /// What is wrong with it.
        why: String,
    },
}

/// A field of a partial plan, whatever its type.
trait FieldSlot {
    fn is_set(&self) -> bool;
    fn set(&mut self, value: &SweepValue) -> Result<(), String>;
}

impl<T: DeserializeOwned> FieldSlot for Option<T> {
    fn is_set(&self) -> bool {
        self.is_some()
    }

    fn set(&mut self, value: &SweepValue) -> Result<(), String> {
        *self = Some(value.parse()?);
        Ok(())
    }
}

macro_rules! fields {
    ($plan:ident; $( $(#[$doc:meta])* $PlanField:ident = $name:literal => $slot:expr; )*) => {
        /// A field of the plan that a sweep can vary.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum PlanField {
            $( #[doc = concat!("`", $name, "`.")] $PlanField, )*
        }

        impl PlanField {
            /// Every field, in the order of the plan.
            pub const ALL: &'static [Self] = &[$( Self::$PlanField, )*];

            /// Its path in the plan, such as `load.num_prompts`.
            pub const fn name(self) -> &'static str {
                match self { $( Self::$PlanField => $name, )* }
            }

            fn slot(self, $plan: &mut PartialPlan) -> &mut dyn FieldSlot {
                match self { $( Self::$PlanField => &mut $slot, )* }
            }
        }
    };
}

fields! { plan;
    Seed = "seed" => plan.seed;
    Address = "targets.0.address" => first(plan).address;
    Endpoint = "targets.0.endpoint" => first(plan).endpoint;
    Model = "targets.0.model" => first(plan).model;
    ServedModelName = "targets.0.served_model_name" => first(plan).served_model_name;
    Path = "workload.path" => plan.workload.path;
    InputLen = "workload.input_len" => plan.workload.input_len;
    OutputLen = "workload.output_len" => plan.workload.output_len;
    ContextLen = "workload.context_len" => plan.workload.context_len;
    RangeRatio = "workload.range_ratio" => plan.workload.range_ratio;
    PrefixLen = "workload.prefix_len" => plan.workload.prefix_len;
    SuffixLen = "workload.suffix_len" => plan.workload.suffix_len;
    NumPrefixes = "workload.num_prefixes" => plan.workload.num_prefixes;
    NumGroups = "workload.num_groups" => plan.workload.num_groups;
    PromptsPerGroup = "workload.prompts_per_group" => plan.workload.prompts_per_group;
    SystemPromptLen = "workload.system_prompt_len" => plan.workload.system_prompt_len;
    QuestionLen = "workload.question_len" => plan.workload.question_len;
    NumTurns = "workload.num_turns" => plan.workload.num_turns;
    ZipfAlpha = "workload.zipf_alpha" => plan.workload.zipf_alpha;
    Subset = "workload.subset" => plan.workload.subset;
    Split = "workload.split" => plan.workload.split;
    ChunkHashSize = "workload.chunk_hash_size" => plan.workload.chunk_hash_size;
    SecMultiplier = "workload.sec_multiplier" => plan.workload.sec_multiplier;
    SlowdownFactor = "workload.slowdown_factor" => plan.workload.slowdown_factor;
    NumRounds = "workload.num_rounds" => plan.workload.num_rounds;
    Form = "prompts.form" => plan.prompts.form;
    MaxModelLen = "prompts.max_model_len" => plan.prompts.max_model_len;
    TurnsLeast = "prompts.turns.least" => plan.prompts.turns.get_or_insert_default().least;
    TurnsMost = "prompts.turns.most" => plan.prompts.turns.get_or_insert_default().most;
    ThinkMs = "prompts.turns.think_ms" => plan.prompts.turns.get_or_insert_default().think_ms;
    LaterInputLen = "prompts.turns.later_input_len" =>
        plan.prompts.turns.get_or_insert_default().later_input_len;
    RequestRate = "load.request_rate" => plan.load.request_rate;
    Burstiness = "load.burstiness" => plan.load.burstiness;
    MaxConcurrency = "load.max_concurrency" => plan.load.max_concurrency;
    RampFrom = "load.ramp.from" => plan.load.ramp.get_or_insert_default().from;
    RampTo = "load.ramp.to" => plan.load.ramp.get_or_insert_default().to;
    NumPrompts = "load.num_prompts" => plan.load.num_prompts;
    DurationS = "load.duration_s" => plan.load.duration_s;
    Warmups = "phases.warmups" => plan.phases.warmups;
    WarmupOutputMax = "phases.warmup_output_max" => plan.phases.warmup_output_max;
    ProbeRate = "phases.probe_rate" => plan.phases.probe_rate;
    Delivery = "request.delivery" => plan.request.delivery;
    Usage = "request.usage" => plan.request.usage;
    Logprobs = "request.logprobs" => plan.request.logprobs;
    Temperature = "request.sampling.temperature" => plan.request.sampling.temperature;
    TopP = "request.sampling.top_p" => plan.request.sampling.top_p;
    TopK = "request.sampling.top_k" => plan.request.sampling.top_k;
    MinP = "request.sampling.min_p" => plan.request.sampling.min_p;
    FrequencyPenalty = "request.sampling.frequency_penalty" =>
        plan.request.sampling.frequency_penalty;
    PresencePenalty = "request.sampling.presence_penalty" => plan.request.sampling.presence_penalty;
    RepetitionPenalty = "request.sampling.repetition_penalty" =>
        plan.request.sampling.repetition_penalty;
    LoraAlpha = "request.lora.alpha" => plan.request.lora.get_or_insert_default().alpha;
    Connections = "client.connections" => plan.client.connections;
    Harvest = "client.harvest" => plan.client.harvest;
    Stamps = "client.stamps" => plan.client.stamps;
    Workers = "client.workers" => plan.client.workers;
    TimeoutS = "client.timeout_s" => plan.client.timeout_s;
    ConnectTimeoutS = "client.connect_timeout_s" => plan.client.connect_timeout_s;
    StallTimeoutS = "client.stall_timeout_s" => plan.client.stall_timeout_s;
    Retries = "client.retries" => plan.client.retries;
    RetryMaxWaitS = "client.retry_max_wait_s" => plan.client.retry_max_wait_s;
    ScrapeIntervalS = "client.scrape_interval_s" => plan.client.scrape_interval_s;
}

fn first(plan: &mut PartialPlan) -> &mut PartialTarget {
    if plan.targets.is_empty() {
        plan.targets.push(PartialTarget::default());
    }
    &mut plan.targets[0]
}

impl PlanField {
    /// Whether a partial plan sets the field.
    pub fn is_set(self, plan: &PartialPlan) -> bool {
        // A copy, because a field of an absent struct has no place to look at.
        self.slot(&mut plan.clone()).is_set()
    }

    /// A value of the field without what may be secret in it: addresses have parameters.
    pub fn shown(self, value: &SweepValue) -> SweepValue {
        match (self, value) {
            (Self::Address | Self::Endpoint, SweepValue::Text(text)) => {
                SweepValue::Text(hide_in_url(text))
            }
            _ => value.clone(),
        }
    }

    /// Sets the field.
    pub fn set(self, plan: &mut PartialPlan, value: &SweepValue) -> Result<(), FieldError> {
        let refused =
            |why| FieldError::Value { field: self, value: self.shown(value).to_string(), why };
        self.slot(plan).set(value).map_err(refused)
    }
}

impl fmt::Display for PlanField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PlanField {
    type Err = FieldError;

    fn from_str(name: &str) -> Result<Self, FieldError> {
        let found = Self::ALL.iter().find(|field| field.name() == name);
        found.copied().ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|field| field.name()).collect();
            FieldError::Unknown { name: name.to_owned(), near: suggestion(name, &names) }
        })
    }
}

impl Serialize for PlanField {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.name().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for PlanField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_by_name_and_an_unknown_one_names_its_neighbours() {
        for field in PlanField::ALL {
            assert_eq!(field.name().parse(), Ok(*field));
        }
        let why = "load.num_promts".parse::<PlanField>().unwrap_err().to_string();
        assert!(why.contains("similar: load.num_prompts"), "{why}");
    }

    /// The table above is the only place that ties a name to a field: a slip would sweep another one.
    #[test]
    fn each_field_sets_the_key_that_it_is_named_after() {
        let values = [
            SweepValue::Whole(1),
            SweepValue::Text("simulator".to_owned()),
            SweepValue::Text("text".to_owned()),
            SweepValue::Text("whole".to_owned()),
            SweepValue::Text("at_end".to_owned()),
            SweepValue::Text("on-demand".to_owned()),
            SweepValue::Text("eager".to_owned()),
            SweepValue::Text("kernel".to_owned()),
        ];
        for field in PlanField::ALL {
            let mut plan = PartialPlan::default();
            assert!(!field.is_set(&plan), "{field}");
            let taken = values.iter().find(|value| field.set(&mut plan, value).is_ok());
            assert!(taken.is_some() && field.is_set(&plan), "{field}");
            let written = serde_json::to_value(&plan).unwrap();
            let at = format!("/{}", field.name().replace('.', "/"));
            assert!(written.pointer(&at).is_some(), "{field}: {written}");
        }
    }

    #[test]
    fn a_value_of_another_type_is_refused() {
        let check = |field: PlanField, value: SweepValue, part: &str| {
            let why = field.set(&mut PartialPlan::default(), &value).unwrap_err().to_string();
            assert!(why.contains(field.name()) && why.contains(part), "{why}");
        };
        check(PlanField::NumPrompts, SweepValue::Number(8.5), "8.5");
        check(PlanField::Harvest, SweepValue::Text("eagre".to_owned()), "eager");
        check(PlanField::MaxConcurrency, SweepValue::Whole(1 << 40), "u32");
        check(PlanField::RequestRate, SweepValue::Text("fast".to_owned()), "fast");
    }
}
