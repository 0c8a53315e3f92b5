//! Figures and objectives.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

tokometer_base::partial! {
    /// Figures and objectives.
    #[derive(Debug, Clone, PartialEq, Serialize)]
    pub struct Metrics / PartialMetrics {
        /// Layout of the classic block: its name, or `auto`.
        pub layout: String,
        /// Sections of the block.
        pub sections: Vec<String>,
        /// Percentiles of each section.
        pub percentiles: Vec<f64>,
        /// Objectives in milliseconds by metric: `ttft`, `tpot`, `e2el`.
        pub goodput: BTreeMap<String, f64> as BTreeMap<String, f64>,
        /// How an INVALID run is treated.
        pub judgement: Judgement,
    }
}

/// How an INVALID run is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    /// It is reported as such.
    Lenient,
    /// It ends the program with a code of its own.
    Strict,
}
