//! A comparison with all that is known of it, as text and as Markdown. Pure functions of the comparison.

use std::fmt::Write as _;

use tokometer_base::digits::digits;
use tokometer_base::units::counted;
use tokometer_decide::compare::{
    Basis, ComparedFigure, Comparison, Conclusion, Equivalence, Failures, GoodAnswers, LOOKED_FOR,
    QualityRow, RuleOutcome, RuleResult, Side, Weight,
};
use tokometer_figures::Statistic;

use super::answer::headline;
use crate::{Grid, wrapped};

pub(super) const HEADS: [&str; 7] = ["", "a", "b", "change", "95 % CI", "detectable", "verdict"];

pub(super) fn cells(row: &ComparedFigure) -> [String; 7] {
    let figure = row.figure;
    let interval = row.difference.map_or(String::new(), |difference| {
        format!("{} to {}", percent(difference.low), percent(difference.high))
    });
    let detectable =
        row.difference.map_or(String::new(), |found| format!("{:.1} %", 100.0 * found.detectable));
    [
        figure.label(),
        value(row.a),
        format!("{} {}", value(row.b), figure.unit().name()),
        percent(row.change()),
        interval,
        detectable,
        verdict(row).to_owned(),
    ]
}

/// A percentile among failed requests is infinite.
fn value(value: f64) -> String {
    if value.is_finite() { digits(value) } else { "∞".to_owned() }
}

/// A difference that was shown, and shown to be small.
const NEGLIGIBLE: &str = "differs, negligible";

/// What the data say of a figure, in a few words.
pub(crate) fn verdict(row: &ComparedFigure) -> &'static str {
    match row.conclusion {
        Some(Conclusion::Better) => "better",
        Some(Conclusion::Worse) => "worse",
        Some(Conclusion::Negligible) => NEGLIGIBLE,
        Some(Conclusion::NoDifferenceShown) => "no difference found",
        Some(Conclusion::CannotTell) | None => "cannot tell",
    }
}

/// A share as a signed percentage.
pub(crate) fn percent(share: f64) -> String {
    match share {
        share if share.is_finite() => format!("{:+.1} %", 100.0 * share),
        share if share > 0.0 => "+∞".to_owned(),
        _ => String::new(),
    }
}

/// Which side fails more of its requests, where that is more than chance.
pub(super) fn more_failures(comparison: &Comparison) -> Option<String> {
    let found = comparison.failures.filter(Failures::differ)?;
    let (more, less) = if found.are_more_in_b() { ("b", "a") } else { ("a", "b") };
    let (most, least) = (found.a.max(found.b), found.a.min(found.b));
    Some(format!(
        "{more} fails {:.1} % of its requests, {less} {:.1} %, so that nothing below speaks for {more}",
        100.0 * most,
        100.0 * least
    ))
}

/// The figures of this verdict, one for each quantity: its mean where that is among them, and the
/// answer tokens for all throughputs.
pub(super) fn leading<'a>(comparison: &'a Comparison, wanted: &str) -> Vec<&'a ComparedFigure> {
    let mut leading: Vec<&ComparedFigure> = Vec::new();
    for row in comparison.rows.iter().filter(|row| verdict(row) == wanted) {
        let is_same = |known: &&mut &ComparedFigure| known.is_of_kind(row);
        match leading.iter_mut().find(is_same) {
            Some(known) if row.is_output() => *known = row,
            Some(_) => {}
            None => leading.push(row),
        }
    }
    leading
}

/// In what B is worse, and in what better: `worse in mean TTFT (+10.0 %)`.
pub(crate) fn changed(comparison: &Comparison) -> Vec<String> {
    let of = |word: &str| {
        let rows = leading(comparison, word).into_iter();
        let names = rows.map(|row| format!("{} ({})", row.figure.label(), percent(row.change())));
        let names = names.collect::<Vec<String>>().join(", ");
        (!names.is_empty()).then(|| format!("{word} in {names}"))
    };
    ["worse", "better"].into_iter().filter_map(of).collect()
}

/// Servers that do not report `process_start_time_seconds`, and printed reports.
const UNKNOWN_STARTS: &str = " Whether the server was restarted between them is not recorded.";

/// Where the intervals come from, in a sentence.
pub(super) fn ground(comparison: &Comparison) -> String {
    let (a, b) = (comparison.a.runs.len(), comparison.b.runs.len());
    match comparison.basis {
        Basis::Runs => {
            if let Some((a, b)) = comparison.restarts {
                return format!(
                    "Confidence intervals from the variation between {a} and {b} starts of the server."
                );
            }
            let is_known = comparison.a.processes.and(comparison.b.processes).is_some();
            let starts = if is_known { "" } else { UNKNOWN_STARTS };
            format!("Confidence intervals from the variation between {a} and {b} runs.{starts}")
        }
        Basis::Blocks => "Confidence intervals from blocks of time within the runs; they do not include the variation between runs.".to_owned(),
        Basis::Pairs => {
            let pairs = counted(comparison.pairs.unwrap_or(0), "pair");
            let restarts = comparison.restarts.map_or(String::new(), |(a, b)| {
                format!(
                    "; the switch command was run {a} times for a and {b} times for b, so two pairs count as one"
                )
            });
            format!(
                "Confidence intervals from {pairs} of alternating blocks{restarts}; slow drift cancels out."
            )
        }
    }
}

/// A remark about all verdicts together.
pub(super) fn chance(comparison: &Comparison) -> String {
    let judged = comparison.rows.iter().filter(|row| row.difference.is_some()).count();
    format!(
        "{} tested at 95 % confidence each: without any true difference, about one in twenty would still show one. `detectable` is the smallest change that would be found four times in five. Differences within {} are negligible (`--equivalence`).",
        counted(judged, "figure"),
        share(comparison.equivalence)
    )
}

pub(super) fn side(side: &Side, what: &str) -> String {
    let failed = if side.failed > 0 { format!(", {} failed", side.failed) } else { String::new() };
    let targets = if side.targets.is_empty() {
        String::new()
    } else {
        format!(", {}", side.targets.join(", "))
    };
    format!(
        "{}, {} requests answered{failed}{targets}",
        counted(side.runs.len(), what),
        side.succeeded
    )
}

fn share(equivalence: Equivalence) -> String {
    let percent = format!("{:.2}", 100.0 * equivalence.0);
    format!("{} %", percent.trim_end_matches('0').trim_end_matches('.'))
}

pub fn outcome(judged: &RuleResult, comparison: &Comparison) -> String {
    let failures = comparison.failures;
    match (judged.outcome, judged.more_units) {
        (RuleOutcome::Broken, _) => match failures.filter(Failures::are_too_many) {
            Some(found) => format!("FAIL: {:.1} % of the requests of b failed", 100.0 * found.b),
            None => "FAIL".to_owned(),
        },
        (RuleOutcome::Kept, _) => "pass".to_owned(),
        (RuleOutcome::Unproven, Some(more)) => {
            let more = effort(more, comparison, " more");
            format!("cannot tell; about {more} would detect such a loss")
        }
        (RuleOutcome::Unproven, None) if failures.is_some_and(|found| found.differ()) => {
            "cannot tell; one side fails more of its requests, so that the others met less load"
                .to_owned()
        }
        (RuleOutcome::Unproven, None) if judged.figure.is_none() => {
            let most = failures.map_or(0.0, |found| 100.0 * found.high);
            format!("cannot tell; b may fail up to {most:.2} % more of its requests")
        }
        (RuleOutcome::Unproven, None) => {
            "cannot tell; these runs scatter too much to detect such a loss".to_owned()
        }
        (RuleOutcome::Unknown, _) => {
            "cannot be checked: no confidence interval for this figure".to_owned()
        }
    }
}

/// Why a rule cannot be checked with these runs.
pub fn unchecked(judged: &RuleResult, comparison: &Comparison) -> String {
    let Some(figure) = judged.figure else {
        return format!(
            "cannot check the rule \"{}\": a side does not state its requests",
            judged.rule
        );
    };
    let is_there = comparison.rows.iter().any(|row| row.figure == figure);
    let is_throughput = figure.statistic == Statistic::Whole;
    let why = if is_there && is_throughput && comparison.basis == Basis::Blocks {
        "the runs are too short for a throughput: each of their 16 blocks must last a second, and twice the mean E2E. Measure longer runs, or three per side".to_owned()
    } else if is_there {
        "too few values for a confidence interval".to_owned()
    } else {
        format!(
            "{figure} is not in every run; other tools' reports contain only the statistics that the tool printed"
        )
    };
    format!("cannot check the rule \"{}\" with these runs: {why}", judged.rule)
}

/// So many values of a comparison as what somebody would have to measure: `12 more runs per side`.
fn effort(units: usize, comparison: &Comparison, more: &str) -> String {
    let (unit, what) = match comparison.basis {
        Basis::Runs if comparison.restarts.is_some() => ("start", " of the server per side"),
        Basis::Runs => ("run", " per side"),
        Basis::Blocks => ("run", " of the same length per side"),
        Basis::Pairs => ("pair", " of blocks"),
    };
    // Blocks of a run are no runs: longer runs have more of them.
    let is_block = comparison.basis == Basis::Blocks;
    let count = if is_block { units.div_ceil(BLOCKS_OF_A_RUN) } else { units };
    let plural = if count == 1 { "" } else { "s" };
    format!("{count}{more} {unit}{plural}{what}")
}

/// Blocks that a single run is divided into.
const BLOCKS_OF_A_RUN: usize = 16;

/// Most figures that the line about power names.
const NAMED: usize = 6;

/// How much it would take to detect a small change where these data would not. `None` where they
/// would for every figure.
pub(super) fn power(comparison: &Comparison) -> Option<String> {
    let is_short = |row: &&ComparedFigure| row.is_sensitive() == Some(false);
    let short: Vec<&ComparedFigure> = comparison.rows.iter().filter(is_short).collect();
    let need = |row: &&ComparedFigure| {
        let effort = row.units_needed().map(|units| effort(units, comparison, ""));
        let effort = effort.unwrap_or_else(|| "more than anybody would measure".to_owned());
        format!("{} ({effort})", row.figure.label())
    };
    let named: Vec<String> = short.iter().take(NAMED).map(need).collect();
    let rest = short.len().saturating_sub(NAMED);
    let rest = if rest > 0 { format!(", and {rest} more") } else { String::new() };
    (!short.is_empty()).then(|| {
        format!(
            "Too few data to detect a change of {} four times in five, and what it would take in all: {}{rest}.",
            share(Equivalence(LOOKED_FOR)),
            named.join(", ")
        )
    })
}

pub(super) fn run_word(comparison: &Comparison) -> &'static str {
    if comparison.basis == Basis::Pairs { "target" } else { "run" }
}

/// What is known about the answers of both sides, one line each.
pub(super) fn answers(comparison: &Comparison) -> Vec<String> {
    let Some(found) = &comparison.answers else { return Vec::new() };
    let percent = |share: Option<f64>| format!("{:.1} %", 100.0 * share.unwrap_or(0.0));
    let mut lines = Vec::new();
    if let Some(greedy) = found.greedy {
        let within = found.within_a.map_or(String::new(), |own| {
            format!("; between runs of a: {} of {}", own.differ, own.compared)
        });
        lines.push(format!(
            "greedy answers: {} of {} differ ({}){within}",
            greedy.differ,
            greedy.compared,
            percent(greedy.share())
        ));
    }
    lines.extend(found.quality.iter().map(quality));
    lines
}

fn quality(row: &QualityRow) -> String {
    let side = |good: GoodAnswers| {
        let share = 100.0 * good.share().unwrap_or(0.0);
        format!("{} of {} ({share:.1} %)", good.good, good.judged)
    };
    let moved = if row.has_moved { ", differs" } else { "" };
    format!("{}: a {}, b {}{moved}", row.what, side(row.a), side(row.b))
}

/// In what the answers of both sides are unlike, one line each.
pub(super) fn moved_answers(comparison: &Comparison) -> Vec<String> {
    let rows = comparison.answers.iter().flat_map(|found| &found.quality);
    rows.filter(|row| row.has_moved).map(quality).collect()
}

pub fn text(comparison: &Comparison) -> String {
    let what = run_word(comparison);
    let sides = [("a", &comparison.a), ("b", &comparison.b)];
    let mut above: Vec<String> =
        sides.map(|(name, one)| format!("{name}  {}", side(one, what))).to_vec();
    let warnings = comparison.likeness.warnings.iter();
    above.extend(warnings.map(|one| format!("{}: {}", word(one.weight), one.text)));
    above.extend(subjects(comparison).map(|subject| format!("compared: {subject}")));
    let mut below = vec![headline(comparison)];
    below.extend(answers(comparison));
    below.extend([ground(comparison), chance(comparison)]);
    below.extend(power(comparison));
    let rules = comparison.rules.iter();
    below.extend(
        rules.map(|judged| format!("rule \"{}\": {}", judged.rule, outcome(judged, comparison))),
    );
    let lines = |all: Vec<String>| -> String {
        all.iter().flat_map(|line| wrapped(line)).flat_map(|line| [line, "\n".to_owned()]).collect()
    };
    format!("{}\n{}\n{}", lines(above), grid(comparison, cells).text(), lines(below))
}

pub(super) fn word(weight: Weight) -> &'static str {
    if weight == Weight::Meaningless { "MEANINGLESS" } else { "warning" }
}

/// In what the sides were meant to differ.
pub(super) fn subjects(comparison: &Comparison) -> impl Iterator<Item = String> {
    let lines = comparison.likeness.lines.iter().filter(|line| line.weight == Weight::Subject);
    lines.map(|line| format!("{} is {} in a and {} in b", line.field, line.a, line.b))
}

/// One row per figure, its cells as `cells` writes them.
fn grid(comparison: &Comparison, cells: fn(&ComparedFigure) -> [String; 7]) -> Grid {
    let [label, numbers @ .., verdict] = HEADS;
    let columns = numbers.into_iter().fold(Grid::new().left(label), Grid::right);
    let mut grid = columns.left(verdict);
    for row in &comparison.rows {
        grid.push(cells(row));
    }
    grid
}

/// The cells, with the verdict in bold where a difference was shown.
fn marked_cells(row: &ComparedFigure) -> [String; 7] {
    let mut cells = cells(row);
    if matches!(verdict(row), "worse" | "better") {
        cells[6] = format!("**{}**", cells[6]);
    }
    cells
}

pub fn markdown(comparison: &Comparison) -> String {
    let what = run_word(comparison);
    let mut page = String::from("### tokometer compare\n\n");
    let _ = writeln!(page, "**{}**\n", headline(comparison));
    for line in answers(comparison) {
        let _ = writeln!(page, "- {line}");
    }
    for judged in &comparison.rules {
        let mark = match judged.outcome {
            RuleOutcome::Broken => "❌",
            RuleOutcome::Kept => "✅",
            RuleOutcome::Unproven | RuleOutcome::Unknown => "⚠️",
        };
        let _ = writeln!(page, "- {mark} `{}`: {}", judged.rule, outcome(judged, comparison));
    }
    if !comparison.rules.is_empty() {
        page.push('\n');
    }
    for warning in &comparison.likeness.warnings {
        let _ = writeln!(page, "> ⚠️ {}\n", warning.text);
    }
    page.push_str(&grid(comparison, marked_cells).markdown());
    let _ = writeln!(
        page,
        "\n- a: {}\n- b: {}\n\n{} {}",
        side(&comparison.a, what),
        side(&comparison.b, what),
        ground(comparison),
        chance(comparison)
    );
    if let Some(power) = power(comparison) {
        let _ = writeln!(page, "\n{power}");
    }
    page
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use tokometer_decide::compare::{Criteria, FailRule, Run, compared};
    use tokometer_figures::Figure;

    use super::*;

    fn run(name: &str, ttft: f64, output: f64) -> Run {
        let figure = |words: &str| Figure::parse(words).unwrap();
        let mut run = Run { name: name.to_owned(), ..Run::default() };
        run.values = BTreeMap::from([(figure("ttft"), ttft), (figure("output"), output)]);
        run.facts.succeeded = 100;
        run.facts.target = Some(format!("http://{name}"));
        run
    }

    pub(in crate::comparison) fn comparison() -> Comparison {
        let a = [run("a", 100.0, 5000.0), run("a", 102.0, 5010.0), run("a", 98.0, 4990.0)];
        let mut b = [run("b", 110.0, 5002.0), run("b", 112.0, 5012.0), run("b", 108.0, 4992.0)];
        b[0].facts.failed = 2;
        let rules =
            [FailRule::parse("ttft worse by 5%").unwrap(), FailRule::parse("e2e worse").unwrap()];
        Comparison::of_runs(&a, &b, Criteria::of(&compared([])), Vec::new()).judged(&rules)
    }

    #[test]
    fn the_text_says_what_differs_and_how_sure_that_is() {
        insta::assert_snapshot!(text(&comparison()), @r##"
        a  3 runs, 300 requests answered, http://a
        b  3 runs, 300 requests answered, 2 failed, http://b
        warning: b: 2 of 102 requests failed

                               a           b   change            95 % CI  detectable  verdict
        Output throughput   5000  5002 tok/s   +0.0 %   -0.4 % to +0.5 %       0.6 %  no difference found
        mean TTFT          100.0    110.0 ms  +10.0 %  +5.5 % to +14.5 %       6.1 %  worse

        B is 10 % slower in mean TTFT (5.5 to 15 %)
        Confidence intervals from the variation between 3 and 3 runs. Whether the server
            was restarted between them is not recorded.
        2 figures tested at 95 % confidence each: without any true difference, about one
            in twenty would still show one. `detectable` is the smallest change that
            would be found four times in five. Differences within 1 % are negligible
            (`--equivalence`).
        Too few data to detect a change of 3 % four times in five, and what it would
            take in all: mean TTFT (9 runs per side).
        rule "ttft worse by 5%": FAIL
        rule "e2e worse": cannot be checked: no confidence interval for this figure
        "##);
    }

    #[test]
    fn the_markdown_is_a_headline_and_a_table() {
        insta::assert_snapshot!(markdown(&comparison()), @r##"
        ### tokometer compare

        **B is 10 % slower in mean TTFT (5.5 to 15 %)**

        - ❌ `ttft worse by 5%`: FAIL
        - ⚠️ `e2e worse`: cannot be checked: no confidence interval for this figure

        > ⚠️ b: 2 of 102 requests failed

        |  | a | b | change | 95 % CI | detectable | verdict |
        |---|---:|---:|---:|---:|---:|---|
        | Output throughput | 5000 | 5002 tok/s | +0.0 % | -0.4 % to +0.5 % | 0.6 % | no difference found |
        | mean TTFT | 100.0 | 110.0 ms | +10.0 % | +5.5 % to +14.5 % | 6.1 % | **worse** |

        - a: 3 runs, 300 requests answered, http://a
        - b: 3 runs, 300 requests answered, 2 failed, http://b

        Confidence intervals from the variation between 3 and 3 runs. Whether the server was restarted between them is not recorded. 2 figures tested at 95 % confidence each: without any true difference, about one in twenty would still show one. `detectable` is the smallest change that would be found four times in five. Differences within 1 % are negligible (`--equivalence`).

        Too few data to detect a change of 3 % four times in five, and what it would take in all: mean TTFT (9 runs per side).
        "##);
    }

    /// A server that failed half of its requests was "better in Output throughput", and a rule passed.
    #[test]
    fn a_side_that_fails_more_is_named_first_and_nothing_speaks_for_it() {
        let a = [run("a", 100.0, 5000.0), run("a", 102.0, 5010.0), run("a", 98.0, 4990.0)];
        let mut b = [run("b", 60.0, 5400.0), run("b", 62.0, 5410.0), run("b", 58.0, 5390.0)];
        for run in &mut b {
            (run.facts.succeeded, run.facts.failed) = (50, 50);
            let _ = run.values.insert(Figure::parse("p99 ttft").unwrap(), f64::INFINITY);
        }
        let p99 = Figure::parse("p99 ttft").unwrap();
        let a = a.map(|mut run| {
            let _ = run.values.insert(p99, 150.0);
            run
        });
        let rules = ["ttft worse by 5%", "failures worse by 1%"];
        let rules = rules.map(|rule| FailRule::parse(rule).unwrap());
        let found = Comparison::of_runs(&a, &b, Criteria::of(&compared([])), Vec::new());
        let found = found.judged(&rules);
        assert_eq!(
            headline(&found),
            "b fails 50.0 % of its requests, a 0.0 %, so that nothing below speaks for b; \
             B is worse in p99 TTFT: that of B lies among its failed requests"
        );
        let verdicts: Vec<&str> = found.rows.iter().map(verdict).collect();
        assert_eq!(verdicts, ["cannot tell", "cannot tell", "worse"]);
        // "cannot tell (−42 to −38 %; 1.7 % could be seen)" contradicts itself.
        let answer = crate::comparison::answer::answer(&found);
        assert!(answer.contains(" %; of answered requests alone)"), "{answer}");
        assert_eq!(cells(&found.rows[2])[1..4], ["150.0", "∞ ms", "+∞"]);
        for judged in &found.rules {
            assert_eq!(outcome(judged, &found), "FAIL: 50.0 % of the requests of b failed");
        }
        assert_eq!(serde_json::to_value(&found).unwrap()["rows"][2]["b"], serde_json::Value::Null);
    }

    /// The words name what has to be measured again: runs, starts of the server, or pairs.
    #[test]
    fn what_it_would_take_is_counted_in_what_somebody_measures() {
        let mut known = comparison();
        assert!(power(&known).unwrap().ends_with("mean TTFT (9 runs per side)."));
        known.restarts = Some((3, 3));
        assert!(power(&known).unwrap().ends_with("(9 starts of the server per side)."));
        let more = |comparison: &Comparison| {
            let mut judged = comparison.rules[0].clone();
            (judged.outcome, judged.more_units) = (RuleOutcome::Unproven, Some(20));
            outcome(&judged, comparison)
        };
        assert!(more(&known).contains("about 20 more starts of the server per side"));
        (known.restarts, known.basis) = (None, Basis::Blocks);
        assert!(more(&known).contains("about 2 more runs of the same length per side"));
        known.basis = Basis::Pairs;
        assert!(more(&known).contains("about 20 more pairs of blocks"));
        let runs = || [run("a", 100.0, 50.0), run("a", 100.1, 50.0), run("a", 99.9, 50.1)];
        let same = Comparison::of_runs(&runs(), &runs(), Criteria::of(&compared([])), Vec::new());
        assert_eq!(power(&same), None, "0.1 % of scatter shows 3 %");
    }
}
