//! `tokometer capacity`: the highest load that still meets objectives.
//!
//! Each point is a run of its own with a folder of its own, fresh content and arrivals of its own.
//! Which load comes next is decided by [`tokometer_decide::search`] from the points alone, so an
//! interrupted search goes on from its folders.

mod predicted;
mod search;
mod start;
mod time;
pub(crate) mod views;

use std::path::Path;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use tokometer_base::{Clock as _, Nanos};
use tokometer_decide::capacity::{Ending, Findings, LoadKind};
use tokometer_decide::search::{SearchResult, needed};
use tokometer_measure::{IdentifiedServer, Measurement};
use tokometer_plan as plan;

use crate::args::{AddressArgs, BenchArgs};
use crate::bench::{
    Bar, CAPACITY, Earlier, KeptEvents, RunFolder, RunView, identified, measurement_of,
};
use crate::commands::Given;
use crate::exit::{Exit, Refusal};
use crate::lower::{Lowered, OwnDefaults, layered, lower_over, put_address, written};
use crate::pages;
use crate::shards::{self, Following, Role, Varied};
use crate::terminal::{print, print_message, style};

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
    #[arg(long, value_name = "LOAD", help_heading = "Search")]
    pub(crate) start: Option<f64>,
    /// Highest load to try
    #[arg(long, default_value_t = 4096.0, value_name = "LOAD", help_heading = "Search")]
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
    for remark in &lowered.remarks {
        print_message(&format!("note: {remark}"));
    }
    // Objectives that cannot be read are refused before anything is sent.
    let _checked = CapacitySearch::new(args, &lowered)?;
    let budget = time::budget(args, &presets)?;
    let events = KeptEvents::asked(&args.at, &presets);
    if bench.print_plan {
        print(&written(&lowered.plan, &lowered.origins).context("cannot show the plan")?)?;
        return Ok(Exit::Done);
    }
    lowered.require_secrets()?;
    let server = match &own {
        Some(own) => Some(identified((&bench, own), &mut lowered, (order, given))?),
        None => None,
    };
    if let Some(server) = server.as_ref().filter(|server| server.is_recognised()) {
        print_message(&format!("server: {}", server.identity));
    }
    let begin = given.clock.now();
    let earlier = Earlier::checked(&bench.output, &lowered.plan.output)?;
    let (role, place) = take_part(args, &bench, &mut lowered, (given, earlier))?;
    place.announce(&given.signals);
    let mut measurement = measurement_of(
        (&lowered.secrets, role.coordination()),
        &given.signals,
        bar(&lowered, &role),
        &given.clock,
    );
    if let Role::Follower(shard) = &role {
        let (points, place) = (lowered.points.as_slice(), (place.path(), earlier));
        let (varied, style) = (Varied::Load, style(&given.environment));
        let following = Following { points, varied, place, style };
        return Ok(following.follow(&mut measurement, (&role, shard)));
    }
    let at = (place.path(), earlier);
    let found = SearchSetting { args, lowered: &lowered, given, server, begin, events };
    let searched = found.search(&mut measurement, budget, (at, &role));
    if searched.is_ok() {
        role.dismiss();
    }
    // The leader's mark is a file in the folder.
    drop((measurement, role));
    if searched.is_err() {
        place.leave_if_empty();
    }
    let (search, ending) = searched?;
    let findings = Findings {
        over: args.over.into(),
        slo: args.slo.clone(),
        ending,
        sentence: String::new(),
        gpus: args.gpus,
        requests_needed: needed(&search.slo),
        points: search.readings,
    };
    finish(args, findings, &lowered, &place)
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
        measurement: &mut Measurement,
        budget: Option<Nanos>,
        (at, role): ((&Path, Earlier), &Role),
    ) -> Result<(CapacitySearch, Ending), Refusal> {
        let Self { args, lowered, given, server, begin, events } = self;
        let plan = lowered.points.first().map_or(&lowered.plan, |point| &point.plan);
        if at.1 == Earlier::Resumed {
            CapacitySearch::new(args, lowered)?.check_stored(plan, at.0)?;
        }
        let mut search = match budget {
            None => CapacitySearch::new(args, lowered)?,
            Some(budget) => {
                let staircase = start::StartSearch { args, plan, server, budget, role, events };
                let first = staircase.load(measurement, at, given)?;
                let time = SearchTime::new(&given.clock, begin + budget, args);
                let search = CapacitySearch::within(args, lowered, (first.load, time))?;
                search.say_forecast(budget, first.rate);
                search
            }
        };
        search.events = events;
        let ending = search.run(measurement, plan, (at, role))?;
        Ok((search, ending))
    }
}

/// The part of the search that this process makes, and its folder.
fn take_part(
    args: &CapacityArgs,
    bench: &BenchArgs,
    lowered: &mut Lowered,
    (given, earlier): (&Given, Earlier),
) -> Result<(Role, RunFolder), Refusal> {
    let Some(found) = shards::membership(bench, lowered, given)? else {
        let opened = (given.clock.wall(), earlier);
        let place = RunFolder::open(&lowered.plan.output, &lowered.plan.name, opened)?;
        return Ok((Role::Whole, place));
    };
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
    shards::join(&found, (bench, Varied::Load), lowered, (given, earlier))
}

fn bar(lowered: &Lowered, role: &Role) -> Bar {
    match (Bar::from(lowered.display), role) {
        (_, Role::Follower(_)) => Bar::Hidden,
        (Bar::Live, _) => Bar::Allowed,
        (bar, _) => bar,
    }
}

/// Shows and keeps what was found.
fn finish(
    args: &CapacityArgs,
    mut findings: Findings,
    lowered: &Lowered,
    place: &RunFolder,
) -> anyhow::Result<Exit> {
    findings.sentence = findings.sentence();
    report(&findings, lowered, place.path())?;
    if let Some(out) = &args.at.html {
        let view = RunView::new(&lowered.plan.metrics)?;
        pages::write(pages::capacity_page(&findings, place.path(), &view)?, out)?;
        print_message(&format!("page: {}", out.display()));
    }
    if place.is_kept() && lowered.plan.output.shown == plan::Shown::Text {
        print_message(&format!("record: {}", place.path().display()));
    }
    Ok(match &findings.ending {
        Ending::Interrupted => Exit::Interrupted,
        Ending::ServerGone => Exit::Target,
        Ending::NoSuccess { .. } => Exit::NoSuccess,
        Ending::Answered(SearchResult::NoneMeets { .. }) => Exit::Missed,
        Ending::Answered(_) => Exit::Done,
    })
}

fn report(findings: &Findings, lowered: &Lowered, place: &Path) -> anyhow::Result<()> {
    let json = serde_json::to_string_pretty(findings)?;
    tokometer_record::write_whole(&place.join(CAPACITY), json.as_bytes()).map_err(|why| {
        Refusal::new(
            Exit::Write,
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
