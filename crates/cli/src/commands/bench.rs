//! `tokometer bench`.

use std::path::Path;

use tokometer_base::Nanos;
use tokometer_campaign::shards::Varied;
use tokometer_campaign::{
    Against, Earlier, KeptEvents, RunFolder, Stairs, Sweep, SweepFindings, check_stored_sweep, run,
};
use tokometer_decide::slo::Objective;
use tokometer_decide::staircase::{StairAim, StairEnd, Staircase};
use tokometer_measure::IdentifiedServer;
use tokometer_plan::options::Fragment;
use tokometer_plan::{Axis, AxisValues, Plan, PlanField, Rate, Shown, SweepValue};
use tokometer_report::grid::TERMINAL;
use tokometer_report::saved::asked_objectives;
use tokometer_shards::Membership;

use crate::args::{BenchArgs, BenchCommand};
use crate::bench::{
    Look, RunView, Screen, ShownStairs, StairsScreen, check_result_files, identified, kept_events,
    next_line, overall, planned_runs, say_intention, say_varied,
};
use crate::exit::{Exit, Refusal};
use crate::files::say_pipe;
use crate::instrument;
use crate::lower::{
    Bar, Environment, Lowered, OwnDefaults, Preset, key_variable, layered, load_flag, lower_over,
    put_address, seconds,
};
use crate::pages;
use crate::session::{Given, say_remarks, show_plan};
use crate::shards::{self, PartRequest, RunPart};
use crate::terminal::{print, print_note};

/// Time for a staircase, and for one run of a URL that nothing else ends.
const BUDGET_S: f64 = 120.0;
const RUN_S: f64 = 60.0;
const MOST_IN_FLIGHT: u32 = 1_024;
/// The layout without another tool's block.
const OWN_LAYOUT: &str = "tokometer";
const PAGE: &str = "page.html";

struct AskedBench {
    args: BenchArgs,
    /// `None` is one run, or a sweep.
    staircase: Option<Staircase>,
    /// Our own values; `None` where the command names no server by its address alone.
    own: Option<OwnDefaults>,
    events: KeptEvents,
}

impl AskedBench {
    fn new(command: &BenchCommand, environment: &Environment) -> Result<Self, Refusal> {
        let (url, budget) = (&command.at.url, &command.bench.budget);
        let mut args = command.bench.clone();
        if let Some(url) = url {
            put_address(&mut args, url)?;
        }
        let presets = environment.presets.layers()?;
        let events = kept_events(&command.bench, &presets);
        if url.is_none() && budget.is_none() {
            return Ok(Self { args, staircase: None, own: None, events });
        }
        // Without an address a preset must not turn one run into a staircase.
        let preset = || presets.iter().rev().find_map(|preset| preset.fragment.budget.as_deref());
        let budget_s = seconds("--budget", budget.as_deref().or_else(preset))?;
        if budget_s.is_some_and(|seconds| seconds <= 0.0) {
            return Err(Refusal::usage("`--budget` must be greater than zero", "write it as `2m`"));
        }
        let mut own = OwnDefaults::below(&layered(&presets, &args));
        let staircase = if is_one_run(command, &presets) {
            put_end(&mut args, &mut own, budget.as_deref(), &presets)?;
            None
        } else {
            let budget = Nanos::from_secs_f64(budget_s.unwrap_or(BUDGET_S));
            Some(Staircase { budget, most: MOST_IN_FLIGHT, aim: StairAim::Knee })
        };
        Ok(Self { args, staircase, own: Some(own), events })
    }
}

/// Whether a load is set, so that there is no staircase. Who types `--budget` and no load asks for one.
fn is_one_run(command: &BenchCommand, presets: &[Preset]) -> bool {
    if load_flag(&command.bench).is_some() {
        return true;
    }
    let preset = presets.iter().rev().find_map(|one| Some((load_flag(&one.fragment)?, one.origin)));
    let Some((flag, origin)) = preset else { return false };
    let (name, is_staircase) = (flag.trim_start_matches('-'), command.bench.budget.is_some());
    print_note(&if is_staircase {
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
fn put_end(
    args: &mut BenchArgs,
    own: &mut OwnDefaults,
    budget: Option<&str>,
    presets: &[Preset],
) -> Result<(), Refusal> {
    let is_ended = |args: &Fragment| args.has_any(&["num-prompts", "duration", "plan"]);
    match budget {
        Some(budget) if is_ended(args) => print_note(&format!(
            "note: `--budget {budget}` has no effect: other flags say when the run ends"
        )),
        Some(budget) => args.add("duration", budget)?,
        None if is_ended(args) || presets.iter().any(|preset| is_ended(&preset.fragment)) => {}
        None => own.end_after(&format!("{RUN_S}s")),
    }
    Ok(())
}

pub(crate) fn bench(
    command: &BenchCommand,
    order: &[String],
    given: &Given,
) -> anyhow::Result<Exit> {
    let asked = AskedBench::new(command, &given.environment)?;
    let (args, own) = (&asked.args, asked.own.as_ref());
    let mut lowered = lower_over(own, args, order, &given.environment)?;
    if !args.print_plan {
        lowered.require_secrets()?;
    }
    check_objectives(command, asked.staircase, &lowered.plan)?;
    if !args.print_plan {
        say_intention(command, &lowered, asked.staircase.map(|stairs| stairs.budget));
    }
    say_remarks(&lowered);
    if args.print_plan {
        let plan = asked
            .staircase
            .map_or(lowered.plan.clone(), |staircase| with_steps(&lowered.plan, staircase));
        return show_plan(&plan, &lowered);
    }
    say_missing_key(args, &lowered);
    if let Some(pipe) = tokometer_workload::pipe(&lowered.plan.workload) {
        say_pipe(&pipe);
    }
    if let Some(staircase) = asked.staircase {
        let found = shards::membership(args, &lowered, given)?;
        check_staircase(args, found.as_ref(), &lowered)?;
        let own = own.cloned().unwrap_or_default();
        let server = identified(args, &own, &mut lowered, order, given)?;
        let stairs = AskedStairs { command, staircase, server, events: asked.events };
        return stairs.climb(found.as_ref(), lowered, given);
    }
    if command.bench.keep_events {
        print_note(
            "note: `--keep-events` has no effect: a single run keeps its events as they are",
        );
    }
    if let Some(own) = own.filter(|_| command.at.url.is_some()) {
        let server = identified(args, own, &mut lowered, order, given)?;
        if server.is_recognised() {
            print_note(&format!("server: {}", server.identity));
        }
        say_varied(&lowered.plan);
    }
    measure_points(command, args, lowered, given)
}

/// Measures the points of a command line, and writes the page of `--html`.
fn measure_points(
    command: &BenchCommand,
    args: &BenchArgs,
    mut lowered: Lowered,
    given: &Given,
) -> anyhow::Result<Exit> {
    let earlier = Earlier::checked(&args.output, &lowered.plan.output)?;
    let mut style = given.environment.style();
    style.is_detailed = lowered.is_detailed;
    if lowered.is_calibrated {
        style.error = instrument::calibrate(&lowered.plan, given)?;
    }
    let found = shards::membership(args, &lowered, given)?;
    let page = command.bench.html.as_deref();
    if let Some(found) = &found {
        shards::note_cap(found, &args.shards, &lowered);
    } else {
        // Before a folder is made that would stay empty.
        check_result_files(&lowered.plan.output)?;
        pages::check(page, &lowered)?;
    }
    pages::clear_stdout(page, &mut lowered);
    let bar = bar(&lowered);
    let request = PartRequest { args, varied: Varied::Nothing, earlier, bar, given };
    let mut part = request.take(found.as_ref(), &mut lowered)?;
    let is_reporting = part.is_reporting();
    let mut screen = Screen::new(&lowered.points, style, look(&lowered));
    let outcome = swept(&mut part, &lowered, earlier, &mut screen);
    let folder = part.close(&outcome);
    folder.leave_if_empty();
    let exit = match outcome? {
        Exit::Done if is_reporting => screen.exit_by_objectives(&command.judged),
        exit => exit,
    };
    if let Some(page) = page.filter(|_| is_reporting && screen.results() > 0) {
        write_page(folder.path(), &lowered.plan, page)?;
        pages::say_page(page);
    }
    Ok(exit)
}

/// Makes this process's part of all points, and shows them together.
fn swept(
    part: &mut RunPart,
    lowered: &Lowered,
    earlier: Earlier,
    screen: &mut Screen<'_>,
) -> Result<Exit, Refusal> {
    let (plan, runs) = (&lowered.plan, planned_runs(lowered, part.folder.path())?);
    if let Some(exit) = part.follow(&runs) {
        return exit;
    }
    check_result_files(&plan.output)?;
    if earlier == Earlier::Resumed {
        for run in &runs {
            part.executor.prepare(run, screen)?;
        }
        check_stored_sweep(part.folder.path(), &runs)?;
    }
    let found = match runs.as_slice() {
        [only] if only.plan.ab_blocks().is_some() => {
            let mut against = Against { run: only.clone() };
            let compared = run(&mut against, &mut *part.executor, screen)?;
            SweepFindings { fates: vec![compared.fate] }
        }
        _ => run(&mut Sweep { runs }, &mut *part.executor, screen)?,
    };
    screen.show_all(plan.output.shown)?;
    if part.folder.is_kept() && plan.output.shown == Shown::Text {
        print_note(&where_it_is(part.folder.path(), lowered));
    }
    Ok(overall(&found, look(lowered)))
}

/// The record, and the command that shows what the screen left out; on a line each where one is too long.
fn where_it_is(folder: &Path, lowered: &Lowered) -> String {
    let record = format!("record: {}", folder.display());
    let details = "details: tokometer report RUN --details";
    let fits = record.chars().count() + 4 + details.len() <= TERMINAL;
    match (lowered.is_detailed, fits) {
        (true, _) => record,
        (false, true) => format!("{record}    {details}"),
        (false, false) => format!("{record}\n{details}"),
    }
}

fn look(lowered: &Lowered) -> Look {
    let has_layout = lowered.plan.metrics.layout != OWN_LAYOUT;
    match lowered.points.len() {
        1 => Look::Single,
        _ if lowered.has_blocks && has_layout => Look::Blocks,
        _ => Look::Sweep,
    }
}

/// Refuses objectives that no run can be judged by, and says how words are read that could mean something
/// else.
fn check_objectives(
    command: &BenchCommand,
    staircase: Option<Staircase>,
    plan: &Plan,
) -> Result<(), Refusal> {
    let slo = asked_objectives(&plan.metrics)?;
    if slo.objectives.is_empty() && command.judged.require_power {
        return Err(Refusal::usage(
            "cannot use `--require-power` without `--slo`",
            "state objectives, such as `--slo \"p99 ttft < 500ms\"`",
        ));
    }
    if !slo.objectives.is_empty() && staircase.is_some() {
        return Err(Refusal::usage(
            "cannot judge a staircase by `--slo`: each of its steps is another load",
            "add a load, such as `--max-concurrency 8`, or search the highest load that meets them with `tokometer capacity`",
        ));
    }
    for remark in slo.objectives.iter().filter_map(Objective::remark) {
        print_note(&format!("note: {remark}"));
    }
    Ok(())
}

/// Refuses what a staircase of concurrency cannot be combined with.
fn check_staircase(
    args: &BenchArgs,
    found: Option<&Membership>,
    lowered: &Lowered,
) -> Result<(), Refusal> {
    if found.is_some() && !args.shards.global_cap {
        return Err(Refusal::usage(
            "cannot divide a staircase of concurrency into shards: it begins with one request in flight",
            "add `--global-cap`, or a load, such as `--max-concurrency 64 --duration 5m`",
        ));
    }
    if lowered.points.len() != 1 {
        return Err(Refusal::usage(
            "cannot measure a staircase of concurrency for a list of values",
            "add a load, such as `--max-concurrency 8` or `--request-rate 4`, for one run per value",
        ));
    }
    if Earlier::checked(&args.output, &lowered.plan.output)? == Earlier::Resumed {
        return Err(Refusal::usage(
            "cannot resume a staircase: its steps follow from each other",
            "measure it again with `--overwrite`",
        ));
    }
    Ok(())
}

fn say_missing_key(args: &BenchArgs, lowered: &Lowered) {
    let variable = args.plan.as_deref().and_then(key_variable);
    if let Some(variable) = variable.filter(|_| lowered.secrets.api_key.is_none()) {
        print_note(&format!(
            "note: the run of this plan sent the key in `{variable}`, which is not set\n  set it if the server needs a key"
        ));
    }
}

fn bar(lowered: &Lowered) -> Bar {
    let bar = lowered.bar.on_this_terminal();
    if bar != lowered.bar {
        print_note(
            "note: `--live` has no effect here: stderr is not a terminal\n  \
             run it in a terminal; elsewhere progress is one line every 10 s, and `--prometheus-port PORT` serves counters",
        );
    }
    bar
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
    plan.sweep = vec![Axis { field: PlanField::MAX_CONCURRENCY, values }];
    plan
}

struct AskedStairs<'a> {
    command: &'a BenchCommand,
    staircase: Staircase,
    server: IdentifiedServer,
    events: KeptEvents,
}

impl AskedStairs<'_> {
    fn climb(
        self,
        found: Option<&Membership>,
        mut lowered: Lowered,
        given: &Given,
    ) -> anyhow::Result<Exit> {
        let Self { command, staircase, server, events } = self;
        if found.is_none() {
            pages::check(command.bench.html.as_deref(), &lowered)?;
        }
        pages::clear_stdout(command.bench.html.as_deref(), &mut lowered);
        let (args, bar, style) = (&command.bench, bar(&lowered), given.environment.style());
        let earlier = Earlier::checked(&args.output, &lowered.plan.output)?;
        let request = PartRequest { args, varied: Varied::Load, earlier, bar, given };
        let mut part = request.take(found, &mut lowered)?;
        let runs = planned_runs(&lowered, part.folder.path())?;
        if let Some(exit) = part.follow(&runs) {
            return Ok(exit?);
        }
        let plan = &lowered.points[0].plan;
        let shown = plan.output.shown;
        if shown != Shown::Nothing && server.is_recognised() {
            let model = server.model.as_ref().map(|model| format!(", model {model}"));
            print_note(&format!("server: {}{}", server.identity, model.unwrap_or_default()));
        }
        let mut screen = StairsScreen::new(plan, server, staircase.budget);
        let mut stairs = Stairs {
            staircase,
            plan: plan.clone(),
            folder: part.folder.path().to_owned(),
            figures: RunView::new(&plan.metrics)?.with_files(&plan.output).figures(plan),
            kept_events: events,
            begin: given.clock.now(),
        };
        let climbed = run(&mut stairs, &mut *part.executor, &mut screen);
        let folder = part.close(&climbed);
        folder.leave_if_empty();
        let climbed = climbed?;
        let stairs = screen.shown(&climbed.steps, climbed.end);
        stairs.write(folder.path())?;
        stairs.show(shown, style)?;
        let own_page = folder.is_kept().then(|| folder.path().join(PAGE));
        let page = command.bench.html.clone().or(own_page);
        if let Some(page) = &page {
            write_page(folder.path(), plan, page)?;
        }
        if shown == Shown::Text {
            say_where(&stairs, page.as_deref(), &folder)?;
        }
        Ok(match climbed.end {
            StairEnd::Interrupted => Exit::Interrupted,
            _ => overall(&SweepFindings { fates: climbed.fates }, Look::Sweep),
        })
    }
}

fn say_where(stairs: &ShownStairs, page: Option<&Path>, folder: &RunFolder) -> Result<(), Refusal> {
    let page = page.map(|page| format!("page: {}\n", page.display()));
    print(&format!("{}{}", page.unwrap_or_default(), next_line(&stairs.findings)))?;
    if folder.is_kept() {
        print_note(&format!("record: {}", folder.path().display()));
    }
    Ok(())
}

fn write_page(folder: &Path, plan: &Plan, page: &Path) -> Result<(), Refusal> {
    let view = RunView::new(&plan.metrics)?;
    pages::write_runs(&[folder.to_owned()], &view, page)
}
