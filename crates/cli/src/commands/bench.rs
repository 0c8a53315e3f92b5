//! `tokometer bench`.

use std::io::IsTerminal as _;
use std::path::Path;

use anyhow::Context as _;
use tokometer_base::{Clock as _, Nanos};
use tokometer_decide::staircase::Staircase;
use tokometer_measure::IdentifiedServer;
use tokometer_plan::{Axis, AxisValues, Plan, PlanField, Rate, Shown, SweepValue};
use tokometer_shards::Membership;

use super::Given;
use super::export::html;
use crate::args::{AddressArgs, BenchArgs, BenchCommand};
use crate::bench::{
    self, Bar, Climbed, Earlier, KeptEvents, RunFolder, RunView, StaircaseRun, identified,
    measurement, measurement_of,
};
use crate::exit::{Exit, Refusal};
use crate::input::say_pipe;
use crate::instrument;
use crate::lower::{
    Environment, Lowered, OwnDefaults, Preset, ProgressView, SelfCheck, key_variable, layered,
    load_flag, lower_over, put_address, seconds, written,
};
use crate::shards;
use crate::terminal::{print, print_message, style};

/// Time for a staircase, and for one run of a URL that nothing else ends.
const BUDGET_S: f64 = 120.0;
const RUN_S: f64 = 60.0;
/// Most requests in flight of a staircase.
const MOST_IN_FLIGHT: u32 = 1_024;
/// Its page, in the run folder.
const PAGE: &str = "page.html";

/// What a command line asks for.
struct AskedBench {
    args: BenchArgs,
    /// `None` is one run, or a sweep.
    staircase: Option<Staircase>,
    /// Our own values; `None` where the command names no server by its address alone.
    own: Option<OwnDefaults>,
    /// What becomes of the events of the steps.
    events: KeptEvents,
}

impl AskedBench {
    fn new(command: &BenchCommand, environment: &Environment) -> Result<Self, Refusal> {
        let AddressArgs { url, budget, .. } = &command.at;
        let mut args = command.bench.clone();
        if let Some(url) = url {
            put_address(&mut args, url)?;
        }
        let presets = environment.presets.layers()?;
        let events = KeptEvents::asked(&command.at, &presets);
        if url.is_none() && budget.is_none() {
            return Ok(Self { args, staircase: None, own: None, events });
        }
        // Without an address a preset must not turn one run into a staircase.
        let preset = || presets.iter().rev().find_map(|preset| preset.at.budget.as_deref());
        let budget_s = seconds("--budget", budget.as_deref().or_else(preset))?;
        if budget_s.is_some_and(|seconds| seconds <= 0.0) {
            return Err(Refusal::usage("`--budget` must be greater than zero", "write it as `2m`"));
        }
        let mut own = OwnDefaults::below(&layered(&presets, &args));
        let staircase = if is_one_run(command, &presets) {
            put_end(&mut args, &mut own, budget.as_deref(), &presets);
            None
        } else {
            let budget = Nanos::from_secs_f64(budget_s.unwrap_or(BUDGET_S));
            Some(Staircase { budget, most: MOST_IN_FLIGHT })
        };
        Ok(Self { args, staircase, own: Some(own), events })
    }
}

/// Whether a load is set, so that there is no staircase. Who types `--budget` and no load asks for one.
fn is_one_run(command: &BenchCommand, presets: &[Preset]) -> bool {
    if load_flag(&command.bench).is_some() {
        return true;
    }
    let preset = presets.iter().rev().find_map(|one| Some((load_flag(&one.args)?, one.origin)));
    let Some((flag, origin)) = preset else { return false };
    let (name, is_staircase) = (flag.trim_start_matches('-'), command.at.budget.is_some());
    print_message(&if is_staircase {
        format!("note: the staircase sets the load; `{name}` ({}) has no effect", origin.name())
    } else {
        format!(
            "note: one run instead of a staircase: the load is set by `{name}` ({})\n  \
             add `--budget 2m` for a staircase",
            origin.name()
        )
    });
    !is_staircase
}

/// The end of one run of a URL: a time, where nothing gives another.
fn put_end(args: &mut BenchArgs, own: &mut OwnDefaults, budget: Option<&str>, presets: &[Preset]) {
    let is_ended = |args: &BenchArgs| {
        args.stop.num_prompts.is_some() || args.stop.duration.is_some() || args.plan.is_some()
    };
    match budget {
        Some(budget) if is_ended(args) => print_message(&format!(
            "note: `--budget {budget}` has no effect: other flags say when the run ends"
        )),
        Some(budget) => args.stop.duration = Some(budget.to_owned()),
        None if is_ended(args) || presets.iter().any(|preset| is_ended(&preset.args)) => {}
        None => own.end_after(&format!("{RUN_S}s")),
    }
}

/// Measures what the arguments say, point by point.
pub(crate) fn bench(
    command: &BenchCommand,
    order: &[String],
    given: &Given,
) -> anyhow::Result<Exit> {
    let asked = AskedBench::new(command, &given.environment)?;
    let (args, own) = (&asked.args, asked.own.as_ref());
    let mut lowered = lower_over(own, args, order, &given.environment)?;
    for remark in &lowered.remarks {
        print_message(&format!("note: {remark}"));
    }
    if args.print_plan {
        let plan = asked
            .staircase
            .map_or(lowered.plan.clone(), |staircase| with_steps(&lowered.plan, staircase));
        print(&written(&plan, &lowered.origins).context("cannot show the plan")?)?;
        return Ok(Exit::Done);
    }
    lowered.require_secrets()?;
    say_missing_key(args, &lowered);
    if let Some(pipe) = tokometer_workload::pipe(&lowered.plan.workload) {
        say_pipe(&pipe);
    }
    let bar = bar(&lowered);
    if let Some(staircase) = asked.staircase {
        let found = shards::membership(args, &lowered, given)?;
        if found.is_some() && !args.shards.global_cap {
            return Err(Refusal::usage(
                "cannot divide a staircase of concurrency into shards: it begins with one request in flight",
                "add `--global-cap`, or a load, such as `--max-concurrency 64 --duration 5m`",
            )
            .into());
        }
        let own = own.cloned().unwrap_or_default();
        let server = identified((args, &own), &mut lowered, (order, given))?;
        let climbed = (staircase, server, asked.events);
        return climb((command, found), (lowered, bar), climbed, given);
    }
    if command.at.keep_events {
        print_message(
            "note: `--keep-events` has no effect: a single run keeps its events as they are",
        );
    }
    if let Some(own) = own.filter(|_| command.at.url.is_some()) {
        let server = identified((args, own), &mut lowered, (order, given))?;
        if server.is_recognised() {
            print_message(&format!("server: {}", server.identity));
        }
    }
    let earlier = Earlier::checked(&args.output, &lowered.plan.output)?;
    let mut look = style(&given.environment);
    if lowered.display.calibration == SelfCheck::Asked {
        look.error = instrument::calibrate(&lowered.plan, given)?;
    }
    if let Some(found) = shards::membership(args, &lowered, given)? {
        return Ok(shards::bench(&found, args, &mut lowered, (given, bar, look))?);
    }
    let begin = (given.clock.wall(), earlier);
    let mut measurement = measurement(&lowered.secrets, &given.signals, bar, &given.clock);
    let page = command.at.html.as_deref();
    Ok(bench::run(&mut measurement, &lowered, begin, (&given.signals, look), &|folder| {
        page.map_or(Ok(()), |page| write_page(folder, &lowered.plan, page))
    })?)
}

fn say_missing_key(args: &BenchArgs, lowered: &Lowered) {
    let variable = args.plan.as_deref().and_then(key_variable);
    if let Some(variable) = variable.filter(|_| lowered.secrets.api_key.is_none()) {
        print_message(&format!(
            "note: the run of this plan sent the key in `{variable}`, which is not set\n  set it if the server needs a key"
        ));
    }
}

fn bar(lowered: &Lowered) -> Bar {
    let is_live = lowered.display.progress == ProgressView::Live;
    if is_live && !std::io::stderr().is_terminal() {
        print_message(
            "note: `--live` has no effect here: stderr is not a terminal\n  \
             run it in a terminal; elsewhere progress is one line every 10 s, and `--prometheus-port PORT` serves counters",
        );
    }
    Bar::from(lowered.display)
}

/// The plan of a staircase, as a sweep over all of its steps.
fn with_steps(plan: &Plan, staircase: Staircase) -> Plan {
    let flights = std::iter::successors(Some(1_u64), |flights| Some(flights * 2));
    let flights = flights.take_while(|flights| *flights <= u64::from(staircase.most));
    let mut plan = plan.clone();
    plan.load.num_prompts = None;
    plan.load.request_rate = Rate(f64::INFINITY);
    plan.load.duration_s = Some(staircase.first_length().as_secs_f64());
    let values = AxisValues::List(flights.map(SweepValue::from).collect());
    plan.sweep = vec![Axis { field: PlanField::MaxConcurrency, values }];
    plan
}

/// Measures a staircase and shows it.
fn climb(
    (command, found): (&BenchCommand, Option<Membership>),
    (mut lowered, bar): (Lowered, Bar),
    (staircase, server, events): (Staircase, IdentifiedServer, KeptEvents),
    given: &Given,
) -> anyhow::Result<Exit> {
    if lowered.points.len() != 1 {
        return Err(Refusal::usage(
            "cannot measure a staircase of concurrency for a list of values",
            "add a load, such as `--max-concurrency 8` or `--request-rate 4`, for one run per value",
        )
        .into());
    }
    let earlier = Earlier::checked(&command.bench.output, &lowered.plan.output)?;
    if earlier == Earlier::Resumed {
        return Err(Refusal::usage(
            "cannot resume a staircase: its steps follow from each other",
            "measure it again with `--overwrite`",
        )
        .into());
    }
    let style = style(&given.environment);
    let (role, place) = if let Some(found) = &found {
        let args = (&command.bench, shards::Varied::Load);
        shards::join(found, args, &mut lowered, (given, earlier))?
    } else {
        let (output, name) = (&lowered.plan.output, &lowered.plan.name);
        (shards::Role::Whole, RunFolder::open(output, name, (given.clock.wall(), earlier))?)
    };
    place.announce(&given.signals);
    let mut measurement = measurement_of(
        (&lowered.secrets, role.coordination()),
        &given.signals,
        if matches!(role, shards::Role::Follower(_)) { Bar::Hidden } else { bar },
        &given.clock,
    );
    if let shards::Role::Follower(shard) = &role {
        let (points, varied) = (lowered.points.as_slice(), shards::Varied::Load);
        let following = shards::Following { points, varied, place: (place.path(), earlier), style };
        return Ok(following.follow(&mut measurement, (&role, shard)));
    }
    let point = &lowered.points[0];
    let output = &point.plan.output;
    if output.shown != Shown::Nothing && server.is_recognised() {
        let model = server.model.as_ref().map(|model| format!(", model {model}"));
        print_message(&format!("server: {}{}", server.identity, model.unwrap_or_default()));
    }
    let clock = std::sync::Arc::clone(&given.clock);
    let run = StaircaseRun { plan: &point.plan, staircase, server, clock, events };
    let climbed = run.climb(&mut measurement, &place, &role);
    if climbed.is_ok() {
        role.dismiss();
    }
    drop((measurement, role));
    place.leave_if_empty();
    let climbed = climbed?;
    climbed.write(place.path())?;
    climbed.show(output.shown, style)?;
    let own_page = place.is_kept().then(|| place.path().join(PAGE));
    let page = command.at.html.clone().or(own_page);
    if let Some(page) = &page {
        write_page(place.path(), &point.plan, page)?;
    }
    if output.shown == Shown::Text {
        say_where(&climbed, page.as_deref(), &place)?;
    }
    Ok(climbed.exit)
}

/// Where the results are, and what to do next.
fn say_where(climbed: &Climbed, page: Option<&Path>, place: &RunFolder) -> Result<(), Refusal> {
    let page = page.map(|page| format!("page: {}\n", page.display()));
    let next = climbed.findings.next.as_ref().map(|next| format!("next: {next}\n"));
    print(&format!("{}{}", page.unwrap_or_default(), next.unwrap_or_default()))?;
    if place.is_kept() {
        print_message(&format!("record: {}", place.path().display()));
    }
    Ok(())
}

/// Writes the page of the runs in a folder.
fn write_page(folder: &Path, plan: &Plan, page: &Path) -> Result<(), Refusal> {
    let view = RunView::new(&plan.metrics)?;
    html(&[folder.to_owned()], &view, None, page)
}
