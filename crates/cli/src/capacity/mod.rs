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
use tokometer_base::Clock as _;
use tokometer_decide::capacity::{Ending, Findings, LoadKind};
use tokometer_decide::search::{SearchResult, needed};
use tokometer_plan as plan;

use crate::args::{AddressArgs, BenchArgs};
use crate::bench::{Bar, CAPACITY, Earlier, RunFolder, RunView, identified, measurement};
use crate::commands::Given;
use crate::exit::{Exit, Refusal};
use crate::lower::{Lowered, OpenChoices, lower, put_address, put_own_defaults, written};
use crate::pages;
use crate::terminal::{print, print_message};

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
    crate::shards::refuse(&args.bench.shards, "capacity")?;
    if args.engine.engine.is_some() {
        return predicted::capacity(args, order, given);
    }
    let mut bench = args.bench.clone();
    let mut open = OpenChoices::default();
    if let Some(url) = &args.at.url {
        put_address(&mut bench, url)?;
        open = put_own_defaults(&mut bench);
    }
    let mut lowered = lower(&bench, order, &given.environment)?;
    for remark in &lowered.remarks {
        print_message(&format!("note: {remark}"));
    }
    // Objectives that cannot be read are refused before anything is sent.
    let _checked = CapacitySearch::new(args, &lowered)?;
    let budget = time::budget(args)?;
    if bench.print_plan {
        print(&written(&lowered.plan, &lowered.origins).context("cannot show the plan")?)?;
        return Ok(Exit::Done);
    }
    lowered.require_secrets()?;
    let server = match &args.at.url {
        Some(_) => Some(identified((&bench, open), &mut lowered, (order, given))?),
        None => None,
    };
    if let Some(server) = &server {
        print_message(&format!("server: {}", server.identity));
    }
    let begin = given.clock.now();
    let earlier = Earlier::checked(&bench.output, &lowered.plan.output)?;
    let opened = (given.clock.wall(), earlier);
    let place = RunFolder::open(&lowered.plan.output, &lowered.plan.name, opened)?;
    place.announce(&given.signals);
    let bar = match Bar::from(lowered.display) {
        Bar::Live => Bar::Allowed,
        bar => bar,
    };
    let mut measurement = measurement(&lowered.secrets, &given.signals, bar, &given.clock);
    let plan = &lowered.points.first().map_or(&lowered.plan, |point| &point.plan).clone();
    let mut search = match budget {
        None => CapacitySearch::new(args, &lowered)?,
        Some(budget) => {
            let staircase = start::StartSearch { args, plan, server, budget };
            let first = staircase.load(&mut measurement, (place.path(), earlier), given)?;
            let time = SearchTime::new(&given.clock, begin + budget, args);
            CapacitySearch::within(args, &lowered, (first, time))?
        }
    };
    let ending = search.run(&mut measurement, plan, (place.path(), earlier));
    if ending.is_err() {
        place.leave_if_empty();
    }
    let findings = Findings {
        over: args.over.into(),
        slo: args.slo.clone(),
        ending: ending?,
        sentence: String::new(),
        gpus: args.gpus,
        requests_needed: needed(&search.slo),
        points: search.readings,
    };
    finish(args, findings, &lowered, &place)
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
