//! What the dashboard knows, and how it looks.
//!
//! In: the run's counters and the server's gauges, a few times a second. Out: one screen. Holds no
//! terminal and reads no clock, so that a screen can be compared in a test.

use std::collections::VecDeque;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Gauge, Paragraph, Sparkline, Wrap};
use tokometer_base::Nanos;
use tokometer_base::printable::short;
use tokometer_base::units::nearest_count;
use tokometer_drive::LiveCounts;
use tokometer_measure::{Goal, LivePercentiles};

/// Readings that are kept.
const HISTORY: usize = 300;
/// Readings in a second.
const SMOOTHED: usize = 4;

/// One reading.
#[derive(Debug, Clone, Default)]
pub(crate) struct BoardValues {
    /// Since the measured phase began.
    pub(crate) elapsed: Nanos,
    /// The part of it in which there was something to send.
    pub(crate) sending: Nanos,
    /// The run's counters.
    pub(crate) counts: LiveCounts,
    /// How long requests in flight have received nothing, where that is long.
    pub(crate) silent: Option<Nanos>,
    /// TTFT and TPOT so far.
    pub(crate) latencies: [Option<LivePercentiles>; 2],
    /// The server's gauges, by name; empty where they are not read.
    pub(crate) gauges: Vec<(String, f64)>,
    /// Notes so far.
    pub(crate) notes: Vec<String>,
    /// For what the run waits before it begins. `None` once it has begun.
    pub(crate) waiting: Option<String>,
}

/// The state behind the screen.
#[derive(Debug)]
pub(crate) struct Board {
    title: String,
    goal: Goal,
    target_rate: Option<f64>,
    has_help: bool,
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
    pub(crate) fn new(title: String, goal: Goal, target_rate: Option<f64>) -> Self {
        Self {
            title,
            goal,
            target_rate,
            has_help: false,
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

    /// Shows or hides what the figures mean.
    pub(crate) fn toggle_help(&mut self) {
        self.has_help = !self.has_help;
    }

    /// Draws the whole screen.
    pub(crate) fn render(&self, frame: &mut Frame<'_>) {
        let [head, figures, latencies, charts, server, notes, foot] = Layout::vertical([
            Constraint::Length(3),
            Constraint::Length(4),
            Constraint::Length(4),
            Constraint::Fill(2),
            Constraint::Length(if self.last.gauges.is_empty() { 0 } else { 3 }),
            Constraint::Fill(1),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        self.render_head(frame, head);
        self.render_figures(frame, figures);
        self.render_latencies(frame, latencies);
        self.render_charts(frame, charts);
        self.render_server(frame, server);
        let lines: Vec<Line<'_>> =
            self.last.notes.iter().map(|note| Line::raw(short(note))).collect();
        let empty = vec![Line::styled("none so far", Style::new().fg(Color::DarkGray))];
        let text = if lines.is_empty() { empty } else { lines };
        let block = Block::bordered().title(" notes, as judged if the run ended now ");
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }).block(block), notes);
        let keys = "q or Ctrl-C: stop sending, drain and report · ?: help";
        frame.render_widget(Paragraph::new(keys).style(Style::new().fg(Color::DarkGray)), foot);
        if self.has_help {
            render_help(frame);
        }
    }

    fn render_head(&self, frame: &mut Frame<'_>, area: Rect) {
        let counts = &self.last.counts;
        let of = self.goal.requests.map_or(String::new(), |planned| format!(" of {planned}"));
        let left = self.left().map_or(String::new(), |left| format!(", about {left:.0} s left"));
        // Nothing arrives, so the pace so far says nothing about the time left.
        let left = match self.last.silent {
            Some(span) => format!(", no content for {} s", span.whole_seconds()),
            None => left,
        };
        let label = self.last.waiting.clone().unwrap_or_else(|| {
            format!(
                "{}{of} requests, {:.0} s elapsed{left}",
                counts.ended(),
                self.last.elapsed.as_secs_f64()
            )
        });
        let gauge = Gauge::default()
            .block(Block::bordered().title(format!(" {} ", short(&self.title))))
            .gauge_style(Style::new().fg(Color::Blue))
            .ratio(self.goal.part_done(counts, self.last.elapsed))
            .label(label);
        frame.render_widget(gauge, area);
    }

    /// Seconds left at the pace so far. `None` before there is one, and where the end is not known.
    fn left(&self) -> Option<f64> {
        let elapsed = self.last.elapsed.as_secs_f64();
        let part = self.goal.part_done(&self.last.counts, self.last.elapsed);
        (part > 0.0 && part < 1.0).then(|| elapsed * (1.0 - part) / part)
    }

    fn render_figures(&self, frame: &mut Frame<'_>, area: Rect) {
        let counts = &self.last.counts;
        // A mean over the last second: what came within one drawing is too jumpy to read.
        let latest = |history: &VecDeque<u64>| {
            let last: Vec<u64> = history.iter().rev().take(SMOOTHED).copied().collect();
            (last.iter().sum::<u64>() / last.len().max(1) as u64).to_string()
        };
        let seconds = self.last.sending.as_secs_f64();
        let sent = (seconds > 0.0).then(|| format!("{:.1}", counts.sent as f64 / seconds));
        let sent = sent.unwrap_or_else(|| "–".to_owned());
        let (rate, label) = match self.target_rate {
            Some(target) => (format!("{sent} of {target}"), "sent/s, plan"),
            None => (sent, "sent/s"),
        };
        let failed_style = if counts.failed > 0 { Color::Red } else { Color::Reset };
        let figures = [
            ("in flight", counts.in_flight().to_string(), Color::Reset),
            (label, rate, Color::Reset),
            ("ended/s", latest(&self.requests_per_s), Color::Reset),
            ("tokens/s", latest(&self.tokens_per_s), Color::Reset),
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

    fn render_latencies(&self, frame: &mut Frame<'_>, area: Rect) {
        let areas = Layout::horizontal([Constraint::Fill(1); 2]).split(area);
        let names = [" TTFT ", " TPOT "];
        for ((name, found), area) in names.into_iter().zip(&self.last.latencies).zip(areas.iter()) {
            let values =
                found.map(|found| [found.p50, found.p90, found.p99].map(|at| at.to_string()));
            let values = values.unwrap_or_else(|| ["–"; 3].map(str::to_owned));
            let cell = |text: &str| format!("{text:^11}");
            let bold = Style::new().add_modifier(Modifier::BOLD);
            let dim = Style::new().fg(Color::DarkGray);
            let text = vec![
                Line::styled(values.map(|value| cell(&value)).concat(), bold),
                Line::styled(["p50", "p90", "p99"].map(cell).concat(), dim),
            ];
            let block = Block::bordered().title(name);
            frame.render_widget(Paragraph::new(text).block(block).centered(), *area);
        }
    }

    fn render_charts(&self, frame: &mut Frame<'_>, area: Rect) {
        let [tokens, flight] = Layout::horizontal([Constraint::Fill(1); 2]).areas(area);
        let charts = [
            (" tokens/s ", &self.tokens_per_s, Color::Green, tokens),
            (" requests in flight ", &self.in_flight, Color::Blue, flight),
        ];
        for (title, history, colour, area) in charts {
            render_chart(frame, (title, colour), history, area);
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

/// A course with its axes: the largest value and zero on the left, time below.
fn render_chart(
    frame: &mut Frame<'_>,
    (title, colour): (&'static str, Color),
    history: &VecDeque<u64>,
    area: Rect,
) {
    let block = Block::bordered().title(title);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let label = Layout::horizontal([Constraint::Length(7), Constraint::Fill(1)]);
    let [left, right] = label.areas(inner);
    let [chart, time] = Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(right);
    let width = usize::from(chart.width);
    let skip = history.len().saturating_sub(width);
    let data: Vec<u64> = history.iter().skip(skip).copied().collect();
    let most = data.iter().max().copied().unwrap_or(0);
    let dim = Style::new().fg(Color::DarkGray);
    let rows = usize::from(chart.height);
    let mut axis = vec![Line::raw(""); rows];
    if let Some(first) = axis.first_mut() {
        *first = Line::styled(format!("{most:>6} "), dim);
    }
    if let Some(last) = axis.last_mut().filter(|_| rows > 1) {
        *last = Line::styled("     0 ", dim);
    }
    frame.render_widget(Paragraph::new(axis), left);
    // Each column is one reading.
    let seconds = width / SMOOTHED;
    let from = format!("-{seconds} s");
    let line = format!("{from}{:>rest$}", "now", rest = width.saturating_sub(from.len()));
    frame.render_widget(Paragraph::new(line).style(dim), time);
    let aligned: Vec<Option<u64>> = std::iter::repeat_n(None, width.saturating_sub(data.len()))
        .chain(data.into_iter().map(Some))
        .collect();
    frame.render_widget(Sparkline::default().style(Style::new().fg(colour)).data(aligned), chart);
}

/// What the figures mean, over the middle of the screen.
fn render_help(frame: &mut Frame<'_>) {
    let lines = [
        "in flight    requests sent and not ended",
        "sent/s       while there is something to send, of the plan's rate",
        "ended/s      over the last second; tokens/s: likewise",
        "TTFT, TPOT   percentiles of successful requests that ended, within 1.2 %",
        "server       the server's own gauges, where it reports them",
        "notes        what would be noted if the run ended now",
        "",
        "q, Ctrl-C    stop sending, wait for what is in flight, report",
        "?            close this help",
    ];
    let area = frame.area();
    let width = area.width.min(78);
    let height = area.height.min(u16::try_from(lines.len() + 2).unwrap_or(u16::MAX));
    let place = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, place);
    let text: Vec<Line<'_>> = lines.iter().map(|line| Line::raw(*line)).collect();
    frame.render_widget(Paragraph::new(text).block(Block::bordered().title(" help ")), place);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    #[test]
    fn a_name_from_outside_draws_nothing_but_itself() {
        let goal = Goal { requests: Some(1), seconds: None };
        let mut board = Board::new("a\u{1b}[2J\nb\u{202e}".into(), goal, None);
        board.push(BoardValues { notes: vec!["x\u{9b}1m".into()], ..BoardValues::default() });
        let mut terminal = Terminal::new(TestBackend::new(78, 26)).unwrap();
        terminal.draw(|frame| board.render(frame)).unwrap();
        let screen = terminal.backend().to_string();
        assert!(!screen.chars().any(|letter| letter.is_control() && letter != '\n'), "{screen:?}");
        assert!(!screen.contains('\u{202e}'), "{screen:?}");
    }

    #[test]
    fn a_screen_says_for_what_a_run_waits() {
        let mut board = Board::new("nightly".into(), Goal::default(), None);
        let waiting = Some("waiting for 2 other shards".to_owned());
        board.push(BoardValues { waiting, ..BoardValues::default() });
        let mut terminal = Terminal::new(TestBackend::new(78, 26)).unwrap();
        terminal.draw(|frame| board.render(frame)).unwrap();
        let screen = terminal.backend().to_string();
        assert!(screen.contains("waiting for 2 other shards"), "{screen}");
        assert!(!screen.contains("elapsed"), "{screen}");
    }

    #[test]
    fn a_screen_shows_progress_rates_gauges_and_notes() {
        let goal = Goal { requests: Some(100), seconds: None };
        let title = "nightly · point 3 of 8 · 5 req/s";
        let mut board = Board::new(title.into(), goal, Some(5.0));
        for second in 1..=20_u64 {
            board.push(BoardValues {
                elapsed: Nanos::from_secs(second),
                sending: Nanos::from_secs(second),
                counts: LiveCounts {
                    sent: second * 4,
                    succeeded: second * 2,
                    failed: 1,
                    tokens: second * second * 50,
                    ttft_mean: Some(Nanos::from_millis(42)),
                },
                silent: None,
                latencies: [
                    Some(LivePercentiles {
                        p50: Nanos::from_millis(42),
                        p90: Nanos::from_millis(80),
                        p99: Nanos::from_millis(1_230),
                    }),
                    None,
                ],
                gauges: vec![("running".into(), 12.0), ("KV use %".into(), 25.5)],
                notes: vec!["failures (SUSPECT): 1 of 41, last: status 503".into()],
                waiting: None,
            });
        }
        let mut terminal = Terminal::new(TestBackend::new(78, 26)).unwrap();
        terminal.draw(|frame| board.render(frame)).unwrap();
        insta::assert_snapshot!(terminal.backend(), @r#"
        "┌ nightly · point 3 of 8 · 5 req/s ──────────────────────────────────────────┐"
        "│█████████████41 of 100 requests, 20 s elapsed, about 29 s left              │"
        "└────────────────────────────────────────────────────────────────────────────┘"
        "┌──────────────┐┌─────────────┐┌──────────────┐┌─────────────┐┌──────────────┐"
        "│      39      ││  4.0 of 5   ││       2      ││    1800     ││       1      │"
        "│   in flight  ││sent/s, plan ││    ended/s   ││  tokens/s   ││    failed    │"
        "└──────────────┘└─────────────┘└──────────────┘└─────────────┘└──────────────┘"
        "┌ TTFT ───────────────────────────────┐┌ TPOT ───────────────────────────────┐"
        "│    42.0 ms    80.0 ms    1.23 s     ││       –          –          –       │"
        "│      p50        p90        p99      ││      p50        p90        p99      │"
        "└─────────────────────────────────────┘└─────────────────────────────────────┘"
        "┌ tokens/s ───────────────────────────┐┌ requests in flight ─────────────────┐"
        "│  1950                          ▁▃▄▆█││    39                          ▁▃▄▆█│"
        "│                           ▁▂▄▆▇█████││                           ▁▂▄▆▇█████│"
        "│                      ▁▂▄▅▇██████████││                      ▁▂▄▅▇██████████│"
        "│     0            ▂▄▅▇███████████████││     0            ▂▄▅▇███████████████│"
        "│       -7 s                       now││       -7 s                       now│"
        "└─────────────────────────────────────┘└─────────────────────────────────────┘"
        "┌ server ────────────────────────────────────────────────────────────────────┐"
        "│running 12   KV use % 25.5                                                  │"
        "└────────────────────────────────────────────────────────────────────────────┘"
        "┌ notes, as judged if the run ended now ─────────────────────────────────────┐"
        "│failures (SUSPECT): 1 of 41, last: status 503                               │"
        "│                                                                            │"
        "└────────────────────────────────────────────────────────────────────────────┘"
        "q or Ctrl-C: stop sending, drain and report · ?: help                         "
        "#);
    }

    #[test]
    fn a_question_mark_explains_the_figures_and_closes_again() {
        let goal = Goal { requests: None, seconds: Some(10.0) };
        let mut board = Board::new("run".into(), goal, None);
        let screen = |board: &Board| {
            let mut terminal = Terminal::new(TestBackend::new(78, 26)).unwrap();
            terminal.draw(|frame| board.render(frame)).unwrap();
            terminal.backend().to_string()
        };
        board.toggle_help();
        assert!(screen(&board).contains("requests sent and not ended"));
        board.toggle_help();
        assert!(!screen(&board).contains("requests sent and not ended"));
    }

    /// A server that accepts requests and sends nothing looked like a slow one.
    #[test]
    fn a_silent_server_is_named_instead_of_the_time_left() {
        let goal = Goal { requests: Some(8), seconds: None };
        let mut board = Board::new("run".into(), goal, None);
        let counts = LiveCounts { sent: 8, succeeded: 2, ..LiveCounts::default() };
        let silent = Some(Nanos::from_secs(12));
        let elapsed = Nanos::from_secs(20);
        board.push(BoardValues { elapsed, counts, silent, ..BoardValues::default() });
        let mut terminal = Terminal::new(TestBackend::new(78, 26)).unwrap();
        terminal.draw(|frame| board.render(frame)).unwrap();
        let screen = terminal.backend().to_string();
        assert!(screen.contains("2 of 8 requests, 20 s elapsed, no content for 12 s"), "{screen}");
    }

    #[test]
    fn the_time_left_is_that_of_the_pace_so_far() {
        let check = |requests, seconds, ended, elapsed, expected: Option<f64>| {
            let mut board = Board::new("run".into(), Goal { requests, seconds }, None);
            let counts = LiveCounts { sent: ended, succeeded: ended, ..LiveCounts::default() };
            let elapsed = Nanos::from_secs(elapsed);
            board.push(BoardValues { elapsed, counts, ..BoardValues::default() });
            assert_eq!(board.left().map(f64::round), expected);
        };
        check(Some(100), None, 25, 10, Some(30.0));
        check(None, Some(60.0), 25, 10, Some(50.0));
        check(Some(100), None, 0, 10, None);
        check(None, None, 25, 10, None);
    }
}
