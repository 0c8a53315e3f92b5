//! `cargo lab coverage [RUNS [REQUESTS [ENGINE]]] [from=SEED] [loads=60,85]`: how often a stated 95 %
//! interval contains the figure.
//!
//! Many runs of one plan in virtual time, each with a seed of its own. The truth of a figure is that of
//! all runs together: the mean or the percentile of their pooled values, or their pooled rate.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use tokometer_base::{Nanos, Seed};
use tokometer_figures::sample::Sample;
use tokometer_figures::{Collector, ConfidenceInterval, Quantity, Summary, SummaryOptions};
use tokometer_record::{Health, RunEnd, RunInfo, RunState, Stop, Timeline};
use tokometer_schedule::Arrivals;
use tokometer_sim::Profile;
use tokometer_twin::{self as twin, KeptDetail, RequestLoad, predict};

use crate::virtual_runs::{Drawn, in_parallel};

/// Loads, in percent of what the engine can serve.
const LOADS: [f64; 4] = [30.0, 60.0, 85.0, 95.0];
const STATISTICS: [Option<f64>; 3] = [None, Some(50.0), Some(99.0)];
const LENGTHS: (u32, u32) = (512, 128);
/// Nanoseconds per millisecond.
const UNIT: f64 = 1e6;

/// A figure of one run as stated: its interval, if the run is long enough for one.
type Stated = Option<(f64, f64)>;

struct Study {
    profile: Profile,
    requests: u64,
    seeds: Range<u64>,
}

/// The values of all runs of one load, by metric.
#[derive(Default)]
struct Pool {
    values: [Sample; Quantity::LATENCIES.len()],
    requests: f64,
    tokens: f64,
    seconds: f64,
}

impl Pool {
    fn add(&mut self, timelines: &[Timeline], end: Nanos, summary: &Summary) {
        for (quantity, values) in Quantity::LATENCIES.iter().zip(&mut self.values) {
            let metric = quantity.metric();
            for timeline in timelines {
                metric.each(timeline, &mut |value, weight| values.add(value, weight));
            }
        }
        self.requests += timelines.len() as f64;
        self.tokens += summary.figure("total_output_tokens").unwrap_or(0.0);
        self.seconds += end.as_secs_f64();
    }
}

impl Study {
    /// A run at this rate that ends by time, or a burst. Arrivals are drawn for ten times that time:
    /// those of a plan that ends by its number of requests are scaled to its length, so that its rate
    /// hardly varies.
    fn run(&self, arrivals: Option<f64>, seed: Seed) -> Result<(Vec<Timeline>, Nanos)> {
        let asks = |count: u64| Drawn { lengths: LENGTHS, count, seed };
        let workload = match arrivals {
            Some(rate) => RequestLoad {
                duration: Some(Nanos::from_secs_f64(self.requests as f64 / rate)),
                ..RequestLoad::burst(asks(self.requests * 10)).arriving(Arrivals::poisson(rate))
            },
            None => RequestLoad::burst(asks(self.requests)),
        };
        let options =
            twin::PredictOptions { keep: KeptDetail::Timelines, ..twin::PredictOptions::default() };
        let run = predict(&self.profile, &workload, seed, options)?;
        Ok((run.timelines, run.end))
    }

    /// Requests per second that the engine completes when all are there at once, without the first and
    /// the last fifth: the engine fills up and drains.
    fn most(&self) -> Result<f64> {
        let (timelines, _) = self.run(None, Seed(1))?;
        let mut ends: Vec<Nanos> = timelines.iter().filter_map(|one| one.times.end).collect();
        ends.sort_unstable();
        let (from, to) = (ends.len() / 5, ends.len() * 4 / 5);
        let (Some(begin), Some(end)) = (ends.get(from), ends.get(to)) else {
            bail!("a run of {} requests is too short", ends.len());
        };
        Ok((to - from) as f64 / (*end - *begin).as_secs_f64())
    }

    fn measure(&self, rate: f64, seed: Seed, pool: &Mutex<Pool>) -> Result<Summary> {
        let (timelines, end) = self.run(Some(rate), seed)?;
        let mut collector = Collector::new(&info(rate), SummaryOptions::default());
        timelines.iter().for_each(|timeline| collector.push(timeline));
        let run_end = RunEnd {
            stop: Stop::Complete,
            measure_begin: Nanos::ZERO,
            measure_end: end,
            abandoned: 0,
            never_sent: 0,
            health: Health::default(),
        };
        let summary = collector.finish(&RunState::Ended(Box::new(run_end))).summary;
        pool.lock().unwrap_or_else(PoisonError::into_inner).add(&timelines, end, &summary);
        Ok(summary)
    }
}

/// What a record would say of a run at `rate`.
fn info(rate: f64) -> RunInfo {
    let fixture = include_str!("../../fixtures/run/info.json");
    let mut info: RunInfo = serde_json::from_str(fixture).expect("the fixture is a run's");
    info.targets.clear();
    info.load.request_rate = Some(rate);
    (info.load.max_concurrency, info.load.planned_requests) = (None, None);
    info
}

fn of_distribution(summary: &Summary, quantity: Quantity, percent: Option<f64>) -> Stated {
    let found = summary.distribution(quantity)?;
    match percent {
        None => found.mean_interval.ends(),
        Some(percent) => found.percentile(percent)?.interval.ends(),
    }
}

fn percent(part: usize, of: usize) -> String {
    if of == 0 { "–".to_owned() } else { format!("{:.1} %", part as f64 / of as f64 * 100.0) }
}

#[expect(clippy::print_stdout, reason = "the table is the result")]
fn line(load: f64, name: &str, truth: f64, runs: &[Stated]) {
    let stated = runs.iter().flatten().count();
    let right = runs.iter().flatten().filter(|(low, high)| (*low..=*high).contains(&truth)).count();
    let mut halves: Vec<f64> =
        runs.iter().flatten().map(|(low, high)| (high - low) / 2.0 / truth * 100.0).collect();
    halves.sort_by(f64::total_cmp);
    println!(
        "| {load:.0} % | {name} | {truth:.2} | {} | {} | {} | {} |",
        percent(right, stated),
        percent(runs.len() - stated, runs.len()),
        percent(stated - right, runs.len()),
        halves.get(halves.len() / 2).map_or("–".to_owned(), |half| format!("±{half:.1} %")),
    );
}

fn at_load(study: &Study, load: f64, most: f64) -> Result<()> {
    let pool = Mutex::new(Pool::default());
    let Range { start, end } = study.seeds;
    let one = |number: u64| study.measure(load / 100.0 * most, Seed(start + number), &pool);
    let runs = in_parallel(end - start, one).into_iter().collect::<Result<Vec<Summary>>>()?;
    let pool = pool.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (quantity, values) in Quantity::LATENCIES.into_iter().zip(pool.values) {
        let mean = values.mean();
        let ordered = values.into_ordered();
        for statistic in STATISTICS {
            let truth = match statistic {
                None => mean,
                Some(percent) => ordered.percentile(percent),
            };
            let truth = truth.context("no values")? / UNIT;
            let name = statistic.map_or("mean".to_owned(), |percent| format!("p{percent}"));
            let stated: Vec<Stated> =
                runs.iter().map(|run| of_distribution(run, quantity, statistic)).collect();
            line(load, &format!("{name} {}", quantity.key()), truth, &stated);
        }
    }
    for (key, amount) in [("requests_per_s", pool.requests), ("output_tokens_per_s", pool.tokens)] {
        let stated = |run: &Summary| run.intervals.get(key).and_then(ConfidenceInterval::ends);
        line(load, key, amount / pool.seconds, &runs.iter().map(stated).collect::<Vec<Stated>>());
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the table is the result")]
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let named = |name: &str| arguments.iter().find_map(|word| word.strip_prefix(name));
    let first: u64 = named("from=").map_or(Ok(1_000), str::parse)?;
    let loads: Vec<f64> = match named("loads=") {
        Some(list) => list.split(',').map(str::parse).collect::<Result<_, _>>()?,
        None => LOADS.into(),
    };
    let words: Vec<&String> = arguments.iter().filter(|word| !word.contains('=')).collect();
    let number = |index: usize, default: u64| -> Result<u64> {
        words.get(index).map_or(Ok(default), |text| {
            text.parse().with_context(|| format!("`{text}` is not a number"))
        })
    };
    let (runs, requests) = (number(0, 400)?, number(1, 2_000)?);
    let profile = Profile::open(words.get(2).map_or("default", |word| word.as_str()))?;
    let study = Study { profile, requests, seeds: first..first + runs };
    let most = study.most()?;
    println!(
        "Engine `{}`, {requests} requests per run, {runs} runs per load from seed {first}; it serves {most:.2} req/s.\n",
        study.profile.name
    );
    println!(
        "| load | figure | truth | contained | too short to tell | stated and wrong, of all runs | half width |"
    );
    println!("|--:|---|--:|--:|--:|--:|--:|");
    for load in loads {
        at_load(&study, load, most)?;
    }
    Ok(())
}
