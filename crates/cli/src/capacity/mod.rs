//! `tokometer capacity`: the highest load that still meets objectives.
//!
//! Each point is a run of its own with a folder of its own and fresh content. Which load comes next
//! is decided by [`tokometer_metrics::search`] from the points alone, so an interrupted search goes on
//! from its folders.

mod answer;

use std::path::{Path, PathBuf};

use clap::Args;
use tokometer_base::{Clock, MonotonicClock, Nanos, units};
use tokometer_metrics::search::{Answer, Fit, Limits, Next, Point};
use tokometer_metrics::{Slo, slo};
use tokometer_record::{RunReader, RunState, Stop};

use crate::args::{BenchArgs, Rate};
use crate::bench::{Bar, Place, Resume, Session, Shown, Signals, View, is_complete, summarise};
use crate::exit::{Exit, Refusal};
use crate::lower::{Environment, Lowered, lower};
use crate::plan::{self, Cache, Overload, Plan};
use crate::terminal::{print, tell};

use answer::{Findings, Over, Reading};

/// Flags of `tokometer capacity`, besides those of `bench`.
#[derive(Debug, Clone, Args)]
pub(crate) struct CapacityArgs {
    /// Objectives, such as "p99 ttft < 2s, p99 tpot < 100ms, goodput > 99%"
    #[arg(long, value_name = "OBJECTIVES", help_heading = "Search")]
    pub(crate) slo: String,
    /// What is varied
    #[arg(long, value_enum, default_value_t, help_heading = "Search")]
    pub(crate) over: Over,
    /// First load to try
    #[arg(long, default_value_t = 1.0, value_name = "LOAD", help_heading = "Search")]
    pub(crate) start: f64,
    /// Highest load to try
    #[arg(long, default_value_t = 4096.0, value_name = "LOAD", help_heading = "Search")]
    pub(crate) max: f64,
    /// How near the edge to come, as a share
    #[arg(long, default_value = "5%", value_name = "SHARE", help_heading = "Search")]
    pub(crate) resolution: String,
    /// Most points to measure
    #[arg(long, default_value_t = 20, value_name = "N", help_heading = "Search")]
    pub(crate) points: usize,
    /// Shortest time of a point
    #[arg(long, default_value = "10s", value_name = "TIME", help_heading = "Search")]
    pub(crate) min_duration: String,
    /// Longest time of a point
    #[arg(long, default_value = "60s", value_name = "TIME", help_heading = "Search")]
    pub(crate) max_duration: String,
    /// GPUs behind the endpoint, for tokens per second and GPU
    #[arg(long, value_name = "N", help_heading = "Search")]
    pub(crate) gpus: Option<u32>,
    #[command(flatten)]
    pub(crate) bench: BenchArgs,
}

/// A search under way.
struct Search {
    slo: Slo,
    over: Over,
    limits: Limits,
    shortest: Nanos,
    longest: Nanos,
    place: PathBuf,
    view: View,
    readings: Vec<Reading>,
}

/// The objective that decides a point.
struct Worst {
    words: Option<String>,
    strain: Option<f64>,
    is_supported: bool,
}

/// Requests that a two-sided 95 % interval of a percentile needs at least.
fn sample_needed(percentile: f64) -> f64 {
    let share = (percentile / 100.0).clamp(0.5, 0.9999);
    // Both tails must hold an order statistic: n × log(share) ≤ log(0.025).
    (0.025_f64.ln() / share.ln()).ceil()
}

/// Runs the command.
pub(crate) fn capacity(
    args: &CapacityArgs,
    order: &[String],
    environment: &Environment,
) -> anyhow::Result<Exit> {
    let lowered = lower(&args.bench, order, environment)?;
    for remark in &lowered.remarks {
        tell(&format!("note: {remark}"));
    }
    let place = Place::open(&lowered.plan.output, &lowered.plan.name, MonotonicClock.wall())?;
    let mut search = Search::new(args, &lowered, place.path())?;
    let bar = if args.bench.output.disable_tqdm { Bar::Hidden } else { Bar::Allowed };
    let mut session = Session::new(lowered.secrets.clone(), Signals::catch(), bar);
    let plan = &lowered.points.first().map_or(&lowered.plan, |point| &point.plan).clone();
    let resume = if args.bench.output.resume { Resume::Finished } else { Resume::Nothing };
    let answer = search.run(&mut session, plan, resume)?;
    let is_interrupted = answer.is_none();
    let findings = Findings {
        over: args.over,
        slo: args.slo.clone(),
        answer,
        gpus: args.gpus,
        points: search.readings,
    };
    report(&findings, &lowered, place.path())?;
    if place.is_kept() && lowered.plan.output.shown == plan::Shown::Text {
        tell(&format!("record: {}", place.path().display()));
    }
    Ok(match &findings.answer {
        _ if is_interrupted => Exit::Interrupted,
        Some(Answer::NoneMeets { .. }) => Exit::Missed,
        _ => Exit::Done,
    })
}

fn report(findings: &Findings, lowered: &Lowered, place: &Path) -> anyhow::Result<()> {
    let json = serde_json::to_string_pretty(findings)?;
    std::fs::write(place.join("capacity.json"), &json).map_err(|why| {
        Refusal::new(
            Exit::Write,
            format!("cannot write `{}`: {why}", place.join("capacity.json").display()),
        )
    })?;
    match lowered.plan.output.shown {
        plan::Shown::Text => print(&findings.text())?,
        plan::Shown::Json => print(&format!("{json}\n"))?,
        plan::Shown::Nothing => {}
    }
    Ok(())
}

impl Search {
    fn new(args: &CapacityArgs, lowered: &Lowered, place: &Path) -> Result<Self, Refusal> {
        let slo = Slo::parse(&args.slo).map_err(|why| {
            Refusal::usage(format!("cannot use `--slo`: {why}"), "try `--slo \"p99 ttft < 2s\"`")
        })?;
        let span = |text: &str| {
            units::parse_span(text, Nanos::from_secs(1))
                .map_err(|why| Refusal::usage(why.to_string(), ""))
        };
        let resolution = units::parse_share(&args.resolution)
            .map_err(|why| Refusal::usage(why.to_string(), ""))?;
        if !(args.start > 0.0 && args.max >= args.start && resolution > 0.0) {
            return Err(Refusal::usage(
                "cannot search: `--start` and `--resolution` must be above zero, `--max` not below `--start`",
                "",
            ));
        }
        let is_whole = args.over == Over::Concurrency;
        let view = View::new(&lowered.plan.metrics)?.with_objectives(&slo);
        Ok(Self {
            limits: Limits {
                start: args.start,
                least: if is_whole { 1.0 } else { args.start / 64.0 },
                most: args.max,
                resolution,
                repeats: 3,
                points: args.points,
                is_whole,
            },
            slo,
            over: args.over,
            shortest: span(&args.min_duration)?,
            longest: span(&args.max_duration)?,
            place: place.to_owned(),
            view,
            readings: Vec::new(),
        })
    }

    /// Measures until the answer is known; `None` when a signal ended the search.
    fn run(
        &mut self,
        session: &mut Session,
        plan: &Plan,
        resume: Resume,
    ) -> Result<Option<Answer>, Refusal> {
        loop {
            let points: Vec<Point> = self.readings.iter().map(Reading::point).collect();
            let load = match self.limits.next(&points) {
                Next::Done(answer) => return Ok(Some(answer)),
                Next::Measure(load) => load,
            };
            let number = self.readings.len();
            let folder = self.place.join(format!("{number:03}-{}", load_name(load)));
            let is_there = resume == Resume::Finished && is_complete(&folder);
            let reading = if is_there {
                self.reading(load, &folder)?
            } else {
                tell(&format!("point {}: {} {}", number + 1, load_name(load), self.over.unit()));
                self.measure(session, plan, load, &folder)?
            };
            if session.signals().is_interrupted() {
                return Ok(None);
            }
            self.readings.push(reading);
        }
    }

    fn measure(
        &self,
        session: &mut Session,
        plan: &Plan,
        load: f64,
        folder: &Path,
    ) -> Result<Reading, Refusal> {
        let plan = self.plan_of(plan, load);
        let number = u32::try_from(self.readings.len()).unwrap_or(u32::MAX);
        match session.measure(&plan, number, folder) {
            Ok(_measured) => {
                session.wait_until_idle();
                self.reading(load, folder)
            }
            // The first point tells whether there is a server at all.
            Err(refusal) if self.readings.is_empty() => Err(refusal),
            Err(refusal) => {
                tell(&format!("point failed: {refusal}"));
                Ok(Reading::failed(load, folder))
            }
        }
    }

    /// The plan of one point: its load, long enough for the percentiles of the objectives.
    fn plan_of(&self, plan: &Plan, load: f64) -> Plan {
        let mut plan = plan.clone();
        let needed = self.slo.percentiles().into_iter().map(sample_needed).fold(100.0, f64::max);
        let is_climbing = !self.readings.iter().any(|reading| reading.fit != Fit::Met);
        // While the load is doubled a rough answer will do: the edge is measured at length.
        let longest =
            if is_climbing { self.shortest.max(Nanos(self.longest.0 / 3)) } else { self.longest };
        match self.over {
            Over::RequestRate => {
                plan.load.request_rate = Rate(load);
                let wanted = Nanos::from_secs_f64(needed * 1.1 / load);
                plan.load.duration_s =
                    Some(wanted.clamp(self.shortest, longest.max(self.shortest)).as_secs_f64());
            }
            Over::Concurrency => {
                plan.load.request_rate = Rate(f64::INFINITY);
                plan.load.max_concurrency = Some(whole(load));
                plan.load.duration_s = Some(longest.max(self.shortest).as_secs_f64());
            }
        }
        plan.load.num_prompts = None;
        plan.load.overload = Overload::Stop;
        plan.phases.cache = Cache::Flush;
        plan.output.shown = plan::Shown::Nothing;
        plan
    }

    /// The objective nearest to its limit or farthest beyond, in words and as a share of the limit.
    fn worst(&self, results: &[slo::Result]) -> Worst {
        let strain_of = |result: &slo::Result| result.use_of_limit.unwrap_or(f64::INFINITY);
        let named = self.slo.objectives.iter().zip(results);
        let worst = named.max_by(|(_, a), (_, b)| strain_of(a).total_cmp(&strain_of(b)));
        let words = worst.map(|(objective, result)| {
            let value = match result.value {
                None => "no value".to_owned(),
                Some(value) if objective.key.ends_with("_ms") => {
                    Nanos::from_millis_f64(value).to_string()
                }
                Some(value) => format!("{value:.4}"),
            };
            format!("{}: {value}", result.text.trim())
        });
        Worst {
            words,
            strain: worst.and_then(|(_, result)| result.use_of_limit),
            is_supported: results.iter().all(|result| result.is_supported),
        }
    }

    /// What a finished run says about the objectives.
    fn reading(&self, load: f64, folder: &Path) -> Result<Reading, Refusal> {
        let shown = summarise(folder, &self.view)?;
        let stop = RunReader::open(folder).and_then(|reader| reader.state());
        let is_overloaded =
            matches!(&stop, Ok(RunState::Ended(end)) if end.stop == Stop::Overloaded);
        let results = self.slo.results(&shown.summary);
        let is_met = results.iter().all(|result| result.is_met == Some(true));
        let fit = match () {
            () if is_overloaded => Fit::Overloaded,
            () if shown.summary.counts.succeeded == 0 => Fit::Failed,
            () if is_met => Fit::Met,
            () => Fit::Missed,
        };
        let worst = self.worst(&results);
        Ok(Reading::new(load, fit, worst, &shown, folder))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "loads over concurrency are whole and positive, and the cast saturates"
)]
fn whole(load: f64) -> u32 {
    load.round() as u32
}

fn load_name(load: f64) -> String {
    let text = format!("{load:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Reading {
    fn point(&self) -> Point {
        Point { load: self.load, fit: self.fit, strain: self.strain }
    }

    fn failed(load: f64, folder: &Path) -> Self {
        Self {
            load,
            fit: Fit::Failed,
            worst: None,
            strain: None,
            requests_per_s: None,
            tokens_per_s: None,
            tokens_per_s_per_user: None,
            requests: 0,
            is_supported: false,
            folder: folder.display().to_string(),
        }
    }

    fn new(load: f64, fit: Fit, worst: Worst, shown: &Shown, folder: &Path) -> Self {
        let summary = &shown.summary;
        let per_user = summary.distribution("tokens_per_s_per_user");
        Self {
            load,
            fit,
            worst: worst.words,
            strain: worst.strain,
            requests_per_s: summary.figure("requests_per_s"),
            tokens_per_s: summary.figure("output_tokens_per_s"),
            tokens_per_s_per_user: per_user
                .and_then(|spread| spread.percentile(50.0))
                .and_then(|entry| entry.value),
            requests: summary.counts.sent,
            is_supported: worst.is_supported,
            folder: folder.display().to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_needed_is_that_of_a_two_sided_interval() {
        let check = |percentile: f64, expected: f64| {
            assert!((sample_needed(percentile) - expected).abs() < 0.5, "{percentile}");
        };
        check(99.0, 368.0);
        check(99.9, 3_688.0);
        check(90.0, 36.0);
    }

    #[test]
    fn loads_name_their_folders_without_needless_digits() {
        assert_eq!(load_name(12.0), "12");
        assert_eq!(load_name(0.125), "0.125");
    }
}
