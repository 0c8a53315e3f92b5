//! Which figures are affected, and by how much.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use tokometer_figures::{FigureVerdict, Severity, Summary, Verdict};
use tokometer_judge::{NoteCode, figure_label, limits};

use super::failures::wrapped;
use super::{LABEL, SummaryPage, WIDTH, line};
use crate::style::Tone;

/// Figures that are named in one group.
const MOST_NAMED: usize = 8;

pub(super) fn tone(verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Valid => Tone::Good,
        Verdict::Suspect => Tone::Doubtful,
        Verdict::Invalid => Tone::Bad,
    }
}

impl SummaryPage<'_> {
    /// The mark behind a figure that the client or its machine moved.
    pub(super) fn mark(&self, key: &str) -> Option<char> {
        mark(self.summary, key)
    }

    /// The same, one line per group.
    pub(super) fn affected_items(&self) -> Vec<String> {
        let item = |(verdict, text): (Verdict, String)| {
            line("affected", &format!("{}: {text}", verdict.name()))
        };
        groups(&self.summary.figure_verdicts).into_iter().map(item).collect()
    }

    /// Affected figures with the bound of the effect, grouped by verdict and notes.
    pub(super) fn affected(&self) -> Vec<String> {
        let mut label = "affected";
        let mut lines = Vec::new();
        for (verdict, text) in groups(&self.summary.figure_verdicts) {
            let words = wrapped(&format!("{}: {text}", verdict.name()), WIDTH - LABEL);
            for words in words {
                let name = verdict.name();
                let painted = words.replacen(name, &self.style.paint(tone(verdict), name), 1);
                lines.push(line(std::mem::take(&mut label), &painted));
            }
        }
        lines
    }
}

pub(crate) fn doubtful_codes(summary: &Summary) -> String {
    let doubts = summary.notes.iter().filter(|note| note.severity > Severity::Remark);
    doubts.map(|note| note.code.as_str()).collect::<Vec<_>>().join(", ")
}

/// The mark behind a figure that the client or its machine moved: `!` or `~`.
pub(crate) fn mark(summary: &Summary, key: &str) -> Option<char> {
    let found = summary.figure_verdicts.get(key)?;
    match found.verdict {
        Verdict::Invalid => Some('!'),
        Verdict::Suspect if !is_too_few(found) && found.effect? > limits::SUSPECT_ABOVE => {
            Some('~')
        }
        _ => None,
    }
}

/// Whether a percentile has the mark `?`, to which `~` adds nothing.
fn is_too_few(figure: &FigureVerdict) -> bool {
    figure.notes.iter().any(|code| *code == NoteCode::FewSamples)
}

/// Figures with one verdict for the same reasons.
type Group<'a> = Vec<(&'a String, &'a FigureVerdict)>;

/// One sentence per group, the worst verdict first.
pub(crate) fn groups(figures: &BTreeMap<String, FigureVerdict>) -> Vec<(Verdict, String)> {
    let results = figures.values().filter(|one| one.is_result).count();
    let mut groups: BTreeMap<(Reverse<Verdict>, &[String]), Group<'_>> = BTreeMap::new();
    let doubtful = |one: &FigureVerdict| match one.verdict {
        Verdict::Valid => false,
        Verdict::Suspect => !is_too_few(one),
        Verdict::Invalid => true,
    };
    for (key, one) in figures.iter().filter(|(_, one)| doubtful(one)) {
        groups.entry((Reverse(one.verdict), &one.notes)).or_default().push((key, one));
    }
    let sentences = groups.into_iter().map(|((verdict, notes), group)| {
        (verdict.0, format!("{} ({})", sentence(group, results), notes.join(", ")))
    });
    sentences.collect()
}

/// The members of a group, the most affected first. `results` is the number of all results.
fn sentence(mut group: Group<'_>, results: usize) -> String {
    let effect = |one: &FigureVerdict| one.effect.unwrap_or(0.0);
    let moved = |one: &FigureVerdict| effect(one) > limits::SUSPECT_ABOVE;
    group.sort_by(|a, b| effect(b.1).total_cmp(&effect(a.1)));
    let is_all = group.iter().filter(|(_, one)| one.is_result).count() == results;
    if is_all && !group.iter().any(|(_, one)| moved(one)) {
        return "all figures".to_owned();
    }
    let member = |(key, one): &(&String, &FigureVerdict)| {
        let label = figure_label(key);
        match effect(one) {
            share if share >= limits::NO_BOUND_FROM => format!("{label} without a bound"),
            share if moved(one) => format!("{label} by up to {}", percent(share)),
            _ => label,
        }
    };
    let mut members: Vec<String> = group.iter().take(MOST_NAMED).map(member).collect();
    if group.len() > MOST_NAMED {
        members.push(format!("{} more", group.len() - MOST_NAMED));
    }
    members.join(", ")
}

fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 10.0 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(verdict: Verdict, effect: Option<f64>, note: &str) -> FigureVerdict {
        FigureVerdict { verdict, effect, notes: vec![note.to_owned()], is_result: true }
    }

    #[test]
    fn affected_figures_are_named_with_their_bound_the_worst_first() {
        let figures = BTreeMap::from([
            ("ttft_ms_mean".to_owned(), figure(Verdict::Invalid, Some(0.071), "late-sends")),
            ("ttft_ms_p99".to_owned(), figure(Verdict::Invalid, Some(0.412), "late-sends")),
            ("tpot_ms_mean".to_owned(), figure(Verdict::Suspect, Some(0.02), "late-sends")),
            ("tpot_ms_p99".to_owned(), figure(Verdict::Suspect, Some(1.0), "late-sends")),
            ("e2e_ms_p99".to_owned(), figure(Verdict::Suspect, Some(0.001), "few-samples")),
            ("requests_per_s".to_owned(), figure(Verdict::Valid, Some(0.003), "late-sends")),
        ]);
        let found: Vec<String> = groups(&figures)
            .into_iter()
            .map(|(verdict, text)| format!("{} {text}", verdict.name()))
            .collect();
        assert_eq!(
            found,
            [
                "INVALID p99 TTFT by up to 41 %, mean TTFT by up to 7.1 % (late-sends)",
                "SUSPECT p99 TPOT without a bound, mean TPOT by up to 2.0 % (late-sends)",
            ]
        );
    }

    /// A percentile of few values stood under "not usable" with a mark that only said that they are few.
    #[test]
    fn what_is_not_usable_is_marked_so_though_its_values_are_few() {
        let verdict = |verdict| figure(verdict, Some(0.5), "few-samples");
        let figures = BTreeMap::from([
            ("ttft_ms_p50".to_owned(), verdict(Verdict::Invalid)),
            ("ttft_ms_p99".to_owned(), verdict(Verdict::Suspect)),
        ]);
        assert_eq!(groups(&figures)[0].1, "p50 TTFT by up to 50 % (few-samples)");
        let summary = Summary { figure_verdicts: figures, ..Summary::default() };
        let marks = ["ttft_ms_p50", "ttft_ms_p99"].map(|key| mark(&summary, key));
        assert_eq!(marks, [Some('!'), None]);
    }

    #[test]
    fn what_concerns_every_figure_is_said_once() {
        let figures = BTreeMap::from([
            ("ttft_ms_mean".to_owned(), figure(Verdict::Suspect, None, "partial-run")),
            ("requests_per_s".to_owned(), figure(Verdict::Suspect, Some(0.001), "partial-run")),
        ]);
        assert_eq!(groups(&figures)[0].1, "all figures (partial-run)");
    }
}
