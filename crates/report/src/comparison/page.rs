//! A comparison as a page: a chart of differences with their intervals, and what the text says.

use serde_json::Value;
use tokometer_decide::compare::{ComparedFigure, Comparison, Conclusion, RuleOutcome, Weight};

use super::answer::{headline, others, verdicts};
use super::text::{
    HEADS, answers, cells, chance, ground, outcome, power, run_word, side, subjects, verdict, word,
};
use crate::html::{DifferenceBar, Differences, Page, PageAnswer, PageNote};

/// The notes above the table of the page: everything in the text except the table.
fn page_notes(comparison: &Comparison) -> Vec<PageNote> {
    let what = run_word(comparison);
    let note = |severity, code: &str, text| PageNote { severity, code: code.to_owned(), text };
    let sides = [("a", &comparison.a), ("b", &comparison.b)];
    let mut notes: Vec<PageNote> = Vec::new();
    notes.extend(comparison.likeness.warnings.iter().map(|warning| {
        let is_refusal = warning.weight == Weight::Meaningless;
        let severity = if is_refusal { "invalid" } else { "suspect" };
        note(severity, word(warning.weight), warning.text.clone())
    }));
    notes.extend(comparison.rules.iter().map(|judged| {
        let severity = if judged.outcome == RuleOutcome::Broken { "invalid" } else { "remark" };
        note(severity, "rule", format!("\"{}\": {}", judged.rule, outcome(judged, comparison)))
    }));
    notes.extend(subjects(comparison).map(|subject| note("remark", "compared", subject)));
    notes.extend(sides.map(|(name, of)| note("remark", name, side(of, what))));
    notes.extend(answers(comparison).into_iter().map(|line| note("remark", "answers", line)));
    notes.push(note("remark", "chance", chance(comparison)));
    notes.extend(power(comparison).map(|text| note("remark", "power", text)));
    notes
}

/// The verdict as the page's chart marks it.
fn tone(row: &ComparedFigure) -> &'static str {
    match row.conclusion {
        Some(Conclusion::Better) => "better",
        Some(Conclusion::Worse) => "worse",
        Some(Conclusion::Negligible) => "negligible",
        Some(Conclusion::NoDifferenceShown) => "same",
        Some(Conclusion::CannotTell) | None => "open",
    }
}

fn bar(row: &ComparedFigure) -> DifferenceBar {
    DifferenceBar {
        figure: row.figure.label(),
        change: row.change(),
        low: row.difference.map(|difference| difference.low),
        high: row.difference.map(|difference| difference.high),
        verdict: tone(row),
        words: verdict(row).to_owned(),
    }
}

/// Above the reason for the intervals where the sides did different work: the headline is then not about
/// the servers.
const DIFFERENT_WORK: &str = "The two sides did different work (`--force`): these differences say nothing about the servers.";

/// The comparison as a page. Where its figures come from is added by those who know the runs.
pub fn page(comparison: &Comparison) -> Page {
    let cell = |text: String| if text.is_empty() { Value::Null } else { Value::from(text) };
    let count = |wanted: &str| comparison.rows.iter().filter(|row| tone(row) == wanted).count();
    let is_meaningless =
        comparison.likeness.warnings.iter().any(|one| one.weight == Weight::Meaningless);
    let tone = match (count("worse"), count("better"), count("open")) {
        _ if is_meaningless => "open",
        (1.., _, _) => "bad",
        (0, 0, open) if open == comparison.rows.len() => "open",
        _ => "good",
    };
    let row = |row: &ComparedFigure| {
        let [label, values @ .., verdict] = cells(row);
        let verdict = serde_json::json!({ "text": verdict });
        let values = values.map(cell);
        std::iter::once(Value::from(label)).chain(values).chain([verdict]).collect()
    };
    Page {
        title: "B against A".to_owned(),
        answer: Some(PageAnswer {
            tone,
            headline: headline(comparison),
            lines: is_meaningless
                .then(|| DIFFERENT_WORK.to_owned())
                .into_iter()
                .chain([others(comparison)])
                .chain(verdicts(comparison))
                .chain([ground(comparison)])
                .collect(),
            trust: None,
        }),
        notes: page_notes(comparison),
        differences: Some(Differences {
            columns: HEADS.map(str::to_owned).to_vec(),
            rows: comparison.rows.iter().map(row).collect(),
            bars: comparison.rows.iter().filter(|row| row.change().is_finite()).map(bar).collect(),
            margin: comparison.equivalence.0,
        }),
        ..Page::default()
    }
}

#[cfg(test)]
mod tests {
    use tokometer_decide::compare::Warning;

    use super::*;
    use crate::comparison::text::tests::comparison;

    #[test]
    fn the_page_holds_the_table() {
        let page = page(&comparison()).render();
        assert!(page.contains("Output throughput") && page.contains("+5.5 % to +14.5 %"));
    }

    /// The page had a table alone; a reader had to compare intervals with zero by hand.
    #[test]
    fn the_page_has_a_bar_with_an_interval_and_a_verdict_for_each_figure() {
        let page = page(&comparison());
        let bars = page.differences.unwrap().bars;
        let words: Vec<(&str, &str)> =
            bars.iter().map(|bar| (bar.figure.as_str(), bar.verdict)).collect();
        assert_eq!(words, [("Output throughput", "same"), ("mean TTFT", "worse")]);
        assert!(bars[1].low.is_some_and(|low| (0.05..0.06).contains(&low)), "{bars:?}");
        let answer = page.answer.unwrap();
        assert_eq!(
            (answer.tone, answer.headline.as_str()),
            ("bad", "B is 10 % slower in mean TTFT (5.5 to 15 %)")
        );
    }

    /// A reader of the page may not have seen the terminal output.
    #[test]
    fn the_page_repeats_what_the_text_warns_of() {
        let mut forced = comparison();
        let text = "the plans differ".to_owned();
        forced.likeness.warnings.push(Warning { weight: Weight::Meaningless, text });
        let notes = page_notes(&forced);
        let told = |severity: &str| {
            let of = notes.iter().filter(|note| note.severity == severity);
            of.map(|note| format!("{}: {}", note.code, note.text)).collect::<Vec<_>>()
        };
        assert_eq!(
            told("invalid"),
            ["MEANINGLESS: the plans differ", "rule: \"ttft worse by 5%\": FAIL"]
        );
        assert_eq!(told("suspect"), ["warning: b: 2 of 102 requests failed"]);
        assert!(page(&forced).render().contains("the plans differ"));
        let answer = page(&forced).answer.unwrap();
        assert_eq!(answer.tone, "open");
        assert!(answer.lines[0].contains("different work"), "{answer:?}");
    }
}
