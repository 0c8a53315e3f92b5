//! `tokometer capacity`: the highest load that still meets objectives.
//!
//! Each point is a run of its own with a folder of its own, fresh content and arrivals of its own.
//! Which load comes next is decided by [`tokometer_decide::search`] from the points alone, so an
//! interrupted search goes on from its folders.

mod predicted;
mod search;
mod start;
mod time;

use std::path::Path;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use tokometer_base::{Clock as _, Nanos};
use tokometer_decide::capacity::{Ending, Findings, LoadKind};
use tokometer_decide::search::SearchResult;
use tokometer_measure::IdentifiedServer;
use tokometer_plan as plan;
use tokometer_report::capacity::{self as views, CAPACITY};
use tokometer_shards::Membership;

use crate::args::{AddressArgs, BenchArgs};
use crate::bench::{Bar, Earlier, KeptEvents, RunFolder, RunView, identified};
use crate::commands::{Given, say_remarks};
use crate::exit::{Exit, Refusal, RefusalKind};
use crate::lower::{Lowered, OwnDefaults, ProgressView, layered, lower_over, put_address, written};
use crate::pages;
use crate::runs::READING;
use crate::shards::{self, PartRequest, RunPart, Varied};
use crate::terminal::{print, print_note};

use predicted::EngineArgs;
use search::CapacitySearch;
use time::SearchTime;

/// What `--over` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Over {
    /// Requests per second (open loop)
    #[default]
    RequestRate,
    /// Requests in flight (closed loop)
    Concurrency,
}

impl From<Over> for LoadKind {
    fn from(over: Over) -> Self {
        match over {
            Over::RequestRate => Self::RequestRate,
            Over::Concurrency => Self::Concurrency,
        }
    }
}

/// Flags of `tokometer capacity`, besides those of `bench`.
#[derive(Debug, Clone, Args)]
pub(crate) struct CapacityArgs {
    /// Objectives, such as "p99 ttft < 2s, p99 tpot < 100ms, goodput > 99%"
    #[arg(long, value_name = "OBJECTIVES", help_heading = "Search")]
    pub(crate) slo: String,
    /// Kind of load to vary
    #[arg(long, value_enum, default_value_t, help_heading = "Search")]
    pub(crate) over: Over,
    /// First load to try [default: 1; with --budget: 78 % of the highest throughput of a short staircase]
    #[arg(long, value_name = "LOAD", help_heading = "Search", hide_short_help = true)]
    pub(crate) start: Option<f64>,
    /// Highest load to try
    #[arg(
        long,
        default_value_t = 4096.0,
        value_name = "LOAD",
        help_heading = "Search",
        hide_short_help = true
    )]
    pub(crate) max: f64,
    /// Precision to aim for: half width of the 95 % confidence interval, relative to the result
    #[arg(
        long,
        default_value = "5%",
        value_name = "SHARE",
        help_heading = "Search",
        hide_short_help = true
    )]
    pub(crate) resolution: String,
    /// Maximum number of points to measure [default: 20; with --budget: as many as fit]
    #[arg(long, value_name = "N", help_heading = "Search")]
    pub(crate) points: Option<usize>,
    /// Minimum duration of a point [default: 10s; with --budget: depends on the budget]
    #[arg(long, value_name = "TIME", help_heading = "Search", hide_short_help = true)]
    pub(crate) min_duration: Option<String>,
    /// Maximum duration of a point, without its preload; one third of it while the limit is bracketed [default: 180s; with --budget: depends on the budget]
    #[arg(long, value_name = "TIME", help_heading = "Search", hide_short_help = true)]
    pub(crate) max_duration: Option<String>,
    /// Number of GPUs behind the endpoint, for tokens per second per GPU
    #[arg(long, value_name = "N", help_heading = "Search")]
    pub(crate) gpus: Option<u32>,
    #[command(flatten)]
    pub(crate) at: AddressArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) bench: BenchArgs,
}

/// Runs the command.
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
    say_remarks(&lowered);
    // Objectives that cannot be read are refused before anything is sent.
    CapacitySearch::new(args, &lowered)?.say_objectives();
    let budget = time::budget(args, &presets)?;
    let events = KeptEvents::asked(&args.at, &presets);
    if bench.print_plan {
        print(&written(&lowered.plan, &lowered.origins).context("cannot show the plan")?)?;
        return Ok(Exit::Done);
    }
    lowered.require_secrets()?;
    let server = match &own {
        Some(own) => Some(identified(&bench, own, &mut lowered, order, given)?),
        None => None,
    };
    if let Some(server) = server.as_ref().filter(|server| server.is_recognised()) {
        print_note(&format!("server: {}", server.identity));
    }
    let begin = given.clock.now();
    let earlier = Earlier::checked(&bench.output, &lowered.plan.output)?;
    let found = membership(args, &bench, &lowered, given)?;
    if found.is_none() {
        pages::check(args.at.html.as_deref(), &lowered)?;
    }
    pages::clear_stdout(args.at.html.as_deref(), &mut lowered);
    let bar = bar(&lowered);
    let request = PartRequest { args: &bench, varied: Varied::Load, earlier, bar, given };
    let mut part = request.take(found.as_ref(), &mut lowered)?;
    if let Some(exit) = part.follow(&lowered.points, given.environment.style()) {
        return Ok(exit);
    }
    let setting = SearchSetting { args, lowered: &lowered, given, server, begin, events };
    let searched = setting.search(&mut part, budget);
    let place = part.close(&searched);
    if searched.is_err() {
        place.leave_if_empty();
    }
    let (search, ending) = searched?;
    let findings = search.into_findings(args, ending);
    finish(args, &findings, &lowered, &place)
}

/// What a search begins with.
struct SearchSetting<'a> {
    args: &'a CapacityArgs,
    lowered: &'a Lowered,
    given: &'a Given,
    /// `None` where its backend was named.
    server: Option<IdentifiedServer>,
    begin: Nanos,
    /// What becomes of the events of judged points.
    events: KeptEvents,
}

impl SearchSetting<'_> {
    /// Measures until the answer is known.
    fn search(
        self,
        part: &mut RunPart,
        budget: Option<Nanos>,
    ) -> Result<(CapacitySearch, Ending), Refusal> {
        let Self { args, lowered, given, server, begin, events } = self;
        let plan = lowered.points.first().map_or(&lowered.plan, |point| &point.plan);
        if part.earlier == Earlier::Resumed {
            CapacitySearch::new(args, lowered)?.check_stored(plan, part.place.path())?;
        }
        let mut search = match budget {
            None => CapacitySearch::new(args, lowered)?,
            Some(budget) => {
                let staircase = start::StartSearch { args, plan, server, budget, events };
                let first = staircase.load(part, given)?;
                let time = SearchTime::new(&given.clock, begin + budget, args);
                let search = CapacitySearch::within(args, lowered, (first.load, time))?;
                search.say_forecast(budget, first.rate);
                search
            }
        };
        search.events = events;
        let ending = search.run(plan, part)?;
        Ok((search, ending))
    }
}

/// Which part of the search this process makes; `None` where it makes all of it.
fn membership(
    args: &CapacityArgs,
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
    let has_staircase = args.at.budget.is_some() && args.start.is_none();
    if (args.over == Over::Concurrency || has_staircase) && !bench.shards.global_cap {
        return Err(Refusal::usage(
            "cannot divide a search for a concurrency into shards: it tries fewer requests in flight than there are shards",
            "add `--global-cap`, or search for a request rate, with `--start` where there is a `--budget`",
        ));
    }
    Ok(Some(found))
}

/// A search has many short runs: a full-screen dashboard would open and close with each.
fn bar(lowered: &Lowered) -> Bar {
    if lowered.display.progress == ProgressView::Live {
        print_note(
            "note: `--live` has no effect on a search, whose runs are short: a line follows each point",
        );
    }
    match Bar::from(lowered.display) {
        Bar::Live => Bar::Allowed,
        bar => bar,
    }
}

/// Shows and keeps what was found.
fn finish(
    args: &CapacityArgs,
    findings: &Findings,
    lowered: &Lowered,
    place: &RunFolder,
) -> anyhow::Result<Exit> {
    report(findings, lowered, place.path())?;
    if let Some(out) = &args.at.html {
        let view = RunView::new(&lowered.plan.metrics)?;
        pages::write(views::page(READING, findings, place.path(), &view, None)?, out)?;
        pages::say_page(out);
    }
    if place.is_kept() && lowered.plan.output.shown == plan::Shown::Text {
        print_note(&format!("record: {}", place.path().display()));
    }
    Ok(match &findings.ending {
        Ending::Interrupted => Exit::Interrupted,
        Ending::ServerGone => Exit::Target,
        Ending::NoSuccess { .. } => Exit::NoSuccess,
        Ending::Answered(SearchResult::NoneMeets { .. }) => Exit::Missed,
        Ending::Answered(_) if findings.unreached().is_some() => Exit::Missed,
        Ending::Answered(_) => Exit::Done,
    })
}

fn report(findings: &Findings, lowered: &Lowered, place: &Path) -> anyhow::Result<()> {
    let json = serde_json::to_string_pretty(findings)?;
    tokometer_record::write_whole(&place.join(CAPACITY), json.as_bytes()).map_err(|why| {
        Refusal::new(
            RefusalKind::Write,
            format!("cannot write `{}`: {why}", place.join(CAPACITY).display()),
        )
    })?;
    match lowered.plan.output.shown {
        plan::Shown::Text => print(&views::text(findings))?,
        plan::Shown::Json => print(&format!("{json}\n"))?,
        plan::Shown::Nothing => {}
    }
    Ok(())
}
