//! One rule per note, the search for notes, and the page generated from the rules.

use std::fmt::Write as _;

use super::about::About;
use super::{NoteCode, answers, client, counts, run, shards, times};
use crate::effects::Effects;
use crate::limits;
use crate::shown::figure_label;
use tokometer_figures::define;
use tokometer_figures::{Note, Severity, Unjudged};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoteJudgement {
    Remark,
    /// The percentiles that it names are marked `?` and SUSPECT, and are no results: it is a remark about the run.
    Cell,
    /// The figures that it names are SUSPECT.
    Suspect,
    /// The figures that it names are INVALID.
    Invalid,
    /// Each figure is judged by the effect on it.
    ByEffect,
    /// The same, but no figure is worse than SUSPECT: it is what the path did.
    SuspectByEffect,
}

impl NoteJudgement {
    fn name(self) -> &'static str {
        match self {
            Self::ByEffect => "by effect",
            Self::SuspectByEffect => "by effect, at most SUSPECT",
            Self::Cell => Severity::Remark.name(),
            fixed => fixed.worst().name(),
        }
    }

    /// The most that the note may say about a figure.
    pub(crate) fn worst(self) -> Severity {
        match self {
            Self::Remark => Severity::Remark,
            Self::Cell | Self::Suspect | Self::SuspectByEffect => Severity::Suspect,
            Self::Invalid | Self::ByEffect => Severity::Invalid,
        }
    }

    /// The severity without an effect.
    pub(crate) fn least(self) -> Severity {
        match self {
            Self::ByEffect | Self::SuspectByEffect => Severity::Remark,
            fixed => fixed.worst(),
        }
    }

    /// The severity of the note itself, with an effect of this severity.
    pub(super) fn of_note(self, by_effect: Severity) -> Severity {
        match self {
            Self::Cell => Severity::Remark,
            other => by_effect.clamp(other.least(), other.worst()),
        }
    }
}

/// One row: when a note appears, which figures it affects, and what to do.
pub(crate) struct NoteRule {
    pub(crate) code: NoteCode,
    pub(crate) severity: NoteJudgement,
    pub(crate) about: About,
    /// Replaces `{}` in `threshold`; also passed to the check.
    pub(crate) limit: f64,
    pub(crate) threshold: &'static str,
    pub(crate) why: &'static str,
    pub(crate) action: &'static str,
    pub(crate) check: fn(&Unjudged, &Effects, f64) -> Option<String>,
}

impl NoteRule {
    /// The threshold with its number. Shares below one are shown in percent.
    fn threshold_text(&self) -> String {
        let number = if self.threshold.contains("{} %") {
            format!("{}", (self.limit * 1e4).round() / 1e2)
        } else {
            format!("{}", self.limit)
        };
        self.threshold.replace("{}", &number)
    }

    /// Heading and text of each part of its page.
    fn parts(&self) -> [(&'static str, String); 4] {
        let affects = match self.about.key {
            "all" => ("Affects", "all figures".to_owned()),
            key => {
                let metric = define::metric(key);
                let label = metric.map(|metric| metric.names.map_or(metric.label, |one| one.label));
                ("Affects at least", format!("{} (`{key}`)", label.unwrap_or(key)))
            }
        };
        [
            ("Appears when", self.threshold_text()),
            affects,
            ("Why", self.why.to_owned()),
            ("What to do", self.action.to_owned()),
        ]
    }

    fn markdown(&self) -> String {
        let parts = self.parts().map(|(heading, text)| format!("- **{heading}:** {text}\n"));
        format!("### `{}`\n\n{}\n", self.code, parts.concat())
    }
}

/// The codes of all notes.
pub fn note_codes() -> Vec<String> {
    rules().into_iter().map(|rule| rule.code.to_string()).collect()
}

/// The page of one note as plain text; `None` for a code that no note has.
pub fn explained(code: &str) -> Option<String> {
    let rule = rules().into_iter().find(|rule| rule.code.to_string() == code)?;
    let (_, heading, words) = PARTS.iter().find(|(judgement, ..)| *judgement == rule.severity)?;
    let parts = rule.parts().map(|(heading, text)| format!("{heading}: {text}\n"));
    Some(format!("{code} ({heading})\n{words}\n\n{}", parts.concat()))
}

/// The note that this many failed requests lead to, and its severity, for a run in progress.
pub fn severity_of_failures(failed: u64, ended: u64) -> (NoteCode, &'static str) {
    let share = failed as f64 / ended.max(1) as f64;
    let few = rule(NoteCode::FewFailures);
    let found = if share < few.limit { few } else { rule(NoteCode::Failures) };
    (found.code, found.severity.name())
}

/// All rules, in the order in which notes of one severity are shown.
pub(crate) fn rules() -> Vec<&'static NoteRule> {
    let tables =
        [client::CLIENT, times::TIMES, counts::COUNTS, answers::ANSWERS, run::RUN, shards::SHARDS];
    let mut rules: Vec<&NoteRule> = tables.into_iter().flatten().collect();
    rules.sort_by_key(|rule| rule.code);
    rules
}

pub(crate) fn rule(code: NoteCode) -> &'static NoteRule {
    rules().into_iter().find(|rule| rule.code == code).expect("a test finds a row for every code")
}

/// The row of a note in a summary; `None` for one of another version.
pub(crate) fn rule_of(note: &Note) -> Option<&'static NoteRule> {
    rules().into_iter().find(|rule| note.code == rule.code)
}

/// All notes of a run, the most severe first.
pub(crate) fn find(run: &Unjudged, effects: &Effects) -> Vec<Note> {
    let mut notes: Vec<Note> = rules()
        .into_iter()
        .filter_map(|rule| {
            let found = (rule.check)(run, effects, rule.limit)?;
            let effect = effects.of_note(rule.code);
            let by_effect =
                effects.on_results(rule.code).map_or(Severity::Remark, limits::severity);
            Some(Note {
                code: rule.code.to_string(),
                severity: rule.severity.of_note(by_effect),
                figure: rule.about.key.to_owned(),
                found: found + &bound(effect),
                why: rule.why.to_owned(),
                action: rule.action.to_owned(),
                effect: effect.map(|(_, share)| share),
            })
        })
        .collect();
    notes.sort_by_key(|note| std::cmp::Reverse(note.severity));
    notes
}

/// The largest effect, in words.
fn bound(effect: Option<(&str, f64)>) -> String {
    match effect {
        Some((key, share)) if share >= limits::NO_BOUND_FROM => {
            format!("; its effect on {} has no bound", figure_label(key))
        }
        Some((key, share)) if share >= 0.0005 => {
            format!("; it moved {} by up to {:.1} %", figure_label(key), share * 100.0)
        }
        Some(_) => "; it moved no figure by more than 0.1 %".to_owned(),
        None => String::new(),
    }
}

/// The parts of the page of notes: judgement, heading, and what to know of all its notes.
const PARTS: [(NoteJudgement, &str, &str); 6] = [
    (NoteJudgement::Invalid, "INVALID", "The figures that the note affects are INVALID."),
    (
        NoteJudgement::ByEffect,
        "By effect",
        "The note states how far it may have moved a figure, and that decides: INVALID, SUSPECT or a remark.",
    ),
    (
        NoteJudgement::SuspectByEffect,
        "By effect, at most SUSPECT",
        "The note states how far it may have moved a figure. The network path caused it, not the client, so no figure becomes INVALID.",
    ),
    (NoteJudgement::Suspect, "SUSPECT", "The figures that the note affects are SUSPECT."),
    (
        NoteJudgement::Cell,
        "Marked `?`",
        "Each percentile that the note affects has the mark `?` and is SUSPECT. The verdict of the run leaves it out.",
    ),
    (NoteJudgement::Remark, "Remarks", "A remark does not change the verdict."),
];

pub fn notes_markdown() -> String {
    let rules = rules();
    let of = |judgement| rules.iter().filter(move |rule| rule.severity == judgement);
    let mut page = String::from(
        "# Notes\n\n\
         What does a note mean, and what should I do? Generated from the program's tables; do not edit by hand.\n\n\
         Every shown figure has a verdict, and the run has the worst one of its results, cells with a `?` aside.\n\n\
         A note may affect more figures than the one that this page names. The line `affected` of the summary names them, the most affected first, and `summary.figure_verdicts` in the JSON has all.\n\n\
         | verdict | meaning |\n|---|---|\n\
         | VALID | no note puts the figure in doubt |\n\
         | SUSPECT | the figure may have moved a little, or it is correct but does not support the obvious conclusion |\n\
         | INVALID | the client or the machine may have moved the figure too far |\n\n\
         [Verdicts](verdict.md) has the rules, how they were tested, and the way from a verdict to its cause.\n\n",
    );
    // Writing to a string cannot fail.
    for (judgement, heading, _) in PARTS {
        let links: Vec<String> =
            of(judgement).map(|rule| format!("[`{0}`](#{0})", rule.code)).collect();
        let _ = writeln!(page, "**{heading}:** {}\n", links.join(", "));
    }
    for (judgement, heading, words) in PARTS {
        let _ = writeln!(page, "## {heading}\n\n{words}\n");
        for rule in of(judgement) {
            page.push_str(&rule.markdown());
        }
    }
    let _ = write!(page, "## Thresholds of an effect\n\n{}", limits::markdown());
    page
}
