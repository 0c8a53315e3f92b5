//! The first screen of a run: what was measured, the figures of a decision, and whether to trust them.
//!
//! At most fifteen lines of 80 columns. Everything else is behind `--details` and on the page.

use tokometer_figures::figure::{Figure, Quantity, Statistic};
use tokometer_figures::statistics::needed_samples;
use tokometer_figures::steady::LoadClass;
use tokometer_figures::{ConfidenceInterval, Distribution, Note, Severity, Summary, Verdict};
use tokometer_judge::notes::NoteCode;
use tokometer_record::{RunInfo, TargetInfo};

use super::affected::tone;
use super::failures::failure_text;
use super::fold::wrapped;
use super::{LABEL, SummaryPage, WIDTH, count, line, load_text, rate, short, whole};
use crate::grid::{GAP, Grid};
use crate::marks;
use crate::style::{Style, Tone};

const COLUMNS: [Statistic; 3] = [Statistic::MEDIAN, Statistic::P90, Statistic::P99];

/// The first screen.
pub fn print_screen(summary: &Summary, info: &RunInfo, style: Style) -> String {
    let page = SummaryPage { summary, info, style };
    let mut lines: Vec<String> = info.targets.iter().map(|target| page.target(target)).collect();
    lines.push(page.course_line());
    lines.extend(page.main_failure());
    lines.extend(page.rates());
    lines.extend(page.table());
    lines.extend(page.server_brief());
    if summary.failures.is_empty() {
        lines.extend(page.limit());
    }
    if summary.verdict == Verdict::Valid {
        lines.extend(page.missing_samples());
    }
    lines.extend(page.trust());
    lines.iter().map(|line| cut(line) + "\n").collect()
}

/// A line that fits a terminal. Only addresses and messages of servers are longer, and they are in the
/// details.
fn cut(line: &str) -> String {
    if crate::grid::width(line) <= WIDTH {
        return line.to_owned();
    }
    let mut kept: String = line.chars().take(WIDTH - 1).collect();
    kept.push('…');
    kept
}

impl SummaryPage<'_> {
    fn marked(&self, figure: Figure) -> Option<char> {
        marks::mark(self.summary, figure)
    }

    fn target(&self, target: &TargetInfo) -> String {
        let server = target.server.as_deref().unwrap_or(&target.backend);
        let parts = match target.predicted_engine() {
            Some(engine) => vec![format!("PREDICTION from the engine profile `{engine}`")],
            None if target.is_simulated => vec!["embedded simulator".to_owned()],
            None => vec![server.to_owned(), target.model.clone(), target.route_url()],
        };
        self.style.paint(Tone::Strong, &parts.join(" · "))
    }

    /// Requests, time and load.
    fn course_line(&self) -> String {
        let counts = self.summary.counts;
        let mut text = format!("{} of {} ok", count(counts.succeeded), count(counts.planned));
        text +=
            &self.summary.duration_s.map_or_else(String::new, |time| format!(" in {time:.1} s"));
        let mut parts = vec![text];
        if self.summary.ended.is_partial() {
            parts.push(self.style.paint(Tone::Doubtful, "stopped early"));
        }
        parts.push(match (self.summary.load_class, self.info.load.max_concurrency) {
            (LoadClass::Closed, Some(cap)) => format!("closed loop, {cap} in flight"),
            (class, _) => load_text(&self.info.load, class).replace(": ", " "),
        });
        let mean = |key: &str| {
            let tokens = self.summary.figure(key)?;
            (counts.succeeded > 0).then(|| whole(tokens / counts.succeeded as f64))
        };
        let lengths = [("total_prompt_tokens", "in"), ("total_output_tokens", "out")];
        let lengths = lengths.map(|(key, word)| mean(key).map(|tokens| format!("{tokens} {word}")));
        let lengths: Vec<String> = lengths.into_iter().flatten().collect();
        if !lengths.is_empty() {
            parts.push(lengths.join(", "));
        }
        parts.join(" · ")
    }

    /// The most frequent cause of failures.
    fn main_failure(&self) -> Option<String> {
        let groups = &self.summary.failures;
        let more = match groups.len() {
            0 | 1 => String::new(),
            all => format!(" (and {} other causes)", all - 1),
        };
        let room = WIDTH - LABEL - more.len();
        let text = failure_text(groups.first()?);
        let text: String = if text.chars().count() > room {
            text.chars().take(room - 1).chain(['…']).collect()
        } else {
            text
        };
        Some(line("failed", &(self.style.paint(Tone::Bad, &text) + &more)))
    }

    fn rates(&self) -> Option<String> {
        let figure = |quantity: Quantity, unit: &str| {
            let value = self.summary.figure(quantity)?;
            let interval = self.summary.intervals.get(quantity.key()).and_then(interval_text);
            let mark = self.marked(Figure::whole(quantity)).map(String::from).unwrap_or_default();
            Some(format!("{}{mark} {unit}{}", rate(value), interval.unwrap_or_default()))
        };
        let in_flight = self.summary.figure("concurrency");
        let parts: Vec<String> = [
            figure(Quantity::Requests, "req/s"),
            figure(Quantity::Items, "items/s"),
            self.summary.figure("rtfx").map(|value| format!("{} x real time", rate(value))),
            self.summary.figure(Quantity::Output).map(|value| format!("{} tok/s out", rate(value))),
            in_flight.map(|value| format!("{} in flight", short(value))),
        ]
        .into_iter()
        .flatten()
        .collect();
        (!parts.is_empty()).then(|| line("throughput", &parts.join(" · ")))
    }

    fn table(&self) -> Vec<String> {
        let mut grid = Grid::new().left("ms").at_least(LABEL - GAP).left("mean").at_least(17);
        for head in COLUMNS {
            grid = grid.right(format!("{head} ")).at_least(9);
        }
        let rows = Quantity::LATENCIES.into_iter().chain([Quantity::E2ePerItem]);
        for quantity in rows {
            let found = self.summary.distribution(quantity).filter(|values| values.count > 0);
            let Some(values) = found else { continue };
            let mut cells = vec![quantity.label().to_owned(), self.mean_cell(quantity, values)];
            if values.is_withheld {
                cells.push("percentiles withheld".to_owned());
            } else {
                cells.extend(COLUMNS.map(|statistic| self.percentile_cell(quantity, statistic)));
            }
            grid.push(cells);
        }
        if grid.is_empty() {
            return Vec::new();
        }
        let mut lines = grid.lines();
        lines[0] = self.style.paint(Tone::Faint, &lines[0]);
        lines
    }

    fn mean_cell(&self, quantity: Quantity, values: &Distribution) -> String {
        let Some(mean) = values.mean else { return "-".to_owned() };
        let mark = self.marked(Figure::mean(quantity)).map(String::from).unwrap_or_default();
        format!("{}{mark}{}", short(mean), interval_text(&values.mean_interval).unwrap_or_default())
    }

    /// Ends in the column of a mark, so that digits line up.
    fn percentile_cell(&self, quantity: Quantity, statistic: Statistic) -> String {
        let found = self.summary.distribution(quantity).zip(statistic.percentile());
        let found = found.and_then(|(values, one)| values.percentile(one.percent()));
        let mark = self.marked(Figure::new(quantity, statistic)).unwrap_or(' ');
        match found {
            None => "- ".to_owned(),
            Some(one) => match (one.value, one.above) {
                (Some(value), _) => format!("{}{mark}", short(value)),
                (None, Some(above)) => format!("> {} ", short(above)),
                (None, None) => "failed ".to_owned(),
            },
        }
    }

    /// What the server's own metrics said.
    fn server_brief(&self) -> Option<String> {
        let server = self.summary.server.as_ref()?;
        let queue = server.running_max.zip(server.waiting_max).map(|(running, waiting)| {
            format!("at most {} running, {} waiting", whole(running), whole(waiting))
        });
        let share = |value: Option<f64>, word: &str| {
            value.map(|share| format!("{word} {:.0} %", share * 100.0))
        };
        let preempted = server.preemptions.filter(|number| *number > 0.0);
        let parts: Vec<String> = [
            queue,
            share(server.kv_use_max, "KV"),
            share(server.prefix_hit_share, "cache hits"),
            preempted.map(|number| format!("{} preemptions", whole(number))),
        ]
        .into_iter()
        .flatten()
        .collect();
        (!parts.is_empty()).then(|| line("server", &parts.join(" · ")))
    }

    /// What kept the run from being faster, as far as it is known.
    fn limit(&self) -> Option<String> {
        let has = |code: NoteCode| self.summary.notes.iter().any(|note| note.code == code);
        let waiting = self.summary.server.as_ref().and_then(|server| server.waiting_max);
        let cap = self.info.load.max_concurrency;
        let text = match (self.summary.load_class, waiting, cap) {
            _ if has(NoteCode::Overloaded) => {
                "the server: requests arrive faster than it serves them".to_owned()
            }
            (LoadClass::Open | LoadClass::Ramp, _, Some(cap)) if has(NoteCode::CapHits) => {
                format!("the limit of {cap} in flight: requests waited in this client")
            }
            (_, Some(waiting), _) if waiting >= 1.0 => {
                format!("the server: up to {} requests waited there", whole(waiting))
            }
            (LoadClass::Closed, Some(_), Some(cap)) => {
                format!("the concurrency of {cap}: the server had no queue")
            }
            (LoadClass::Open, Some(_), _) => "the rate: the server had no queue".to_owned(),
            _ => return None,
        };
        Some(line("limited by", &text))
    }

    /// What the mark `?` means here, and what removes it.
    fn missing_samples(&self) -> Option<String> {
        let is_marked = |statistic: &Statistic| {
            let mut latencies = Quantity::LATENCIES.into_iter();
            latencies.any(|one| self.marked(Figure::new(one, *statistic)) == Some('?'))
        };
        let highest = COLUMNS.into_iter().rfind(is_marked)?;
        let needed = needed_samples(highest.percentile()?.percent())?;
        let text = if self.summary.counts.succeeded < needed {
            format!("{highest} needs {needed} requests: add `-n {}`", needed.next_multiple_of(100))
        } else {
            format!("too few independent values for {highest}; a longer run helps")
        };
        Some(line("?", &text))
    }

    /// The verdict, with its cause, what it leaves usable, and what to do.
    fn trust(&self) -> Vec<String> {
        if self.info.is_prediction() {
            return vec!["verdict: none, nothing was measured".to_owned()];
        }
        let verdict = self.summary.verdict;
        let name = self.style.paint(tone(verdict), verdict.name());
        let causes = self.summary.notes.iter().filter(|note| note.severity > Severity::Remark);
        let causes: Vec<&Note> = causes.collect();
        let (Some(cause), true) = (causes.first(), verdict > Verdict::Valid) else {
            return vec![format!("verdict: {name}")];
        };
        let mut lines = wrapped(&format!("verdict: {name}: {} ({})", cause.found, cause.code));
        lines.push(self.usable());
        if !cause.action.is_empty() {
            lines.push(format!("  do: {}", cause.action));
        }
        lines
    }

    /// Which figures can be used, where not all can.
    fn usable(&self) -> String {
        let is_valid = |figure: Figure| {
            let found = self.summary.figure_verdicts.get(&figure.key());
            found.is_some_and(|one| one.verdict == Verdict::Valid)
        };
        let mut usable: Vec<String> = Vec::new();
        if is_valid(Figure::whole(Quantity::Requests)) {
            usable.push("throughput".to_owned());
        }
        let mut rows: Vec<UsableRow> = Vec::new();
        for quantity in Quantity::LATENCIES {
            let all = [Statistic::Mean].into_iter().chain(COLUMNS);
            let valid = all.filter(|statistic| is_valid(Figure::new(quantity, *statistic)));
            let statistics: Vec<String> = valid.map(|one| one.to_string()).collect();
            match rows.iter_mut().find(|row| row.statistics == statistics) {
                Some(row) => row.labels.push(quantity.label()),
                None if statistics.is_empty() => {}
                None => rows.push(UsableRow { statistics, labels: vec![quantity.label()] }),
            }
        }
        let text =
            |row: &UsableRow| format!("{} of {}", row.statistics.join(", "), row.labels.join(", "));
        usable.extend(rows.iter().map(text));
        let text = if usable.is_empty() { "nothing".to_owned() } else { usable.join("; ") };
        format!("  usable: {text}")
    }
}

/// Latencies of which the same statistics can be used.
struct UsableRow {
    statistics: Vec<String>,
    labels: Vec<&'static str>,
}

/// ` (31.2–36.0)`; `None` where there is no interval.
fn interval_text(interval: &ConfidenceInterval) -> Option<String> {
    match interval {
        ConfidenceInterval::Known { low, high } if high.is_finite() => {
            Some(format!(" ({}–{})", short(*low), short(*high)))
        }
        _ => None,
    }
}
