//! `tokometer compare`: is B different from A?
//!
//! In: run folders, other tools' result files, printed reports. Out: a comparison as text, Markdown,
//! JSON or a page, and an exit code for rules.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokometer_base::redact::Secrets;
use tokometer_base::units;
use tokometer_decide::compare::{
    Comparison, Criteria, Equivalence, FailRule, RuleOutcome, compared,
};
use tokometer_figures::Summary;
use tokometer_record::RunInfo;
use tokometer_report::comparison::{self, PointRuns};
use tokometer_report::html::{Page, facts, title};

use crate::args::{CompareArgs, ComparisonView};
use crate::command_line::command_line;
use crate::exit::{Exit, Refusal};
use crate::files::is_standard;
use crate::pages;
use crate::runs::{self, READING};
use crate::terminal::{print, print_message};

#[derive(Clone, Copy)]
enum Sides<'a> {
    /// The two targets of one run.
    One(&'a Path),
    Both {
        a: &'a [PathBuf],
        b: &'a [PathBuf],
    },
}

impl<'a> Sides<'a> {
    fn of(args: &'a CompareArgs) -> Result<Self, Refusal> {
        Ok(match args.runs.as_slice() {
            [] => Self::Both { a: &args.a, b: &args.b },
            [run] => Self::One(run),
            [a, b] => Self::Both { a: std::slice::from_ref(a), b: std::slice::from_ref(b) },
            [_, _, run, ..] => {
                return Err(Refusal::usage(
                    format!("cannot tell on which side `{}` is", run.display()),
                    "name the runs of both sides: `tokometer compare --a RUN… --b RUN…`",
                ));
            }
        })
    }
}

/// Compares and prints; the exit code says whether a rule was violated.
pub(crate) fn compare(args: &CompareArgs) -> anyhow::Result<Exit> {
    let rules: Vec<FailRule> =
        args.fail_if.iter().map(|text| rule(text)).collect::<Result<_, _>>()?;
    let figures = compared(rules.iter().filter_map(|rule| rule.figure));
    let equivalence = units::parse_share(&args.equivalence)
        .map_err(|why| Refusal::usage(format!("cannot use `--equivalence`: {why}"), ""))?;
    let criteria = Criteria { figures: &figures, equivalence: Equivalence(equivalence) };
    let sides = Sides::of(args)?;
    let paired = match sides {
        Sides::One(_) => None,
        Sides::Both { a, b } => comparison::paired(a, b)?,
    };
    if let Some(points) = paired {
        if !points.left_out.is_empty() {
            print_message(&format!("note: only one side has {}", points.left_out.join(", ")));
        }
        return compare_points(args, &points.both, criteria, &rules);
    }
    let comparison = match sides {
        Sides::One(run) => comparison::of_run(run, criteria)?,
        Sides::Both { a, b } => comparison::of_sides(READING, a, b, criteria)?,
    };
    let comparison = accepted(args, comparison.judged(&rules))?;
    if let Some(path) = &args.html {
        pages::write(page(args, &comparison)?, path)?;
    }
    // A page on standard output replaces the text.
    if !args.html.as_deref().is_some_and(is_standard) {
        print(&shown(&comparison, args)?)?;
    }
    Ok(exit(&comparison, args))
}

/// The page of a comparison, with where its runs come from.
fn page(args: &CompareArgs, comparison: &Comparison) -> Result<Page, Refusal> {
    let given = args.runs.iter().chain(&args.a).chain(&args.b);
    let mut known = Vec::new();
    for folder in given.filter(|path| path.is_dir()) {
        let reader = runs::open(folder)?;
        let summary = READING.summary(&reader, &comparison::options(&[], None))?;
        known.push((reader.info().clone(), summary));
    }
    let known: Vec<(&RunInfo, &Summary)> = known.iter().map(|(info, of)| (info, of)).collect();
    Ok(Page {
        title: if known.is_empty() {
            "B against A".to_owned()
        } else {
            format!("B against A: {}", title(&known))
        },
        facts: facts(&known, None),
        command: Some(command_line(&Secrets::new())),
        ..comparison::page(comparison)
    })
}

/// The comparison, unless its runs differ in what was measured.
fn accepted(args: &CompareArgs, comparison: Comparison) -> Result<Comparison, Refusal> {
    let refusals = comparison.refusals();
    if refusals.is_empty() || args.force {
        return Ok(comparison);
    }
    Err(Refusal::usage(
        format!("cannot compare these runs:\n  {}", refusals.join("\n  ")),
        "`--force` compares them anyway",
    ))
}

/// Compares sweeps point by point; the exit code is that of the worst point.
fn compare_points(
    args: &CompareArgs,
    points: &[PointRuns],
    criteria: Criteria<'_>,
    rules: &[FailRule],
) -> anyhow::Result<Exit> {
    if let Some(page) = &args.html {
        return Err(Refusal::usage(
            format!("cannot write `{}` for a comparison of sweeps", page.display()),
            "compare one point: `--a SWEEP/POINT --b SWEEP/POINT`",
        )
        .into());
    }
    let (mut worst, mut documents) = (Exit::Done, Vec::new());
    for point in points {
        let named = |refusal: Refusal| Refusal {
            message: format!("point `{}`: {}", point.name, refusal.message),
            ..refusal
        };
        let comparison = comparison::of_sides(READING, &point.a, &point.b, criteria)
            .and_then(|comparison| accepted(args, comparison.judged(rules)))
            .map_err(named)?;
        if args.format == ComparisonView::Json {
            documents.push(json!({ "point": point.name, "comparison": comparison }));
        } else {
            let head = if args.format == ComparisonView::Markdown { "## " } else { "" };
            print(&format!("{head}{}\n{}\n", point.name, shown(&comparison, args)?))?;
        }
        worst = graver(worst, exit(&comparison, args));
    }
    if args.format == ComparisonView::Json {
        print(&format!("{:#}\n", Value::Array(documents)))?;
    }
    Ok(worst)
}

fn rule(text: &str) -> Result<FailRule, Refusal> {
    FailRule::parse(text).map_err(|why| {
        let why = match why {
            tokometer_decide::Error::Rule { why, .. } => why,
            other => other.to_string(),
        };
        Refusal::usage(
            format!("cannot use `--fail-if \"{text}\"`: {why}"),
            "write it as \"ttft p99 worse by 5%\"",
        )
    })
}

/// A broken rule is a missed objective. One that cannot be judged must not pass silently: it names
/// a figure that these runs do not have.
fn exit(comparison: &Comparison, args: &CompareArgs) -> Exit {
    let has = |outcome| comparison.rules.iter().any(|judged| judged.outcome == outcome);
    for judged in comparison.rules.iter().filter(|judged| judged.outcome == RuleOutcome::Unknown) {
        print_message(&format!("error: {}", comparison::unchecked(judged, comparison)));
    }
    for judged in comparison.rules.iter().filter(|judged| judged.outcome == RuleOutcome::Unproven) {
        print_message(&format!(
            "rule \"{}\": {}",
            judged.rule,
            comparison::outcome(judged, comparison)
        ));
    }
    match () {
        () if has(RuleOutcome::Broken) => Exit::Missed,
        () if has(RuleOutcome::Unknown) => Exit::Usage,
        () if has(RuleOutcome::Unproven) && args.require_power => Exit::CannotTell,
        () => Exit::Done,
    }
}

/// The exit code of two points: as within one comparison, a violated rule comes before one that could
/// not be checked, and that one before data that cannot tell.
fn graver(one: Exit, other: Exit) -> Exit {
    const GRAVEST_FIRST: [Exit; 3] = [Exit::Missed, Exit::Usage, Exit::CannotTell];
    let found = GRAVEST_FIRST.into_iter().find(|exit| [one, other].contains(exit));
    found.unwrap_or(Exit::Done)
}

fn shown(comparison: &Comparison, args: &CompareArgs) -> anyhow::Result<String> {
    Ok(match args.format {
        ComparisonView::Text if args.details => comparison::text(comparison),
        ComparisonView::Text => comparison::answer(comparison),
        ComparisonView::Markdown => comparison::markdown(comparison),
        ComparisonView::Json => format!("{}\n", serde_json::to_string_pretty(comparison)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sweep with a violated rule at one point and too few data at another ended with code 8.
    #[test]
    fn a_violated_rule_at_one_point_decides_the_exit_code() {
        let check = |codes: &[Exit], expected: Exit| {
            let found = codes.iter().copied().fold(Exit::Done, graver);
            assert_eq!(found, expected, "{codes:?}");
        };
        check(&[Exit::Done, Exit::Done], Exit::Done);
        check(&[Exit::Missed, Exit::CannotTell, Exit::Usage], Exit::Missed);
        check(&[Exit::CannotTell, Exit::Missed], Exit::Missed);
        check(&[Exit::Done, Exit::CannotTell, Exit::Usage], Exit::Usage);
        check(&[Exit::CannotTell, Exit::Done], Exit::CannotTell);
    }
}
