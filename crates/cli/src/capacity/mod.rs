//! `tokometer capacity`: the highest load that still meets objectives.
//!
//! [`tokometer_campaign::Search`] makes the search; here are its flags, and what is shown of it.

mod predicted;
mod screen;

use std::path::{Path, PathBuf};

use tokometer_base::{Clock as _, Nanos, units};
use tokometer_campaign::shards::Varied;
use tokometer_campaign::{Earlier, RunFolder, STAIRS, Search, SearchBounds, SearchSetting, run};
use tokometer_decide::Slo;
use tokometer_decide::capacity::{Ending, Findings};
use tokometer_decide::search::SearchResult;
use tokometer_decide::slo::Objective;
use tokometer_measure::{IdentifiedServer, ServerIdentity};
use tokometer_plan::{self as plan, Plan};
use tokometer_report::capacity::{self as views, CAPACITY};
use tokometer_report::export::write_file;
use tokometer_report::staircase;
use tokometer_shards::Membership;

use crate::args::{BenchArgs, CapacityArgs, Over};
use crate::bench::{
    RunView, StairsScreen, identified, kept_events, planned_runs, say_search, say_varied,
};
use crate::exit::{Exit, Refusal};
use crate::lower::{Bar, Lowered, OwnDefaults, Preset, layered, lower_over, put_address, seconds};
use crate::pages;
use crate::runs::READING;
use crate::session::{Given, say_remarks, show_plan};
use crate::shards::{self, PartRequest};
use crate::terminal::{print, print_message, print_note};

use screen::SearchScreen;

/// Time for a search that neither `--points` nor `--max-duration` bounds.
const BUDGET: Nanos = Nanos::from_secs(300);

pub(crate) fn capacity(
    args: &CapacityArgs,
    order: &[String],
    given: &Given,
) -> anyhow::Result<Exit> {
    if args.engine.engine.is_some() {
        shards::refuse(&args.bench.shards, "capacity --engine")?;
        return predicted::capacity(args, order, given);
    }
    let mut bench = args.bench.clone();
    let presets = given.environment.presets.layers()?;
    let mut own = None;
    if let Some(url) = &args.at.url {
        put_address(&mut bench, url)?;
        own = Some(OwnDefaults::below(&layered(&presets, &bench)));
    }
    let mut lowered = lower_over(own.as_ref(), &bench, order, &given.environment)?;
    // Objectives that cannot be read are refused before anything is sent.
    let search = Search::new(setting(args, &lowered.plan, PathBuf::new())?)?;
    let usual = (args.points.is_none() && args.max_duration.is_none()).then_some(BUDGET);
    let budget = asked_budget(args, &presets)?.or(usual);
    if !bench.print_plan {
        say_search(args, &lowered, budget);
    }
    say_remarks(&lowered);
    say_objectives(&search);
    if bench.print_plan {
        return show_plan(&lowered.plan, &lowered);
    }
    lowered.require_secrets()?;
    let server = match &own {
        Some(own) => Some(identified(&bench, own, &mut lowered, order, given)?),
        None => None,
    };
    if let Some(server) = server.as_ref().filter(|server| server.is_recognised()) {
        print_note(&format!("server: {}", server.identity));
    }
    if own.is_some() {
        say_varied(&lowered.plan);
    }
    let begin = given.clock.now();
    let earlier = Earlier::checked(&bench.output, &lowered.plan.output)?;
    let found = membership(&bench, &lowered, given)?;
    refuse_undivided(args, &bench, budget, found.as_ref())?;
    if found.is_none() {
        pages::check(args.bench.html.as_deref(), &lowered)?;
    }
    pages::clear_stdout(args.bench.html.as_deref(), &mut lowered);
    let bar = bar(&lowered);
    let request = PartRequest { args: &bench, varied: Varied::Load, earlier, bar, given };
    let mut part = request.take(found.as_ref(), &mut lowered)?;
    let runs = planned_runs(&lowered, part.folder.path())?;
    if let Some(exit) = part.follow(&runs) {
        return Ok(exit?);
    }
    let plan = lowered.points.first().map_or(&lowered.plan, |point| &point.plan);
    let setting = SearchSetting {
        budget,
        begin,
        kept_events: kept_events(&args.bench, &presets),
        ..setting(args, plan, part.folder.path().to_owned())?
    };
    let searched = searched(setting, server, earlier, &mut part);
    let folder = part.close(&searched);
    if searched.is_err() {
        folder.leave_if_empty();
    }
    finish(args, &searched?, &lowered, &folder)
}

/// Makes the search, after what an earlier session has of it.
fn searched(
    mut setting: SearchSetting,
    server: Option<IdentifiedServer>,
    earlier: Earlier,
    part: &mut shards::RunPart,
) -> Result<Findings, Refusal> {
    let plan = setting.plan.clone();
    let folder = setting.folder.join(STAIRS);
    let climbs = setting.budget.is_some() && setting.start.is_none();
    if earlier == Earlier::Resumed {
        Search::new(setting.clone())?.check_stored()?;
        let stored = staircase::read(&folder).filter(|_| climbs);
        if let Some(findings) = stored {
            print_note(&staircase::sentence(&findings));
            setting.stairs = Some(findings.steps);
        }
    }
    let stairs = climbs && setting.stairs.is_none();
    let lock = stairs.then(|| match earlier {
        // An unfinished staircase cannot be continued: its steps follow from each other.
        Earlier::Resumed => RunFolder::named(&folder, Earlier::Removed)?.without_earlier(),
        // The search removes the staircase with its own points.
        Earlier::Removed => RunFolder::named(&folder, Earlier::Resumed),
        Earlier::Refused => RunFolder::named(&folder, Earlier::Refused),
    });
    let lock = lock.transpose()?;
    let server = server.unwrap_or_else(|| IdentifiedServer {
        identity: ServerIdentity::default(),
        model: None,
        backend: plan.targets[0].backend,
        context_tokens: None,
    });
    let is_length_open = setting.budget.is_some() && setting.bounds.longest.is_none();
    let mut screen = SearchScreen {
        stairs: StairsScreen::new(&plan, server, Nanos::ZERO),
        folder: &folder,
        is_climbing: stairs,
        longer: if is_length_open { "--budget" } else { "--max-duration" },
        is_warned: false,
    };
    let found = run(&mut Search::new(setting)?, &mut *part.executor, &mut screen);
    if let Some(lock) = lock {
        lock.leave_if_empty();
    }
    found
}

/// Prints how objectives are read whose words could mean something else.
fn say_objectives(search: &Search) {
    for remark in search.slo().objectives.iter().filter_map(Objective::remark) {
        print_note(&format!("note: {remark}"));
    }
}

/// The search that the flags ask for, without a budget.
fn setting(args: &CapacityArgs, plan: &Plan, folder: PathBuf) -> Result<SearchSetting, Refusal> {
    // The error brings its own hint.
    let slo_text = args.slo.join(", ");
    let slo = Slo::parse(&slo_text)
        .map_err(|why| Refusal::usage(format!("cannot use `--slo`: {why}"), ""))?;
    let resolution = units::parse_share(&args.resolution)
        .map_err(|why| Refusal::usage(format!("cannot use `--resolution`: {why}"), ""))?;
    let view = RunView::new(&plan.metrics)?.with_objectives(&slo);
    Ok(SearchSetting {
        slo,
        slo_text,
        over: args.over.into(),
        start: args.start,
        most: args.max,
        resolution,
        points: args.points,
        bounds: SearchBounds {
            shortest: span("--min-duration", args.min_duration.as_deref())?,
            longest: span("--max-duration", args.max_duration.as_deref())?,
            longest_text: args.max_duration.clone().unwrap_or_default(),
        },
        gpus: args.gpus,
        budget: None,
        begin: Nanos::ZERO,
        figures: view.figures(plan),
        plan: plan.clone(),
        folder,
        kept_events: tokometer_campaign::KeptEvents::Plain,
        stairs: None,
    })
}

fn span(flag: &str, text: Option<&str>) -> Result<Option<Nanos>, Refusal> {
    let Some(text) = text else { return Ok(None) };
    let refused = |why: String| {
        let message = format!("cannot use `{flag} {text}`: {why}");
        Refusal::usage(message, format!("try `{flag} 60s`"))
    };
    match units::parse_span(text, Nanos::from_secs(1)) {
        Err(why) => Err(refused(why.to_string())),
        Ok(Nanos::ZERO) => Err(refused("it must be a time greater than zero".to_owned())),
        Ok(span) => Ok(Some(span)),
    }
}

/// The budget that the flags ask for, or a preset where they do not bound the search otherwise.
fn asked_budget(args: &CapacityArgs, presets: &[Preset]) -> Result<Option<Nanos>, Refusal> {
    let is_bounded = args.points.is_some() || args.max_duration.is_some();
    let preset = || presets.iter().rev().find_map(|preset| preset.fragment.budget.as_deref());
    let preset = || preset().filter(|_| !is_bounded);
    let typed = seconds("--budget", args.bench.budget.as_deref().or_else(preset))?;
    if typed.is_some_and(|seconds| seconds <= 0.0) {
        return Err(Refusal::usage("`--budget` must be greater than zero", "write it as `5m`"));
    }
    Ok(typed.map(Nanos::from_secs_f64))
}

/// Which part of the search this process makes; `None` where it makes all of it.
fn membership(
    bench: &BenchArgs,
    lowered: &Lowered,
    given: &Given,
) -> Result<Option<Membership>, Refusal> {
    let Some(found) = shards::membership(bench, lowered, given)? else { return Ok(None) };
    if found.leader.is_none() {
        return Err(Refusal::usage(
            "cannot make a shard of a search without a leader: shard 0 decides what is measured next",
            "add `--leader HOST:PORT` to all shards",
        ));
    }
    Ok(Some(found))
}

/// Few requests in flight cannot be divided into shards.
fn refuse_undivided(
    args: &CapacityArgs,
    bench: &BenchArgs,
    budget: Option<Nanos>,
    part: Option<&Membership>,
) -> Result<(), Refusal> {
    let has_staircase = budget.is_some() && args.start.is_none();
    let is_capped = args.over != Over::RequestRate || has_staircase;
    if part.is_none() || !is_capped || bench.shards.global_cap {
        return Ok(());
    }
    Err(Refusal::usage(
        "cannot divide a search for a concurrency into shards: it tries fewer requests in flight than there are shards",
        "add `--global-cap`, or search for a request rate with `--start`",
    ))
}

/// A search has many short runs: a full-screen dashboard would open and close with each.
fn bar(lowered: &Lowered) -> Bar {
    if lowered.bar != Bar::Live {
        return lowered.bar;
    }
    print_note(
        "note: `--live` has no effect on a search, whose runs are short: its table grows with each",
    );
    Bar::Allowed
}

fn finish(
    args: &CapacityArgs,
    findings: &Findings,
    lowered: &Lowered,
    folder: &RunFolder,
) -> anyhow::Result<Exit> {
    report(findings, lowered, folder.path())?;
    if let Some(out) = &args.bench.html {
        let view = RunView::new(&lowered.plan.metrics)?;
        pages::write(views::page(READING, findings, folder.path(), &view, None), out)?;
        pages::say_page(out);
    }
    if folder.is_kept() && lowered.plan.output.shown == plan::Shown::Text {
        print_note(&format!("record: {}", folder.path().display()));
    }
    let exit = match &findings.ending {
        Ending::Interrupted => Exit::Interrupted,
        Ending::ServerGone => Exit::Target,
        Ending::NoSuccess { .. } => Exit::NoSuccess,
        Ending::Answered(SearchResult::NoneMeets { .. }) => Exit::Missed,
        Ending::Answered(_) if findings.unreached().is_some() => Exit::Missed,
        Ending::Answered(_) => Exit::Done,
    };
    if exit != Exit::Done && lowered.plan.output.shown == plan::Shown::Nothing {
        print_message(&format!("error: {}", findings.sentence));
    }
    Ok(exit)
}

fn report(findings: &Findings, lowered: &Lowered, folder: &Path) -> anyhow::Result<()> {
    let json = serde_json::to_string_pretty(findings)?;
    write_file(&folder.join(CAPACITY), &json)?;
    match lowered.plan.output.shown {
        plan::Shown::Text => print(&views::text(findings))?,
        plan::Shown::Json => print(&format!("{json}\n"))?,
        plan::Shown::Nothing => {}
    }
    Ok(())
}
