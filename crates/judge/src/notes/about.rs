//! What a note is about: the figure that it names, and the figures that it concerns.

use tokometer_figures::{Quantity, Summary};

use crate::shown::ShownFigure;

#[derive(Clone, Copy)]
pub(crate) struct About {
    /// Key of the figure that the note names, or `all`.
    pub(crate) key: &'static str,
    /// Whether it concerns a figure on which its effect is not measured.
    pub(crate) concerns: fn(&ShownFigure, &Summary) -> bool,
}

const fn rates(key: &'static str) -> About {
    About { key, concerns: |shown, _| shown.is_rate() }
}

pub(super) const ALL: About = About { key: "all", concerns: |_, _| true };
pub(super) const TTFT: About =
    About { key: Quantity::Ttft.key(), concerns: |shown, _| shown.is_one_of(&[Quantity::Ttft]) };
pub(super) const TPOT: About =
    About { key: Quantity::Tpot.key(), concerns: |shown, _| shown.is_one_of(&[Quantity::Tpot]) };
pub(super) const GAPS: About =
    About { key: Quantity::Itl.key(), concerns: |shown, _| shown.is_one_of(&[Quantity::Itl]) };
pub(super) const E2E: About =
    About { key: Quantity::E2e.key(), concerns: |shown, _| shown.is_one_of(&[Quantity::E2e]) };
/// No report shows it as a result.
pub(super) const CONNECT: About = About { key: "connect_ms", concerns: |_, _| false };
/// Figures tell something else than they seem to: the load was not the requested one.
pub(super) const LOAD: About =
    About { key: "achieved_rate_per_s", concerns: |shown, _| shown.depends_on_load() };
pub(super) const CONCURRENCY: About = rates("concurrency");
pub(super) const PEAK: About = rates("peak_in_flight");
pub(super) const OUTPUT_RATE: About = rates(Quantity::Output.key());
pub(super) const OUTPUT_TOKENS: About = About {
    key: "output_tokens",
    concerns: |shown, _| {
        shown.metric.key == "total_output_tokens"
            || shown.is_one_of(&[Quantity::Output, Quantity::Total, Quantity::Tpot])
    },
};
pub(super) const PROMPT_TOKENS: About = About {
    key: "prompt_tokens",
    concerns: |shown, _| {
        shown.metric.key == "total_prompt_tokens"
            || shown.is_one_of(&[Quantity::Total, Quantity::Ttft])
    },
};
