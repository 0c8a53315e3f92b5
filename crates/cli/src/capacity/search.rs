//! The search on the clock: measures the loads that [`tokometer_decide::search`] asks for.

use std::path::Path;

use tokometer_base::{Nanos, Seed, units};
use tokometer_decide::Slo;
use tokometer_decide::capacity::{Ending, Findings, LoadKind, MeasuredPoint};
use tokometer_decide::search::{
    Allowance, Climb, Design, Next, Point, PointLength, PointOutcome, SearchLimits, SearchOptions,
    Stage, UNLIMITED_POINTS, discard_preload, first_lengths, fit, least, needed, wait_trend,
    wanted, with_preload,
};
use tokometer_decide::slo::Objective;
use tokometer_plan::{Cache, Overload, Plan};
use tokometer_record::{RunInfo, RunState, Stop, Timeline};
use tokometer_report::capacity as views;

use super::CapacityArgs;
use super::time::SearchTime;
use crate::bench::{Destination, Earlier, KeptEvents, RunView, check_resumed, summarise_kept};
use crate::exit::{Refusal, RefusalKind};
use crate::lower::Lowered;
use crate::runs;
use crate::shards::{MadePoint, RunPart};
use crate::terminal::{print_message, print_note};

/// Points shorter than this end before an overloaded server's queue has grown.
const SHORT_POINT: Nanos = Nanos::from_secs(1);

/// A point, and why it has no success, if it has none.
type Measured = (MeasuredPoint, Option<String>);

/// What a point left behind: a run on disk, or a prediction.
pub(crate) struct PointRecord {
    pub(crate) info: RunInfo,
    pub(crate) timelines: Vec<Timeline>,
    pub(crate) state: RunState,
}

/// A search in progress.
pub(crate) struct CapacitySearch {
    /// The objectives.
    pub(crate) slo: Slo,
    over: LoadKind,
    limits: SearchLimits,
    length: PointLength,
    view: RunView,
    /// What bounds it besides its points; `None`: nothing.
    time: Option<SearchTime>,
    /// The time for which the points so far sent their load.
    sent: Nanos,
    /// Whether the warning of short points was printed.
    is_warned: bool,
    /// What becomes of the events of a point that was judged.
    pub(crate) events: KeptEvents,
    /// The points so far.
    pub(crate) readings: Vec<MeasuredPoint>,
    /// For each point, why it has no success, if it has none.
    dead: Vec<Option<String>>,
}

impl CapacitySearch {
    /// A search as it was asked for, or why it cannot be made.
    pub(crate) fn new(args: &CapacityArgs, lowered: &Lowered) -> Result<Self, Refusal> {
        let default = |seconds| Nanos::from_secs(seconds);
        let bounds = PointLength { shortest: default(10), longest: default(180) };
        Self::build(args, lowered, (args.start.unwrap_or(1.0), args.points.unwrap_or(20)), bounds)
    }

    /// A search that begins with the load `first` and ends in `time`.
    pub(crate) fn within(
        args: &CapacityArgs,
        lowered: &Lowered,
        (first, time): (f64, SearchTime),
    ) -> Result<Self, Refusal> {
        let rate = (args.over == super::Over::RequestRate).then_some(first);
        let bounds = first_lengths(time.left(), rate);
        let points = args.points.unwrap_or(UNLIMITED_POINTS);
        let mut search = Self::build(args, lowered, (first, points), bounds)?;
        if args.start.is_none() {
            search.limits.climb = Climb::Near;
        }
        Ok(Self { time: Some(time), ..search })
    }

    fn build(
        args: &CapacityArgs,
        lowered: &Lowered,
        (start, points): (f64, usize),
        bounds: PointLength,
    ) -> Result<Self, Refusal> {
        // The error brings its own hint.
        let slo = Slo::parse(&args.slo)
            .map_err(|why| Refusal::usage(format!("cannot use `--slo`: {why}"), ""))?;
        if let Some(goodput) = slo.goodput_alone() {
            let why = format!("`{}` needs a limit for a single request", goodput.text);
            let message = format!("cannot search with `--slo`: {why}");
            return Err(Refusal::usage(message, "add one, such as `p99 ttft < 2s`"));
        }
        let length = length(args, bounds)?;
        let resolution = units::parse_share(&args.resolution)
            .map_err(|why| Refusal::usage(format!("cannot use `--resolution`: {why}"), ""))?;
        let over = LoadKind::from(args.over);
        let (most, longest) = (args.max, length.longest);
        let options = SearchOptions { over, start, most, resolution, points, longest };
        if !options.is_sound() {
            return Err(Refusal::usage(
                "cannot search: `--start` and `--resolution` must be greater than zero, and `--max` at least `--start`",
                "",
            ));
        }
        let view = RunView::new(&lowered.plan.metrics)?.with_objectives(&slo);
        let limits = options.limits();
        let (readings, dead) = (Vec::new(), Vec::new());
        let (time, sent, events) = (None, Nanos::ZERO, KeptEvents::Plain);
        let is_warned = false;
        Ok(Self { slo, over, limits, length, view, time, sent, is_warned, events, readings, dead })
    }

    /// Prints how objectives are read whose words could mean something else.
    pub(super) fn say_objectives(&self) {
        for remark in self.slo.objectives.iter().filter_map(Objective::remark) {
            print_note(&format!("note: {remark}"));
        }
    }

    fn points(&self) -> Vec<Point> {
        self.readings.iter().map(MeasuredPoint::point).collect()
    }

    /// The next step, from the points so far.
    pub(crate) fn next(&self) -> Next {
        self.limits.next(&self.points())
    }

    /// Takes a point that was predicted.
    pub(crate) fn add(&mut self, at: (f64, Stage), record: PointRecord, folder: &Path) {
        let (reading, _dead) = self.judged(at, record, folder);
        self.readings.push(reading);
    }

    /// What the points show, once the search has ended.
    pub(crate) fn into_findings(self, args: &CapacityArgs, ending: Ending) -> Findings {
        let ending = match ending {
            Ending::Answered(result) if self.over == LoadKind::RequestRate => {
                Ending::Answered(result.down_to_served(&self.readings))
            }
            other => other,
        };
        let mut findings = Findings {
            over: self.over,
            slo: args.slo.clone(),
            ending,
            sentence: String::new(),
            gpus: args.gpus,
            requests_needed: needed(&self.slo),
            points: self.readings,
        };
        findings.sentence = findings.sentence();
        findings
    }

    /// Measures until the answer is known, a signal comes, or the server is gone.
    pub(crate) fn run(&mut self, plan: &Plan, part: &mut RunPart) -> Result<Ending, Refusal> {
        let is_resumed = part.earlier == Earlier::Resumed;
        loop {
            self.fit_into_time();
            let (load, stage) = match self.next() {
                Next::Done(answer) => return Ok(Ending::Answered(answer)),
                Next::Measure { load, stage } => (load, stage),
            };
            if self.is_late(with_preload(self.counted(load, stage))) {
                // Without a further point, what is known is the answer.
                self.limits = self.limits.with_points(self.readings.len());
                continue;
            }
            if let Some(text) = self.announcement() {
                print_note(&text);
            }
            let number = self.readings.len();
            let folder = part.place.path().join(format!("{number:03}-{}", load_name(load)));
            if is_resumed {
                part.role.recover(&folder)?;
            }
            let is_there = is_resumed && is_finished(&folder);
            let reading = if is_there {
                self.reading((load, stage), &folder)?
            } else if part.measurement.is_interrupted() {
                return Ok(Ending::Interrupted);
            } else {
                let length = with_preload(self.counted(load, stage));
                let words = format!("{} {}", load_name(load), self.over.unit());
                print_note(&views::point(number, &words, length));
                self.warn_of_short_points(length);
                self.sent += length;
                self.measure(part, &self.plan_of(plan, load, stage), (load, stage), &folder)?
            };
            if part.measurement.is_interrupted() {
                return Ok(Ending::Interrupted);
            }
            let (reading, dead) = reading;
            let fit = reading.fit;
            self.readings.push(reading);
            self.dead.push(dead);
            print_note(&self.course());
            if let Some(ending) = self.dead_end()? {
                return Ok(ending);
            }
            let waiting = || print_note("the server does not respond; waiting for it");
            let is_lost = fit == PointOutcome::Failed && !is_there;
            if is_lost && !part.measurement.wait_for_return(waiting) {
                return Ok(Ending::ServerGone);
            }
        }
    }

    /// Before the first point of the second stage of a search that ends in time: gives it as many points,
    /// of such a length, as fit.
    fn fit_into_time(&mut self) {
        let points = self.points();
        let Some((first, design)) = self.limits.second_stage(&points) else { return };
        let Some(time) = self.time.as_ref().filter(|_| points.len() == first) else { return };
        let rate = self.rate_near(&design);
        let bounds = (wanted(&self.slo, rate), least(&self.slo, rate, self.response_time()));
        let Some(stage) = time.second_stage((self.sent, first), bounds) else {
            // Points that end before the server's queue has filled would show a capacity that it does not
            // have. The bracket is what is known.
            if time.are_points_open && time.is_length_open {
                self.limits = self.limits.with_points(first);
                print_note(&views::no_estimate(bounds.1));
            }
            return;
        };
        if time.are_points_open {
            self.limits = self.limits.with_points(first + stage.points);
        }
        if time.is_length_open {
            self.length = PointLength { shortest: stage.counted, longest: stage.counted };
        }
    }

    /// Mean E2E in seconds at the highest load that met the objectives.
    fn response_time(&self) -> Option<f64> {
        let met = self.readings.iter().filter(|one| one.fit == PointOutcome::Met);
        met.max_by(|a, b| a.load.total_cmp(&b.load)).and_then(|one| one.e2e_s)
    }

    /// Whether a point of this length would end after the search has to.
    fn is_late(&self, length: Nanos) -> bool {
        let is_late = |time: &SearchTime| time.is_late(length, self.readings.len());
        !self.readings.is_empty() && self.time.as_ref().is_some_and(is_late)
    }

    /// After a point: its outcome, the bracket so far, and the time left.
    fn course(&self) -> String {
        let left = self.time.as_ref().map(SearchTime::left);
        views::course(&self.readings, self.over, left)
    }

    /// The end of a search whose server responds to nothing. One that fails at a load that is too high
    /// has had a success before, and only one point in a row without any.
    fn dead_end(&self) -> Result<Option<Ending>, Refusal> {
        let (Some(Some(why)), Some(last)) = (self.dead.last(), self.readings.last()) else {
            return Ok(None);
        };
        let at = format!("{} {}", load_name(last.load), self.over.unit());
        if self.dead.iter().all(Option::is_some) {
            let message = format!("no request succeeded at {at}: {why}");
            return Err(Refusal::new(RefusalKind::NoSuccess, message)
                .hint("`tokometer bench` with the same flags shows all failures"));
        }
        let is_second = self.dead.len() > 1 && self.dead[self.dead.len() - 2].is_some();
        Ok(is_second.then(|| Ending::NoSuccess { why: why.clone() }))
    }

    /// Measures the plan of the next point.
    fn measure(
        &self,
        part: &mut RunPart,
        plan: &Plan,
        (load, stage): (f64, Stage),
        folder: &Path,
    ) -> Result<Measured, Refusal> {
        let RunPart { role, earlier, measurement, .. } = part;
        let number = u32::try_from(self.readings.len()).unwrap_or(u32::MAX);
        let destination = Destination { folder, earlier: *earlier };
        match role.make(measurement, plan, number, destination) {
            // A part of the load was not sent: the point, and every later one, would describe less.
            Ok(MadePoint { end, .. }) if end.stop == Stop::ShardsLost => {
                let message = "cannot continue the search: a shard was lost";
                Err(Refusal::new(RefusalKind::Points, message)
                    .hint("start all shards again with `--resume`; complete points are kept"))
            }
            // An interrupted point does not describe its load.
            Ok(MadePoint { write_failure: Some(why), .. }) => {
                Err(Refusal::new(RefusalKind::Write, why.to_string())
                    .hint("free some space and continue with `--resume`"))
            }
            Ok(_measured) => {
                measurement.wait_until_idle();
                let reading = self.reading((load, stage), folder)?;
                self.events.settle(folder);
                Ok(reading)
            }
            // The first point shows whether the server can be reached at all.
            Err(error) if self.readings.is_empty() => Err(error),
            Err(error) => {
                if !measurement.is_interrupted() {
                    print_message(&format!("error: point failed: {error}"));
                }
                Ok((MeasuredPoint::failed(load, stage, folder), Some(error.message)))
            }
        }
    }

    /// The time of a point that counts.
    fn counted(&self, load: f64, stage: Stage) -> Nanos {
        let rate = (self.over == LoadKind::RequestRate).then_some(load);
        self.length.next(&self.slo, stage, rate)
    }

    /// Says once that points are too short for an answer to rely on.
    fn warn_of_short_points(&mut self, length: Nanos) {
        if length >= SHORT_POINT || std::mem::replace(&mut self.is_warned, true) {
            return;
        }
        let flag = match &self.time {
            Some(time) if time.is_length_open => "--budget",
            _ => "--max-duration",
        };
        print_note(&views::short_points(flag));
    }

    /// Requests per second in the second stage.
    fn rate_near(&self, design: &Design) -> Option<f64> {
        match self.over {
            LoadKind::RequestRate => Some(design.centre),
            // Of a closed loop the first stage shows the rate.
            LoadKind::Concurrency => self.readings.last().and_then(|one| one.requests_per_s),
        }
    }

    /// Before the first point of the second stage: its loads, its time, and the margin to expect.
    fn announcement(&self) -> Option<String> {
        let points = self.points();
        let (first, design) = self.limits.second_stage(&points)?;
        if points.len() != first {
            return None;
        }
        let counted: Vec<Nanos> =
            design.loads.iter().map(|load| self.counted(*load, Stage::Estimate)).collect();
        let total: f64 = counted.iter().map(|one| with_preload(*one).as_secs_f64()).sum();
        let requests = self.rate_near(&design).map(|rate| {
            rate * counted.iter().map(|one| one.as_secs_f64()).sum::<f64>() / counted.len() as f64
        });
        let expected =
            requests.and_then(|requests| design.expected(&points[..first], requests, &self.limits));
        let more = match &self.time {
            Some(time) if time.are_points_open => "`--budget`",
            _ => "`--points` or `--max-duration`",
        };
        Some(views::second_stage(&design, self.over, (total, more), expected))
    }

    /// Before the first point of a search that ends in time: prints the margin to expect on a server that
    /// completes at most `rate` requests per second, and what the asked one would take.
    pub(super) fn say_forecast(&self, budget: Nanos, rate: Option<f64>) {
        let (Some(time), Some(rate)) = (&self.time, rate) else { return };
        let found = self.limits.forecast(&self.slo, time.forecast_span(budget), rate);
        if let Some(found) = found {
            print_note(&views::forecast(&found, self.limits.resolution, rate));
        }
    }

    /// The plan of one point, long enough for the percentiles of the objectives.
    pub(crate) fn plan_of(&self, plan: &Plan, load: f64, stage: Stage) -> Plan {
        let duration = with_preload(self.counted(load, stage));
        self.numbered(plan, (load, self.readings.len()), Some(duration.as_secs_f64()))
    }

    /// The plan of the point of this number: its load, and its own arrivals, because repeated arrivals
    /// would repeat the same random deviation instead of averaging it.
    fn numbered(&self, plan: &Plan, (load, number): (f64, usize), duration_s: Option<f64>) -> Plan {
        let mut plan = plan.clone();
        plan.load = plan.load.at(self.over, load);
        plan.load.duration_s = duration_s;
        plan.load.num_prompts = None;
        plan.load.overload = Overload::Stop;
        plan.seed = Seed(plan.seed).stream("point").draw(number as u64);
        plan.phases.cache = Cache::Flush;
        plan
    }

    /// Refuses a folder with points of another plan, target or dataset: an answer of both would be about
    /// neither. How long a point was may differ, because more time is a reason to resume.
    pub(super) fn check_stored(&self, plan: &Plan, place: &Path) -> Result<(), Refusal> {
        for folder in runs::points(place) {
            let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let Some(number) = name.split('-').next().and_then(|number| number.parse().ok()) else {
                continue;
            };
            let mut meant = plan.clone();
            if let Ok(stored) = Plan::of(runs::open(&folder)?.info()) {
                let load = match self.over {
                    LoadKind::RequestRate => stored.load.request_rate.0,
                    LoadKind::Concurrency => stored.load.max_concurrency.map_or(0.0, f64::from),
                };
                meant = self.numbered(plan, (load, number), stored.load.duration_s);
            }
            check_resumed(&folder, &meant)?;
        }
        Ok(())
    }

    /// What a finished run says about the objectives.
    fn reading(&self, at: (f64, Stage), folder: &Path) -> Result<Measured, Refusal> {
        let reader = runs::open(folder)?;
        let record = PointRecord {
            info: reader.info().clone(),
            timelines: runs::timelines(&reader)?.collect(),
            state: reader.state().map_err(runs::unreadable)?,
        };
        Ok(self.judged(at, record, folder))
    }

    /// The objectives at a point, without its preload.
    fn judged(&self, (load, stage): (f64, Stage), record: PointRecord, folder: &Path) -> Measured {
        let PointRecord { info, mut timelines, mut state } = record;
        if let (Some(from), RunState::Ended(end)) = (discard_preload(&mut timelines), &mut state) {
            end.measure_begin = from.clamp(end.measure_begin, end.measure_end);
        }
        let cap = info.load.max_concurrency;
        let shown = summarise_kept(info, &timelines, &state, &self.view);
        let mut allowance = Allowance::new(&self.slo);
        for timeline in &timelines {
            allowance.push(timeline);
        }
        let stop = match &state {
            RunState::Ended(end) => Some(end.stop),
            RunState::Killed { .. } => None,
        };
        let trend = wait_trend(&timelines, self.slo.wait_limit(cap));
        let fit = fit(&self.slo, &shown.summary, stop, trend);
        let reading =
            MeasuredPoint::new((load, stage, fit), &self.slo, &shown.summary, &allowance, folder);
        let is_dead = shown.summary.counts.succeeded == 0;
        (reading, is_dead.then(|| shown.first_failure()))
    }
}

/// The bounds of a point's length: as typed, otherwise `bounds`.
fn length(args: &CapacityArgs, bounds: PointLength) -> Result<PointLength, Refusal> {
    let span = |flag: &str, text: &Option<String>, open: Nanos| {
        let Some(text) = text else { return Ok(open) };
        let refused = |why: String| {
            let message = format!("cannot use `{flag} {text}`: {why}");
            Refusal::usage(message, format!("try `{flag} 60s`"))
        };
        match units::parse_span(text, Nanos::from_secs(1)) {
            Err(why) => Err(refused(why.to_string())),
            Ok(Nanos::ZERO) => Err(refused("it must be a time greater than zero".to_owned())),
            Ok(span) => Ok(span),
        }
    };
    let longest = span("--max-duration", &args.max_duration, bounds.longest)?;
    let shortest = span("--min-duration", &args.min_duration, bounds.shortest)?;
    if let Some(text) = args.max_duration.as_ref().filter(|_| longest < shortest) {
        let message = format!(
            "cannot use `--max-duration {text}`: a point lasts at least {shortest} (`--min-duration`)"
        );
        return Err(Refusal::usage(
            message,
            format!("add `--min-duration {text}`, or use a longer time"),
        ));
    }
    Ok(PointLength { shortest, longest: longest.max(shortest) })
}

fn stop(folder: &Path) -> Option<Stop> {
    runs::end(folder).map(|end| end.stop)
}

/// Whether a folder holds a point that need not be measured again. One that ended because of
/// overload is complete.
fn is_finished(folder: &Path) -> bool {
    matches!(stop(folder), Some(Stop::Complete | Stop::Overloaded))
}

fn load_name(load: f64) -> String {
    let text = format!("{load:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_name_their_folders_without_needless_digits() {
        assert_eq!(load_name(12.0), "12");
        assert_eq!(load_name(0.125), "0.125");
    }
}
