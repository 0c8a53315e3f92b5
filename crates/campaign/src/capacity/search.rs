//! The search: asks for the loads that [`tokometer_decide::search`] names.

use std::path::{Path, PathBuf};

use tokometer_base::refusal::{Refusal, RefusalKind};
use tokometer_base::{Nanos, Seed};
use tokometer_decide::Slo;
use tokometer_decide::capacity::{
    Ending, Findings, FinerSearch, LoadKind, MeasuredPoint, SentLoad,
};
use tokometer_decide::compare::Half;
use tokometer_decide::search::{
    Allowance, Climb, Design, Next, Point, PointLength, PointOutcome, SearchLimits, SearchResult,
    SeenMost, Stage, UNLIMITED_POINTS, discard_preload, first_lengths, fit, least, needed,
    wait_trend, wanted, with_preload,
};
use tokometer_decide::staircase::StairStep;
use tokometer_figures::windows::{PartRates, rates_in, sent_rate};
use tokometer_figures::{Collector, Quantity, Summary, SummaryOptions};
use tokometer_plan::{Cache, Overload, Plan};
use tokometer_record::RunState;
use tokometer_record::stored::{self, open, points};

use super::start::{self, STAIRS, first_load};
use super::time::{CountedTime, SearchTime, TimeSpent};
use crate::driver::{Procedure, Step};
use crate::event::{Event, Observer, SearchEvent, problem};
use crate::executor::RunRecord;
use crate::folder::load_name;
use crate::kept_events::KeptEvents;
use crate::outcome::{Fate, Outcome, PlannedRun, Reading, RunRest};
use crate::staircase::{Climbed, Stairs};
use crate::stored::check_stored_run;

/// The bounds of a point's length; absent: the usual ones.
#[derive(Debug, Clone, Default)]
pub struct SearchBounds {
    pub shortest: Option<Nanos>,
    pub longest: Option<Nanos>,
    /// The longest time as typed.
    pub longest_text: String,
}

impl SearchBounds {
    fn length(&self, usual: PointLength) -> Result<PointLength, Refusal> {
        let longest = self.longest.unwrap_or(usual.longest);
        let shortest = self.shortest.unwrap_or(usual.shortest);
        if self.longest.is_some() && longest < shortest {
            let text = &self.longest_text;
            let message = format!(
                "cannot use `--max-duration {text}`: a point lasts at least {shortest} (`--min-duration`)"
            );
            let hint = format!("add `--min-duration {text}`, or use a longer time");
            return Err(Refusal::usage(message, hint));
        }
        Ok(PointLength { shortest, longest: longest.max(shortest) })
    }
}

/// What is searched for, and within which limits.
#[derive(Debug, Clone)]
pub struct SearchSetting {
    pub slo: Slo,
    /// The same as typed.
    pub slo_text: String,
    pub over: LoadKind,
    /// First load; absent: 1, or with a budget one near the knee of a staircase.
    pub start: Option<f64>,
    /// Highest load.
    pub most: f64,
    /// Half width of the interval to aim for, as a share.
    pub resolution: f64,
    /// Most points; absent: 20, or with a budget as many as fit.
    pub points: Option<usize>,
    pub bounds: SearchBounds,
    /// Devices behind the endpoint.
    pub gpus: Option<u32>,
    /// Time of the whole search; absent: its points bound it.
    pub budget: Option<Nanos>,
    /// When that time begins, on the executor's clock.
    pub begin: Nanos,
    /// Every point's plan but for its load.
    pub plan: Plan,
    pub folder: PathBuf,
    /// Figures of each point, with those of the objectives.
    pub figures: SummaryOptions,
    /// What becomes of the events of judged points.
    pub kept_events: KeptEvents,
    /// The steps of a staircase that an earlier session has climbed.
    pub stairs: Option<Vec<StairStep>>,
}

#[derive(Debug, Clone, Copy)]
struct AskedPoint {
    load: f64,
    stage: Stage,
}

pub struct Search {
    setting: SearchSetting,
    limits: SearchLimits,
    length: PointLength,
    /// What bounds it besides its points; `None`: nothing.
    time: Option<SearchTime>,
    /// Climbed before the first point.
    stairs: Option<Stairs>,
    /// Runs that were steps of the staircase; `None` until they are known.
    stair_runs: Option<usize>,
    asked: Option<AskedPoint>,
    points: Vec<MeasuredPoint>,
    /// For each point, why it has no success, if it has none.
    dead: Vec<Option<String>>,
}

impl Search {
    /// A search as it was asked for, or why it cannot be made.
    pub fn new(setting: SearchSetting) -> Result<Self, Refusal> {
        if let Some(goodput) = setting.slo.goodput_alone() {
            let why = format!("`{}` needs a limit for a single request", goodput.text);
            let message = format!("cannot search with `--slo`: {why}");
            return Err(Refusal::usage(message, "add one, such as `p99 ttft < 2s`"));
        }
        let usual = PointLength { shortest: Nanos::from_secs(10), longest: Nanos::from_secs(180) };
        let length = setting.bounds.length(usual)?;
        let (start, most) = (setting.start.unwrap_or(1.0), setting.points.unwrap_or(20));
        let limits = limits(&setting, start, most, length)?;
        // A staircase of requests in flight says little about sessions, which mostly pause.
        let has_stairs = setting.start.is_none() && setting.over != LoadKind::Sessions;
        let climbs = setting.budget.filter(|_| has_stairs && setting.stairs.is_none());
        let stairs = climbs.map(|budget| Stairs {
            staircase: start::staircase(budget),
            plan: setting.plan.clone(),
            folder: setting.folder.join(STAIRS),
            figures: setting.figures.clone(),
            kept_events: setting.kept_events,
            begin: setting.begin,
        });
        Ok(Self {
            setting,
            limits,
            length,
            time: None,
            stairs,
            stair_runs: None,
            asked: None,
            points: Vec::new(),
            dead: Vec::new(),
        })
    }

    pub fn slo(&self) -> &Slo {
        &self.setting.slo
    }

    fn decided(&self) -> Vec<Point> {
        self.points.iter().map(MeasuredPoint::point).collect()
    }

    /// What the points show, once the search has ended.
    fn findings(&mut self, ending: Ending) -> Step<Findings> {
        let SearchSetting { over, slo_text, gpus, .. } = &self.setting;
        let ending = match ending {
            Ending::Answered(result) if *over == LoadKind::RequestRate => {
                Ending::Answered(result.down_to_served(&self.points))
            }
            other => other,
        };
        let held =
            self.points.last().filter(|last| last.stage == Stage::Hold && last.point().is_met());
        let held = held.map(MeasuredPoint::sent);
        let finer = self.finer(&ending);
        let mut findings = Findings {
            over: *over,
            slo: slo_text.clone(),
            ending,
            sentence: String::new(),
            gpus: *gpus,
            points: std::mem::take(&mut self.points),
            held,
            finer,
        };
        findings.sentence = findings.sentence();
        Step::Finished(findings)
    }

    /// The budget with which the estimate would be as precise as was asked for: a margin falls with the root
    /// of the time.
    fn finer(&self, ending: &Ending) -> Option<FinerSearch> {
        let Ending::Answered(SearchResult::Found { load, margin, .. }) = ending else {
            return None;
        };
        let (budget, resolution) = (self.setting.budget?, self.limits.resolution);
        let effort = ((*margin)? / load / resolution).powi(2);
        let seconds = budget.as_secs_f64() * effort;
        (effort > 1.0).then_some(FinerSearch { resolution, seconds })
    }

    /// Begins the search proper at `now`, in the time that is left.
    fn begin(
        &mut self,
        steps: Option<&[StairStep]>,
        now: Nanos,
        observer: &mut dyn Observer,
    ) -> Result<(), Refusal> {
        let Some(budget) = self.setting.budget else { return Ok(()) };
        let (over, most) = (self.setting.over, self.setting.most);
        let (load, seen) = match (self.setting.start, steps) {
            (Some(load), _) => {
                let seen = SeenMost { rate: load, response_s: None };
                (load, (over == LoadKind::RequestRate).then_some(seen))
            }
            (None, steps) => {
                let steps = steps.unwrap_or_default();
                (first_load(steps, over).clamp(most.min(0.1), most), start::most(steps))
            }
        };
        let time = SearchTime {
            begin: now,
            end: self.setting.begin + budget,
            are_points_open: self.setting.points.is_none(),
            is_length_open: self.setting.bounds.longest.is_none(),
        };
        let first = (over == LoadKind::RequestRate).then_some(load);
        self.length = self.setting.bounds.length(first_lengths(time.left(now), first))?;
        let points = self.setting.points.unwrap_or(UNLIMITED_POINTS);
        self.limits = limits(&self.setting, load, points, self.length)?;
        if self.setting.start.is_none() {
            self.limits.climb = Climb::Near;
        }
        self.time = Some(time);
        let left = time.left(now);
        let span = (budget.saturating_sub(left), left);
        let Some(SeenMost { rate, .. }) = seen else { return Ok(()) };
        let slo = &self.setting.slo;
        let forecast = seen.and_then(|seen| self.limits.forecast(slo, span, seen));
        let Some(forecast) = &forecast else { return Ok(()) };
        let (resolution, needed) = (self.limits.resolution, needed(slo));
        let said = SearchEvent::Forecast { forecast, resolution, rate, needed };
        observer.event(Event::Search(said))
    }

    /// The next step of the staircase; `None` once there is none.
    fn climb(
        &mut self,
        done: &[Outcome],
        now: Nanos,
        observer: &mut dyn Observer,
    ) -> Result<Option<Step<Findings>>, Refusal> {
        if self.stair_runs.is_some() {
            return Ok(None);
        }
        let climbed = match self.stairs.as_mut() {
            None => None,
            Some(stairs) => {
                if done.is_empty() {
                    stairs.begin = now;
                    let budget = stairs.staircase.budget;
                    observer.event(Event::Search(SearchEvent::FirstLoad(budget)))?;
                }
                match stairs.next(done, observer)? {
                    Step::Run(run) => return Ok(Some(Step::Run(run))),
                    Step::AwaitServer => return Ok(Some(Step::AwaitServer)),
                    Step::Finished(climbed) => Some(climbed),
                }
            }
        };
        if let Some(climbed) = &climbed {
            let (steps, end) = (climbed.steps.as_slice(), climbed.end);
            observer.event(Event::StairsDone { steps, end })?;
        }
        if climbed.as_ref().is_some_and(Climbed::is_dead) {
            return Err(no_success("in the staircase"));
        }
        self.stair_runs = Some(done.len());
        let steps = climbed.map(|climbed| climbed.steps).or(self.setting.stairs.clone());
        self.begin(steps.as_deref(), now, observer)?;
        Ok(None)
    }

    /// Takes the point that was measured last.
    fn take(&mut self, last: &Outcome, observer: &mut dyn Observer) -> Result<(), Refusal> {
        let Some(AskedPoint { load, stage }) = self.asked.take() else { return Ok(()) };
        let (point, dead) = match &last.reading {
            Ok(reading) => {
                refuse_partial(reading)?;
                let summary = reading.sides.first().map(|side| &side.summary);
                let dead = summary.filter(|summary| summary.counts.succeeded == 0);
                let point = reading.point.clone();
                let point =
                    point.unwrap_or_else(|| MeasuredPoint::failed(load, stage, &last.run.folder));
                (point, dead.map(first_failure))
            }
            // The first point shows whether the server can be reached at all.
            Err(refusal) if self.points.is_empty() => return Err(refusal.clone()),
            Err(refusal) => {
                problem(observer, format!("error: point failed: {refusal}"));
                let failed = MeasuredPoint::failed(load, stage, &last.run.folder);
                (failed, Some(refusal.message.clone()))
            }
        };
        self.points.push(point);
        self.dead.push(dead);
        let left = self.time.map(|time| time.left(last.ended));
        let (points, over) = (self.points.as_slice(), self.setting.over);
        observer.event(Event::Search(SearchEvent::Course { points, over, left }))
    }

    /// Before the first point of the second stage of a search that ends in time: gives it as many points, of
    /// such a length, as fit. Before the first of the third: gives its runs the rest.
    fn fit_into_time(
        &mut self,
        done: &[Outcome],
        now: Nanos,
        observer: &mut dyn Observer,
    ) -> Result<(), Refusal> {
        let points = self.decided();
        let Some((first, design)) = self.limits.second_stage(&points) else { return Ok(()) };
        let Some(time) = self.time else { return Ok(()) };
        let (slo, rate) = (&self.setting.slo, self.rate_near(&design));
        let counted = CountedTime {
            wanted: wanted(slo, rate),
            least: least(slo, rate, self.response_time()),
        };
        let fresh = done.iter().filter(|outcome| !outcome.is_stored);
        let seconds = fresh.map(|outcome| outcome.run.plan.load.duration_s.unwrap_or(0.0)).sum();
        let spent = TimeSpent { sent: Nanos::from_secs_f64(seconds), points: points.len() };
        if points.len() == first + design.loads.len() && time.is_length_open {
            let counted = time.hold_length(now, spent, counted);
            self.length = PointLength { shortest: counted, longest: counted };
        }
        if points.len() != first {
            return Ok(());
        }
        let Some(stage) = time.second_stage(now, spent, counted) else {
            // Points that end before the server's queue has filled would show a capacity that it does not
            // have. The bracket is what is known.
            if time.are_points_open && time.is_length_open {
                self.limits = self.limits.with_points(first);
                observer.event(Event::Search(SearchEvent::NoEstimate(counted.least)))?;
            }
            return Ok(());
        };
        if time.are_points_open {
            self.limits = self.limits.with_points(first + stage.points);
        }
        if time.is_length_open {
            self.length = PointLength { shortest: stage.counted, longest: stage.counted };
        }
        Ok(())
    }

    /// Mean E2E in seconds at the highest load that met the objectives.
    fn response_time(&self) -> Option<f64> {
        let met = self.points.iter().filter(|one| one.fit == PointOutcome::Met);
        met.max_by(|a, b| a.load.total_cmp(&b.load)).and_then(|one| one.e2e_s)
    }

    /// The end of a search whose server responds to nothing. One that fails at a load that is too high has had
    /// a success before, and only one point in a row without any.
    fn dead_end(&self) -> Result<Option<Ending>, Refusal> {
        let (Some(Some(why)), Some(last)) = (self.dead.last(), self.points.last()) else {
            return Ok(None);
        };
        if self.dead.iter().all(Option::is_some) {
            return Err(no_success(&format!("at {}: {why}", self.load_words(last.load))));
        }
        let is_second = self.dead.len() > 1 && self.dead[self.dead.len() - 2].is_some();
        Ok(is_second.then(|| Ending::NoSuccess { why: why.clone() }))
    }

    fn load_words(&self, load: f64) -> String {
        format!("{} {}", load_name(load), self.setting.over.unit())
    }

    /// The time of a point that counts.
    fn counted(&self, load: f64, stage: Stage) -> Nanos {
        let rate = (self.setting.over == LoadKind::RequestRate).then_some(load);
        self.length.next(&self.setting.slo, stage, rate)
    }

    /// Requests per second in the second stage.
    fn rate_near(&self, design: &Design) -> Option<f64> {
        match self.setting.over {
            LoadKind::RequestRate => Some(design.centre),
            // Of a closed loop the first stage shows the rate.
            LoadKind::Concurrency | LoadKind::Sessions => {
                self.points.last().and_then(|one| one.requests_per_s)
            }
        }
    }

    /// Before the first point of the second stage: its loads, its time, and the margin to expect.
    fn announce(&self, observer: &mut dyn Observer) -> Result<(), Refusal> {
        let points = self.decided();
        let Some((first, design)) = self.limits.second_stage(&points) else { return Ok(()) };
        if points.len() != first {
            return Ok(());
        }
        let counted: Vec<Nanos> =
            design.loads.iter().map(|load| self.counted(*load, Stage::Estimate)).collect();
        let seconds: f64 = counted.iter().map(|one| with_preload(*one).as_secs_f64()).sum();
        let requests = self.rate_near(&design).map(|rate| {
            rate * counted.iter().map(|one| one.as_secs_f64()).sum::<f64>() / counted.len() as f64
        });
        let expected =
            requests.and_then(|requests| design.expected(&points[..first], requests, &self.limits));
        let more = match &self.time {
            Some(time) if time.are_points_open => "`--budget`",
            _ => "`--points` or `--max-duration`",
        };
        let (design, over) = (&design, self.setting.over);
        let stage = SearchEvent::SecondStage { design, over, seconds, more, expected };
        observer.event(Event::Search(stage))
    }

    /// Before the first run that is to hold a load.
    fn announce_third(&self, stage: Stage, observer: &mut dyn Observer) -> Result<(), Refusal> {
        let is_first = self.points.last().is_some_and(|last| last.stage != Stage::Hold);
        if stage != Stage::Hold || !is_first {
            return Ok(());
        }
        let without = SearchLimits { holds: false, ..self.limits };
        let Next::Done(answer) = without.next(&self.decided()) else { return Ok(()) };
        let Some(estimate) = answer.words(self.setting.over) else { return Ok(()) };
        let load = self.points.last().map_or(0.0, |last| last.load);
        let counted = self.counted(load, stage);
        observer.event(Event::Search(SearchEvent::ThirdStage { estimate: &estimate, counted }))
    }

    /// The run of the next point, long enough for the percentiles of the objectives.
    fn run(&self, load: f64, stage: Stage) -> PlannedRun {
        let number = self.points.len();
        let seconds = with_preload(self.counted(load, stage)).as_secs_f64();
        PlannedRun {
            number: u32::try_from(number).unwrap_or(u32::MAX),
            label: self.load_words(load),
            folder: self.setting.folder.join(format!("{number:03}-{}", load_name(load))),
            plan: self.numbered(load, number, Some(seconds)),
            figures: self.setting.figures.clone(),
            kept_events: self.setting.kept_events,
            rest: RunRest::UntilIdle,
        }
    }

    /// The plan of the point of this number: its load, and its own arrivals, because repeated arrivals would
    /// repeat the same random deviation instead of averaging it.
    fn numbered(&self, load: f64, number: usize, duration_s: Option<f64>) -> Plan {
        let mut plan = self.setting.plan.clone();
        plan.load = plan.load.at(self.setting.over, load);
        plan.load.duration_s = duration_s;
        // Sessions must end within the run, so that their number is the plan's.
        plan.load.num_prompts.take_if(|_| self.setting.over != LoadKind::Sessions);
        plan.load.overload = Overload::Stop;
        plan.seed = Seed(plan.seed).stream("point").draw(number as u64);
        plan.phases.cache = Cache::Flush;
        plan
    }

    /// Refuses a folder with points of another plan, target or dataset: an answer of both would be about
    /// neither. How long a point was may differ, because more time is a reason to resume.
    pub fn check_stored(&self) -> Result<(), Refusal> {
        for folder in points(&self.setting.folder) {
            let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let Some(number) = name.split('-').next().and_then(|number| number.parse().ok()) else {
                continue;
            };
            let mut meant = self.setting.plan.clone();
            if let Ok(stored) = stored_plan(&folder)? {
                let load = match self.setting.over {
                    LoadKind::RequestRate => stored.load.request_rate.0,
                    LoadKind::Concurrency => stored.load.max_concurrency.map_or(0.0, f64::from),
                    LoadKind::Sessions => stored.load.max_sessions.map_or(0.0, f64::from),
                };
                meant = self.numbered(load, number, stored.load.duration_s);
            }
            check_stored_run(&folder, &meant)?;
        }
        // The steps of its staircase differ in their load alone.
        for folder in points(&self.setting.folder.join(STAIRS)) {
            let mut meant = self.setting.plan.clone();
            if let Ok(stored) = stored_plan(&folder)? {
                meant.load = stored.load;
            }
            check_stored_run(&folder, &meant)?;
        }
        Ok(())
    }

    /// The objectives at a point, without its preload.
    fn judged(
        &self,
        asked: AskedPoint,
        run: &PlannedRun,
        record: &RunRecord,
    ) -> Result<Reading, Refusal> {
        let AskedPoint { load, stage } = asked;
        let (slo, info) = (&self.setting.slo, record.reader.info());
        let (mut timelines, mut end) =
            (stored::timelines(&record.reader)?.collect::<Vec<_>>(), record.end.clone());
        // What was sent before the window fills the queue in it, so the load is that of the whole sending.
        let sent = sent_rate(&timelines).filter(|_| self.setting.over == LoadKind::RequestRate);
        // A session belongs to the window with all of its turns, those of the preload included.
        let window = match self.setting.over {
            LoadKind::Sessions => None,
            _ => discard_preload(&mut timelines),
        };
        let rates = window.and_then(|window| rates_in(&timelines, window));
        if let Some(window) = window {
            end.measure_begin = window.begin.clamp(end.measure_begin, end.measure_end);
        }
        let stop = end.stop;
        let mut collector = Collector::new(info, self.setting.figures.clone());
        let mut allowance = Allowance::new(slo);
        for timeline in &timelines {
            collector.push(timeline);
            allowance.push(timeline);
        }
        let finished = collector.finish(&RunState::Ended(Box::new(end)));
        let mut summary = tokometer_judge::judge(finished);
        if let Some(rates) = rates {
            put_rates(&mut summary, rates);
        }
        let trend = wait_trend(
            &timelines,
            slo.wait_limit(info.load.max_sessions.or(info.load.max_concurrency)),
        );
        let fit = fit(slo, &summary, Some(stop), trend);
        let point = MeasuredPoint::new(
            (SentLoad { asked: load, sent: sent.unwrap_or(load) }, stage, fit),
            slo,
            &summary,
            &allowance,
            record.reader.folder(),
        );
        let side = Half { info: info.clone(), summary };
        Ok(Reading { point: Some(point), ..Reading::judged(run, record, vec![side]) })
    }
}

impl Procedure for Search {
    type Findings = Findings;

    /// Measures until the answer is known, a signal comes, or the server is gone.
    fn next(
        &mut self,
        done: &[Outcome],
        observer: &mut dyn Observer,
    ) -> Result<Step<Findings>, Refusal> {
        let now = done.last().map_or(self.setting.begin, |last| last.ended);
        if let Some(step) = self.climb(done, now, observer)? {
            return Ok(step);
        }
        if done.last().is_some_and(|last| last.is_interrupted) {
            return Ok(self.findings(Ending::Interrupted));
        }
        let done = &done[self.stair_runs.unwrap_or(0)..];
        if let Some(last) = done.last() {
            self.take(last, observer)?;
            if let Some(ending) = self.dead_end()? {
                return Ok(self.findings(ending));
            }
            let is_failed = self.points.last().is_some_and(|one| one.fit == PointOutcome::Failed);
            match last.is_server_back {
                None if is_failed && !last.is_stored => return Ok(Step::AwaitServer),
                Some(false) => return Ok(self.findings(Ending::ServerGone)),
                _ => {}
            }
        }
        self.fit_into_time(done, now, observer)?;
        loop {
            let (load, stage) = match self.limits.next(&self.decided()) {
                Next::Done(answer) => return Ok(self.findings(Ending::Answered(answer))),
                Next::Measure { load, stage } => (load, stage),
            };
            let length = with_preload(self.counted(load, stage));
            let is_late = self.time.is_some_and(|time| time.is_late(length, now));
            if is_late && !self.points.is_empty() {
                // Without a further point, what is known is the answer.
                match stage {
                    Stage::Hold => self.limits.holds = false,
                    _ => self.limits = self.limits.with_points(self.points.len()),
                }
                continue;
            }
            self.announce(observer)?;
            self.announce_third(stage, observer)?;
            self.asked = Some(AskedPoint { load, stage });
            return Ok(Step::Run(Box::new(self.run(load, stage))));
        }
    }

    fn read(&self, run: &PlannedRun, record: &RunRecord) -> Result<Reading, Refusal> {
        match self.asked {
            Some(asked) => self.judged(asked, run, record),
            None => Stairs::reading(run, record),
        }
    }
}

/// A load this many times below the first one is still tried.
const BELOW_START: f64 = 64.0;
/// Requests that the longest point sends at least, so that the least load still says something.
const LEAST_REQUESTS: f64 = 20.0;

/// The limits of a search from this load. Requests in flight are whole numbers; a rate is at least so high
/// that the longest point has some requests.
fn limits(
    setting: &SearchSetting,
    start: f64,
    points: usize,
    length: PointLength,
) -> Result<SearchLimits, Refusal> {
    let SearchSetting { over, most, resolution, .. } = *setting;
    if !(start > 0.0 && most >= start && resolution > 0.0) {
        return Err(Refusal::usage(
            "cannot search: `--start` and `--resolution` must be greater than zero, and `--max` at least `--start`",
            "",
        ));
    }
    let is_whole = over.is_closed();
    let least = (start / BELOW_START).max(LEAST_REQUESTS / length.longest.as_secs_f64());
    let least = if is_whole { 1.0 } else { least.min(start) };
    let (climb, holds) = (Climb::Far, true);
    Ok(SearchLimits { start, least, most, resolution, points, holds, is_whole, climb })
}

/// Gives the figures per second of a point their values without fill and drain.
fn put_rates(summary: &mut Summary, rates: PartRates) {
    use Quantity::{GoodputRate, Items, Output, Prompt, Requests, Total};
    let whole = summary.figure(Requests).filter(|rate| *rate > 0.0);
    let factor = whole.map_or(1.0, |whole| rates.answered / whole);
    let mut put = |quantity: Quantity, value: &dyn Fn(f64) -> f64| {
        if let Some(Some(figure)) = summary.figures.get_mut(quantity.key()) {
            *figure = value(*figure);
        }
    };
    for quantity in [Prompt, Total, Items, GoodputRate] {
        put(quantity, &|figure| figure * factor);
    }
    put(Requests, &|_| rates.answered);
    put(Output, &|_| rates.output_tokens);
}

/// A part of the load was not sent, or not recorded: the point, and every later one, would describe less.
fn refuse_partial(reading: &Reading) -> Result<(), Refusal> {
    if let Some(why) = &reading.write_failure {
        return Err(Refusal::new(RefusalKind::Write, why.clone())
            .hint("free some space and continue with `--resume`"));
    }
    if reading.fate == Fate::ShardsLost {
        let message = "cannot continue the search: a shard was lost";
        return Err(Refusal::new(RefusalKind::Points, message)
            .hint("start all shards again with `--resume`; complete points are kept"));
    }
    Ok(())
}

/// The end of a search in which nothing has succeeded.
fn no_success(place: &str) -> Refusal {
    Refusal::new(RefusalKind::NoSuccess, format!("no request succeeded {place}"))
        .hint("`tokometer bench` with the same flags shows all failures")
}

/// The most frequent failure, in the server's words.
fn first_failure(summary: &Summary) -> String {
    let Some(group) = summary.failures.first() else { return "none was sent".to_owned() };
    let status = group.status.map(|status| format!(" (status {status})")).unwrap_or_default();
    let kind = group.kind.describe();
    format!("{} of them failed with: {kind}{status}: {}", group.count, group.example)
}

/// The plan of a stored run; the inner error is one of another version.
fn stored_plan(folder: &Path) -> Result<Result<Plan, String>, Refusal> {
    Ok(Plan::of(open(folder)?.info()).map_err(|why| why.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::search_setting;

    #[test]
    fn the_least_rate_still_fills_the_longest_point_and_flights_are_whole() {
        let found = |over, start: f64, longest: u64| {
            let setting = SearchSetting { over, most: 100.0, ..search_setting(None) };
            let [shortest, longest] = [1, longest].map(Nanos::from_secs);
            let limits = limits(&setting, start, 20, PointLength { shortest, longest });
            limits.map(|limits| (limits.least, limits.is_whole))
        };
        let rate = LoadKind::RequestRate;
        assert_eq!(found(rate, 6.4, 10).unwrap(), (2.0, false));
        assert_eq!(found(rate, 6.4, 1_000).unwrap(), (0.1, false));
        assert_eq!(found(rate, 0.5, 10).unwrap(), (0.5, false));
        assert_eq!(found(LoadKind::Concurrency, 6.4, 10).unwrap(), (1.0, true));
        // Nothing to search.
        assert!(found(rate, 0.0, 10).is_err() && found(rate, 101.0, 10).is_err());
    }
}
