//! The first screen of a run: what was measured, the figures of a decision, and how far to trust them.
//!
//! At most fifteen lines of a terminal's width, and one per objective. Everything else is behind
//! `--details` and on the page.

use tokometer_figures::figure::{Figure, Quantity, Statistic};
use tokometer_figures::statistics::needed_samples;
use tokometer_figures::steady::LoadClass;
use tokometer_figures::{ConfidenceInterval, Distribution, Note, Severity, Summary, Verdict};
use tokometer_judge::notes::NoteCode;
use tokometer_record::{RunInfo, TargetInfo};

use super::affected::tone;
use super::failures::failure_text;
use super::fold::{folded, folded_at, wrapped};
use super::{LABEL, SummaryPage, WIDTH, count, line, load_text, rate, short, whole};
use crate::grid::{GAP, Grid};
use crate::style::{Style, Tone};
use crate::summary::parts;

const COLUMNS: [Statistic; 3] = [Statistic::MEDIAN, Statistic::P90, Statistic::P99];

/// The share of running requests that may wait although the server is not the limit.
const FEW_WAIT: f64 = 0.25;

fn few_waited(waiting: f64) -> String {
    if waiting < 1.0 {
        "no request waited in the server".to_owned()
    } else {
        format!("at most {} waited in the server", whole(waiting))
    }
}

pub fn print_screen(summary: &Summary, info: &RunInfo, style: Style) -> String {
    let page = SummaryPage { summary, info, style };
    let targets = info.targets.iter().map(|target| page.target(target));
    let head: Vec<String> = targets.chain([page.counts_and_load()]).chain(page.partial()).collect();
    let mut lines: Vec<String> = page.main_failure().into_iter().chain(page.rates()).collect();
    // Without a success every latency is that of a failure.
    if summary.counts.succeeded > 0 {
        lines.extend(page.table());
    }
    lines.extend(page.objectives());
    lines.extend(page.server_in_short());
    lines.extend(page.limit());
    lines.extend(page.sessions_in_short());
    lines.extend(page.missing_requests());
    lines.extend(parts::lines(summary, info));
    let head = head.iter().flat_map(|line| folded_at(line, 2));
    let lines = head.chain(lines.iter().flat_map(|line| folded(line))).chain(page.trust());
    lines.map(|line| line + "\n").collect()
}

impl SummaryPage<'_> {
    fn target(&self, target: &TargetInfo) -> String {
        let server = target.server.as_deref().unwrap_or(&target.backend);
        let parts = match target.predicted_engine() {
            Some(engine) => vec![format!("PREDICTION, not measured: engine profile `{engine}`")],
            None if target.is_simulated => vec!["embedded simulator".to_owned()],
            None => vec![server.to_owned(), target.model.clone(), target.route_url()],
        };
        self.style.paint(Tone::Strong, &parts.join(" · "))
    }

    fn counts_and_load(&self) -> String {
        let counts = self.summary.counts;
        let time = self.summary.duration_s.map(|seconds| format!(" in {seconds:.1} s"));
        let (good, all) = (count(counts.succeeded), count(counts.planned));
        let cancelled = Some(counts.cancelled).filter(|cancelled| *cancelled > 0);
        let cancelled = cancelled.map(|cancelled| format!(", {} cancelled", count(cancelled)));
        let mut parts = vec![format!(
            "{good} of {all} ok{}{}",
            cancelled.unwrap_or_default(),
            time.unwrap_or_default()
        )];
        let load = &self.info.load;
        parts.push(match (self.summary.load_class, load.max_sessions, load.max_concurrency) {
            (LoadClass::Closed, Some(most), None) => format!("closed loop, {most} sessions"),
            (LoadClass::Closed, None, Some(cap)) => format!("closed loop, {cap} in flight"),
            _ => load_text(self.info, self.summary).replacen(": ", " ", 1),
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

    /// The most frequent cause of failures, and the requests that were not sent behind one.
    fn main_failure(&self) -> Option<String> {
        let groups = &self.summary.failures;
        let others = match groups.len() {
            0 | 1 => String::new(),
            2 => " (and 1 other cause)".to_owned(),
            all => format!(" (and {} other causes)", all - 1),
        };
        let unsent = Some(self.summary.counts.never_sent).filter(|unsent| *unsent > 0);
        let unsent = unsent.map(|unsent| format!(" · {} never sent", count(unsent)));
        let more = others + &unsent.unwrap_or_default();
        let room = WIDTH - LABEL - more.len();
        let mut text = failure_text(groups.first()?);
        if text.chars().count() > room {
            text = text.chars().take(room - 1).chain(['…']).collect();
        }
        Some(line("failed", &(self.style.paint(Tone::Bad, &text) + &more)))
    }

    fn rates(&self) -> Option<String> {
        let part = |key: &str, unit: &str| {
            let value = self.summary.figure(key)?;
            let mark = self.mark(key).map(String::from).unwrap_or_default();
            let margin = self.summary.intervals.get(key).filter(|_| unit != "tok/s out");
            let margin = margin.and_then(|interval| margin_text(value, interval));
            Some(format!("{}{mark}{} {unit}", rate(value), margin.unwrap_or_default()))
        };
        let parts: Vec<String> = [
            part(Quantity::Requests.key(), "req/s"),
            part(Quantity::Items.key(), "items/s"),
            part("rtfx", "x real time"),
            part(Quantity::Output.key(), "tok/s out"),
            self.summary.figure("concurrency").map(|value| format!("{} in flight", short(value))),
        ]
        .into_iter()
        .flatten()
        .collect();
        (!parts.is_empty()).then(|| line("throughput", &parts.join(" · ")))
    }

    fn table(&self) -> Vec<String> {
        let mut grid = Grid::new().left("ms").at_least(LABEL - GAP).left("mean").at_least(13);
        for head in COLUMNS {
            grid = grid.right(format!("{head} ")).at_least(9);
        }
        for quantity in Quantity::LATENCIES.into_iter().chain([Quantity::E2ePerItem]) {
            if !self.is_worth_showing(quantity.key()) {
                continue;
            }
            let Some(values) = self.summary.distribution(quantity) else { continue };
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
        let mark = self.mark(&Figure::mean(quantity).key()).map(String::from).unwrap_or_default();
        let margin = margin_text(mean, &values.mean_interval).unwrap_or_default();
        format!("{}{mark}{margin}", short(mean))
    }

    /// Ends in the column of a mark, so that digits line up.
    fn percentile_cell(&self, quantity: Quantity, statistic: Statistic) -> String {
        let found = self.summary.distribution(quantity).zip(statistic.percentile());
        let found = found.and_then(|(values, one)| values.percentile(one.percent()));
        let mark = self.percentile_mark(quantity, statistic).unwrap_or(' ');
        match found {
            None => "- ".to_owned(),
            Some(one) => match (one.value, one.above) {
                (Some(value), _) => format!("{}{mark}", short(value)),
                (None, Some(above)) => format!("> {} ", short(above)),
                (None, None) => "failed ".to_owned(),
            },
        }
    }

    /// `!` and `~` where the client or its machine moved it, `?` where it rests on too few values.
    fn percentile_mark(&self, quantity: Quantity, statistic: Statistic) -> Option<char> {
        let moved = self.mark(&Figure::new(quantity, statistic).key());
        moved.or_else(|| {
            let values =
                self.summary.distribution(quantity).filter(|values| !values.is_withheld)?;
            let found = values.percentile(statistic.percentile()?.percent())?;
            (found.value.is_some() && found.is_doubtful()).then_some('?')
        })
    }

    /// The share of requests that met the limits of `--goodput`.
    fn objectives(&self) -> Option<String> {
        let goodput = self.summary.goodput.as_ref()?;
        let limit = |(one, limit): (Quantity, f64)| format!("{} ≤ {limit} ms", one.label());
        let limits: Vec<String> = goodput.objectives.limits().map(limit).collect();
        let share = goodput.share.map(|share| format!("{:.1} % ", share * 100.0));
        let speed = goodput.requests_per_s.map(|good| format!(" · {} req/s", rate(good)));
        let text = format!("{}met {}", share.unwrap_or_default(), limits.join(", "));
        Some(line("goodput", &(text + &speed.unwrap_or_default())))
    }

    fn server_in_short(&self) -> Option<String> {
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
        let server = self.summary.server.as_ref();
        let queue = server.and_then(|server| server.running_max.zip(server.waiting_max));
        let text = match (self.summary.load_class, queue, self.info.load.max_concurrency) {
            // Then the verdict or the failures say what did.
            _ if self.summary.verdict == Verdict::Invalid || !self.summary.failures.is_empty() => {
                return None;
            }
            _ if has(NoteCode::Overloaded) => {
                "the server: requests arrive faster than it serves them".to_owned()
            }
            (LoadClass::Open | LoadClass::Staged, _, Some(cap)) if has(NoteCode::CapHits) => {
                format!("the limit of {cap} in flight: requests waited in this client")
            }
            // A few wait for the next step of the engine whenever requests come together.
            (_, Some((running, waiting)), _) if waiting > running * FEW_WAIT => {
                format!("the server: up to {} waited there", whole(waiting))
            }
            (LoadClass::Closed, Some((_, waiting)), Some(cap)) => {
                format!("the {cap} in flight: {}", few_waited(waiting))
            }
            (LoadClass::Open, Some((_, waiting)), _) => {
                format!("the rate: {}", few_waited(waiting))
            }
            _ => return None,
        };
        Some(line("limited by", &text))
    }

    /// What the mark `?` asks for, where nothing worse is to be said.
    fn missing_requests(&self) -> Option<String> {
        if self.summary.verdict > Verdict::Valid {
            return None;
        }
        let is_marked = |statistic: &Statistic| {
            let marks = |one| self.percentile_mark(one, *statistic) == Some('?');
            Quantity::LATENCIES.into_iter().any(marks)
        };
        let highest = COLUMNS.into_iter().rfind(is_marked)?;
        let needed = needed_samples(highest.percentile()?.percent())?;
        let text = if self.summary.counts.succeeded >= needed {
            format!("the slowest came together: {highest} needs a longer run")
        } else if self.info.load.duration.is_some() {
            format!("{highest} needs {needed} requests: measure longer")
        } else {
            format!("{highest} needs {needed} requests: add `-n {}`", needed.next_multiple_of(100))
        };
        Some(line("?", &text))
    }

    /// The verdict with its cause, what can be used, and what to do.
    fn trust(&self) -> Vec<String> {
        let causes = self.summary.notes.iter().filter(|note| note.severity > Severity::Remark);
        let causes: Vec<&Note> = causes.collect();
        let (Some(first), false) = (causes.first(), self.info.is_prediction()) else {
            return vec![self.verdict()];
        };
        let verdict = self.summary.verdict;
        let more = match causes.len() {
            1 => String::new(),
            all => format!(" and {} more", all - 1),
        };
        let found = first.found.split_once("; ").map_or(&*first.found, |(short, _)| short);
        let name = verdict.name();
        let cause =
            clauses(found, |found| format!("verdict: {name}: {found} ({}{more})", first.code));
        let mut lines = wrapped(&cause);
        let painted = self.style.paint(tone(verdict), verdict.name());
        lines[0] = lines[0].replacen(verdict.name(), &painted, 1);
        lines.extend(self.usable());
        let todo = clauses(&first.action, |action| format!("  do: {action}"));
        lines.extend(Some(todo).filter(|_| !first.action.is_empty()));
        lines
    }

    fn usable(&self) -> Vec<String> {
        let of = |verdict: Verdict, words: &str| {
            let names = self.figures_of(verdict);
            (!names.is_empty()).then(|| format!("{words}: {names}"))
        };
        let ends = [of(Verdict::Valid, "usable"), of(Verdict::Invalid, "not usable")];
        let ends: Vec<String> = ends.into_iter().flatten().collect();
        let mut parts = ends.clone();
        if !self.figures_of(Verdict::Suspect).is_empty() {
            parts.push(
                if ends.is_empty() { "all figures with care" } else { "the rest with care" }.into(),
            );
        }
        let mut lines: Vec<String> = Vec::new();
        for part in parts {
            match lines.last_mut() {
                Some(last) if crate::grid::width(last) + 3 + crate::grid::width(&part) <= WIDTH => {
                    last.push_str("   ");
                    last.push_str(&part);
                }
                _ => lines.extend(wrapped(&format!("  {part}"))),
            }
        }
        lines
    }

    /// The shown figures with this verdict: `throughput, mean, p50 and p99 of TPOT and E2E`.
    fn figures_of(&self, verdict: Verdict) -> String {
        let has = |figure: Figure, wanted: Option<Verdict>| {
            let found = self.summary.figure_verdicts.get(&figure.key());
            found.is_some_and(|one| wanted.is_none_or(|wanted| one.verdict == wanted))
        };
        let rate = Figure::whole(Quantity::Requests);
        let throughput = has(rate, Some(verdict)).then(|| "throughput".to_owned());
        let mut groups: Vec<Alike> = Vec::new();
        for statistic in [Statistic::Mean].into_iter().chain(COLUMNS) {
            let with = |wanted: Option<Verdict>| -> Vec<&str> {
                let all = Quantity::LATENCIES.into_iter();
                all.filter(|one| has(Figure::new(*one, statistic), wanted))
                    .map(Quantity::label)
                    .collect()
            };
            let (known, mut labels) = (with(None), with(Some(verdict)));
            if labels.is_empty() {
                continue;
            }
            if labels.len() == known.len() {
                labels.clear();
            }
            match groups.last_mut().filter(|group| group.labels == labels) {
                Some(group) => group.statistics.push(statistic.to_string()),
                None => groups.push(Alike { statistics: vec![statistic.to_string()], labels }),
            }
        }
        let names = groups.iter().map(Alike::name);
        throughput.into_iter().chain(names).collect::<Vec<String>>().join(", ")
    }
}

/// Statistics with one verdict, of the same latencies; of all where none is named.
struct Alike {
    statistics: Vec<String>,
    labels: Vec<&'static str>,
}

impl Alike {
    fn name(&self) -> String {
        if self.labels.is_empty() {
            return self.statistics.join(", ");
        }
        let labels: Vec<String> = self.labels.iter().map(|&label| label.to_owned()).collect();
        format!("{} of {}", listed(&self.statistics), listed(&labels))
    }
}

/// `a, b and c`.
fn listed(names: &[String]) -> String {
    match names {
        [most @ .., last] if !most.is_empty() => format!("{} and {last}", most.join(", ")),
        _ => names.concat(),
    }
}

/// A line with as many clauses of a sentence as it has room for, the first in any case: it says the
/// cause, or the best of several ways.
fn clauses(sentence: &str, line: impl Fn(&str) -> String) -> String {
    let mut kept = sentence;
    while crate::grid::width(&line(kept)) > WIDTH {
        let Some((shorter, _)) = kept.rsplit_once(", ") else { break };
        kept = shorter;
    }
    line(kept)
}

/// ` ±2.4`, as far as the farther end of the interval; `None` where there is no interval.
fn margin_text(value: f64, interval: &ConfidenceInterval) -> Option<String> {
    match interval {
        ConfidenceInterval::Known { low, high } if high.is_finite() => {
            let margin = (high - value).max(value - low);
            let text = match margin {
                margin if margin < 0.095 => format!("{margin:.2}"),
                margin if margin < 9.5 => format!("{margin:.1}"),
                margin => whole(margin),
            };
            Some(format!(" ±{text}"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use tokometer_figures::FigureVerdict;

    use super::*;
    use crate::testing::{info, summary};

    fn shown(summary: &Summary, info: &RunInfo) -> String {
        let text = print_screen(summary, info, Style::default());
        let objectives = usize::from(summary.goodput.is_some());
        assert!(text.lines().count() <= 15 + objectives, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        text
    }

    #[test]
    fn the_first_screen_of_a_fixed_run() {
        insta::assert_snapshot!("screen", shown(&summary(), &info()));
    }

    /// A run without any doubt ends with its verdict, and says what limited it.
    #[test]
    fn a_valid_run_says_what_limited_it_and_nothing_of_trust() {
        let mut run = summary();
        (run.notes, run.verdict) = (Vec::new(), Verdict::Valid);
        run.failures.clear();
        run.figure_verdicts.clear();
        let server = run.server.as_mut().unwrap();
        server.waiting_max = Some(0.0);
        let text = shown(&run, &info());
        assert!(text.ends_with("verdict: VALID\n"), "{text}");
        assert!(text.contains("\nlimited by   the rate: no request waited"), "{text}");
        // One request waited at one scrape of an idle server, and the server was called the limit.
        run.server.as_mut().unwrap().waiting_max = Some(1.0);
        assert!(shown(&run, &info()).contains("\nlimited by   the rate: at most 1 waited"));
        run.server.as_mut().unwrap().waiting_max = Some(120.0);
        assert!(shown(&run, &info()).contains("\nlimited by   the server: up to 120 waited"));
        run.server = None;
        assert!(!shown(&run, &info()).contains("limited by"), "nobody knows");
    }

    /// Of 80 turns 62 were ok, 7 failed, and nothing was said of the others.
    #[test]
    fn requests_that_were_never_sent_are_counted_beside_those_that_failed() {
        let mut run = summary();
        run.counts.never_sent = 11;
        let text = shown(&run, &info());
        assert!(text.contains("\nfailed       12 × status 503"), "{text}");
        assert!(text.contains("\"} · 11 never sent\n"), "{text}");
    }

    #[test]
    fn a_doubtful_run_names_its_cause_what_can_be_used_and_what_to_do() {
        let mut run = summary();
        let note = |code: &str, found: &str| Note {
            code: code.to_owned(),
            severity: Severity::Invalid,
            figure: "all".to_owned(),
            found: found.to_owned(),
            why: String::new(),
            action: "free a core, then repeat".to_owned(),
            effect: None,
        };
        run.notes = vec![note("stalls", "the machine stopped 46 times"), note("late-sends", "x")];
        run.verdict = Verdict::Invalid;
        let of = |verdict| FigureVerdict { verdict, effect: None, notes: vec![], is_result: true };
        let bad = |key: &str| key == "tpot_ms_p99" || key == "e2e_ms_p99";
        let figures = Quantity::LATENCIES.into_iter().flat_map(|quantity| {
            let all = [Statistic::Mean].into_iter().chain(COLUMNS);
            all.map(move |statistic| Figure::new(quantity, statistic).key())
        });
        let figures = figures.chain(["requests_per_s".to_owned()]);
        run.figure_verdicts = figures
            .map(|key| {
                let verdict = if bad(&key) { Verdict::Invalid } else { Verdict::Valid };
                (key, of(verdict))
            })
            .collect();
        let text = shown(&run, &info());
        let expected = "verdict: INVALID: the machine stopped 46 times (stalls and 1 more)\n  \
                        usable: throughput, mean, p50, p90, p99 of TTFT and ITL\n  \
                        not usable: p99 of TPOT and E2E\n  do: free a core, then repeat\n";
        assert!(text.ends_with(expected), "{text}");
        assert!(!text.contains("limited by"), "{text}");
        // Three lists of figures took five lines of a terminal.
        let doubt = |figure: Figure| {
            run.figure_verdicts.get(&figure.key()).cloned().map(|mut one| {
                one.verdict = Verdict::Suspect;
                (figure.key(), one)
            })
        };
        let doubts = [Quantity::Ttft, Quantity::Tpot].into_iter().flat_map(|quantity| {
            [Statistic::MEDIAN, Statistic::P90].map(|statistic| Figure::new(quantity, statistic))
        });
        let doubts: Vec<_> = doubts.filter_map(doubt).collect();
        run.figure_verdicts.extend(doubts);
        run.notes[0].found =
            "the machine stopped 46 times, 12 % of the run together, the longest 1.2 s".into();
        let expected = "verdict: INVALID: the machine stopped 46 times (stalls and 1 more)\n  \
                        usable: throughput, mean, p50 and p90 of ITL and E2E, p99 of TTFT and ITL\n  \
                        not usable: p99 of TPOT and E2E   the rest with care\n  \
                        do: free a core, then repeat\n";
        let text = shown(&run, &info());
        assert!(text.ends_with(expected), "{text}");
    }

    /// A table of the time until a refusal stood below "0 of 10 ok".
    #[test]
    fn a_run_without_a_success_has_no_latencies() {
        let mut run = summary();
        run.counts.succeeded = 0;
        let text = shown(&run, &info());
        assert!(text.contains("failed ") && !text.contains("TTFT   "), "{text}");
    }

    /// `?` stood in the table, and nothing said how many requests are missing.
    #[test]
    fn a_mark_of_few_requests_says_how_many_to_add() {
        let (mut run, mut info) = (summary(), info());
        (run.notes, run.verdict) = (Vec::new(), Verdict::Valid);
        for values in run.distributions.values_mut() {
            values.percentiles.iter_mut().for_each(|one| one.is_supported = one.percent < 95.0);
        }
        let said = |run: &Summary, info: &RunInfo| {
            let text = shown(run, info);
            text.lines().find_map(|line| Some(line.strip_prefix("?")?.trim().to_owned()))
        };
        run.counts.succeeded = 300;
        info.load.duration = None;
        assert_eq!(said(&run, &info).unwrap(), "p99 needs 368 requests: add `-n 400`");
        info.load.duration = Some(tokometer_base::Nanos::from_secs(9));
        assert_eq!(said(&run, &info).unwrap(), "p99 needs 368 requests: measure longer");
        run.counts.succeeded = 400;
        assert!(said(&run, &info).unwrap().contains("came together"));
        run.distributions.values_mut().for_each(|values| {
            for one in &mut values.percentiles {
                one.is_supported = true;
                one.interval = ConfidenceInterval::Known { low: 1.0, high: 2.0 };
            }
        });
        assert_eq!(said(&run, &info), None);
    }

    #[test]
    fn a_margin_has_the_digits_that_matter() {
        let known = |low, high| margin_text(10.0, &ConfidenceInterval::Known { low, high });
        assert_eq!(known(9.96, 10.02).unwrap(), " ±0.04");
        assert_eq!(known(7.6, 12.0).unwrap(), " ±2.4");
        assert_eq!(known(-9_990.0, 12.0).unwrap(), " ±10,000");
        assert_eq!(known(1.0, f64::INFINITY), None);
        assert_eq!(margin_text(1.0, &ConfidenceInterval::default()), None);
    }
}
