//! One pass over the timelines of a run.
//!
//! Timelines are pushed in any order and dropped; [`Collector::finish`] computes a [`Summary`] from
//! what was kept. Only the measured phase is part of figures. Of a retried request only the last
//! attempt counts.

use std::collections::BTreeMap;

use tokometer_base::Nanos;
use tokometer_record::server::Scrape;
use tokometer_record::{Health, Outcome, Phase, RunInfo, RunState, Stop, Timeline};

use crate::addresses;
use crate::anatomy::Anatomy;
use crate::attempts::LastOfEach;
use crate::completed::CompletedWork;
use crate::define::{Formula, METRICS, Unit};
use crate::failure_messages::FailureMessages;
use crate::family::{Family, FamilyFigures};
use crate::figure::Quantity;
use crate::goodput::{Goodput, Objectives};
use crate::interval::{self, ConfidenceInterval, NoInterval};
use crate::interval_gate::IntervalGate;
use crate::lens::{Frame, Lens, LensChoice};
use crate::measure;
use crate::observe::Observed;
use crate::quality::{CanaryCheck, QualityCheck};
use crate::route::Route;
use crate::rows::{self, Fate, RequestRow, TimeSpan};
use crate::series::{DistributionView, TimedValues};
use crate::server;
use crate::sessions::{SessionSummary, SessionTimes, Sessions};
use crate::steady::{self, LoadClass, Steady};
use crate::steps::{self, SHARED_READS_MAX};
use crate::summary::cancelled::CancelTally;
use crate::summary::parts::{self, PartPlan, UnjudgedPart};
use crate::summary::{Counts, Distribution, Ended, Summary, Unjudged};
use crate::survival::{self, Seen};
use crate::totals::Totals;
use crate::windows::{self, TokenSeconds};

#[derive(Debug, Clone)]
pub struct SummaryOptions {
    /// In the order in which a layout prints them.
    pub percentiles: Vec<f64>,
    pub objectives: Objectives,
    /// Those of our own goodput, where they are not the same. `None`: they are.
    pub own_objectives: Option<Objectives>,
    /// Other tools' definitions whose figures are computed too.
    pub lenses: Vec<LensChoice>,
}

impl Default for SummaryOptions {
    fn default() -> Self {
        Self {
            percentiles: vec![99.0],
            objectives: Objectives::default(),
            own_objectives: None,
            lenses: Vec::new(),
        }
    }
}

#[derive(Debug)]
pub struct Collector {
    info: RunInfo,
    options: SummaryOptions,
    routes: Vec<Route>,
    /// One per row of [`METRICS`]; those of whole-run figures stay empty.
    series: Vec<TimedValues>,
    completed: CompletedWork,
    token_seconds: TokenSeconds,
    rows: Vec<RequestRow>,
    messages: FailureMessages,
    totals: Totals,
    observed: Observed,
    lenses: Vec<(Family, Box<dyn Lens>)>,
    scrapes: server::Scrapes,
    steps: steps::StepCollector,
    anatomy: Anatomy,
    sessions: Sessions,
    /// Output tokens of each class.
    class_tokens: Vec<u64>,
    quality: QualityCheck,
    canaries: CanaryCheck,
    cancels: CancelTally,
    warmups: u64,
}

impl Collector {
    pub fn new(info: &RunInfo, options: SummaryOptions) -> Self {
        let lens = |of: &LensChoice| (of.family, (of.make)(of.family, of.details, info.origin));
        Self {
            routes: info.targets.iter().map(Route::of).collect(),
            series: vec![TimedValues::default(); METRICS.len()],
            completed: CompletedWork::default(),
            token_seconds: TokenSeconds::new(info.origin),
            rows: Vec::new(),
            messages: FailureMessages::default(),
            totals: Totals::default(),
            observed: Observed::default(),
            lenses: options.lenses.iter().map(lens).collect(),
            scrapes: server::Scrapes::default(),
            steps: steps::StepCollector::of(info),
            anatomy: Anatomy::default(),
            sessions: Sessions::default(),
            class_tokens: vec![0; info.classes.len()],
            quality: QualityCheck::of(info),
            canaries: CanaryCheck::of(info),
            cancels: CancelTally::default(),
            warmups: 0,
            info: info.clone(),
            options,
        }
    }

    pub fn push(&mut self, timeline: &Timeline) {
        self.observed.add_side_request(timeline);
        match timeline.identity.phase {
            Phase::Measure => self.push_measured(timeline),
            Phase::Warmup => self.warmups += 1,
            Phase::Canary => self.canaries.add(timeline),
            Phase::Probe => self.push_to_lenses(timeline),
        }
    }

    fn route(&self, timeline: &Timeline) -> Route {
        let target = usize::from(timeline.identity.target);
        self.routes.get(target).copied().unwrap_or(Route::Completions)
    }

    fn push_measured(&mut self, timeline: &Timeline) {
        let route = self.route(timeline);
        let cap = self.info.load.max_concurrency;
        self.observed.add(timeline, cap);
        self.steps.push(timeline);
        self.anatomy.push(timeline);
        self.sessions.push(timeline);
        self.push_to_lenses(timeline);
        let mut row = RequestRow::of(timeline, cap);
        let name = timeline.identity.class.as_deref();
        let class = self.info.classes.iter().position(|class| Some(class.name.as_str()) == name);
        row.class = class.and_then(|at| u8::try_from(at).ok());
        self.totals.in_flight_nanos += (row.end - row.start).0 as f64;
        measure::each_token_arrival(timeline, |at, tokens| self.token_seconds.add(at, tokens));
        match row.fate {
            Fate::Succeeded => {
                self.push_success(timeline, route);
                if let Some(at) = class {
                    self.class_tokens[at] +=
                        u64::from(timeline.output_tokens().map_or(0, |(tokens, _)| tokens));
                }
            }
            Fate::Cancelled => self.push_cancelled(timeline),
            Fate::Failed | Fate::Abandoned => {}
        }
        if let (Some(class), Outcome::Failed(failure)) = (row.failure, &timeline.outcome) {
            row.message = self.messages.number(class, &failure.message);
        }
        self.rows.push(row);
    }

    fn push_to_lenses(&mut self, timeline: &Timeline) {
        let route = self.route(timeline);
        for (_, lens) in &mut self.lenses {
            lens.push(timeline, route);
        }
    }

    fn push_success(&mut self, timeline: &Timeline, route: Route) {
        self.totals.add_success(timeline);
        self.quality.add(timeline);
        self.observed.add_counts(timeline, route);
        let start = timeline.times.first_byte_sent.unwrap_or(timeline.times.admitted);
        for (metric, series) in METRICS.iter().zip(&mut self.series) {
            metric.each_at(timeline, start, &mut |at, value, weight| series.add(at, value, weight));
        }
        let end = timeline.times.end.unwrap_or(start);
        self.completed.add(timeline, if self.is_open() { start } else { end });
    }

    /// A cancelled request counts as far as it came: to its first token.
    fn push_cancelled(&mut self, timeline: &Timeline) {
        self.cancels.add(timeline);
        let start = timeline.times.first_byte_sent.unwrap_or(timeline.times.admitted);
        for (metric, series) in METRICS.iter().zip(&mut self.series) {
            if metric.is_of_first_token() {
                metric.each_at(timeline, start, &mut |at, value, weight| {
                    series.add(at, value, weight);
                });
            }
        }
    }

    pub fn push_scrape(&mut self, scrape: &Scrape) {
        self.scrapes.push(scrape);
    }

    /// The summary of everything pushed, and what a judge of it needs.
    pub fn finish(mut self, state: &RunState) -> Unjudged {
        // Steps and lenses come first: each drops a list of all requests or tokens, and the memory of
        // the rest lies below that.
        let steps = std::mem::take(&mut self.steps).finish();
        let last = LastOfEach::among(&self.rows, |row| (row.index, row.attempt.into()));
        rows::keep_first_due(&mut self.rows);
        last.keep_in(&mut self.rows);
        let span = span(&self.rows, state);
        let server = self.server(span);
        let families = self.families(span, server.as_ref(), &last);
        let counts = Counts::of(&self.rows, &self.info.load, state);
        let counts = Counts { retries: last.removed(), warmups: self.warmups, ..counts };
        let health = state.end().map(|end| &end.health);
        // Nobody can say how a request would have been served that its user gave up.
        let judged = counts.planned - counts.cancelled;
        let goodput = self.goodput(judged, span);
        let last_send = self.rows.iter().map(|row| row.start).max().unwrap_or_default();
        let session_times = self.sessions.times(last_send);
        let sessions = SessionSummary::of(&self.sessions, &session_times);
        self.totals.sessions = sessions.as_ref().map(|sessions| sessions.finished);
        self.complete_totals(span, goodput, health);
        let has_sessions = sessions.is_some();
        let steady_part = self.steady_part(if has_sessions { &session_times } else { &[] });
        let steady = steady_part.as_ref().ok().map(|part| self.steady(*part, span));
        let unsteady = steady_part.as_ref().err().copied();
        let overload = steady::overload(&self.rows, &self.info.load, unsteady);
        let windows = windows::series(self.info.origin, &self.rows, &self.token_seconds);
        let parts = span.map_or_else(Vec::new, |span| self.parts(span));
        let begin = span.map(|span| span.begin);
        let recoveries = parts::recoveries_of(&self.info, &parts, &self.rows, begin);
        let observed = std::mem::take(&mut self.observed);
        let figures = figures(&self.totals);
        let completed = std::mem::take(&mut self.completed);
        let counted = span.map(|span| self.throughput_span(span));
        let mut intervals = completed.intervals(&figures, counted, self.no_interval(span));
        intervals.extend(goodput.map(|found| self.goodput_interval(found, judged, span)));
        let mut summary = Summary {
            ended: ended(state),
            counts,
            duration_s: self.totals.duration.map(Nanos::as_secs_f64),
            figures,
            intervals,
            count_sources: observed.count_sources.clone(),
            addresses: addresses::shares(&self.info, &self.rows),
            failures: self.messages.groups(&self.rows),
            goodput,
            load_class: LoadClass::of(&self.info.load),
            steady,
            sessions,
            steps,
            ttft_parts: self.anatomy.parts(server.as_ref()),
            quality: self.quality.finish(),
            canaries: self.canaries.finish(),
            server,
            recoveries,
            fairness: parts::fairness(&parts),
            windows,
            blocks: windows::blocks(span, &self.rows, &self.token_seconds),
            ..Summary::default()
        };
        let session_times = if has_sessions { session_times } else { Vec::new() };
        summary.distributions = self.distributions(span, &session_times);
        summary.cancelled = self.cancels.figures(&summary, &self.totals, &observed);
        summary.families = families;
        Unjudged {
            summary,
            info: self.info,
            rows: self.rows,
            health: health.cloned(),
            observed,
            unsteady,
            overload,
            parts,
        }
    }

    /// A run that limits its sessions is steady by the sessions in progress.
    fn steady_part(&self, sessions: &[SessionTimes]) -> Result<TimeSpan, steady::Unsteady> {
        let in_progress: Vec<RequestRow> = sessions.iter().map(SessionTimes::row).collect();
        let load = &self.info.load;
        let limited = load.max_sessions.filter(|_| !sessions.is_empty()).map(|_| &*in_progress);
        steady::find(&self.rows, limited, load)
    }

    fn goodput_interval(
        &self,
        found: Goodput,
        judged: u64,
        span: Option<TimeSpan>,
    ) -> (String, ConfidenceInterval) {
        let interval = found.interval(&self.rows, judged);
        let known = self.no_interval(span).map_or(interval, ConfidenceInterval::Unknown);
        (Quantity::Goodput.key().to_owned(), known)
    }

    /// The stages and classes, each as a run of its own.
    fn parts(&self, span: TimeSpan) -> Vec<UnjudgedPart> {
        let plans = parts::plans(&self.info, span).into_iter();
        plans.map(|plan| self.part(&plan, span.begin)).collect()
    }

    fn part(&self, plan: &PartPlan, run_begin: Nanos) -> UnjudgedPart {
        let part = plan.span;
        let seconds = part.length().as_secs_f64();
        let rows: Vec<RequestRow> = self.rows.iter().filter(|row| plan.has(row)).cloned().collect();
        let own = plan.class.map(|class| self.class_tokens[usize::from(class)]);
        // What the server did in the time of a stage, whoever's requests they were.
        let served = if plan.class.is_some() { &rows } else { &self.rows };
        let tokens =
            own.map_or_else(|| self.token_seconds.between(part.begin, part.end), |own| own as f64);
        let is_ended = |row: &&RequestRow| row.fate == Fate::Succeeded && part.contains(row.end);
        let ended = served.iter().filter(is_ended).count() as f64;
        let in_flight = rows::mean_in_flight_by_piece(served, part, 1).first().copied();
        let rate = |amount: f64| (seconds > 0.0).then(|| amount / seconds);
        let figures = [
            (Quantity::Requests.key(), rate(ended)),
            (Quantity::Output.key(), rate(tokens)),
            ("concurrency", in_flight),
        ];
        let of = |fate: Fate| rows.iter().filter(|row| row.fate == fate).count() as u64;
        let counts = Counts {
            planned: rows.len() as u64,
            sent: rows.len() as u64,
            succeeded: of(Fate::Succeeded),
            failed: of(Fate::Failed),
            abandoned: of(Fate::Abandoned),
            cancelled: of(Fate::Cancelled),
            ..Counts::default()
        };
        // Its user did not wait for the rest of a cancelled answer.
        let judged = counts.planned - of(Fate::Cancelled);
        let mut percentiles = [&[50.0, 90.0, 99.0][..], &self.options.percentiles].concat();
        tokometer_base::sort_numbers(&mut percentiles);
        percentiles.dedup();
        let started: Vec<&RequestRow> = rows.iter().collect();
        let latency = |quantity: Quantity, value: fn(&RequestRow) -> Option<f64>| {
            (quantity.key().to_owned(), self.latency(&started, value, part, &percentiles))
        };
        let latencies = [
            latency(Quantity::Ttft, RequestRow::ttft),
            latency(Quantity::Tpot, RequestRow::tpot),
            latency(Quantity::E2e, RequestRow::e2e),
        ];
        let distributions = latencies.into_iter().filter(|(_, found)| found.count > 0).collect();
        let unsteady = steady::find(&rows, None, &plan.load).err();
        let summary = Summary {
            counts,
            duration_s: Some(seconds),
            figures: figures.map(|(key, value)| (key.to_owned(), value)).into(),
            distributions,
            goodput: plan
                .objectives
                .map(|objectives| goodput(objectives, &rows, judged, Some(part))),
            load_class: LoadClass::of(&plan.load),
            ..Summary::default()
        };
        UnjudgedPart {
            kind: plan.kind,
            name: plan.name.clone(),
            begin_s: (part.begin - run_begin).as_secs_f64(),
            end_s: (part.end - run_begin).as_secs_f64(),
            weight: plan.weight,
            output_tokens: own,
            run: Unjudged {
                summary,
                info: RunInfo { load: plan.load.clone(), classes: Vec::new(), ..self.info.clone() },
                overload: steady::overload(&rows, &plan.load, unsteady),
                observed: Observed { sends: rows::sends_of(&rows), ..Observed::default() },
                rows,
                health: None,
                unsteady,
                parts: Vec::new(),
            },
        }
    }

    /// Where intervals of throughputs come from: without the drain of an open loop, which is no variation.
    fn throughput_span(&self, span: TimeSpan) -> TimeSpan {
        match self.rows.iter().map(|row| row.start).max().filter(|_| self.is_open()) {
            Some(last) => TimeSpan { end: last.clamp(span.begin, span.end), ..span },
            None => span,
        }
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
        let objectives = self.options.own_objectives.unwrap_or(self.options.objectives);
        (!objectives.is_empty()).then(|| goodput(objectives, &self.rows, planned, span))
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
            (!self.rows.is_empty()).then(|| rows::peak_in_flight(&self.rows) as f64);
        totals.peak_output_tokens_per_s = self.token_seconds.peak();
        totals.requested_rate = load.request_rate;
        totals.achieved_rate = self.observed.achieved_rate();
        totals.turn_wait = self.sessions.mean_wait();
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
        let distribution = |value| self.latency(&started, value, part, &self.options.percentiles);
        Steady {
            begin_s: (part.begin - run_begin).as_secs_f64(),
            end_s: (part.end - run_begin).as_secs_f64(),
            mean_stays: steady::mean_stays(&self.rows, part),
            started: started.len() as u64,
            completed,
            concurrency: rows::mean_in_flight_by_piece(&self.rows, part, 1)[0],
            requests_per_s: completed as f64 / seconds,
            output_tokens_per_s: self.token_seconds.between(part.begin, part.end) / seconds,
            ttft_ms: distribution(RequestRow::ttft),
            tpot_ms: distribution(RequestRow::tpot),
            e2e_ms: distribution(RequestRow::e2e),
        }
    }

    /// A latency of requests of a part of the run.
    fn latency(
        &self,
        rows: &[&RequestRow],
        value: fn(&RequestRow) -> Option<f64>,
        part: TimeSpan,
        percentiles: &[f64],
    ) -> Distribution {
        let mut series = TimedValues::default();
        for row in rows {
            let value = match row.fate {
                Fate::Succeeded | Fate::Cancelled => value(row),
                Fate::Failed => Some(f64::INFINITY),
                Fate::Abandoned => None,
            };
            if let Some(value) = value {
                series.add(row.start, value, 1);
            }
        }
        series.into_distribution(DistributionView {
            percentiles,
            unit: Unit::Millis.divisor(),
            longest_wait: longest_wait(&self.rows),
            no_interval: self.no_interval(Some(part)),
        })
    }

    /// Why requests of this part of the run cannot have intervals, whatever their values are.
    fn no_interval(&self, part: Option<TimeSpan>) -> Option<NoInterval> {
        if LoadClass::of(&self.info.load) == LoadClass::Burst {
            return Some(NoInterval::Burst);
        }
        (!interval::is_long_enough(self.stays(part))).then_some(NoInterval::TooShort)
    }

    /// Mean times in flight that this part of the run lasted.
    fn stays(&self, part: Option<TimeSpan>) -> f64 {
        let stay = self.totals.in_flight_nanos / self.rows.len().max(1) as f64;
        let length = part.map_or(0.0, |part| part.length().0 as f64);
        if stay > 0.0 { length / stay } else { f64::INFINITY }
    }

    /// Whether requests are sent at intended times, at one rate.
    fn is_open(&self) -> bool {
        LoadClass::of(&self.info.load) == LoadClass::Open
    }

    /// Whether the answers are vectors, scores or classes.
    fn is_pooling(&self) -> bool {
        self.routes.first() == Some(&Route::Pooling)
    }

    /// Distributions of our own figures. Takes the samples.
    fn distributions(
        &mut self,
        span: Option<TimeSpan>,
        sessions: &[SessionTimes],
    ) -> BTreeMap<String, Distribution> {
        let failed: Vec<Nanos> =
            self.rows.iter().filter(|row| row.fate == Fate::Failed).map(|row| row.start).collect();
        let percentiles = &self.options.percentiles;
        let longest_wait = longest_wait(&self.rows);
        let is_shared = self
            .totals
            .event_share(self.totals.shared_events)
            .is_some_and(|share| share > SHARED_READS_MAX);
        // The latency that ends with the wait in the server's queue.
        let e2e = Quantity::E2e.key();
        let first = if self.is_pooling() { e2e } else { Quantity::Ttft.key() };
        let open_stays = self.is_open().then(|| self.stays(span));
        let mut gate = IntervalGate::new(first, self.no_interval(span), open_stays);
        let mut distributions = BTreeMap::new();
        for (metric, mut series) in METRICS.iter().zip(std::mem::take(&mut self.series)) {
            let view = DistributionView {
                percentiles,
                unit: metric.unit.divisor(),
                longest_wait,
                no_interval: gate.refusal(metric),
            };
            if let Formula::Session(value) = metric.formula {
                let seen: Vec<Seen> =
                    sessions.iter().filter_map(|session| seen(session, value)).collect();
                if !seen.is_empty() {
                    distributions
                        .insert(metric.key.to_owned(), survival::distribution(&seen, view));
                }
                continue;
            }
            let is_latency = matches!(metric.formula, Formula::Latency(_));
            if matches!(metric.formula, Formula::Run(_)) || (series.count() == 0 && !is_latency) {
                continue;
            }
            // A latency that no request has (no schedule, no reasoning) is absent for failed requests
            // too.
            if is_latency && (series.count() > 0 || metric.key == first || metric.key == e2e) {
                for start in &failed {
                    series.add(*start, f64::INFINITY, 1);
                }
            }
            let is_stream = matches!(metric.formula, Formula::Stream(_));
            let mut found = series.into_distribution(view);
            gate.look(metric, &mut found);
            found.is_withheld = is_stream && is_shared;
            if found.count > 0 {
                distributions.insert(metric.key.to_owned(), found);
            }
        }
        distributions
    }

    /// Other tools' figures. Takes their rows.
    fn families(
        &mut self,
        span: Option<TimeSpan>,
        server: Option<&server::ServerFigures>,
        last: &LastOfEach,
    ) -> BTreeMap<Family, FamilyFigures> {
        let frame = Frame {
            info: &self.info,
            begin: span.map_or(self.info.origin, |span| span.begin),
            duration: span.map_or(Nanos::ZERO, |span| span.length()),
            percentiles: &self.options.percentiles,
            objectives: self.options.objectives,
            accept_length: server.and_then(|server| server.reported_accept_length),
            last,
        };
        let lenses = std::mem::take(&mut self.lenses).into_iter();
        lenses.map(|(family, lens)| (family, lens.finish(&frame))).collect()
    }
}

/// The value of a session, as far as it was seen.
fn seen(session: &SessionTimes, value: fn(&SessionTimes) -> Option<f64>) -> Option<Seen> {
    let value = value(session)?;
    Some(match session.fate {
        Fate::Succeeded => Seen::Value(value),
        Fate::Abandoned | Fate::Cancelled => Seen::Above(value),
        Fate::Failed => Seen::Never,
    })
}

fn goodput(
    objectives: Objectives,
    rows: &[RequestRow],
    planned: u64,
    span: Option<TimeSpan>,
) -> Goodput {
    let good = rows.iter().filter(|row| objectives.are_met(row)).count() as u64;
    let seconds = span.map(|span| span.length().as_secs_f64()).filter(|seconds| *seconds > 0.0);
    Goodput {
        objectives,
        good,
        share: (planned > 0).then(|| good as f64 / planned as f64),
        requests_per_s: seconds.map(|seconds| good as f64 / seconds),
    }
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

/// The measured phase: as recorded, or the span of the rows that there are of a run whose record breaks
/// off.
fn span(rows: &[RequestRow], state: &RunState) -> Option<TimeSpan> {
    let of_rows = || {
        let begin = rows.iter().map(|row| row.due.min(row.start)).min()?;
        let end = rows.iter().map(|row| row.end).max()?;
        Some(TimeSpan { begin, end })
    };
    match state {
        RunState::Ended(end)
            if !rows.is_empty()
                && end.stop != Stop::DiskFull
                && end.measure_end > end.measure_begin =>
        {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    /// The rows that were kept of a run whose disk was full were divided by the whole duration.
    #[test]
    fn a_record_that_breaks_off_has_the_time_of_its_rows() {
        let at = Nanos::from_secs;
        let rows = [testing::row(0, at(1), at(3)), testing::row(1, at(2), at(5))];
        let mut state = testing::ended(at(0), at(40));
        let whole = span(&rows, &state).unwrap();
        assert_eq!((whole.begin, whole.end), (at(0), at(40)));
        if let RunState::Ended(end) = &mut state {
            end.stop = Stop::DiskFull;
        }
        let kept = span(&rows, &state).unwrap();
        assert_eq!((kept.begin, kept.end), (at(1), at(5)));
    }
}
