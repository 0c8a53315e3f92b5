//! `tokometer capacity`: the highest load that still meets objectives.
//!
//! Each point is a run of its own with a folder of its own, fresh content and arrivals of its own.
//! Which load comes next is decided by [`tokometer_decide::search`] from the points alone, so an
//! interrupted search goes on from its folders.

mod predicted;
mod search;
pub(crate) mod views;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use tokometer_base::Clock as _;
use tokometer_decide::capacity::{Ending, Findings, LoadKind};
use tokometer_decide::search::{SearchResult, needed};
use tokometer_plan as plan;

use crate::args::BenchArgs;
use crate::bench::{Bar, CAPACITY, Earlier, RunFolder, RunView, measurement};
use crate::commands::Given;
use crate::exit::{Exit, Refusal};
use crate::lower::{Lowered, lower};
use crate::pages;
use crate::terminal::{print, print_message};

use predicted::EngineArgs;
use search::CapacitySearch;

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
    /// First load to try
    #[arg(long, default_value_t = 1.0, value_name = "LOAD", help_heading = "Search")]
    pub(crate) start: f64,
    /// Highest load to try
    #[arg(long, default_value_t = 4096.0, value_name = "LOAD", help_heading = "Search")]
    pub(crate) max: f64,
    /// Precision to aim for: half width of the 95 % confidence interval, relative to the result
    #[arg(long, default_value = "5%", value_name = "SHARE", help_heading = "Search")]
    pub(crate) resolution: String,
    /// Maximum number of points to measure
    #[arg(long, default_value_t = 20, value_name = "N", help_heading = "Search")]
    pub(crate) points: usize,
    /// Minimum duration of a point
    #[arg(long, default_value = "10s", value_name = "TIME", help_heading = "Search")]
    pub(crate) min_duration: String,
    /// Maximum duration of a point, without its preload; one third of it while the limit is bracketed
    #[arg(long, default_value = "180s", value_name = "TIME", help_heading = "Search")]
    pub(crate) max_duration: String,
    /// Number of GPUs behind the endpoint, for tokens per second per GPU
    #[arg(long, value_name = "N", help_heading = "Search")]
    pub(crate) gpus: Option<u32>,
    /// Also write the result as a self-contained HTML page to this file
    #[arg(long, value_name = "FILE", help_heading = "Search", conflicts_with = "engine")]
    pub(crate) html: Option<PathBuf>,
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
    let lowered = lower(&args.bench, order, &given.environment)?;
    for remark in &lowered.remarks {
        print_message(&format!("note: {remark}"));
    }
    lowered.require_secrets()?;
    let mut search = CapacitySearch::new(args, &lowered)?;
    let earlier = Earlier::checked(&args.bench.output, &lowered.plan.output)?;
    let begin = (given.clock.wall(), earlier);
    let place = RunFolder::open(&lowered.plan.output, &lowered.plan.name, begin)?;
    place.announce(&given.signals);
    let bar = match Bar::from(lowered.display) {
        Bar::Live => Bar::Allowed,
        bar => bar,
    };
    let mut measurement = measurement(&lowered.secrets, &given.signals, bar, &given.clock);
    let plan = &lowered.points.first().map_or(&lowered.plan, |point| &point.plan).clone();
    let ending = search.run(&mut measurement, plan, (place.path(), earlier));
    if ending.is_err() {
        place.leave_if_empty();
    }
    let mut findings = Findings {
        over: args.over.into(),
        slo: args.slo.clone(),
        ending: ending?,
        sentence: String::new(),
        gpus: args.gpus,
        requests_needed: needed(&search.slo),
        points: search.readings,
    };
    findings.sentence = findings.sentence();
    report(&findings, &lowered, place.path())?;
    if let Some(out) = &args.html {
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
