//! The tables of the evidence as Markdown.

use std::fmt::Write as _;

use super::analysis::{Case, Cell, Spread, Tally, cells, tally};
use super::figures::{COMPARED, name};
use super::plan::Kind;

/// Every held-out run with its figures, then what they come to.
pub(super) fn markdown(cases: &[Case]) -> String {
    let all: Vec<Vec<Cell>> = cases.iter().map(cells).collect();
    let mut text = String::from(
        "| held-out run | metric | measured | repeat noise | predicted | error | interpolated | error |\n\
         |---|---|---:|---:|---:|---:|---:|---:|\n",
    );
    for (case, cells) in cases.iter().zip(&all) {
        for (at, cell) in cells.iter().enumerate() {
            let title = if at == 0 { case.title.as_str() } else { "" };
            text.push_str(&row(title, cell));
        }
    }
    text.push_str("\nInterpolated from:\n\n");
    for case in cases {
        let from = case.guessed.as_ref().map_or("nothing", |guess| guess.neighbours.as_str());
        let _ = writeln!(text, "- {}: {from}", case.title);
    }
    let flat: Vec<Cell> = all.into_iter().flatten().collect();
    text.push_str(&summaries(&flat));
    text
}

fn row(title: &str, cell: &Cell) -> String {
    let share = |value: Option<f64>| value.map_or("–".to_owned(), percent);
    let signed = |value: f64| format!("{:+.1} %", 100.0 * value);
    format!(
        "| {title} | {} | {:.1} | {} | {:.1} | {} | {} | {} |\n",
        name(cell.figure),
        cell.measured,
        share(cell.noise),
        cell.predicted,
        signed(cell.error),
        cell.guessed.map_or("–".to_owned(), |value| format!("{value:.1}")),
        cell.guess_error.map_or("–".to_owned(), signed),
    )
}

/// By kind of change, by metric, and of all.
fn summaries(cells: &[Cell]) -> String {
    let mut text = head("kind of change");
    for kind in Kind::ALL {
        text.push_str(&line(kind.name(), tally(cells.iter().filter(|cell| cell.kind == kind))));
    }
    text.push_str(&line("all", tally(cells.iter())));
    text.push_str(&head("metric"));
    for figure in COMPARED {
        let of = cells.iter().filter(|cell| cell.figure == figure);
        text.push_str(&line(&name(figure), tally(of)));
    }
    text
}

fn head(what: &str) -> String {
    format!(
        "\n| {what} | cells | median noise | model: median | largest | within 10 % \
         | interpolation: median | largest | within 10 % | model nearer |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"
    )
}

fn line(name: &str, tally: Option<Tally>) -> String {
    let Some(tally) = tally else { return String::new() };
    let spread = |spread: Spread| {
        format!(
            "{} | {} | {:.0} %",
            percent(spread.median),
            percent(spread.largest),
            100.0 * spread.within
        )
    };
    format!(
        "| {name} | {} | {} | {} | {} | {} |\n",
        tally.cells,
        tally.noise.map_or("–".to_owned(), percent),
        spread(tally.model),
        tally.guess.map_or("– | – | –".to_owned(), spread),
        tally.nearer.map_or("–".to_owned(), |share| format!("{:.0} %", 100.0 * share)),
    )
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// Prints what a task found.
#[expect(clippy::print_stdout, reason = "the table is the result of the task")]
pub(super) fn print(text: &str) {
    println!("{text}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::analysis::tests::case;

    #[test]
    fn a_page_holds_every_cell_its_neighbours_and_what_they_come_to() {
        let page = markdown(&[case(&[90.0, 110.0], 105.0, Some(80.0)), case(&[100.0], 70.0, None)]);
        for part in [
            "| 8 streams, 64/32 | output tok/s | 100.0 | 20.0 % | 105.0 | +5.0 % | 80.0 | -20.0 % |",
            "|  | ITL p99 | 100.0 | – | 70.0 | -30.0 % | – | – |",
            "- 8 streams, 64/32: c4-a and c16-a",
            "- 8 streams, 64/32: nothing",
            "| streams | 16 | 20.0 % | 17.5 % | 30.0 % | 50 % | 20.0 % | 20.0 % | 0 % | 100 % |",
            "| TPOT p99 | 2 | 20.0 % | 17.5 % | 30.0 % | 50 % | 20.0 % | 20.0 % | 0 % | 100 % |",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
        assert!(!page.contains("| rate |"), "{page}");
    }
}
