//! The verdict about each figure, and about the run.

use std::collections::BTreeMap;

use tokometer_figures::summary::Summary;
use tokometer_figures::{FigureVerdict, Severity, Unjudged, Verdict};

use crate::effects::Effects;
use crate::limits;
use crate::notes::{self, NoteCode};
use crate::shown::{ShownFigure, Standing, shown};

/// The worst verdict among the results. A run without any has that of the notes about all figures.
pub(crate) fn of_run(summary: &Summary) -> Verdict {
    let results = summary.figure_verdicts.values().filter(|figure| figure.is_result);
    let about_all = summary.notes.iter().filter(|note| note.figure == "all");
    let about_all = about_all.filter_map(notes::rule_of).map(|rule| rule.severity.least().into());
    results.map(|figure| figure.verdict).chain(about_all).max().unwrap_or_default()
}

pub(crate) fn judge(run: &Unjudged, effects: &Effects) -> BTreeMap<String, FigureVerdict> {
    let summary = &run.summary;
    let rules: Vec<_> = summary.notes.iter().filter_map(notes::rule_of).collect();
    let of = |shown: &ShownFigure| {
        let key = shown.key();
        let mut severity = Severity::Remark;
        let mut codes: Vec<NoteCode> = Vec::new();
        let mut effect: Option<f64> = None;
        for (code, share) in effects.of_figure(&key) {
            effect = Some(effect.map_or(share, |known| known.max(share)));
            // A cause that no note reports was not found important.
            let noted = rules.iter().find(|rule| rule.code == code);
            let most = noted.map_or(Severity::Remark, |rule| rule.severity.worst());
            let found = limits::severity(share).min(most);
            if found > Severity::Remark {
                codes.push(code);
            }
            severity = severity.max(found);
        }
        for rule in rules.iter().filter(|rule| (rule.about.concerns)(shown, summary)) {
            let least = rule.severity.least();
            severity = severity.max(least);
            if least > Severity::Remark && !codes.contains(&rule.code) {
                codes.push(rule.code);
            }
        }
        let verdict = FigureVerdict {
            verdict: severity.into(),
            effect,
            notes: codes.iter().map(NoteCode::to_string).collect(),
            is_result: shown.standing == Standing::Result,
        };
        (key, verdict)
    };
    shown(run).iter().map(of).collect()
}
