//! What the dashboard knows, and how it looks.
//!
//! In: the run's counters and the server's gauges, a few times a second. Out: one screen. Holds no
//! terminal and reads no clock, so that a screen can be compared in a test.

use std::collections::VecDeque;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Gauge, Paragraph, Sparkline};
use tokometer_base::Nanos;
use tokometer_base::printable::short;
use tokometer_base::units::nearest_count;
use tokometer_drive::LiveCounts;
use tokometer_measure::Goal;

/// Readings that are kept.
const HISTORY: usize = 300;
/// Readings in a second.
const SMOOTHED: usize = 4;

/// One reading.
#[derive(Debug, Clone, Default)]
pub(crate) struct BoardValues {
    /// Since the measured phase began.
    pub(crate) elapsed: Nanos,
    /// The run's counters.
    pub(crate) counts: LiveCounts,
    /// The server's gauges, by name; empty where they are not read.
    pub(crate) gauges: Vec<(String, f64)>,
    /// Notes so far.
    pub(crate) notes: Vec<String>,
}

/// The state behind the screen.
#[derive(Debug)]
pub(crate) struct Board {
    title: String,
    goal: Goal,
    last: BoardValues,
    tokens_per_s: VecDeque<u64>,
    requests_per_s: VecDeque<u64>,
    in_flight: VecDeque<u64>,
}

fn keep(history: &mut VecDeque<u64>, value: u64) {
    if history.len() == HISTORY {
        history.pop_front();
    }
    history.push_back(value);
}

impl Board {
    /// A board for a run that ends with this goal.
    pub(crate) fn new(title: String, goal: Goal) -> Self {
        Self {
            title,
            goal,
            last: BoardValues::default(),
            tokens_per_s: VecDeque::new(),
            requests_per_s: VecDeque::new(),
            in_flight: VecDeque::new(),
        }
    }

    /// Takes a reading.
    pub(crate) fn push(&mut self, reading: BoardValues) {
        let span = reading.elapsed - self.last.elapsed;
        let rates = reading.counts.rates_since(&self.last.counts, span);
        keep(&mut self.tokens_per_s, nearest_count(rates.tokens_per_s));
        keep(&mut self.requests_per_s, nearest_count(rates.requests_per_s));
        keep(&mut self.in_flight, reading.counts.in_flight());
        self.last = reading;
    }

    /// Draws the whole screen.
    pub(crate) fn render(&self, frame: &mut Frame<'_>) {
        let [head, figures, charts, server, notes, foot] = Layout::vertical([
            Constraint::Length(3),
            Constraint::Length(4),
            Constraint::Fill(2),
            Constraint::Length(if self.last.gauges.is_empty() { 0 } else { 3 }),
            Constraint::Fill(1),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        self.render_head(frame, head);
        self.render_figures(frame, figures);
        self.render_charts(frame, charts);
        self.render_server(frame, server);
        let lines: Vec<Line<'_>> =
            self.last.notes.iter().map(|note| Line::raw(short(note))).collect();
        let empty = vec![Line::styled("none so far", Style::new().fg(Color::DarkGray))];
        let text = if lines.is_empty() { empty } else { lines };
        frame.render_widget(Paragraph::new(text).block(Block::bordered().title(" notes ")), notes);
        let keys = "q or Ctrl-C: stop sending, drain and report";
        frame.render_widget(Paragraph::new(keys).style(Style::new().fg(Color::DarkGray)), foot);
    }

    fn render_head(&self, frame: &mut Frame<'_>, area: Rect) {
        let counts = &self.last.counts;
        let of = self.goal.requests.map_or(String::new(), |planned| format!(" of {planned}"));
        let label =
            format!("{}{of} requests, {:.0} s", counts.ended(), self.last.elapsed.as_secs_f64());
        let gauge = Gauge::default()
            .block(Block::bordered().title(format!(" {} ", short(&self.title))))
            .gauge_style(Style::new().fg(Color::Blue))
            .ratio(self.goal.part_done(counts, self.last.elapsed))
            .label(label);
        frame.render_widget(gauge, area);
    }

    fn render_figures(&self, frame: &mut Frame<'_>, area: Rect) {
        let counts = &self.last.counts;
        // A mean over the last second: what came within one drawing is too jumpy to read.
        let latest = |history: &VecDeque<u64>| {
            let last: Vec<u64> = history.iter().rev().take(SMOOTHED).copied().collect();
            (last.iter().sum::<u64>() / last.len().max(1) as u64).to_string()
        };
        let ttft = counts.ttft_mean.map_or("–".to_owned(), |mean| mean.to_string());
        let failed_style = if counts.failed > 0 { Color::Red } else { Color::Reset };
        let figures = [
            ("in flight", counts.in_flight().to_string(), Color::Reset),
            ("requests/s", latest(&self.requests_per_s), Color::Reset),
            ("tokens/s", latest(&self.tokens_per_s), Color::Reset),
            ("mean TTFT", ttft, Color::Reset),
            ("failed", counts.failed.to_string(), failed_style),
        ];
        let areas = Layout::horizontal([Constraint::Fill(1); 5]).split(area);
        for ((label, value, colour), area) in figures.into_iter().zip(areas.iter()) {
            let value = Span::styled(value, Style::new().fg(colour).add_modifier(Modifier::BOLD));
            let text =
                vec![Line::from(value), Line::styled(label, Style::new().fg(Color::DarkGray))];
            frame.render_widget(Paragraph::new(text).block(Block::bordered()).centered(), *area);
        }
    }

    fn render_charts(&self, frame: &mut Frame<'_>, area: Rect) {
        let [tokens, flight] = Layout::horizontal([Constraint::Fill(1); 2]).areas(area);
        let charts = [
            (" tokens/s ", &self.tokens_per_s, Color::Green, tokens),
            (" in flight ", &self.in_flight, Color::Blue, flight),
        ];
        for (title, history, colour, area) in charts {
            let width = usize::from(area.width.saturating_sub(2));
            let skip = history.len().saturating_sub(width);
            let data: Vec<u64> = history.iter().skip(skip).copied().collect();
            let most = data.iter().max().copied().unwrap_or(0);
            let chart = Sparkline::default()
                .block(Block::bordered().title(format!("{title}(max {most}) ")))
                .style(Style::new().fg(colour))
                .data(data);
            frame.render_widget(chart, area);
        }
    }

    fn render_server(&self, frame: &mut Frame<'_>, area: Rect) {
        let shown = |(name, value): &(String, f64)| format!("{} {value:.1}", short(name));
        let trimmed = |text: String| text.trim_end_matches(".0").to_owned();
        let text: Vec<String> =
            self.last.gauges.iter().map(|gauge| trimmed(shown(gauge))).collect();
        let block = Block::bordered().title(" server ");
        frame.render_widget(Paragraph::new(text.join("   ")).block(block), area);
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    #[test]
    fn a_name_from_outside_draws_nothing_but_itself() {
        let goal = Goal { requests: Some(1), seconds: None };
        let mut board = Board::new("a\u{1b}[2J\nb\u{202e}".into(), goal);
        board.push(BoardValues { notes: vec!["x\u{9b}1m".into()], ..BoardValues::default() });
        let mut terminal = Terminal::new(TestBackend::new(78, 20)).unwrap();
        terminal.draw(|frame| board.render(frame)).unwrap();
        let screen = terminal.backend().to_string();
        assert!(!screen.chars().any(|letter| letter.is_control() && letter != '\n'), "{screen:?}");
        assert!(!screen.contains('\u{202e}'), "{screen:?}");
    }

    #[test]
    fn a_screen_shows_progress_rates_gauges_and_notes() {
        let mut board =
            Board::new("embedded simulator".into(), Goal { requests: Some(100), seconds: None });
        for second in 1..=20_u64 {
            board.push(BoardValues {
                elapsed: Nanos::from_secs(second),
                counts: LiveCounts {
                    sent: second * 4,
                    succeeded: second * 2,
                    failed: 1,
                    tokens: second * second * 50,
                    ttft_mean: Some(Nanos::from_millis(42)),
                },
                gauges: vec![("running".into(), 12.0), ("KV use %".into(), 25.5)],
                notes: vec!["late-sends: 3 of 80".into()],
            });
        }
        let mut terminal = Terminal::new(TestBackend::new(78, 20)).unwrap();
        terminal.draw(|frame| board.render(frame)).unwrap();
        insta::assert_snapshot!(terminal.backend(), @r#"
        "┌ embedded simulator ────────────────────────────────────────────────────────┐"
        "│██████████████████████████41 of 100 requests, 20 s                          │"
        "└────────────────────────────────────────────────────────────────────────────┘"
        "┌──────────────┐┌─────────────┐┌──────────────┐┌─────────────┐┌──────────────┐"
        "│      39      ││      2      ││     1800     ││   42.0 ms   ││       1      │"
        "│   in flight  ││ requests/s  ││   tokens/s   ││  mean TTFT  ││    failed    │"
        "└──────────────┘└─────────────┘└──────────────┘└─────────────┘└──────────────┘"
        "┌ tokens/s (max 1950) ────────────────┐┌ in flight (max 39) ─────────────────┐"
        "│               ▁▃▄▆█                 ││               ▁▃▄▆█                 │"
        "│          ▁▂▄▆▇█████                 ││          ▁▂▄▆▇█████                 │"
        "│     ▁▂▄▅▇██████████                 ││     ▁▂▄▅▇██████████                 │"
        "│ ▂▄▅▇███████████████                 ││ ▂▄▅▇███████████████                 │"
        "└─────────────────────────────────────┘└─────────────────────────────────────┘"
        "┌ server ────────────────────────────────────────────────────────────────────┐"
        "│running 12   KV use % 25.5                                                  │"
        "└────────────────────────────────────────────────────────────────────────────┘"
        "┌ notes ─────────────────────────────────────────────────────────────────────┐"
        "│late-sends: 3 of 80                                                         │"
        "└────────────────────────────────────────────────────────────────────────────┘"
        "q or Ctrl-C: stop sending, drain and report                                   "
        "#);
    }
}
