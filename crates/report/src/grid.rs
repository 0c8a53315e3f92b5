//! Rows of cells in aligned columns: every table for a terminal, and the same table in Markdown.
//!
//! A column is as wide as its widest cell. Two blanks stand between columns, or one where only that
//! keeps the table within 80 characters; a table that lines up with the text around it
//! ([`Grid::at_least`]) keeps its two. Colour codes have no width. Lines never end in blanks.

use tokometer_base::printable::{self, ColourCodes};

/// Characters of a line that fits any terminal.
pub const TERMINAL: usize = 80;

/// Blanks between two columns.
pub const GAP: usize = 2;

/// The side of a column on which its cells line up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

#[derive(Debug, Clone)]
struct Column {
    head: String,
    align: Align,
    /// Least width, for tables that line up with text above or below them.
    least: usize,
}

#[derive(Debug, Clone, Default)]
pub struct Grid {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Grid {
    pub fn new() -> Self {
        Self::default()
    }

    /// With one more column of words.
    #[must_use]
    pub fn left(self, head: impl Into<String>) -> Self {
        self.column(head, Align::Left)
    }

    /// With one more column of numbers.
    #[must_use]
    pub fn right(self, head: impl Into<String>) -> Self {
        self.column(head, Align::Right)
    }

    #[must_use]
    pub fn column(mut self, head: impl Into<String>, align: Align) -> Self {
        self.columns.push(Column { head: one_line(&head.into()), align, least: 0 });
        self
    }

    /// The last column at least this wide.
    #[must_use]
    pub fn at_least(mut self, width: usize) -> Self {
        if let Some(column) = self.columns.last_mut() {
            column.least = width;
        }
        self
    }

    /// Adds a row. The last cell of a row that has fewer cells than there are columns stands left and
    /// may run over the columns after it.
    pub fn push<C: Into<String>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let cells: Vec<String> = cells.into_iter().map(|cell| one_line(&cell.into())).collect();
        assert!(cells.len() <= self.columns.len(), "a row has more cells than there are columns");
        self.rows.push(cells);
    }

    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as lines, the heads first.
    pub fn lines(&self) -> Vec<String> {
        let wide = self.lines_with(&" ".repeat(GAP));
        let fits = |lines: &[String]| lines.iter().all(|line| width(line) <= TERMINAL);
        if fits(&wide) || self.columns.iter().any(|column| column.least > 0) {
            return wide;
        }
        let narrow = self.lines_with(" ");
        if fits(&narrow) { narrow } else { wide }
    }

    pub fn text(&self) -> String {
        self.lines().iter().flat_map(|line| [line.as_str(), "\n"]).collect()
    }

    /// The table as Markdown. Bars, backticks and angle brackets in cells are escaped.
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| {
            let mut cells: Vec<String> =
                cells.iter().map(|cell| with_escaped_marks(cell.trim())).collect();
            cells.resize(self.columns.len(), String::new());
            format!("| {} |\n", cells.join(" | "))
        };
        let rule = |column: &Column| match column.align {
            Align::Left => "---|",
            Align::Right => "---:|",
        };
        let rules: String = self.columns.iter().map(rule).collect();
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        format!("{}|{rules}\n{rows}", line(&self.heads()))
    }

    pub(crate) fn heads(&self) -> Vec<String> {
        self.columns.iter().map(|column| column.head.clone()).collect()
    }

    fn lines_with(&self, gap: &str) -> Vec<String> {
        let heads = self.heads();
        let widths = self.widths();
        let line = |cells: &Vec<String>| {
            let is_whole = cells.len() == self.columns.len();
            let cell = |(at, cell): (usize, &String)| {
                let is_free = !is_whole && at + 1 == cells.len();
                let align = if is_free { Align::Left } else { self.columns[at].align };
                padded(cell, align, widths[at])
            };
            let cells: Vec<String> = cells.iter().enumerate().map(cell).collect();
            cells.join(gap).trim_end().to_owned()
        };
        std::iter::once(&heads).chain(&self.rows).map(line).collect()
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> =
            self.columns.iter().map(|column| width(&column.head).max(column.least)).collect();
        for row in &self.rows {
            let measured = if row.len() == widths.len() { row.len() } else { row.len().max(1) - 1 };
            for (known, cell) in widths.iter_mut().zip(&row[..measured]) {
                *known = (*known).max(width(cell));
            }
        }
        widths
    }
}

/// A cell cannot start a line of its own, whatever name stands in it. Colours stay.
fn one_line(cell: &str) -> String {
    printable::lines(cell, ColourCodes::Kept).replace(['\r', '\n', '\t'], " ")
}

fn padded(cell: &str, align: Align, to: usize) -> String {
    let blanks = " ".repeat(to.saturating_sub(width(cell)));
    match align {
        Align::Left => format!("{cell}{blanks}"),
        Align::Right => format!("{blanks}{cell}"),
    }
}

/// Columns of a text on a terminal: its characters without those of colour codes (`ESC [ … m`).
pub(crate) fn width(text: &str) -> usize {
    let mut characters = text.chars();
    let mut count = 0;
    while let Some(character) = characters.next() {
        if character == '\x1b' {
            let _code = characters.by_ref().find(|end| *end == 'm');
        } else {
            count += 1;
        }
    }
    count
}

/// A cell without marks of Markdown that end it or hide what follows. One that is escaped stays so.
fn with_escaped_marks(cell: &str) -> String {
    let mut escaped = String::with_capacity(cell.len());
    let mut is_escaped = false;
    for character in cell.chars() {
        if matches!(character, '|' | '`' | '<') && !is_escaped {
            escaped.push('\\');
        }
        is_escaped = character == '\\' && !is_escaped;
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_add_a_line_to_a_table() {
        let mut grid = Grid::new().left("run");
        grid.push(["a\nverdict VALID\u{1b}[2J\r"]);
        assert_eq!(grid.text(), "run\na verdict VALID\u{fffd}[2J\n");
    }

    fn grid() -> Grid {
        let mut grid = Grid::new().left("name").right("mean").right("p99");
        grid.push(["TTFT", "12.5", "1,234.0"]);
        grid.push(["µ-batch size", "7", "–"]);
        grid
    }

    #[test]
    fn words_line_up_left_and_numbers_right() {
        insta::assert_snapshot!(grid().text(), @r"
        name          mean      p99
        TTFT          12.5  1,234.0
        µ-batch size     7        –
        ");
    }

    #[test]
    fn markdown_has_the_same_cells_and_escapes_bars_once() {
        let mut grid = grid();
        grid.push([r"a|b`<i>", r"c\|d"]);
        insta::assert_snapshot!(grid.markdown(), @r"
        | name | mean | p99 |
        |---|---:|---:|
        | TTFT | 12.5 | 1,234.0 |
        | µ-batch size | 7 | – |
        | a\|b\`\<i> | c\|d |  |
        ");
    }

    #[test]
    fn the_last_cell_of_a_short_row_runs_on() {
        let mut grid = grid();
        grid.push(["E2E", "no percentiles: too few requests"]);
        grid.push(["queue", "–"]);
        insta::assert_snapshot!(grid.text(), @r"
        name          mean      p99
        TTFT          12.5  1,234.0
        µ-batch size     7        –
        E2E           no percentiles: too few requests
        queue         –
        ");
    }

    #[test]
    fn colours_take_no_room() {
        let mut grid = Grid::new().left("").right("value");
        grid.push(["\x1b[31mbad\x1b[0m", "1"]);
        assert_eq!(grid.lines()[1], "\x1b[31mbad\x1b[0m      1");
    }

    /// Two blanks make 82 characters of these columns, one makes 80.
    #[test]
    fn columns_move_together_where_that_makes_the_table_fit_a_terminal() {
        let of = |width: usize| {
            let mut grid = Grid::new().left("a").left("b").left("c");
            grid.push(["x".repeat(width), "y".repeat(26), "z".repeat(26)]);
            grid.lines().remove(1)
        };
        assert_eq!(of(26).chars().filter(|c| *c == ' ').count(), 2);
        assert_eq!(of(24).chars().filter(|c| *c == ' ').count(), 4);
        // Too wide in any case: no reason to crowd it.
        assert_eq!(of(60).chars().filter(|c| *c == ' ').count(), 4);
    }
}
