//! What figures and notes ask of the recorded plan.
//!
//! `plan` may not be imported here, and a folder may come from an older program or from anybody: a value that
//! is missing or of another form is absent.

use serde::Deserialize;
use serde_json::Value;
use tokometer_base::IgnoreEos;

use crate::RunInfo;

/// The form that requests ask of their answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskedForm<'a> {
    Text,
    JsonObject,
    JsonSchema(&'a str),
}

impl RunInfo {
    fn planned(&self, pointer: &str) -> Option<&Value> {
        self.plan.pointer(pointer).filter(|value| !value.is_null())
    }

    /// The plan's rule for the end-of-sequence token; `None` where the plan has none that is known here.
    pub fn ignore_eos(&self) -> Option<IgnoreEos> {
        IgnoreEos::deserialize(self.planned("/request/ignore_eos")?).ok()
    }

    /// Whether the requests ask for a stream. True for plans that do not say it.
    pub fn is_streamed(&self) -> bool {
        self.planned("/request/delivery").is_none_or(|delivery| delivery != "whole")
    }

    /// Percentiles that the plan asks a report for.
    pub fn asked_percentiles(&self) -> impl Iterator<Item = f64> {
        let asked = self.planned("/metrics/percentiles").and_then(Value::as_array);
        asked.into_iter().flatten().filter_map(Value::as_f64)
    }

    /// Requests of a block, where two targets are measured in turn.
    pub fn block_requests(&self) -> Option<u64> {
        self.planned("/interleave/block_requests")?.as_u64().filter(|block| *block > 0)
    }

    pub fn planned_dataset(&self) -> Option<&str> {
        self.planned("/workload/dataset")?.as_str()
    }

    /// Whether prompts are planned to begin alike.
    pub fn has_common_prefix(&self) -> bool {
        let keys = ["/workload/prefix_len", "/workload/cache_hit_fraction"];
        keys.iter().any(|key| self.planned(key).and_then(Value::as_f64).is_some_and(|it| it > 0.0))
    }

    /// Whether images are blank, so that all are alike.
    pub fn has_blank_images(&self) -> bool {
        self.planned("/workload/image_content").is_some_and(|content| content == "blank")
    }

    pub fn asked_form(&self) -> AskedForm<'_> {
        let asked = self.planned("/request/structured");
        match asked.and_then(|asked| asked.get("json")).and_then(Value::as_str) {
            Some(schema) => AskedForm::JsonSchema(schema),
            None if asked.is_some_and(|asked| asked == "json_object") => AskedForm::JsonObject,
            None => AskedForm::Text,
        }
    }

    /// The tools of `--tools`, with their choice.
    pub fn planned_tools(&self) -> Option<&Value> {
        self.planned("/request/tools")
    }

    /// What `--extra-body` adds to every request.
    pub fn extra_body(&self) -> Option<&Value> {
        self.planned("/request/extra_body")
    }

    /// The rows of the file of canaries.
    pub fn canary_rows(&self) -> impl Iterator<Item = &Value> {
        self.planned("/canary/rows").and_then(Value::as_array).into_iter().flatten()
    }
}
