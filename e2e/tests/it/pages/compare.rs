//! What a page shows against what a command printed. A line `…` in the page stands for any lines.

use super::mask::Rule;

/// The line that stands for any number of lines.
const GAP: &str = "…";

/// Fails with the first line that differs.
pub(super) fn shows(shown: &[&str], printed: &[String], rule: Rule) -> Result<(), String> {
    let (shown, printed) = match rule {
        Rule::Exact => (shown.iter().map(|line| (*line).to_owned()).collect(), printed.to_vec()),
        Rule::Masked => (unfolded(shown), unfolded(printed)),
    };
    let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
    matches(&shown, &printed, rule)
        .map(|_| ())
        .map_err(|(wanted, found)| format!("  the page shows  {wanted}\n  it prints       {found}"))
}

/// Columns by which the rest of a folded line is indented: below a note or a target, and below a label.
const FOLDED: [usize; 2] = [4, 13];

/// Whether this is the rest of the line before it. Rows of tables are indented too, and begin with a number.
fn is_rest(line: &str) -> bool {
    let indent = line.len() - line.trim_start().len();
    let is_row =
        indent == FOLDED[0] && line.trim_start().starts_with(|one: char| one.is_ascii_digit());
    FOLDED.contains(&indent) && !is_row
}

/// Long lines of a summary in one piece: where they are broken depends on the width of numbers.
pub(super) fn unfolded<T: AsRef<str>>(lines: &[T]) -> Vec<String> {
    let mut whole: Vec<String> = Vec::new();
    for line in lines.iter().map(AsRef::as_ref) {
        match whole.last_mut().filter(|last| is_rest(line) && *last != GAP) {
            Some(last) => last.extend([" ", line.trim_start()]),
            None => whole.push(line.to_owned()),
        }
    }
    whole
}

/// The printed line for each shown one; `None` for a gap. Otherwise the first pair that differs.
fn matches(
    shown: &[&str],
    printed: &[String],
    rule: Rule,
) -> Result<Vec<Option<usize>>, (String, String)> {
    let mut found = Vec::new();
    let mut next = 0;
    let mut is_gap = false;
    for line in shown {
        if *line == GAP {
            is_gap = true;
            found.push(None);
            continue;
        }
        let wanted = rule.apply(line);
        let rest = printed.get(next..).unwrap_or_default();
        let reach = if is_gap { rest.len() } else { rest.len().min(1) };
        let Some(at) = rest[..reach].iter().position(|line| rule.apply(line) == wanted) else {
            let instead = rest.first().map_or("(nothing more)", String::as_str);
            return Err(((*line).to_owned(), instead.to_owned()));
        };
        found.push(Some(next + at));
        next += at + 1;
        is_gap = false;
    }
    match printed.get(next) {
        Some(more) if !is_gap => Err(("(nothing more)".to_owned(), more.clone())),
        _ => Ok(found),
    }
}

/// What the page should show: all that was printed. Gaps stay where the lines around them are found
/// again; otherwise somebody has to choose them again.
pub(super) fn updated(shown: &[&str], printed: &[String], rule: Rule) -> Vec<String> {
    let kept = shown.contains(&GAP).then(|| regapped(shown, printed, rule)).flatten();
    kept.unwrap_or_else(|| printed.to_vec())
}

/// The shown lines as printed now, without those that no longer exist. `None` if fewer than half are left.
fn regapped(shown: &[&str], printed: &[String], rule: Rule) -> Option<Vec<String>> {
    let mut lines: Vec<String> = Vec::new();
    let mut next = 0;
    let mut kept = 0;
    for line in shown {
        let wanted = rule.apply(line);
        let at = printed[next..].iter().position(|line| rule.apply(line) == wanted);
        match at.filter(|_| *line != GAP) {
            Some(at) => {
                if at > 0 && lines.last().is_none_or(|last| last != GAP) {
                    lines.push(GAP.to_owned());
                }
                lines.push(printed[next + at].clone());
                next += at + 1;
                kept += 1;
            }
            None if lines.last().is_none_or(|last| last != GAP) => lines.push(GAP.to_owned()),
            None => {}
        }
    }
    let wanted = shown.iter().filter(|line| **line != GAP).count();
    if next < printed.len() && lines.last().is_none_or(|last| last != GAP) {
        lines.push(GAP.to_owned());
    }
    (kept * 2 >= wanted).then_some(lines)
}

#[cfg(test)]
fn lines(text: &str) -> Vec<String> {
    text.split('|').map(str::to_owned).collect()
}

#[test]
fn a_gap_stands_for_any_lines_and_nothing_else_does() {
    let check = |shown: &str, printed: &str, is_same: bool| {
        let shown: Vec<&str> = shown.split('|').collect();
        let found = shows(&shown, &lines(printed), Rule::Exact);
        assert_eq!(found.is_ok(), is_same, "{shown:?} {printed}: {found:?}");
    };
    check("a|b", "a|b", true);
    check("a", "a|b", false);
    check("a|b", "a", false);
    check("a|…", "a|b|c", true);
    check("…|c", "a|b|c", true);
    check("a|…|c", "a|c", true);
    check("a|…|c", "a|b", false);
    check("a|…|c|d", "a|b|c|x", false);
}

#[test]
fn gaps_stay_where_their_neighbours_are_found_again() {
    let check = |shown: &str, printed: &str, expected: &str| {
        let shown: Vec<&str> = shown.split('|').collect();
        assert_eq!(updated(&shown, &lines(printed), Rule::Exact), lines(expected), "{shown:?}");
    };
    check("a|b", "a|c|d", "a|c|d");
    check("a|…|d", "a|x|y|d|e", "a|…|d|…");
    check("a|b|…|d", "a|c|d", "a|…|d");
    check("p|q|…|r", "a|b|c", "a|b|c");
}
