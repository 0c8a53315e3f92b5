//! One pass over the timelines of a run.
//!
//! Timelines are pushed in any order and dropped; [`Collector::finish`] computes a [`Summary`] from
//! what was kept. Only the measured phase is part of figures. Of a retried request only the last
//! attempt counts.

use std::collections::BTreeMap;

use tokometer_base::{Nanos, printable};
use tokometer_record::server::Scrape;
use tokometer_record::{Health, Outcome, Phase, RecordedLoad, RunInfo, RunState, Stop, Timeline};

use crate::addresses;
use crate::anatomy::Anatomy;
use crate::attempts::LastOfEach;
use crate::blocks::Blocks;
use crate::define::{Formula, METRICS, Unit};
use crate::family::aggregate::{Details, Frame, GapUnit};
use crate::family::{Family, FamilyCollector, Route};
use crate::figures::ProbeFigures;
use crate::goodput::{Goodput, Objectives};
use crate::measure;
use crate::notes::{self, CheckInput};
use crate::observe::Observed;
use crate::rows::{self, FailureClass, Fate, RequestRow, TimeSpan};
use crate::sample::Sample;
use crate::sends::Capped;
use crate::server;
use crate::steady::{self, LoadClass, Steady};
use crate::steps::{self, SHARED_READS_MAX};
use crate::summary::{Counts, Distribution, Ended, FailureGroup, Summary};
use crate::totals::Totals;
use crate::windows::{self, TokenSeconds};

/// What a summary must contain.
#[derive(Debug, Clone, PartialEq)]
pub struct SummaryOptions {
    /// In the order in which a layout prints them.
    pub percentiles: Vec<f64>,
    /// Limits for a request to count as good.
    pub objectives: Objectives,
    /// Families of tools whose figures are computed.
    pub families: Vec<Family>,
    /// Whether values per request are kept for detailed result files.
    pub details: Details,
}

impl Default for SummaryOptions {
    fn default() -> Self {
        Self {
            percentiles: vec![99.0],
            objectives: Objectives::default(),
            families: vec![Family::Vllm],
            details: Details::Drop,
        }
    }
}

/// Collects the attempts of a run.
#[derive(Debug)]
pub struct Collector {
    info: RunInfo,
    options: SummaryOptions,
    routes: Vec<Route>,
    /// One per row of [`METRICS`]; those of whole-run figures stay empty.
    samples: Vec<Sample>,
    gap_blocks: Blocks,
    token_gap_blocks: Blocks,
    token_seconds: TokenSeconds,
    rows: Vec<RequestRow>,
    failure_examples: BTreeMap<FailureClass, String>,
    totals: Totals,
    observed: Observed,
    families: Vec<FamilyCollector>,
    scrapes: server::Scrapes,
    steps: steps::StepCollector,
    anatomy: Anatomy,
    warmups: u64,
    probes: (Sample, u64),
}

impl Collector {
    /// `info` describes the run.
    pub fn new(info: &RunInfo, options: SummaryOptions) -> Self {
        let collector =
            |family: &Family| FamilyCollector::new(*family, info.origin, options.details);
        Self {
            routes: info.targets.iter().map(Route::of).collect(),
            samples: vec![Sample::default(); METRICS.len()],
            gap_blocks: Blocks::new(info.origin),
            token_gap_blocks: Blocks::new(info.origin),
            token_seconds: TokenSeconds::new(info.origin),
            rows: Vec::new(),
            failure_examples: BTreeMap::new(),
            totals: Totals::default(),
            observed: Observed::default(),
            families: options.families.iter().map(collector).collect(),
            scrapes: server::Scrapes::default(),
            steps: steps::StepCollector::default(),
            anatomy: Anatomy::default(),
            warmups: 0,
            probes: (Sample::default(), 0),
            info: info.clone(),
            options,
        }
    }

    /// Adds one ended attempt, in any order.
    pub fn push(&mut self, timeline: &Timeline) {
        match timeline.identity.phase {
            Phase::Measure => self.push_measured(timeline),
            Phase::Warmup => self.warmups += 1,
            Phase::Probe => {
                match measure::end_of_stream(timeline).filter(|_| timeline.is_success()) {
                    Some(latency) => self.probes.0.push(latency),
                    None => self.probes.1 += 1,
                }
            }
        }
    }

    fn push_measured(&mut self, timeline: &Timeline) {
        let target = usize::from(timeline.identity.target);
        let route = self.routes.get(target).copied().unwrap_or(Route::Completions);
        self.observed.add(timeline, Capped::by(self.info.load.max_concurrency));
        self.steps.push(timeline);
        self.anatomy.push(timeline);
        for family in &mut self.families {
            family.push(timeline, route);
        }
        let row = RequestRow::of(timeline);
        self.totals.in_flight_nanos += (row.end - row.start).0 as f64;
        measure::each_token_arrival(timeline, |at, tokens| self.token_seconds.add(at, tokens));
        if row.fate == Fate::Succeeded {
            self.push_success(timeline, route);
        }
        if let (Some(class), Outcome::Failed(failure)) = (row.failure(), &timeline.outcome) {
            self.failure_examples
                .entry(class)
                .or_insert_with(|| printable::short(&failure.message));
        }
        self.rows.push(row);
    }

    fn push_success(&mut self, timeline: &Timeline, route: Route) {
        self.totals.add_success(timeline);
        self.observed.add_counts(timeline, route);
        for (metric, sample) in METRICS.iter().zip(&mut self.samples) {
            match metric.formula {
                Formula::Latency(value) | Formula::Value(value) => {
                    if let Some(value) = value(timeline) {
                        sample.push(value);
                    }
                }
                Formula::Stream(values) => {
                    values(timeline, &mut |value, weight| sample.add(value, weight));
                }
                Formula::Run(_) => {}
            }
        }
        for gap in measure::gaps(timeline) {
            self.gap_blocks.add(gap.at, gap.length, 1);
            if let Some(tokens) = gap.tokens.filter(|tokens| *tokens > 0) {
                let each = Nanos(gap.length.0 / u64::from(tokens));
                self.token_gap_blocks.add(gap.at, each, tokens);
            }
        }
    }

    /// Adds one scrape of the server's metrics.
    pub fn push_scrape(&mut self, scrape: &Scrape) {
        self.scrapes.push(scrape);
    }

    /// The summary of everything pushed.
    pub fn finish(mut self, state: &RunState) -> Summary {
        // First, because it drops what takes the most memory beside the rows.
        let steps = std::mem::take(&mut self.steps).finish();
        let last = LastOfEach::among(&self.rows, |row| (row.key(), row.attempt));
        last.keep_in(&mut self.rows);
        let span = span(&self.rows, state);
        let counts = counts(&self.rows, &self.info.load, state);
        let counts = Counts { retries: last.removed(), warmups: self.warmups, ..counts };
        let health = match state {
            RunState::Ended(end) => Some(&end.health),
            RunState::Killed { .. } => None,
        };
        let goodput = self.goodput(counts.planned, span);
        self.complete_totals(span, goodput, health);
        let steady_part = steady::find(&self.rows, &self.info.load);
        let steady = steady_part.as_ref().ok().map(|part| self.steady(*part, span));
        let overload = steady::overload(&self.rows, &self.info.load);
        let windows = windows::series(self.info.origin, &self.rows, &self.token_seconds);
        let observed = std::mem::take(&mut self.observed);
        let server = self.server(span);
        let mut summary = Summary {
            ended: ended(state),
            counts,
            duration_s: self.totals.duration.map(Nanos::as_secs_f64),
            figures: figures(&self.totals),
            count_sources: observed.count_sources.clone(),
            addresses: addresses::shares(&self.info, &self.rows),
            failures: failure_groups(&self.rows, &self.failure_examples),
            goodput,
            load_class: LoadClass::of(&self.info.load),
            steady,
            steps,
            ttft_parts: self.anatomy.parts(server.as_ref()),
            server,
            windows,
            blocks: windows::blocks(span, &self.rows, &self.token_seconds),
            ..Summary::default()
        };
        let info = self.info.clone();
        let told = summary.server.as_ref().and_then(|server| server.reported_accept_length);
        let backend = info.targets.first().map_or("", |target| target.backend.as_str());
        let gap_unit = GapUnit::of_sglang(backend, told);
        let (distributions, families) = self.into_parts(span, gap_unit, &last);
        (summary.distributions, summary.families) = (distributions, families);
        let evidence = CheckInput {
            info: &info,
            summary: &summary,
            health,
            observed: &observed,
            unsteady: steady_part.err(),
            overload,
        };
        summary.notes = notes::find(&evidence);
        summary.verdict = notes::verdict(&summary.notes);
        summary
    }

    fn server(&mut self, span: Option<TimeSpan>) -> Option<server::ServerFigures> {
        let mut figures = std::mem::take(&mut self.scrapes).figures(span)?;
        if let Some(gpu) = &mut figures.gpu {
            let tokens = self.totals.output_tokens.filter(|tokens| *tokens > 0);
            gpu.energy_j_per_output_token =
                gpu.energy_j.zip(tokens).map(|(energy, tokens)| energy / tokens as f64);
        }
        Some(figures)
    }

    fn goodput(&self, planned: u64, span: Option<TimeSpan>) -> Option<Goodput> {
        let objectives = self.options.objectives;
        if objectives.is_empty() {
            return None;
        }
        let is_good = |row: &&RequestRow| {
            row.fate == Fate::Succeeded
                && row.latencies().is_some_and(|latencies| objectives.are_met_by(latencies))
        };
        let good = self.rows.iter().filter(is_good).count() as u64;
        let seconds = span.map(|span| span.length().as_secs_f64()).filter(|seconds| *seconds > 0.0);
        Some(Goodput {
            objectives,
            good,
            share: (planned > 0).then(|| good as f64 / planned as f64),
            requests_per_s: seconds.map(|seconds| good as f64 / seconds),
        })
    }

    fn complete_totals(
        &mut self,
        span: Option<TimeSpan>,
        goodput: Option<Goodput>,
        health: Option<&Health>,
    ) {
        let load = &self.info.load;
        let totals = &mut self.totals;
        totals.duration = span.map(|span| span.length());
        totals.goodput = goodput;
        totals.peak_in_flight =
            (!self.rows.is_empty()).then(|| rows::sweep(&self.rows, u64::MAX).0 as f64);
        totals.peak_output_tokens_per_s = self.token_seconds.peak();
        totals.requested_rate = load.request_rate.filter(|_| load.ramp.is_none());
        totals.achieved_rate = self.observed.achieved_rate();
        totals.refill_delay_p99 = health
            .and_then(|health| health.refill_delay.quantile(0.99))
            .map(|delay| delay.0 as f64);
    }

    fn steady(&self, part: TimeSpan, span: Option<TimeSpan>) -> Steady {
        let run_begin = span.map_or(self.info.origin, |span| span.begin);
        let seconds = part.length().as_secs_f64();
        let started: Vec<&RequestRow> =
            self.rows.iter().filter(|row| part.contains(row.start)).collect();
        let completed =
            self.rows.iter().filter(|row| row.fate == Fate::Succeeded && part.contains(row.end));
        let completed = completed.count() as u64;
        let distribution = |value: fn(&RequestRow) -> Option<f64>| -> Distribution {
            let of = |row: &&RequestRow| match row.fate {
                Fate::Succeeded => value(row),
                Fate::Failed => Some(f64::INFINITY),
                Fate::Abandoned => None,
            };
            let sample: Sample = started.iter().filter_map(of).collect();
            sample.into_ordered().distribution(
                &self.options.percentiles,
                Unit::Millis.divisor(),
                longest_wait(&self.rows),
            )
        };
        Steady {
            begin_s: (part.begin - run_begin).as_secs_f64(),
            end_s: (part.end - run_begin).as_secs_f64(),
            started: started.len() as u64,
            completed,
            concurrency: rows::mean_in_flight(&self.rows, part),
            requests_per_s: completed as f64 / seconds,
            output_tokens_per_s: self.token_seconds.between(part.begin, part.end) / seconds,
            ttft_ms: distribution(RequestRow::ttft),
            tpot_ms: distribution(RequestRow::tpot),
            e2e_ms: distribution(RequestRow::e2e),
        }
    }

    /// Distributions of our own and other tools' figures. Consumes the samples.
    fn into_parts(
        self,
        span: Option<TimeSpan>,
        gap_unit: GapUnit,
        last: &LastOfEach,
    ) -> (BTreeMap<String, Distribution>, BTreeMap<Family, crate::figures::FamilyFigures>) {
        let failed = self.rows.iter().filter(|row| row.fate == Fate::Failed).count();
        let failed = u32::try_from(failed).unwrap_or(u32::MAX);
        let longest = longest_wait(&self.rows);
        let percentiles = &self.options.percentiles;
        let is_shared = self
            .totals
            .event_share(self.totals.shared_events)
            .is_some_and(|share| share > SHARED_READS_MAX);
        let mut distributions = BTreeMap::new();
        for (metric, mut sample) in METRICS.iter().zip(self.samples) {
            let is_latency = matches!(metric.formula, Formula::Latency(_));
            if matches!(metric.formula, Formula::Run(_)) || (sample.count() == 0 && !is_latency) {
                continue;
            }
            // A latency that no request has (no schedule, no reasoning) is absent for failed requests
            // too.
            if is_latency
                && (sample.count() > 0 || metric.key == "ttft_ms" || metric.key == "e2e_ms")
            {
                sample.add(f64::INFINITY, failed);
            }
            let ordered = sample.into_ordered();
            let mut found = ordered.distribution(percentiles, metric.unit.divisor(), longest);
            if matches!(metric.formula, Formula::Stream(_)) {
                let blocks = match metric.key {
                    "token_gap_ms" => &self.token_gap_blocks,
                    _ => &self.gap_blocks,
                };
                take_margins_from(blocks, &mut found, metric.unit.divisor());
                found.is_withheld = is_shared;
            }
            if found.count > 0 {
                distributions.insert(metric.key.to_owned(), found);
            }
        }
        let frame = Frame {
            begin: span.map_or(self.info.origin, |span| span.begin),
            duration: span.map_or(Nanos::ZERO, |span| span.length()),
            load: &self.info.load,
            percentiles,
            objectives: self.options.objectives,
            gap_unit,
            last,
        };
        drop(self.rows);
        let probe = probe(self.probes);
        let finish = |family: FamilyCollector| {
            let name = family.family();
            (name, crate::figures::FamilyFigures { probe: probe.clone(), ..family.finish(&frame) })
        };
        (distributions, self.families.into_iter().map(finish).collect())
    }
}

/// Replaces intervals that assume independence by those from blocks of time.
fn take_margins_from(blocks: &Blocks, found: &mut Distribution, unit: f64) {
    found.mean_margin = blocks.mean_margin().map(|margin| margin / unit);
    for percentile in &mut found.percentiles {
        let margin = blocks.percentile_margin(percentile.percent).map(|margin| margin / unit);
        let ends = percentile.value.zip(margin);
        percentile.low = ends.map(|(value, margin)| (value - margin).max(0.0));
        percentile.high = ends.map(|(value, margin)| value + margin);
    }
}

fn probe((answered, failed): (Sample, u64)) -> Option<ProbeFigures> {
    let completed = answered.count();
    (completed + failed > 0).then(|| {
        let stats = answered.into_ordered().stats(&[99.0], Unit::Millis.divisor());
        let p99 = stats.percentile(99.0).unwrap_or(0.0);
        ProbeFigures { completed, failed, median: stats.median, p99, max: stats.max }
    })
}

fn figures(totals: &Totals) -> BTreeMap<String, Option<f64>> {
    METRICS
        .iter()
        .filter_map(|metric| match metric.formula {
            Formula::Run(value) => {
                let value = value(totals).map(|value| value / metric.unit.divisor());
                Some((metric.key.to_owned(), value))
            }
            _ => None,
        })
        .collect()
}

/// The longest time that the client waited for a failed request, in nanoseconds.
fn longest_wait(rows: &[RequestRow]) -> f64 {
    let waits = rows.iter().filter(|row| row.fate == Fate::Failed).map(|row| row.end - row.start);
    waits.max().unwrap_or(Nanos::ZERO).0 as f64
}

/// The measured phase: as recorded, or the span of the rows of a killed run.
fn span(rows: &[RequestRow], state: &RunState) -> Option<TimeSpan> {
    let of_rows = || {
        let begin = rows.iter().map(|row| row.due.min(row.start)).min()?;
        let end = rows.iter().map(|row| row.end).max()?;
        Some(TimeSpan { begin, end })
    };
    match state {
        RunState::Ended(end) if !rows.is_empty() && end.measure_end > end.measure_begin => {
            Some(TimeSpan { begin: end.measure_begin, end: end.measure_end })
        }
        _ => of_rows(),
    }
}

fn ended(state: &RunState) -> Ended {
    match state {
        RunState::Ended(end) if end.stop == Stop::Complete => Ended::Complete,
        RunState::Ended(end) => Ended::Early(end.stop),
        RunState::Killed { .. } => Ended::Killed,
    }
}

fn counts(rows: &[RequestRow], load: &RecordedLoad, state: &RunState) -> Counts {
    let with = |fate: Fate| rows.iter().filter(|row| row.fate == fate).count() as u64;
    let abandoned_rows = with(Fate::Abandoned);
    // The last attempt of a request that was being retried has no row: its outcome is that attempt's.
    let retrying = match state {
        RunState::Ended(_) => 0,
        RunState::Killed { retrying, .. } => *retrying,
    };
    let failed = with(Fate::Failed).saturating_sub(retrying);
    // A run that ends by time has no planned number: later requests were never due.
    let planned = load.planned_requests.filter(|_| load.duration.is_none());
    let known = with(Fate::Succeeded) + failed;
    let (abandoned, never_sent) = match state {
        RunState::Ended(end) => (end.abandoned.max(abandoned_rows), end.never_sent),
        RunState::Killed { in_flight, .. } => {
            let abandoned = abandoned_rows + in_flight;
            (abandoned, planned.map_or(0, |all| all.saturating_sub(known + abandoned)))
        }
    };
    let sent = known + abandoned;
    Counts {
        planned: planned.unwrap_or(sent + never_sent).max(sent),
        sent,
        succeeded: with(Fate::Succeeded),
        failed,
        abandoned,
        never_sent,
        retries: 0,
        warmups: 0,
    }
}

fn failure_groups(
    rows: &[RequestRow],
    examples: &BTreeMap<FailureClass, String>,
) -> Vec<FailureGroup> {
    let mut counts: BTreeMap<FailureClass, u64> = BTreeMap::new();
    for class in rows.iter().filter_map(RequestRow::failure) {
        *counts.entry(class).or_default() += 1;
    }
    let group = |(class, count): (FailureClass, u64)| FailureGroup {
        kind: class.0,
        status: class.1,
        count,
        example: examples.get(&class).cloned().unwrap_or_default(),
    };
    let mut groups: Vec<FailureGroup> = counts.into_iter().map(group).collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    groups
}

#[cfg(test)]
#[path = "collect_tests.rs"]
mod tests;
