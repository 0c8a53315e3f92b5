//! What SGLang's server is told to profile.

use clap::Args;
use serde_json::{Map, Value, json};

/// Flags for the body of the request that starts the profiler.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ProfilingArgs {
    /// What the profiler watches [default: SGLang's rules: CPU GPU]
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub(crate) profile_activities: Vec<String>,
    /// Step of the server at which the profiler starts
    #[arg(long, value_name = "N")]
    pub(crate) profile_start_step: Option<u64>,
    /// Steps after which the profiler stops by itself
    #[arg(long, value_name = "N")]
    pub(crate) profile_num_steps: Option<u64>,
    /// Profile prefill and decode apart
    #[arg(long)]
    pub(crate) profile_by_stage: bool,
    /// Stages to profile
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub(crate) profile_stages: Vec<String>,
    /// Folder on the server for what is profiled
    #[arg(long, value_name = "DIR")]
    pub(crate) profile_output_dir: Option<String>,
    /// Beginning of the names of the server's files
    #[arg(long, value_name = "TEXT")]
    pub(crate) profile_prefix: Option<String>,
}

impl ProfilingArgs {
    /// The body that was asked for, with what was typed and nothing else. `None`: nothing was.
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
