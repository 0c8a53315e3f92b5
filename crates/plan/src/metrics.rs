//! Figures and objectives.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

tokometer_base::partial! {
    /// Figures and objectives.
    #[derive(Debug, Clone, PartialEq, Serialize)]
    pub struct Metrics / PartialMetrics {
        /// Look of the classic block: a layout's name or `auto`.
        pub layout: String,
        /// Sections of the block.
        pub sections: Vec<String>,
        /// Percentiles of each section.
        pub percentiles: Vec<f64>,
        /// Objectives in milliseconds by metric: `ttft`, `tpot`, `e2el`.
        pub goodput: BTreeMap<String, f64> as BTreeMap<String, f64>,
        /// What an INVALID run is worth.
        pub judgement: Judgement,
    }
}

/// What an INVALID run is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    /// It is reported as such.
    Lenient,
    /// It ends the program with a code of its own.
    Strict,
}
