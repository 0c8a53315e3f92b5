//! When output is coloured.

use clap::ValueEnum;

/// When output is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColourArg {
    /// On a terminal, unless `NO_COLOR` is set
    Auto,
    /// Always, also in files and pipes
    Always,
    /// Never
    Never,
}
