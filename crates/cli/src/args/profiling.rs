//! Options of SGLang's profiler.

use clap::Args;
use serde_json::{Map, Value, json};

/// Flags for the body of the request that starts the profiler.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ProfilingArgs {
    /// Activities to profile [default with SGLang's conventions: CPU GPU]
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub(crate) profile_activities: Vec<String>,
    /// Server step at which the profiler starts
    #[arg(long, value_name = "N")]
    pub(crate) profile_start_step: Option<u64>,
    /// Number of steps to profile
    #[arg(long, value_name = "N")]
    pub(crate) profile_num_steps: Option<u64>,
    /// Profile prefill and decode separately
    #[arg(long)]
    pub(crate) profile_by_stage: bool,
    /// Stages to profile
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub(crate) profile_stages: Vec<String>,
    /// Folder on the server for the profiles
    #[arg(long, value_name = "DIR")]
    pub(crate) profile_output_dir: Option<String>,
    /// Prefix of the names of the profile files
    #[arg(long, value_name = "TEXT")]
    pub(crate) profile_prefix: Option<String>,
}

impl ProfilingArgs {
    /// The body with the given options only; `None` if none were given.
    pub(crate) fn body(&self) -> Option<Map<String, Value>> {
        let list = |names: &[String]| (!names.is_empty()).then(|| json!(names));
        let fields = [
            ("activities", list(&self.profile_activities)),
            ("start_step", self.profile_start_step.map(Value::from)),
            ("num_steps", self.profile_num_steps.map(Value::from)),
            ("profile_by_stage", self.profile_by_stage.then_some(Value::Bool(true))),
            ("profile_stages", list(&self.profile_stages)),
            ("output_dir", self.profile_output_dir.clone().map(Value::from)),
            ("profile_prefix", self.profile_prefix.clone().map(Value::from)),
        ];
        let given = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        let body: Map<String, Value> = given.collect();
        (!body.is_empty()).then_some(body)
    }
}
