//! A comparison's answer: what B is, how sure that is, and what stands against it. Everything else is
//! behind `--details`.

use tokometer_base::units::counted;
use tokometer_decide::compare::{
    Basis, ComparedFigure, Comparison, Conclusion, Difference, Side, Weight,
};
use tokometer_figures::figure::{Figure, Quantity, Statistic};

use super::text::{leading, more_failures, moved_answers, outcome, verdict, word};
use crate::summary::fold::folded_at;
use crate::wrapped;

/// Figures that the answer names whatever is known of them; those of the whole latency where there is
/// no first token.
const NAMED: [Figure; 5] = [
    Figure::whole(Quantity::Output),
    Figure::mean(Quantity::Ttft),
    Figure::percentile(Quantity::Ttft, 99),
    Figure::mean(Quantity::Tpot),
    Figure::percentile(Quantity::Tpot, 99),
];
const WHOLE: [Figure; 3] = [
    Figure::whole(Quantity::Requests),
    Figure::mean(Quantity::E2e),
    Figure::percentile(Quantity::E2e, 99),
];

pub fn answer(comparison: &Comparison) -> String {
    let mut lines = warnings(comparison, |weight| weight == Weight::Meaningless);
    lines.extend(more_failures(comparison).iter().flat_map(|line| wrapped(line)));
    lines.extend(wrapped(&lead(comparison)));
    lines.extend(folded_at(&others(comparison), 2));
    lines.extend(moved_answers(comparison).iter().flat_map(|line| wrapped(line)));
    for judged in &comparison.rules {
        let outcome = outcome(judged, comparison);
        lines.extend(wrapped(&format!("rule \"{}\": {outcome}", judged.rule)));
    }
    lines.extend(warnings(comparison, |weight| weight != Weight::Meaningless));
    let ground = [
        verdicts(comparison),
        Some(evidence(comparison)),
        Some("all figures: `--details`".to_owned()),
    ];
    let ground: Vec<String> = ground.into_iter().flatten().collect();
    lines.extend(folded_at(&ground.join(" · "), 2));
    lines.join("\n") + "\n"
}

/// The answer in a sentence, the same on the screen, in Markdown and on the page.
pub(super) fn headline(comparison: &Comparison) -> String {
    let parts: Vec<String> =
        more_failures(comparison).into_iter().chain([lead(comparison)]).collect();
    parts.join("; ")
}

fn lead(comparison: &Comparison) -> String {
    let first = named(comparison).first().map(|first| sentence(first));
    first.unwrap_or_else(|| "nothing could be compared".to_owned())
}

/// What stands beside the answer: the other figures that it names, and the failures.
pub(super) fn others(comparison: &Comparison) -> String {
    let mut others: Vec<String> = named(comparison).iter().skip(1).map(|row| part(row)).collect();
    others.push(format!("failures {} and {}", comparison.a.failed, comparison.b.failed));
    others.join(" · ")
}

/// What a reader must know with the answer, each in a sentence.
fn warnings(comparison: &Comparison, is_wanted: fn(Weight) -> bool) -> Vec<String> {
    let wanted = comparison.likeness.warnings.iter().filter(|one| is_wanted(one.weight));
    let lines = wanted.flat_map(|one| {
        let sentence = one.text.split_once(". ").map_or(&*one.text, |(first, _)| first);
        wrapped(&format!("{}: {sentence}", word(one.weight)))
    });
    lines.collect()
}

/// The figures of the answer, the one of its first sentence in front: the throughput, or what differs
/// where the throughput does not.
fn named(comparison: &Comparison) -> Vec<&ComparedFigure> {
    let row = |figure: &Figure| comparison.rows.iter().find(|row| row.figure == *figure);
    let mut rows: Vec<&ComparedFigure> = NAMED.iter().filter_map(row).collect();
    if rows.len() < 2 {
        rows = WHOLE.iter().filter_map(row).chain(rows).collect();
    }
    let differing = ["worse", "better"].into_iter().flat_map(|word| leading(comparison, word));
    let differing: Vec<&ComparedFigure> = differing.collect();
    let is_new = |row: &&ComparedFigure, rows: &[&ComparedFigure]| {
        !rows.iter().any(|known| known.figure == row.figure)
    };
    let is_throughput = rows.first().is_some_and(|row| is_shown(row));
    for found in &differing {
        // All throughputs move together, and TPOT and ITL are one speed.
        let is_like = |known: &&ComparedFigure| {
            let pair = [known.figure.quantity, found.figure.quantity];
            known.is_of_kind(found) || pair == [Quantity::Tpot, Quantity::Itl]
        };
        if is_new(found, &rows) && !rows.iter().any(is_like) {
            rows.push(found);
        }
    }
    if let Some(lead) = differing.first().filter(|_| !is_throughput) {
        rows.retain(|row| row.figure != lead.figure);
        rows.insert(0, lead);
    }
    rows
}

fn is_shown(row: &ComparedFigure) -> bool {
    matches!(verdict(row), "worse" | "better")
}

/// `B is 9.8 % slower in output throughput (8.8 to 10.9 %)`.
fn sentence(row: &ComparedFigure) -> String {
    let label = label(row);
    match row.difference {
        Some(found) if is_shown(row) => {
            let word = if found.conclusion == Conclusion::Worse { "slower" } else { "faster" };
            format!("B is {} {word} in {label} ({})", share(found.change), sizes(&found))
        }
        Some(found) => match found.conclusion {
            Conclusion::Negligible => {
                format!(
                    "B differs by {} in {label}: negligible ({})",
                    share(found.change),
                    ends(&found)
                )
            }
            Conclusion::NoDifferenceShown => {
                format!("no difference found in {label} ({})", ends(&found))
            }
            _ => format!("cannot tell for {label} ({}; {})", ends(&found), visible(&found)),
        },
        None if is_shown(row) => format!("B is {} in {label}: {}", verdict(row), infinite(row)),
        None => format!("cannot tell for {label}: too few values"),
    }
}

/// `mean TTFT 12 % worse (8 to 16 %)`.
fn part(row: &ComparedFigure) -> String {
    let label = label(row);
    match row.difference {
        Some(found) if is_shown(row) => {
            format!("{label} {} {} ({})", share(found.change), verdict(row), sizes(&found))
        }
        Some(found) => match found.conclusion {
            Conclusion::Negligible => format!("{label} {} (negligible)", signed(found.change)),
            Conclusion::NoDifferenceShown => format!("{label} no difference ({})", ends(&found)),
            _ => format!("{label} cannot tell ({}; {})", ends(&found), visible(&found)),
        },
        None if is_shown(row) => format!("{label} {} ({})", verdict(row), infinite(row)),
        None => format!("{label} cannot tell (too few values)"),
    }
}

/// Why a figure without an interval is better or worse.
fn infinite(row: &ComparedFigure) -> String {
    let side = if verdict(row) == "worse" { "B" } else { "A" };
    format!("that of {side} lies among its failed requests")
}

fn label(row: &ComparedFigure) -> String {
    let label = row.figure.label();
    if row.figure.statistic == Statistic::Whole { label.to_lowercase() } else { label }
}

/// Two digits of a share, or one behind the point.
fn share(share: f64) -> String {
    format!("{} %", digits(share.abs()))
}

fn digits(share: f64) -> String {
    let percent = 100.0 * share;
    if percent.abs() < 9.95 { format!("{percent:.1}") } else { format!("{percent:.0}") }
}

fn signed(share: f64) -> String {
    let sign = if share < 0.0 { "−" } else { "+" };
    format!("{sign}{} %", digits(share.abs()))
}

/// The interval without its sign, where both ends have one: `8.8 to 10.9 %`.
fn sizes(found: &Difference) -> String {
    let (low, high) = (found.low.abs(), found.high.abs());
    if (found.low < 0.0) != (found.high < 0.0) {
        return ends(found);
    }
    format!("{} to {} %", digits(low.min(high)), digits(low.max(high)))
}

fn ends(found: &Difference) -> String {
    let end = |share: f64| signed(share).trim_end_matches(" %").to_owned();
    format!("{} to {} %", end(found.low), end(found.high))
}

/// The smallest change that these data would show. An interval that excludes zero shows one, but that of the
/// requests which a failing side still answers.
fn visible(found: &Difference) -> String {
    if (found.low < 0.0) == (found.high < 0.0) {
        return "of answered requests alone".to_owned();
    }
    format!("{} could be seen", share(found.detectable))
}

/// The worst verdict of each side's runs; `None` where a side is printed reports.
pub(super) fn verdicts(comparison: &Comparison) -> Option<String> {
    let (a, b) = (comparison.a.verdict?, comparison.b.verdict?);
    let text = if a == b {
        format!("both sides {}", a.name())
    } else {
        format!("A {}, B {}", a.name(), b.name())
    };
    Some(format!("verdict: {text}"))
}

/// What the intervals come from.
fn evidence(comparison: &Comparison) -> String {
    let runs = |side: &Side| side.runs.len();
    match (comparison.basis, comparison.restarts) {
        (Basis::Pairs, _) => counted(comparison.pairs.unwrap_or(0), "pair"),
        (Basis::Runs, Some((a, b))) => format!("{a} and {b} starts of the server"),
        (Basis::Runs, None) => format!("{} and {} runs", runs(&comparison.a), runs(&comparison.b)),
        (Basis::Blocks, _) => "blocks of single runs".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use tokometer_figures::Verdict;

    use tokometer_decide::compare::{Criteria, FailRule, Run, compared};

    use super::*;
    use crate::comparison::text::tests::comparison;

    fn of(a: [[f64; 2]; 3], b: [[f64; 2]; 3]) -> Comparison {
        let run = |[output, ttft]: [f64; 2]| {
            let mut run = Run { name: "r".to_owned(), ..Run::default() };
            let figures = [("output", output), ("ttft", ttft)];
            run.values = figures
                .map(|(name, value)| (Figure::parse(name).unwrap(), value))
                .into_iter()
                .collect();
            run.facts.succeeded = 100;
            run.facts.verdict = Some(Verdict::Valid);
            run
        };
        let (a, b) = (a.map(run), b.map(run));
        Comparison::of_runs(&a, &b, Criteria::of(&compared([])), Vec::new())
    }

    fn first(text: &str) -> &str {
        text.lines().next().unwrap()
    }

    #[test]
    fn the_answer_is_a_sentence_and_what_stands_beside_it() {
        insta::assert_snapshot!("answer", answer(&comparison()));
    }

    #[test]
    fn the_throughput_leads_where_it_differs_and_a_latency_where_it_does_not() {
        let a = [[100.0, 50.0], [101.0, 50.1], [99.0, 49.9]];
        let slower = of(a, [[90.0, 60.0], [91.0, 60.1], [89.0, 59.9]]);
        let text = answer(&slower);
        assert!(first(&text).starts_with("B is 10 % slower in output throughput ("), "{text}");
        assert!(text.contains("\nmean TTFT 20 % worse ("), "{text}");
        assert!(text.contains("\nverdict: both sides VALID · 3 and 3 runs · all"), "{text}");
        let later = answer(&of(a, [[100.0, 45.0], [101.0, 45.1], [99.0, 44.9]]));
        assert!(first(&later).starts_with("B is 10 % faster in mean TTFT ("), "{later}");
        assert!(later.contains("\noutput throughput no difference (−"), "{later}");
        let same = answer(&of(a, [[100.1, 50.05], [100.9, 50.1], [99.1, 49.9]]));
        assert!(first(&same).starts_with("no difference found in output throughput ("), "{same}");
    }

    #[test]
    fn what_the_data_cannot_show_is_said_with_what_they_could() {
        let noisy = of(
            [[100.0, 50.0], [160.0, 80.0], [60.0, 20.0]],
            [[110.0, 50.0], [50.0, 90.0], [140.0, 30.0]],
        );
        let text = answer(&noisy);
        assert!(first(&text).starts_with("cannot tell for output throughput (−"), "{text}");
        assert!(first(&text).ends_with("% could be seen)"), "{text}");
        assert!(text.contains("\nmean TTFT cannot tell (−"), "{text}");
    }

    #[test]
    fn rules_and_what_makes_it_meaningless_are_never_hidden() {
        let rule = FailRule::parse("ttft worse by 5%").unwrap();
        let mut judged = comparison().judged(&[rule]);
        judged.likeness.warnings[0].weight = Weight::Meaningless;
        let text = answer(&judged);
        assert!(first(&text).starts_with("MEANINGLESS: "), "{text}");
        assert!(text.contains("\nrule \"ttft worse by 5%\": FAIL\n"), "{text}");
    }
}
