//! The plan of a command with what no plan holds: keys, and how the run is shown.

use std::io::IsTerminal as _;

use tokometer_measure::Credentials;
use tokometer_plan::options::Fragment;
use tokometer_plan::resolve::{
    Origins, OwnDefaults, PlannedPoint, Resolved, Sources, layered, parsed, resolve,
};
use tokometer_plan::{Missing, Plan};

use super::{Environment, TerminalCodes, file};
use crate::args::BenchArgs;
use crate::exit::Refusal;
use crate::files;

#[derive(Debug)]
pub(crate) struct Lowered {
    /// The whole plan, sweeps and sections unresolved, as `--print-plan` shows it.
    pub(crate) plan: Plan,
    pub(crate) origins: Origins,
    /// One run each, in order. At least one.
    pub(crate) points: Vec<PlannedPoint>,
    pub(crate) secrets: Credentials,
    /// Flags that have no effect.
    pub(crate) remarks: Vec<String>,
    pub(crate) bar: Bar,
    pub(crate) is_calibrated: bool,
    /// Whether everything is printed that is known of a run.
    pub(crate) is_detailed: bool,
    /// Whether a tool is named whose block belongs to each run of a sweep: by its backend, conventions,
    /// layout, or a heading.
    pub(crate) has_blocks: bool,
}

impl Lowered {
    /// Refuses to measure by a stored plan whose secrets nobody has given again.
    pub(crate) fn require_secrets(&self) -> Result<(), Refusal> {
        let missing = self.points.iter().flat_map(|point| point.plan.missing_secrets());
        let mut missing: Vec<Missing> = missing.collect();
        missing.dedup();
        let fields: Vec<String> = missing.iter().map(|one| format!("`{}`", one.field)).collect();
        let flags: Vec<String> = missing.iter().map(|one| format!("`{}`", one.flag)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(Refusal::usage(
            format!("cannot run the plan: secrets are not stored with it: {}", fields.join(", ")),
            format!("set them again with {}", flags.join(", ")),
        ))
    }
}

/// What shows the progress of a run. Presets may set it as flags do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bar {
    /// A bar, on a terminal.
    Allowed,
    /// The dashboard.
    Live,
    /// Lines instead of a bar.
    Hidden,
    /// No bar and no lines.
    Silent,
}

impl Bar {
    /// What any of these layers asks for. A terminal that knows no codes gets lines.
    fn of(layers: &[&Fragment], codes: TerminalCodes) -> Self {
        let any = |is_set: fn(&Fragment) -> bool| layers.iter().any(|args| is_set(args));
        match () {
            () if any(|args| args.output.quiet) => Self::Silent,
            () if codes == TerminalCodes::Nothing => Self::Hidden,
            () if any(|args| args.output.live) => Self::Live,
            () if any(|args| args.output.disable_tqdm) => Self::Hidden,
            () => Self::Allowed,
        }
    }

    /// The whole terminal can be taken only where there is one.
    pub(crate) fn on_this_terminal(self) -> Self {
        let has_none = self == Self::Live && !std::io::stderr().is_terminal();
        if has_none { Self::Allowed } else { self }
    }
}

/// Lowers what was typed. `order` are the flags as typed, first to last.
pub(crate) fn lower(
    args: &BenchArgs,
    order: &[String],
    environment: &Environment,
) -> Result<Lowered, Refusal> {
    lower_over(None, args, order, environment)
}

/// The same above our own values for a server by its address.
pub(crate) fn lower_over(
    own: Option<&OwnDefaults>,
    args: &BenchArgs,
    order: &[String],
    environment: &Environment,
) -> Result<Lowered, Refusal> {
    let (mut presets, mut remarks) = parsed(&environment.presets)?;
    // The values of our own for a server by its address name its backend, which asks for no block.
    let names_tool = |layer: &&Fragment| layer.has_any(&["backend", "conventions", "layout"]);
    let is_tool_named = layered(&presets, args).iter().any(names_tool);
    presets.splice(..0, own.map(OwnDefaults::preset));
    let file = args.plan.as_deref().map(file::read).transpose()?.unwrap_or_default();
    let read = files::read_text;
    let resolved = resolve(Sources { presets: &presets, typed: args, order, file, read })?;
    let secrets = credentials(&resolved, environment);
    let layers = layered(&presets, args);
    let bar = Bar::of(&layers, environment.codes);
    let is_calibrated = layers.iter().any(|layer| layer.calibrate);
    let is_detailed = layers.iter().any(|layer| layer.output.details);
    let Resolved { plan, origins, points, .. } = resolved;
    let has_blocks = is_tool_named || points.iter().any(|point| point.heading.is_some());
    remarks.extend(resolved.remarks);
    Ok(Lowered {
        plan,
        origins,
        points,
        secrets,
        remarks,
        bar,
        is_calibrated,
        is_detailed,
        has_blocks,
    })
}

/// Keys, and everything else that must not be shown.
fn credentials(resolved: &Resolved, environment: &Environment) -> Credentials {
    let plan = &resolved.plan;
    let mut known = environment.secrets.clone();
    let plans = resolved.points.iter().map(|point| &point.plan).chain([plan]);
    plans.for_each(|plan| plan.add_secrets(&mut known));
    let from_environment = || {
        plan.targets.first().and_then(|target| environment.key(plan.conventions, &target.backend))
    };
    let api_key = resolved.api_key.clone().or_else(from_environment);
    if let Some(key) = &api_key {
        key.add_to(&mut known);
    }
    let (hub, proxies) = (environment.hub.clone(), environment.proxies.clone());
    Credentials { api_key, hub, known, proxies }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_without_codes_gets_lines_instead_of_a_bar_or_the_dashboard() {
        let shown = |is_live: bool, is_quiet: bool, codes: TerminalCodes| {
            let mut args = Fragment::default();
            (args.output.live, args.output.quiet) = (is_live, is_quiet);
            Bar::of(&[&args], codes)
        };
        assert_eq!(shown(true, false, TerminalCodes::NoColours), Bar::Live);
        assert_eq!(shown(true, false, TerminalCodes::Nothing), Bar::Hidden);
        assert_eq!(shown(false, false, TerminalCodes::Nothing), Bar::Hidden);
        assert_eq!(shown(false, true, TerminalCodes::Nothing), Bar::Silent);
    }
}
