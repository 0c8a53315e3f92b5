//! The shape of a measured output: its lines, labels and columns.
//!
//! A page may show a run that takes too long for a test. A shorter command stands in for it, and the two
//! outputs are compared without their numbers. A table has as many rows as the run has points; a line
//! that depends on what was found may be absent on either side. A line with a label that the other side
//! does not know is a difference.

use super::compare::unfolded;
use super::mask::Rule;

/// Lines that a run prints only where there is something to say, by their beginning.
const OPTIONAL: [&str; 26] = [
    "note[",
    "note:",
    "warning:",
    "block above ",
    "affected ",
    "? ",
    "first event ",
    "TTFT planned ",
    "E2E planned ",
    "client queue ",
    "late send ",
    "connect ",
    "steady state ",
    "TTFT split ",
    "engine steps ",
    "server ",
    "limited by ",
    "in flight ",
    "at ",
    "0 % CI ",
    "TTFT ms ",
    "TPOT ms ",
    "ITL ms ",
    "E2E ms ",
    "req/s ",
    "output tok/s ",
];

/// How many of them come first whose words may differ.
const FREE: usize = 5;

/// Lines that others below them belong to, which are indented by two.
const HEADS: [&str; 4] = ["note[", "note:", "warning:", "verdict"];

/// Lines whose words depend on the result: only their label is compared.
const RESULTS: [(&str, &str); 6] = [
    ("knee:", "KNEE"),
    ("no knee:", "KNEE"),
    ("verdict", "VERDICT"),
    ("capacity:", "CAPACITY"),
    ("the requested load is", "FITNESS"),
    ("next: tokometer capacity", "NEXT"),
];

/// Cells of a table, and marks behind them, that differ between its rows.
const CELLS: [&str; 15] = [
    "0",
    "?",
    "~",
    "!",
    "✓",
    "knee",
    "met",
    "missed",
    "overloaded",
    "failed",
    "TIME",
    "ms?",
    "s?",
    "percentiles",
    "withheld",
];

const PERCENTILES: [(&str, &str); 4] =
    [("p50", "p-fifty"), ("p90", "p-ninety"), ("p95", "p-ninetyfive"), ("p99", "p-ninetynine")];

/// Fails with the first line that differs.
pub(super) fn is_same(shown: &[&str], printed: &[String]) -> Result<(), String> {
    let (shown, printed) = (lines(shown), lines(printed));
    let (mut at, mut found) = (0, 0);
    loop {
        match (shown.get(at), printed.get(found)) {
            (None, None) => return Ok(()),
            (Some(one), Some(other)) if one == other => (at, found) = (at + 1, found + 1),
            (Some(one), other) if may_miss(one, other) => at += 1,
            (one, Some(other)) if may_miss(other, one) => found += 1,
            (one, other) => {
                let text = |line: Option<&String>| {
                    line.map_or("(nothing more)", String::as_str).to_owned()
                };
                return Err(format!(
                    "  the page shows  {}\n  it prints       {}",
                    text(one),
                    text(other)
                ));
            }
        }
    }
}

/// Whether a line may be absent from the other side, which has `other` instead.
fn may_miss(line: &str, other: Option<&String>) -> bool {
    OPTIONAL.iter().any(|label| line.starts_with(label))
        && other.is_none_or(|other| !is_alike(line, other))
}

/// Whether both begin with the same label of an optional line. The notes have their codes.
fn is_alike(one: &str, other: &str) -> bool {
    let label = |line: &str| {
        let known = OPTIONAL.iter().skip(FREE).find(|label| line.starts_with(**label));
        known.map(|label| (*label).to_owned()).or_else(|| {
            line.starts_with("note[").then(|| line.split(':').next().unwrap_or_default().to_owned())
        })
    };
    label(one).is_some_and(|one| label(other) == Some(one))
}

/// Lines as they are compared: rows of a table that look alike are one.
fn lines<T: AsRef<str>>(text: &[T]) -> Vec<String> {
    let mut whole: Vec<String> = Vec::new();
    for line in unfolded(text) {
        let is_head = |last: &&mut String| HEADS.iter().any(|head| last.starts_with(head));
        match whole.last_mut().filter(|last| line.starts_with("  ") && is_head(last)) {
            Some(last) => last.extend([" ", line.trim_start()]),
            None => whole.push(line),
        }
    }
    let mut lines: Vec<String> = whole.iter().map(|line| shape(line)).collect();
    lines.dedup();
    lines
}

fn shape(line: &str) -> String {
    if let Some((_, name)) = RESULTS.iter().find(|(label, _)| line.starts_with(label)) {
        return (*name).to_owned();
    }
    // Which percentile a column shows is not a number of the run.
    let named = PERCENTILES.iter().fold(line.to_owned(), |text, (digits, letters)| {
        let upper = |text: &str| text.replace('p', "P");
        text.replace(digits, letters).replace(&upper(digits), &upper(letters))
    });
    let masked = Rule::Masked.apply(&named);
    let mut words: Vec<&str> = Vec::new();
    for word in masked.split(' ') {
        let is_value = |word: &&str| CELLS.contains(word);
        // A row without some of its values is still that row; its columns are those of the heading.
        if !(is_value(&word) && words.last().is_some_and(is_value)) {
            words.push(if is_value(&word) { "0" } else { word });
        }
    }
    words.join(" ")
}

#[test]
fn outputs_of_a_long_and_a_short_run_have_one_shape() {
    let check = |shown: &str, printed: &str, is_equal: bool| {
        let shown: Vec<&str> = shown.split('|').collect();
        let printed: Vec<String> = printed.split('|').map(str::to_owned).collect();
        let found = is_same(&shown, &printed);
        assert_eq!(found.is_ok(), is_equal, "{shown:?} {printed:?}: {found:?}");
    };
    check(
        "ms mean p99|TTFT 26.4 41.7|verdict: VALID",
        "ms mean p99|TTFT 1.2? 3|verdict: SUSPECT (x)",
        true,
    );
    check("ms mean p99|TTFT 26.4 41.7", "ms mean p90|TTFT 26.4 41.7", false);
    check("TTFT 26.4 41.7", "TTFB 26.4 41.7", false);
    // Rows of a table, with their marks.
    check(
        "concurrency req/s|1 1.66 36.7? ~|2 3.17 65.3? ~ knee|tok/s: x",
        "concurrency req/s|1 9 2 ✓|tok/s: x",
        true,
    );
    check("16.00  met  241  79.9 ms?|32.00  missed  2.06 s", "8.00  overloaded  2  3 s", true);
    // Rows without values that the other has.
    check("ITL  12.08  10.56  22.30", "ITL  12.08  percentiles withheld", true);
    check("a|95 % CI mean p99|TTFT ms 1–2|b", "a|b", true);
    check("a|95 % CI mean p99|TTFT ms 1–2|b", "a|95 % CI mean p90|TTFT ms 1–2|b", false);
    check("ITL ms  1–2  1–2  too short", "ITL ms  1–2", true);
    check("knee: 16 in flight reach 98 %|page: x", "no knee: interrupted|page: x", true);
    // What only some runs print.
    check("a|steady state 0.9 s to 2 s: x|b", "a|b", true);
    check("a|b", "a|note[late-sends]: 4 of 8|  advice|b", true);
    check("verdict: VALID|page: x", "verdict: SUSPECT|  few-samples at 1|page: x", true);
    check("a|  adaptive reads 2.3 µs", "a|  eager reads 2.3 µs", false);
    check("note[a]: one|b", "note[z]: other|b", true);
    // The same line with other words.
    check("a|steady state 0.9 s to 2 s: x|b", "a|steady state 0.9 s to 2 s: y|b", false);
    check("note[a]: one|b", "note[a]: other|b", false);
    check("a|b", "a|stable part 0.9 s|b", false);
    check("a|b", "a", false);
}
