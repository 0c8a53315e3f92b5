//! Figures and objectives.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

tokometer_base::partial! {
    #[derive(Debug, Clone, PartialEq, Serialize)]
    pub struct Metrics / PartialMetrics {
        /// Layout of the classic block: its name, or `auto`.
        pub layout: String,
        pub sections: Vec<String>,
        pub percentiles: Vec<f64>,
        /// Objectives in milliseconds by metric: `ttft`, `tpot`, `e2el`.
        pub goodput: BTreeMap<String, f64> as BTreeMap<String, f64>,
        pub judgement: Judgement,
        /// Objectives that the run is judged by, as typed.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub slo: Option<String> = None,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    Lenient,
    Strict,
}
