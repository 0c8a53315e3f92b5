//! What a search for capacity found, as text.

use std::fmt::Write as _;

use serde::Serialize;
use tokometer_base::Nanos;
use tokometer_base::digits::digits;
use tokometer_decide::capacity::{
    Caveat, Ending, Findings, LoadKind, MeasuredPoint, ObjectiveAtPoint, budget_words,
};
use tokometer_decide::search::{
    Design, Expected, Forecast, Point, PointOutcome, SearchResult, with_preload,
};
use tokometer_twin::BeyondRange;

use crate::grid::{GAP, TERMINAL};
use crate::prediction::beyond_text;
use crate::{Grid, wrapped};

/// Cells of the bar of the highest throughput; where fewer than the shortest fit, there are no bars.
const LONGEST_BAR: usize = 20;
const SHORTEST_BAR: usize = 5;

/// The points as a table, then the sentence and what the edge delivers.
pub fn text(findings: &Findings) -> String {
    let mut lines = vec![format!("objectives: {}", findings.slo), String::new()];
    lines.extend(table(findings));
    lines.push(String::new());
    lines.extend(answer(findings, "capacity"));
    let caveats: Vec<String> = findings.caveats().iter().map(caveat).collect();
    lines.extend(caveats.iter().flat_map(|caveat| caveat.lines()).flat_map(wrapped));
    lines.join("\n") + "\n"
}

/// The load held, then what follows it: the lowest missed, the estimate, and what the load delivers.
fn answer(findings: &Findings, label: &str) -> Vec<String> {
    let mut lines = wrapped(&format!("{label}: {}", findings.sentence));
    lines.extend(findings.behind().iter().flat_map(|behind| wrapped(behind)));
    lines.extend(findings.edge().map(|edge| delivered(findings, edge)));
    lines
}

/// One combination of the lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PredictedChoice {
    pub replicas: usize,
    /// `KEY=VALUE`, one value each.
    pub set: Vec<String>,
}

impl PredictedChoice {
    /// What distinguishes it from the others.
    pub fn name(&self) -> String {
        let replicas = format!("replicas={}", self.replicas);
        std::iter::once(replicas).chain(self.set.iter().cloned()).collect::<Vec<_>>().join(" ")
    }
}

#[derive(Debug, Serialize)]
pub struct PredictedCapacity {
    #[serde(flatten)]
    pub combination: PredictedChoice,
    pub findings: Findings,
}

#[derive(Debug, Serialize)]
pub struct PredictedCapacities {
    pub is_prediction: bool,
    pub engine: String,
    /// Prompts and lengths, in words.
    pub workload: String,
    /// The load that must be held, where `--request-rate` or `--max-concurrency` names one.
    pub wanted: Option<f64>,
    /// Prompts that the profile's data do not cover.
    pub beyond_range: Option<BeyondRange>,
    pub capacities: Vec<PredictedCapacity>,
}

/// The heading of everything that was computed instead of measured.
const PREDICTED: &str = "PREDICTED in virtual time, not measured";

/// What searches in virtual time found. One search is shown with its points, several as a table.
pub fn predictions(found: &PredictedCapacities) -> String {
    let mut lines = vec![format!("{PREDICTED}; engine {}", found.engine), found.workload.clone()];
    lines.extend(found.beyond_range.map(|beyond| format!("warning: {}", beyond_text(beyond))));
    if let [one] = found.capacities.as_slice() {
        let findings = &one.findings;
        lines.push(format!("{}; objectives: {}", one.combination.name(), findings.slo));
        lines.push(String::new());
        lines.extend(table(findings));
        lines.push(String::new());
        lines.extend(answer(findings, "predicted capacity"));
    } else if let Some(first) = found.capacities.first() {
        lines.push(format!("objectives: {}", first.findings.slo));
        lines.push(String::new());
        let mut grid = Grid::new().left("engine with").left("predicted capacity");
        if found.wanted.is_some() {
            grid = grid.left("sustains it");
        }
        for one in &found.capacities {
            let mut cells = vec![one.combination.name(), one.findings.sentence.clone()];
            cells.extend(found.wanted.map(|wanted| holds(&one.findings, wanted).to_owned()));
            grid.push(cells);
        }
        lines.extend(grid.lines());
    }
    lines.extend(found.wanted.map(|wanted| {
        let unit = found.capacities.first().map_or("", |one| one.findings.over.unit());
        let first = |answer: &str| {
            let mut all = found.capacities.iter();
            all.find(|one| holds(&one.findings, wanted) == answer).map(|one| one.combination.name())
        };
        let answer = match (first(HOLDS), first(OPEN)) {
            (Some(name), _) => format!("{name} is predicted to sustain it"),
            (None, Some(name)) => {
                format!("cannot tell whether {name} sustains it; none surely does")
            }
            (None, None) => "no combination is predicted to sustain it".to_owned(),
        };
        format!("\nfor {} {unit}: {answer}", digits(wanted))
    }));
    lines.join("\n") + "\n"
}

/// Answers of [`holds`].
const HOLDS: &str = "yes";
const OPEN: &str = "cannot tell";

/// Whether an answer shows that a load is held: only where its whole interval lies on one side.
fn holds(findings: &Findings, wanted: f64) -> &'static str {
    match &findings.ending {
        Ending::Answered(SearchResult::Found { low, high, highest_met, .. }) => match (low, high) {
            (Some(low), _) if *low >= wanted => HOLDS,
            // The points do not bound it below, but all of them up to twice this load met the objectives.
            (None, _) if *highest_met >= 2.0 * wanted => HOLDS,
            (_, Some(high)) if *high < wanted => "no",
            _ => OPEN,
        },
        Ending::Answered(SearchResult::LimitedByMost { load }) if *load >= wanted => HOLDS,
        Ending::Answered(SearchResult::NoneMeets { load }) if *load <= wanted => "no",
        _ => OPEN,
    }
}

/// Before the first point: the margin that the time allows, and what the asked one would take.
pub fn forecast(found: &Forecast, resolution: f64, rate: f64, needed: u64) -> String {
    let (Expected { margin, effort }, time) = match found {
        Forecast::Estimate { expected, needed } => (expected, needed),
        Forecast::TooShort { point, needed: time } => {
            return too_short(*point, *time, rate, needed);
        }
    };
    let margin = if *margin < 1.0 {
        format!("expect a margin of about ±{:.0} %", (100.0 * margin).max(1.0))
    } else {
        "the budget is too short to bound the capacity".to_owned()
    };
    let text = format!("first estimate, for a server of {} req/s: {margin}", digits(rate));
    if *effort <= 1.0 {
        return text;
    }
    let asked = 100.0 * resolution;
    format!("{text}\n  ±{asked:.0} % takes about `--budget {}`", budget_words(time.as_secs_f64()))
}

/// Said before a search whose budget holds no estimate.
fn too_short(point: Nanos, time: Nanos, rate: f64, needed: u64) -> String {
    let (point, rate) = (spent(point.as_secs_f64()), digits(rate));
    let why = if needed > 0 { format!(" ({needed} requests)") } else { String::new() };
    let needed = budget_words(time.as_secs_f64());
    format!(
        "the budget is too short for these objectives: on a server of {rate} req/s each point needs {point}{why}\n  an estimate and a load held take about `--budget {needed}`; this search ends with the range that its points show"
    )
}

/// The second stage before it starts: what it measures, how long it takes, how precise it can be.
pub fn second_stage(
    design: &Design,
    over: LoadKind,
    seconds: f64,
    more: &str,
    expected: Option<Expected>,
) -> String {
    let (low, high) = design
        .loads
        .iter()
        .fold((f64::INFINITY, 0.0_f64), |ends, load| (ends.0.min(*load), ends.1.max(*load)));
    let mut text = format!(
        "second stage: {} points from {} to {} {}, about {}",
        design.loads.len(),
        over.text(low),
        over.text(high),
        over.unit(),
        spent(seconds)
    );
    match expected {
        Some(Expected { margin, effort }) if effort > 1.0 => {
            let _ = write!(
                text,
                "\n  expect a margin of about ±{:.0} %; the `--resolution` takes about {} of measuring near the limit: raise {more}",
                100.0 * margin,
                spent(seconds * effort)
            );
        }
        Some(Expected { margin, .. }) => {
            let _ = write!(text, "; expect a margin of about ±{:.0} %", (100.0 * margin).max(1.0));
        }
        None => {}
    }
    text
}

/// Said instead of a second stage whose points would have to be shorter than `least`.
pub fn no_estimate(least: Nanos) -> String {
    format!(
        "no second stage: each of its points must last at least {} at this load, and the budget leaves less; raise `--budget`",
        spent(with_preload(least).as_secs_f64())
    )
}

/// Said once, where points are shorter than a second.
pub fn short_points(flag: &str) -> String {
    format!(
        "warning: points of less than 1 s are too short to fill the server's queue; the capacity may be far too high\n  use a longer `{flag}`"
    )
}

/// After a point: its row of the table, which begins with the first one. The table of all points has more
/// columns.
pub fn course(points: &[MeasuredPoint], over: LoadKind, left: Option<Nanos>) -> String {
    let Some(last) = points.last() else { return String::new() };
    let loads = |is_in: fn(&Point) -> bool| {
        points.iter().map(MeasuredPoint::point).filter(is_in).map(|p| p.sent)
    };
    let met = loads(Point::is_met).max_by(f64::total_cmp);
    let missed = loads(Point::is_missed).min_by(f64::total_cmp);
    let limit = match (met, missed) {
        (Some(met), Some(missed)) => {
            let (low, high) = (over.text(met.min(missed)), over.text(met.max(missed)));
            if low == high { low } else { format!("{low} to {high}") }
        }
        (Some(met), None) => format!("above {}", over.text(met)),
        (None, Some(missed)) => format!("below {}", over.text(missed)),
        (None, None) => "–".to_owned(),
    };
    let row = |cells: [&str; 6]| {
        let [load, outcome, tokens, limit, left, worst] = cells;
        format!("{load:>9}  {outcome:<10}  {tokens:>7}  {limit:>14}  {left:>6}  {worst}")
    };
    let shown = row([
        &over.text(last.sent()),
        outcome(last),
        &optional(last.tokens_per_s),
        &limit,
        &left.map_or_else(|| "–".to_owned(), |left| spent(left.as_secs_f64())),
        &last.worst().map(ObjectiveAtPoint::name_and_value).unwrap_or_default(),
    ]);
    if points.len() > 1 {
        return shown;
    }
    let head = row([over.unit(), "outcome", "tok/s", "limit", "left", "nearest to its limit"]);
    format!("{head}\n{shown}")
}

pub(super) fn outcome(point: &MeasuredPoint) -> &'static str {
    match point.fit {
        PointOutcome::Overloaded => "overloaded",
        PointOutcome::Failed => "failed",
        _ if point.is_short => "too short",
        PointOutcome::Missed => "missed",
        PointOutcome::Met if point.point().is_met() => "met",
        PointOutcome::Met => "too close",
    }
}

/// Before the first run that is to hold a load.
pub fn third_stage(estimate: &str, counted: Nanos) -> String {
    format!(
        "{estimate}\nthird stage: runs of {} below it, until one meets all objectives",
        spent(with_preload(counted).as_secs_f64())
    )
}

/// A time in the unit that suits it.
fn spent(seconds: f64) -> String {
    match seconds {
        _ if seconds < 90.0 => format!("{seconds:.0} s"),
        _ if seconds < 5_400.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3_600.0),
    }
}

fn table(findings: &Findings) -> Vec<String> {
    let objectives: Vec<&str> = findings.slo.split(',').map(str::trim).collect();
    // Where nothing is generated there are no tokens to show.
    let has_tokens = findings.points.iter().any(|point| point.tokens_per_s.is_some());
    let tokens: &[&str] = if has_tokens { &["tok/s", "per user"] } else { &[] };
    let heads = ["requests", "served"].into_iter().chain(tokens.iter().copied());
    let first = Grid::new().right(findings.over.unit()).left("outcome");
    let mut grid = heads.chain(objectives.iter().copied()).fold(first, Grid::right);
    let course = findings.course();
    for (point, _) in &course {
        let load = findings.over.text(point.sent());
        grid.push(row(load, point, (objectives.len(), has_tokens)));
    }
    let shares: Vec<f64> = course.iter().map(|(_, share)| *share).collect();
    with_bars(grid.lines(), &shares)
}

/// The lines of a table, each but the head with a bar of its share where the terminal has room for bars.
fn with_bars(mut lines: Vec<String>, shares: &[f64]) -> Vec<String> {
    let width = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let table = width + GAP;
    let room = TERMINAL.saturating_sub(table).min(LONGEST_BAR);
    if room >= SHORTEST_BAR {
        for (line, share) in lines.iter_mut().skip(1).zip(shares) {
            let whole = format!("{line:<table$}{}", bar(*share, room));
            whole.trim_end().clone_into(line);
        }
    }
    lines
}

/// What the server delivers at the point nearest to the answer.
pub(super) fn delivered(findings: &Findings, edge: &MeasuredPoint) -> String {
    let per_gpu = findings.tokens_per_s_per_gpu(edge);
    let per_gpu = per_gpu.map(|tokens| format!(", {} tok/s per GPU", digits(tokens)));
    let at = format!("at {} {}", findings.over.text(edge.sent()), findings.over.unit());
    if edge.tokens_per_s.is_none() {
        return format!("{at}: {} requests answered per second", optional(edge.requests_per_s));
    }
    // The sentence of a load held has the throughput.
    let tokens =
        findings.held.is_none().then(|| format!("{} tok/s, ", optional(edge.tokens_per_s)));
    format!(
        "{at}: {}{} tok/s per user{}",
        tokens.unwrap_or_default(),
        optional(edge.tokens_per_s_per_user),
        per_gpu.unwrap_or_default()
    )
}

/// A reason not to rely on the answer, with what to do about it on a line of its own.
pub(super) fn caveat(caveat: &Caveat) -> String {
    match caveat {
        Caveat::ClientAtLimit { points, of, notes } => format!(
            "warning: at {points} of {of} points near the capacity the client, not the server, was at its limit ({})\n  use a faster client machine, or several machines",
            notes.join(", ")
        ),
    }
}

fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), digits)
}

fn row(
    load: String,
    point: &MeasuredPoint,
    (objectives, has_tokens): (usize, bool),
) -> Vec<String> {
    let value = |at: usize| match point.objectives.get(at) {
        None => "–".to_owned(),
        Some(one) => {
            let caveat = if one.is_supported { "" } else { "?" };
            format!("{}{caveat}", one.shown.as_deref().unwrap_or("–"))
        }
    };
    let mut cells = vec![
        load,
        outcome(point).to_owned(),
        point.requests.to_string(),
        optional(point.requests_per_s),
    ];
    if has_tokens {
        cells.push(optional(point.tokens_per_s));
        cells.push(optional(point.tokens_per_s_per_user));
    }
    cells.extend((0..objectives).map(value));
    cells
}

/// A bar of at most `room` cells: the curve of throughput, turned on its side.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share between 0 and 1 times at most twenty"
)]
fn bar(share: f64, room: usize) -> String {
    "▮".repeat((share.clamp(0.0, 1.0) * room as f64).round() as usize)
}

#[cfg(test)]
mod tests {
    use tokometer_decide::search::Stage;

    use super::*;

    #[test]
    fn a_table_grows_by_a_row_with_each_point() {
        let found = findings(found());
        let left = Some(Nanos::from_secs(200));
        let rows = (1..=found.points.len())
            .map(|count| course(&found.points[..count], LoadKind::RequestRate, left));
        insta::assert_snapshot!(rows.collect::<Vec<_>>().join("\n"), @r"
        req/s  outcome       tok/s           limit    left  nearest to its limit
         8.00  met            1024      above 8.00   3 min  p99 ttft 1.27 s
        16.00  overloaded     2048   8.00 to 16.00   3 min  p99 ttft 2.54 s
        12.00  met            1536  12.00 to 16.00   3 min  p99 ttft 1.90 s
        12.80  missed         1638  12.00 to 12.80   3 min  p99 ttft 2.03 s
        ");
    }

    /// A search with four points: 8 and 12 req/s met the objectives, 12.8 missed one, 16 was too much.
    fn recorded() -> Findings {
        let text = include_str!("../../../../fixtures/run/capacity.json");
        serde_json::from_str(text).unwrap()
    }

    fn findings(ending: Ending) -> Findings {
        let mut findings = recorded();
        findings.ending = ending;
        findings.sentence = findings.sentence();
        findings
    }

    fn found() -> Ending {
        recorded().ending
    }

    #[test]
    fn the_answer_is_one_sentence_with_its_uncertainty() {
        insta::assert_snapshot!(text(&findings(found())), @r#"
        objectives: p99 ttft < 2s, p99 tpot < 50ms

        req/s outcome    requests served tok/s per user p99 ttft < 2s p99 tpot < 50ms
         8.00 met             400   7.92  1024    61.40        1.27 s        28.00 ms
        12.00 met             400  11.88  1536    61.40        1.90 s        32.00 ms
        12.80 missed          400  12.67  1638    61.40        2.03 s        32.80 ms
        16.00 overloaded      400  15.84  2048    61.40        2.54 s        36.00 ms

        capacity: limit about 12.4 req/s (12.2 to 12.7); no load was held
        missed at 12.80 (p99 ttft 2.03 s)
        at 12.00 req/s: 1536 tok/s, 61.40 tok/s per user, 768.0 tok/s per GPU
        "#);
    }

    /// Its bars made the table wider than a terminal.
    #[test]
    fn bars_fill_what_a_terminal_of_80_columns_leaves_them() {
        let row = |width: usize| vec!["x".repeat(width), "y".repeat(width)];
        let shown = |width: usize| with_bars(row(width), &[1.0]);
        assert_eq!(shown(20)[1], format!("{}  {}", "y".repeat(20), "▮".repeat(20)));
        assert_eq!(shown(70)[1].chars().count(), 80);
        assert_eq!(shown(74), row(74));
    }

    #[test]
    fn a_prediction_is_headed_as_one_and_says_which_combination_holds_a_load() {
        let one = |replicas: usize, factor: f64| {
            let Ending::Answered(SearchResult::Found { load, low, high, .. }) = found() else {
                panic!("not found")
            };
            let times = |end: Option<f64>| end.map(|end| end * factor);
            let ending = Ending::Answered(SearchResult::Found {
                load: load * factor,
                margin: None,
                low: times(low),
                high: times(high),
                objective: None,
                highest_met: 12.0,
                lowest_missed: 12.8,
            });
            let combination =
                PredictedChoice { replicas, set: vec!["scheduler.max_seqs=64".into()] };
            PredictedCapacity { combination, findings: findings(ending) }
        };
        let found = PredictedCapacities {
            is_prediction: true,
            engine: "default".to_owned(),
            workload: "random prompts of 512 tokens, 128 output tokens".to_owned(),
            wanted: Some(20.0),
            beyond_range: None,
            capacities: vec![one(1, 1.0), one(2, 2.0)],
        };
        insta::assert_snapshot!(predictions(&found), @"
        PREDICTED in virtual time, not measured; engine default
        random prompts of 512 tokens, 128 output tokens
        objectives: p99 ttft < 2s, p99 tpot < 50ms

        engine with                       predicted capacity                                       sustains it
        replicas=1 scheduler.max_seqs=64  limit about 12.4 req/s (12.2 to 12.7); no load was held  no
        replicas=2 scheduler.max_seqs=64  limit about 24.8 req/s (24.3 to 25.4); no load was held  yes

        for 20.00 req/s: replicas=2 scheduler.max_seqs=64 is predicted to sustain it
        ");
        let open =
            PredictedCapacities { wanted: Some(12.4), capacities: vec![one(1, 1.0)], ..found };
        let text = predictions(&open);
        let answer =
            "for 12.40 req/s: cannot tell whether replicas=1 scheduler.max_seqs=64 sustains it";
        assert!(text.contains(answer), "{text}");
        let beyond = BeyondRange {
            side: tokometer_twin::LoadSide::PromptTokens,
            asked: 128_000,
            calibrated: 506,
        };
        let single = PredictedCapacities { wanted: None, beyond_range: Some(beyond), ..open };
        let text = predictions(&single);
        assert!(
            text.contains("\nwarning: prompts of up to 128000 tokens, but the profile"),
            "{text}"
        );
        assert!(text.starts_with("PREDICTED") && !text.contains("VALID"), "{text}");
        assert!(text.contains("predicted capacity: limit about 12.4 req/s"), "{text}");
    }

    #[test]
    fn an_answer_that_is_open_below_holds_what_is_far_below_its_points() {
        let open = findings(Ending::Answered(SearchResult::Found {
            load: 12.4,
            margin: None,
            low: None,
            high: Some(13.0),
            objective: None,
            highest_met: 12.0,
            lowest_missed: 12.8,
        }));
        let answers = [0.001, 6.0, 7.0, 12.4, 14.0].map(|wanted| holds(&open, wanted));
        assert_eq!(answers, [HOLDS, HOLDS, OPEN, OPEN, "no"]);
    }

    #[test]
    fn the_first_estimate_says_what_the_asked_margin_takes() {
        let shown = |margin: f64, effort: f64, needed: u64| {
            let needed = Nanos::from_secs(needed);
            let expected = Expected { margin, effort };
            forecast(&Forecast::Estimate { expected, needed }, 0.05, 18.2, 368)
        };
        insta::assert_snapshot!(shown(0.123, 6.0, 1_501), @"
        first estimate, for a server of 18.20 req/s: expect a margin of about ±12 %
          ±5 % takes about `--budget 26m`
        ");
        insta::assert_snapshot!(shown(0.31, 40.0, 12_000), @"
        first estimate, for a server of 18.20 req/s: expect a margin of about ±31 %
          ±5 % takes about `--budget 4h`
        ");
        // A margin of ±198 % was announced.
        insta::assert_snapshot!(shown(1.98, 900.0, 14_000), @"
        first estimate, for a server of 18.20 req/s: the budget is too short to bound the capacity
          ±5 % takes about `--budget 4h`
        ");
        insta::assert_snapshot!(shown(0.03, 0.5, 300), @"first estimate, for a server of 18.20 req/s: expect a margin of about ±3 %");
    }

    #[test]
    fn the_second_stage_says_beforehand_what_it_can_deliver() {
        let design = Design { loads: vec![11.0, 12.0, 10.5, 11.5, 10.0], centre: 11.0 };
        let shown = |margin: f64, effort: f64| {
            let expected = Some(Expected { margin, effort });
            let more = "`--points` or `--max-duration`";
            second_stage(&design, LoadKind::RequestRate, 1_125.0, more, expected)
        };
        insta::assert_snapshot!(shown(0.11, 4.84), @"
        second stage: 5 points from 10.00 to 12.00 req/s, about 19 min
          expect a margin of about ±11 %; the `--resolution` takes about 1.5 h of measuring near the limit: raise `--points` or `--max-duration`
        ");
        insta::assert_snapshot!(shown(0.031, 0.4), @"second stage: 5 points from 10.00 to 12.00 req/s, about 19 min; expect a margin of about ±3 %");
    }

    #[test]
    fn a_budget_that_holds_no_estimate_says_so_and_which_one_would() {
        let (point, needed) = (Nanos::from_secs(46), Nanos::from_secs(745));
        insta::assert_snapshot!(forecast(&Forecast::TooShort { point, needed }, 0.05, 10.0, 368), @"
        the budget is too short for these objectives: on a server of 10.00 req/s each point needs 46 s (368 requests)
          an estimate and a load held take about `--budget 13m`; this search ends with the range that its points show
        ");
    }

    /// A search said one number, and the server missed the objectives at it.
    #[test]
    fn the_load_held_is_the_headline_and_no_two_columns_have_one_name() {
        let mut held = findings(found());
        for point in &mut held.points {
            point.sent = Some(point.load - 0.1);
        }
        held.points[2].stage = Stage::Hold;
        held.held = held.points[2].sent;
        held.points[0].is_short = true;
        held.sentence = held.sentence();
        insta::assert_snapshot!(text(&held), @"
        objectives: p99 ttft < 2s, p99 tpot < 50ms

        req/s outcome    requests served tok/s per user p99 ttft < 2s p99 tpot < 50ms
         7.90 too short       400   7.92  1024    61.40        1.27 s        28.00 ms
        11.90 met             400  11.88  1536    61.40        1.90 s        32.00 ms
        12.70 missed          400  12.67  1638    61.40        2.03 s        32.80 ms
        15.90 overloaded      400  15.84  2048    61.40        2.54 s        36.00 ms

        capacity: 11.90 req/s held (p99 ttft 1.90 s < 2s, p99 tpot 32.00 ms
            < 50ms), 1536 tok/s
        missed at 12.70 (p99 ttft 2.03 s) · limit about 12.4 req/s (12.2 to 12.7)
        at 11.90 req/s: 61.40 tok/s per user, 768.0 tok/s per GPU
        ");
    }

    #[test]
    fn a_client_at_its_limit_is_said() {
        let mut doubtful = findings(found());
        doubtful.points[3].client_notes = vec!["late-sends".into()];
        let text = text(&doubtful);
        let caveats: Vec<&str> =
            text.lines().skip_while(|line| !line.starts_with("warning")).collect();
        insta::assert_snapshot!(caveats.join("\n"), @"
        warning: at 1 of 2 points near the capacity the client, not the server, was at
            its limit (late-sends)
          use a faster client machine, or several machines
        ");
    }
}
