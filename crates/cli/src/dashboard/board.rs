//! What the dashboard knows, and how it looks.
//!
//! In: the run's counters and the server's gauges, a few times a second. Out: one screen. Holds no
//! terminal and reads no clock, so that a screen can be compared in a test.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Gauge, Paragraph, Sparkline, Wrap};
use tokometer_base::Nanos;
use tokometer_base::printable::short;
use tokometer_base::units::nearest_count;
use tokometer_drive::LiveCounts;
use tokometer_measure::{Goal, LiveGauges, LivePercentiles};

use super::help;

/// Readings in a second.
const SMOOTHED: usize = 4;

const LEAST_WIDTH: u16 = 72;
const LEAST_HEIGHT: u16 = 22;
/// Rows of a screen besides charts, server and notes.
const FIXED_ROWS: u16 = 12;

const PERCENTILES: [&str; 3] = ["p50", "p90", "p99"];
const KEYS: &str = "q or Ctrl-C: stop sending, drain and report · ?: help";

#[derive(Debug, Clone, Default)]
pub(crate) struct BoardValues {
    /// Since the measured phase began.
    pub(crate) elapsed: Nanos,
    /// The part of it in which there was something to send.
    pub(crate) sending: Nanos,
    pub(crate) counts: LiveCounts,
    pub(crate) is_stopping: bool,
    /// How long requests in flight have received nothing, where that is long.
    pub(crate) silent: Option<Nanos>,
    /// TTFT and TPOT so far.
    pub(crate) latencies: [Option<LivePercentiles>; 2],
    pub(crate) gauges: LiveGauges,
    pub(crate) notes: Vec<String>,
    /// For what the run waits before it begins. `None` once it has begun.
    pub(crate) waiting: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Board {
    title: String,
    goal: Goal,
    target_rate: Option<f64>,
    has_help: bool,
    last: BoardValues,
    /// Every reading of the run: a day has 345,600.
    tokens_per_s: Vec<u64>,
    requests_per_s: Vec<u64>,
    in_flight: Vec<u64>,
}

fn mean(values: &[u64]) -> u64 {
    values.iter().sum::<u64>() / values.len().max(1) as u64
}

/// The whole run in so many columns.
fn columns(course: &[u64], width: usize) -> Vec<u64> {
    let count = course.len();
    let part = |at: usize| {
        let from = at * count / width;
        mean(&course[from..((at + 1) * count / width).max(from + 1)])
    };
    (0..width).filter(|_| count > 0).map(part).collect()
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
            tokens_per_s: Vec::new(),
            requests_per_s: Vec::new(),
            in_flight: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, reading: BoardValues) {
        let span = reading.elapsed - self.last.elapsed;
        let rates = reading.counts.rates_since(&self.last.counts, span);
        self.tokens_per_s.push(nearest_count(rates.tokens_per_s));
        self.requests_per_s.push(nearest_count(rates.requests_per_s));
        self.in_flight.push(reading.counts.in_flight());
        self.last = reading;
    }

    pub(crate) fn toggle_help(&mut self) {
        self.has_help = !self.has_help;
    }

    pub(crate) fn render(&self, frame: &mut Frame<'_>) {
        let area = frame.area();
        if area.width < LEAST_WIDTH || area.height < LEAST_HEIGHT {
            let lines = self.lines().into_iter().map(Line::raw).collect::<Vec<_>>();
            frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: true }), area);
        } else {
            self.render_boxes(frame);
        }
        if self.has_help {
            help::render(frame);
        }
    }

    fn render_boxes(&self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let server_rows = if self.gauges().is_empty() { 0 } else { 3 };
        // Notes get the rows that they need, the charts the rest.
        let free = area.height - FIXED_ROWS - server_rows;
        let inner = usize::from(area.width - 2);
        let rows = |note: &String| short(note).chars().count() / inner + 1;
        let needed: usize = self.last.notes.iter().map(rows).sum();
        let needed = u16::try_from(needed + 2).unwrap_or(u16::MAX);
        let [head, figures, latencies, charts, server, notes, foot] = Layout::vertical([
            Constraint::Length(3),
            Constraint::Length(4),
            Constraint::Length(4),
            Constraint::Fill(1),
            Constraint::Length(server_rows),
            Constraint::Length(needed.clamp(3, free / 2)),
            Constraint::Length(1),
        ])
        .areas(area);
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
        frame.render_widget(Paragraph::new(KEYS).style(Style::new().fg(Color::DarkGray)), foot);
    }

    /// The same in lines, for a terminal without room for boxes.
    fn lines(&self) -> Vec<String> {
        let figures = self.figures().map(|(label, value, _)| format!("{label} {value}"));
        let mut lines = vec![short(&self.title), self.progress(), figures.join(" · ")];
        for (name, values) in self.latencies() {
            let parts = PERCENTILES.iter().zip(&values).map(|(at, value)| format!("{at} {value}"));
            lines.push(format!("{name} {}", parts.collect::<Vec<_>>().join(" · ")));
        }
        lines.extend((!self.gauges().is_empty()).then(|| format!("server {}", self.gauges())));
        lines.push(KEYS.to_owned());
        // The last, because they may be long.
        lines.extend(self.last.notes.iter().map(|note| format!("note {}", short(note))));
        lines
    }

    fn progress(&self) -> String {
        let counts = &self.last.counts;
        let of = self.goal.requests.map_or(String::new(), |planned| format!(" of {planned}"));
        let left = self.left().map_or(String::new(), |left| format!(", about {left:.0} s left"));
        // Nothing arrives, so the pace so far says nothing about the time left.
        let left = match self.last.silent {
            _ if self.last.is_stopping => {
                format!(", stopping: {} in flight", counts.in_flight())
            }
            Some(span) => format!(", no content for {} s", span.whole_seconds()),
            None => left,
        };
        self.last.waiting.clone().unwrap_or_else(|| {
            format!(
                "{}{of} requests, {:.0} s elapsed{left}",
                counts.ended(),
                self.last.elapsed.as_secs_f64()
            )
        })
    }

    fn render_head(&self, frame: &mut Frame<'_>, area: Rect) {
        let gauge = Gauge::default()
            .block(Block::bordered().title(format!(" {} ", short(&self.title))))
            .gauge_style(Style::new().fg(Color::Blue))
            .ratio(self.goal.part_done(&self.last.counts, self.last.elapsed))
            .label(self.progress());
        frame.render_widget(gauge, area);
    }

    /// Seconds left at the pace so far. `None` before there is one, and where the end is not known.
    fn left(&self) -> Option<f64> {
        let elapsed = self.last.elapsed.as_secs_f64();
        let part = self.goal.part_done(&self.last.counts, self.last.elapsed);
        (part > 0.0 && part < 1.0).then(|| elapsed * (1.0 - part) / part)
    }

    fn figures(&self) -> [(&'static str, String, Color); 5] {
        let counts = &self.last.counts;
        // A mean over the last second: what came within one drawing is too jumpy to read.
        let latest =
            |course: &[u64]| mean(&course[course.len().saturating_sub(SMOOTHED)..]).to_string();
        let seconds = self.last.sending.as_secs_f64();
        let sent = (seconds > 0.0).then(|| format!("{:.1}", counts.sent as f64 / seconds));
        let sent = sent.unwrap_or_else(|| "–".to_owned());
        let rate = match self.target_rate {
            Some(target) => format!("{sent} of {target}"),
            None => sent,
        };
        let failed_style = if counts.failed > 0 { Color::Red } else { Color::Reset };
        [
            ("in flight", counts.in_flight().to_string(), Color::Reset),
            ("req/s sent", rate, Color::Reset),
            ("finished/s", latest(&self.requests_per_s), Color::Reset),
            ("output tok/s", latest(&self.tokens_per_s), Color::Reset),
            ("failed", counts.failed.to_string(), failed_style),
        ]
    }

    fn render_figures(&self, frame: &mut Frame<'_>, area: Rect) {
        let areas = Layout::horizontal([Constraint::Fill(1); 5]).split(area);
        for ((label, value, colour), area) in self.figures().into_iter().zip(areas.iter()) {
            let value = Span::styled(value, Style::new().fg(colour).add_modifier(Modifier::BOLD));
            let text =
                vec![Line::from(value), Line::styled(label, Style::new().fg(Color::DarkGray))];
            frame.render_widget(Paragraph::new(text).block(Block::bordered()).centered(), *area);
        }
    }

    fn latencies(&self) -> [(&'static str, [String; 3]); 2] {
        let values = |found: Option<LivePercentiles>| {
            let known =
                found.map(|found| [found.p50, found.p90, found.p99].map(|at| at.to_string()));
            known.unwrap_or_else(|| ["–"; 3].map(str::to_owned))
        };
        let [ttft, tpot] = self.last.latencies;
        [("TTFT", values(ttft)), ("TPOT", values(tpot))]
    }

    fn render_latencies(&self, frame: &mut Frame<'_>, area: Rect) {
        let areas = Layout::horizontal([Constraint::Fill(1); 2]).split(area);
        for ((name, values), area) in self.latencies().into_iter().zip(areas.iter()) {
            let cell = |text: &str| format!("{text:^11}");
            let bold = Style::new().add_modifier(Modifier::BOLD);
            let dim = Style::new().fg(Color::DarkGray);
            let text = vec![
                Line::styled(values.map(|value| cell(&value)).concat(), bold),
                Line::styled(PERCENTILES.map(cell).concat(), dim),
            ];
            let block = Block::bordered().title(format!(" {name} "));
            frame.render_widget(Paragraph::new(text).block(block).centered(), *area);
        }
    }

    fn render_charts(&self, frame: &mut Frame<'_>, area: Rect) {
        let [tokens, flight] = Layout::horizontal([Constraint::Fill(1); 2]).areas(area);
        let tok =
            Chart { title: " output tok/s ", colour: Color::Green, course: &self.tokens_per_s };
        let requests =
            Chart { title: " requests in flight ", colour: Color::Blue, course: &self.in_flight };
        self.render_chart(frame, &tok, tokens);
        self.render_chart(frame, &requests, flight);
    }

    fn render_server(&self, frame: &mut Frame<'_>, area: Rect) {
        let block = Block::bordered().title(" server ");
        frame.render_widget(Paragraph::new(self.gauges()).block(block), area);
    }

    /// The server's gauges in a line; empty where it reports none.
    fn gauges(&self) -> String {
        let LiveGauges {
            running,
            waiting,
            kv_cache_percent,
            gpu_percent,
            gpu_memory_mib,
            gpu_power_w,
        } = self.last.gauges;
        let one = |value: f64| format!("{value:.1}").trim_end_matches(".0").to_owned();
        let parts = [
            running.map(|count| format!("running {}", one(count))),
            waiting.map(|count| format!("waiting {}", one(count))),
            kv_cache_percent.map(|share| format!("KV cache usage {} %", one(share))),
            gpu_percent.map(|share| format!("GPU {} %", one(share))),
            gpu_memory_mib.map(|mib| format!("{} GiB", one(mib / 1024.0))),
            gpu_power_w.map(|power| format!("{power:.0} W")),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
    }

    /// The whole run with its axes: the largest value and zero on the left, time below.
    fn render_chart(&self, frame: &mut Frame<'_>, chart: &Chart<'_>, area: Rect) {
        let block = Block::bordered().title(chart.title);
        let inner = block.inner(area);
        frame.render_widget(block, area);
        let label = Layout::horizontal([Constraint::Length(7), Constraint::Fill(1)]);
        let [left, right] = label.areas(inner);
        let [bars, time] =
            Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(right);
        let width = usize::from(bars.width);
        let data = columns(chart.course, width);
        let most = data.iter().max().copied().unwrap_or(0);
        let dim = Style::new().fg(Color::DarkGray);
        let rows = usize::from(bars.height);
        let mut axis = vec![Line::raw(""); rows];
        if let Some(first) = axis.first_mut() {
            *first = Line::styled(format!("{most:>6} "), dim);
        }
        if let Some(last) = axis.last_mut().filter(|_| rows > 1) {
            *last = Line::styled("     0 ", dim);
        }
        frame.render_widget(Paragraph::new(axis), left);
        let now = format!("{} s", self.last.elapsed.whole_seconds());
        let line = format!("0 s{now:>rest$}", rest = width.saturating_sub(3));
        frame.render_widget(Paragraph::new(line).style(dim), time);
        let line = Sparkline::default().style(Style::new().fg(chart.colour)).data(data);
        frame.render_widget(line, bars);
    }
}

/// A figure over the run, and how it is drawn.
struct Chart<'a> {
    title: &'static str,
    colour: Color,
    course: &'a [u64],
}

#[cfg(test)]
mod tests;
