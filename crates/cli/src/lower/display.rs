//! What flags and presets say besides the plan: how a run is shown while it lasts.

use tokometer_plan::options::Fragment;

use super::TerminalCodes;

/// Switches that presets may set as flags do.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Display {
    /// What shows the run's progress.
    pub(crate) progress: ProgressView,
    /// Whether the client's own error is measured first.
    pub(crate) calibration: SelfCheck,
}

/// What shows the progress of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ProgressView {
    /// A bar.
    #[default]
    Bar,
    /// The dashboard.
    Live,
    /// No bar.
    Hidden,
    /// No bar and no lines.
    Silent,
}

/// Whether the client's own error is measured first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum SelfCheck {
    /// It is not.
    #[default]
    Skipped,
    /// It is.
    Asked,
}

impl Display {
    /// What any of these layers asks for. A terminal that knows no codes gets lines.
    pub(super) fn of(layers: &[&Fragment], codes: TerminalCodes) -> Self {
        let any = |is_set: fn(&Fragment) -> bool| layers.iter().any(|args| is_set(args));
        let progress = match () {
            () if any(|args| args.output.quiet) => ProgressView::Silent,
            () if codes == TerminalCodes::Nothing => ProgressView::Hidden,
            () if any(|args| args.output.live) => ProgressView::Live,
            () if any(|args| args.output.disable_tqdm) => ProgressView::Hidden,
            () => ProgressView::Bar,
        };
        let is_asked = any(|args| args.calibrate);
        let calibration = if is_asked { SelfCheck::Asked } else { SelfCheck::Skipped };
        Self { progress, calibration }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_without_codes_gets_lines_instead_of_a_bar_or_the_dashboard() {
        let shown = |is_live: bool, is_quiet: bool, codes: TerminalCodes| {
            let mut args = Fragment::default();
            (args.output.live, args.output.quiet) = (is_live, is_quiet);
            Display::of(&[&args], codes).progress
        };
        assert_eq!(shown(true, false, TerminalCodes::NoColours), ProgressView::Live);
        assert_eq!(shown(true, false, TerminalCodes::Nothing), ProgressView::Hidden);
        assert_eq!(shown(false, false, TerminalCodes::Nothing), ProgressView::Hidden);
        assert_eq!(shown(false, true, TerminalCodes::Nothing), ProgressView::Silent);
    }
}
