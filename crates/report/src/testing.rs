//! One fixed run that feeds every view's test: `fixtures/run`, which `report` and `classic` share.

use tokometer_figures::Summary;
use tokometer_record::RunInfo;

pub(crate) fn info() -> RunInfo {
    serde_json::from_str(include_str!("../../../fixtures/run/info.json")).unwrap()
}

/// A run with something of everything: failures, notes, a steady part, all families.
pub(crate) fn summary() -> Summary {
    serde_json::from_str(include_str!("../../../fixtures/run/summary.json")).unwrap()
}

/// Reads files, and shows no messages.
pub(crate) const READING: crate::reading::Reading =
    crate::reading::Reading { read: |path| std::fs::read(path), show: |_| () };
