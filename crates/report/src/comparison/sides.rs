//! Reads the runs of a side: run folders, result files, printed reports.
//!
//! Figures of one name must mean one thing. Run folders alone are compared by our own definitions;
//! as soon as another tool's report is among them, all figures follow that tool's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use tokometer_base::units::nearest_count;
use tokometer_base::{Conventions, Refusal};
use tokometer_compat::{self as classic, Field, Layout, Metric, Report, Selection, Title};
use tokometer_decide::compare::{
    ENOUGH_RUNS, Facts, GreedyAnswers, Run, block_values, last_attempts, percentiles,
    throughput_blocks, without_success,
};
use tokometer_figures::{Details, Family, Figure, Quantity, SummaryOptions};
use tokometer_plan::{KnownPlan, PartialLoad, PartialPlan, PlanCoverage, Rate, Timing, ab_blocks};
use tokometer_record::server::PROCESS_START;
use tokometer_record::{RunInfo, RunReader, stored};

use crate::reading::{Reading, expanded};

enum RunSource {
    Folder(Box<RunReader>),
    Reports(Vec<Report>),
}

/// The runs of one side with their plans, in one order.
#[derive(Default)]
pub(super) struct SideRuns {
    pub(super) runs: Vec<Run>,
    /// Their plans, as far as they are known.
    pub(super) plans: Vec<KnownPlan>,
}

pub(super) fn sides(
    reading: Reading,
    a: &[PathBuf],
    b: &[PathBuf],
    figures: &[Figure],
) -> Result<[SideRuns; 2], Refusal> {
    let opened = |paths: &[PathBuf]| -> Result<Vec<(String, RunSource)>, Refusal> {
        let (mut sources, mut seen) = (Vec::new(), BTreeSet::new());
        for path in paths {
            // A folder of runs, such as a sweep, gives each of them.
            for path in expanded(path)? {
                // A path that does not exist is refused where it is read.
                if path.canonicalize().is_ok_and(|whole| !seen.insert(whole)) {
                    return Err(named_twice(&path));
                }
                sources.push((path.display().to_string(), open(reading, &path)?));
            }
        }
        Ok(sources)
    };
    let (a, b) = (opened(a)?, opened(b)?);
    let layout = a.iter().chain(&b).find_map(|(_, source)| match source {
        RunSource::Reports(reports) => {
            reports.first().map(|report| report.layout.unwrap_or(Layout::V4))
        }
        RunSource::Folder(_) => None,
    });
    let count = |side: &[(String, RunSource)]| {
        let runs = |source: &RunSource| match source {
            RunSource::Folder(_) => 1,
            RunSource::Reports(reports) => reports.len(),
        };
        side.iter().map(|(_, source)| runs(source)).sum::<usize>()
    };
    let has_blocks = count(&a).min(count(&b)) < ENOUGH_RUNS;
    let wanted = Wanted { reading, figures, layout, has_blocks };
    let side = |sources: Vec<(String, RunSource)>| -> Result<SideRuns, Refusal> {
        let mut side = SideRuns::default();
        for (name, source) in sources {
            for (run, plan) in read(&name, source, wanted)? {
                side.runs.push(run);
                side.plans.push(plan);
            }
        }
        Ok(side)
    };
    Ok([side(a)?, side(b)?])
}

/// One run given twice would count as two that agree.
fn named_twice(path: &Path) -> Refusal {
    Refusal::usage(
        format!("cannot count `{}` twice on one side: it is one run", path.display()),
        "give each run once; one run on each side is compared by blocks of its time",
    )
}

fn open(reading: Reading, path: &Path) -> Result<RunSource, Refusal> {
    let shown = path.display();
    if path.is_dir() {
        let reader = stored::open(path)?;
        if ab_blocks(reader.info())?.is_some() {
            return Err(Refusal::usage(
                format!("cannot use `{shown}` as one side: it contains two targets"),
                format!("compare its targets with each other: `tokometer compare {shown}`"),
            ));
        }
        return Ok(RunSource::Folder(Box::new(reader)));
    }
    reading.reports(path).map(RunSource::Reports)
}

#[derive(Clone, Copy)]
struct Wanted<'a> {
    reading: Reading,
    figures: &'a [Figure],
    /// The layout whose definitions the figures follow; absent: our own.
    layout: Option<Layout>,
    /// Whether the figures of its blocks are wanted: scatter between few runs decides nothing.
    has_blocks: bool,
}

fn read(
    name: &str,
    source: RunSource,
    wanted: Wanted<'_>,
) -> Result<Vec<(Run, KnownPlan)>, Refusal> {
    let runs = match source {
        RunSource::Folder(reader) => {
            let mut run = recorded(name, &reader, wanted)?;
            let plan = KnownPlan::of(reader.info()).unwrap_or_else(|why| {
                run.facts.unreadable_plan = Some(why.to_string());
                KnownPlan::default()
            });
            vec![(run, plan)]
        }
        RunSource::Reports(reports) => {
            let is_single = reports.len() == 1;
            let named =
                |at: usize| if is_single { name.to_owned() } else { format!("{name}#{}", at + 1) };
            let runs = reports.iter().enumerate();
            let run = |(at, report)| -> Result<(Run, KnownPlan), Refusal> {
                Ok((of_report(named(at), report, wanted.figures)?, printed_plan(report)))
            };
            runs.map(run).collect::<Result<_, _>>()?
        }
    };
    Ok(runs)
}

pub fn options(figures: &[Figure], layout: Option<Layout>) -> SummaryOptions {
    SummaryOptions {
        percentiles: percentiles(figures),
        lenses: tokometer_compat::family::lenses(layout.map(family), Details::Drop),
        ..SummaryOptions::default()
    }
}

fn family(layout: Layout) -> Family {
    layout.family().unwrap_or(Family::Vllm)
}

fn recorded(name: &str, reader: &RunReader, wanted: Wanted<'_>) -> Result<Run, Refusal> {
    let Wanted { reading, figures, layout, has_blocks } = wanted;
    let summary = reading.summary(reader, &options(figures, layout))?;
    let mut run = Run::of_summary(name, reader.info(), &summary, figures)?;
    run.facts.process = process(reader)?;
    if is_greedy(reader.info()) {
        run.answers = greedy_answers(reader)?;
    }
    let Some(layout) = layout else {
        if has_blocks {
            let requests = last_attempts(stored::timelines(reader)?);
            run.blocks = block_values(&requests, figures);
            run.blocks.extend(throughput_blocks(&summary));
        }
        return Ok(run);
    };
    let metrics = Quantity::LATENCIES.into_iter().filter_map(Metric::of);
    let shown = Selection { metrics: metrics.collect(), percentiles: percentiles(figures) };
    let report = classic::from_summary(&summary, reader.info(), layout, &shown).map_err(|why| {
        Refusal::usage(format!("cannot show `{name}` as {}: {why}", layout.name()), "")
    })?;
    run.values = report_values(&report, figures);
    definitions(layout).clone_into(&mut run.facts.definitions);
    Ok(run)
}

/// Whether a record may have greedy answers, so that it is worth reading for them.
fn is_greedy(info: &RunInfo) -> bool {
    let request = |pointer: &str| info.plan.pointer(pointer).and_then(serde_json::Value::as_f64);
    let stated = request("/request/extra_body/temperature");
    let temperature = stated.or_else(|| request("/request/sampling/temperature"));
    temperature.map_or(info.family == Conventions::Sglang, |temperature| temperature < 1e-5)
}

fn greedy_answers(reader: &RunReader) -> Result<GreedyAnswers, Refusal> {
    let mut answers = GreedyAnswers::default();
    for timeline in stored::timelines(reader)? {
        answers.add(&timeline);
    }
    Ok(answers)
}

/// What identifies the server process of a run: the start times that its metrics report, one per
/// scraped endpoint. The embedded simulator is started for its run. `None` where the server reports no
/// start time, or where it changed during the run.
fn process(reader: &RunReader) -> Result<Option<String>, Refusal> {
    let info = reader.info();
    let is_own = info.targets.iter().all(|target| target.is_simulated);
    if is_own {
        return Ok(Some(format!("started for the run of {}", info.started.0)));
    }
    let mut starts: BTreeMap<(u16, String), f64> = BTreeMap::new();
    for scrape in reader.scrapes().map_err(stored::unreadable)? {
        for (name, value) in
            scrape.values.iter().filter(|(name, _)| name.starts_with(PROCESS_START))
        {
            let earlier = starts.insert((scrape.endpoint, name.clone()), *value);
            if earlier.is_some_and(|earlier| (earlier - value).abs() > 1.0) {
                return Ok(None);
            }
        }
    }
    let one = |((endpoint, name), at): (&(u16, String), &f64)| format!("{endpoint} {name} {at:.0}");
    let words: Vec<String> = starts.iter().map(one).collect();
    Ok((!words.is_empty()).then(|| words.join(", ")))
}

fn definitions(layout: Layout) -> &'static str {
    match family(layout) {
        Family::Vllm => "vLLM's",
        Family::OldVllm => "conventions of vLLM's older benchmark_serving.py",
        Family::VllmRust => "conventions of vLLM's Rust client",
        Family::Sglang => "SGLang's",
    }
}

fn of_report(name: String, report: &Report, figures: &[Figure]) -> Result<Run, Refusal> {
    let count = |field: Field| report.number(field).filter(|count| *count >= 0.0);
    let succeeded = count(Field::Successful);
    if succeeded.is_some_and(|count| count < 1.0) {
        return Err(without_success(&name));
    }
    let per_request = |field: Field| Some(count(field)? / succeeded?);
    let facts = Facts {
        target: report.context.heading.clone(),
        definitions: definitions(report.layout.unwrap_or(Layout::V4)).to_owned(),
        prompt_tokens: per_request(Field::InputTokens),
        output_tokens: per_request(Field::OutputTokens),
        succeeded: whole(succeeded),
        failed: whole(count(Field::Failed)),
        is_partial: report.is_cut(),
        is_simulated: report.title == Title::Predicted,
        ..Facts::default()
    };
    Ok(Run { name, values: report_values(report, figures), facts, ..Run::default() })
}

/// What a report states of its plan.
fn printed_plan(report: &Report) -> KnownPlan {
    let rate = report.request_rate().map(Rate);
    let load = PartialLoad {
        request_rate: rate,
        max_concurrency: report.max_concurrency().map(Some),
        timing: if report.is_traced() { Some(Timing::Trace) } else { rate.map(|_| Timing::Rate) },
        ..PartialLoad::default()
    };
    KnownPlan {
        fields: PartialPlan { load, ..PartialPlan::default() },
        known: PlanCoverage::Partly,
    }
}

fn whole(count: Option<f64>) -> u64 {
    count.map_or(0, nearest_count)
}

/// The figures of a report, as far as it measured them.
fn report_values(report: &Report, figures: &[Figure]) -> BTreeMap<Figure, f64> {
    figures.iter().filter_map(|figure| Some((*figure, report.measured(*figure)?))).collect()
}

#[cfg(test)]
mod tests {
    use tokometer_decide::compare::compared;

    use super::*;
    use crate::testing::READING;

    const PRINTED: &str = "\
============ Serving Benchmark Result ============
Successful requests:                     100
Maximum request concurrency:             8
Benchmark duration (s):                  10.00
Total input tokens:                      6400
Total generated tokens:                  12800
Request throughput (req/s):              10.00
Output token throughput (tok/s):         1280.00
Total Token throughput (tok/s):          1920.00
---------------Time to First Token----------------
Mean TTFT (ms):                          50.00
Median TTFT (ms):                        45.00
P99 TTFT (ms):                           90.00
==================================================
";

    fn written(folder: &Path, name: &str, text: &str) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn a_printed_report_and_a_result_file_are_runs_alike() {
        let folder = tempfile::tempdir().unwrap();
        let json = r#"{"completed": 100, "request_throughput": 10.0, "output_throughput": 1300.0,
            "total_input_tokens": 6400, "total_output_tokens": 12800, "max_concurrency": 8,
            "mean_ttft_ms": 51.0, "p99_ttft_ms": 0.0}"#;
        let a = written(folder.path(), "a.txt", &format!("{PRINTED}\n{PRINTED}"));
        let b = written(folder.path(), "b.json", json);
        let [a, b] = sides(READING, &[a], &[b], &compared([])).unwrap();
        assert_eq!((a.runs.len(), b.runs.len()), (2, 1));
        assert!(a.runs[1].name.ends_with("a.txt#2"), "{}", a.runs[1].name);
        let shown = |run: &Run| -> Vec<String> {
            run.values.iter().map(|(figure, value)| format!("{} {value}", figure.key())).collect()
        };
        assert_eq!(
            shown(&a.runs[0]),
            [
                "requests_per_s 10",
                "output_tokens_per_s 1280",
                "total_tokens_per_s 1920",
                "ttft_ms_mean 50",
                "ttft_ms_p50 45",
                "ttft_ms_p99 90",
            ]
        );
        assert_eq!(
            shown(&b.runs[0]),
            ["requests_per_s 10", "output_tokens_per_s 1300", "ttft_ms_mean 51"]
        );
        assert_eq!(a.runs[0].facts.prompt_tokens, Some(64.0));
        assert_eq!(a.plans[0].fields.load.max_concurrency, Some(Some(8)));
        assert_eq!(a.plans[0], b.plans[0]);
    }

    /// Three times the same run had no scatter, and every difference was certain.
    #[test]
    fn one_run_is_not_counted_twice_on_a_side() {
        let folder = tempfile::tempdir().unwrap();
        let a = written(folder.path(), "a.txt", PRINTED);
        let again = folder.path().join(".").join("a.txt");
        let refusal = sides(READING, &[a.clone(), again], std::slice::from_ref(&a), &compared([]));
        let refusal = refusal.err().unwrap().to_string();
        assert!(refusal.contains("twice on one side: it is one run"), "{refusal}");
        assert!(
            sides(READING, std::slice::from_ref(&a), std::slice::from_ref(&a), &compared([]))
                .is_ok()
        );
    }

    #[test]
    fn the_times_of_a_trace_are_no_rate() {
        let check = |words: &str, rate: Option<f64>, timing: Option<Timing>| {
            let mut report = Report::default();
            report.set_words(Field::TrafficRate, words);
            let load = printed_plan(&report).fields.load;
            assert_eq!((load.request_rate, load.timing), (rate.map(Rate), timing), "{words}");
        };
        check("20.0", Some(20.0), Some(Timing::Rate));
        check("trace", None, Some(Timing::Trace));
        check("?", None, None);
    }

    #[test]
    fn what_cannot_be_compared_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let empty = written(folder.path(), "empty.txt", "nothing here");
        let failed = written(
            folder.path(),
            "failed.txt",
            &PRINTED
                .replace("requests:                     100", "requests:                     0"),
        );
        let check = |path: &Path, expected: &str| {
            let refusal = sides(READING, &[path.to_owned()], &[path.to_owned()], &compared([]))
                .err()
                .unwrap()
                .to_string();
            assert!(refusal.contains(expected), "{refusal}");
        };
        check(&empty, "cannot find a report in");
        check(&failed, "none of its requests succeeded");
        check(folder.path(), "it has no plan.json");
        check(&folder.path().join("missing"), "cannot read");
    }
}
