//! A run's summary as another tool's report, by that tool's own definitions.

use tokometer_base::units::nearest_count;
use tokometer_figures::family::{Attainment, ProbeFigures, SteadyWindow};
use tokometer_figures::figure::Quantity;
use tokometer_figures::server::Speculation;
use tokometer_figures::{Family, FamilyFigures, ListStats, Summary};
use tokometer_record::{RecordedLoad, RunInfo};

use crate::Error;
use crate::layout::Layout;
use crate::model::{Field, Key, Metric, Percentile, Report, Scalar, Stat, Title};

/// Which statistics vLLM's layouts and files show. SGLang has no such choice.
#[derive(Debug, Clone, PartialEq)]
pub struct Selection {
    /// Sections, `--percentile-metrics`.
    pub metrics: Vec<Metric>,
    /// Percentiles in the order in which they are printed, `--metric-percentiles`.
    pub percentiles: Vec<f64>,
}

impl Default for Selection {
    fn default() -> Self {
        Self { metrics: vec![Metric::Ttft, Metric::Tpot, Metric::Itl], percentiles: vec![99.0] }
    }
}

/// Percentiles that our own summary and SGLang's layouts always show.
const ALWAYS_NEEDED: [f64; 4] = [50.0, 90.0, 95.0, 99.0];

impl Selection {
    /// The percentiles that a summary must have been made with to serve every view.
    pub fn needed_percentiles(&self) -> Vec<f64> {
        let mut needed = self.percentiles.clone();
        needed.extend(ALWAYS_NEEDED);
        let mut seen = Vec::new();
        needed.retain(|percent| {
            let is_new = Percentile::from_percent(*percent).is_some_and(|one| !seen.contains(&one));
            seen.extend(Percentile::from_percent(*percent));
            is_new
        });
        needed
    }

    /// The statistics with only these percentiles, in this order.
    pub(crate) fn of(&self, stats: &ListStats) -> ListStats {
        let shown = self
            .percentiles
            .iter()
            .filter_map(|percent| Some((*percent, stats.percentile(*percent)?)))
            .collect();
        ListStats { percentiles: shown, ..stats.clone() }
    }
}

/// The report of a run in `layout`. Fails when the summary lacks the layout's family.
pub fn from_summary(
    summary: &Summary,
    info: &RunInfo,
    layout: Layout,
    shown: &Selection,
) -> Result<Report, Error> {
    let family = layout.family().unwrap_or(Family::Vllm);
    let figures = summary.families.get(&family).ok_or(Error::NoFigures(family))?;
    let title = if info.is_prediction() { Title::Predicted } else { Title::Serving };
    let mut report = Report { layout: Some(layout), title, ..Report::default() };
    let backend = info.targets.first().map_or("", |target| target.backend.as_str());
    set_load(&mut report, &info.load, family);
    set_counts(&mut report, figures);
    let speculation = summary.server.as_ref().and_then(|server| server.speculation.as_ref());
    if family == Family::Sglang {
        report.set_words(Field::Backend, backend);
        set_sglang(&mut report, figures, layout, accept_length(summary));
    } else {
        set_vllm(&mut report, figures, info, shown);
        if let Some(speculation) = speculation {
            set_speculation(&mut report, speculation);
        }
    }
    Ok(report)
}

/// A float as Python prints it: `20.0`, `0.5`.
pub(crate) fn python_float(number: f64) -> String {
    format!("{number:?}")
}

fn set_load(report: &mut Report, load: &RecordedLoad, family: Family) {
    if family == Family::Sglang {
        let rate = match load.request_rate {
            _ if load.is_traced => "trace".to_owned(),
            Some(rate) => python_float(rate),
            None => "inf".to_owned(),
        };
        report.set_words(Field::TrafficRate, rate);
        match load.max_concurrency {
            Some(cap) => report.set_count(Field::MaxConcurrency, u64::from(cap)),
            None => report.set_words(Field::MaxConcurrency, "not set"),
        }
        return;
    }
    if let Some(cap) = load.max_concurrency {
        report.set_count(Field::MaxConcurrency, u64::from(cap));
    }
    if let Some(rate) = load.request_rate {
        report.set_number(Field::RateConfigured, rate);
    }
}

fn set_counts(report: &mut Report, figures: &FamilyFigures) {
    report.set_count(Field::Successful, figures.completed);
    report.set_count(Field::Failed, figures.failed);
    report.set_number(Field::Duration, figures.duration_s);
    report.set_count(Field::InputTokens, figures.total_input);
    report.set_number(Field::RequestThroughput, figures.request_throughput);
    if figures.input_sequences.is_none() {
        report.set_count(Field::OutputTokens, figures.total_output);
        report.set_number(Field::OutputThroughput, figures.output_throughput);
        report.set_number(Field::TotalThroughput, figures.total_throughput);
        report.set_number(Field::PeakOutputThroughput, figures.peak_output_throughput);
        report.set_count(Field::PeakConcurrency, figures.peak_concurrent_requests);
    }
    if let Some(goodput) = figures.goodput {
        report.set_number(Field::Goodput, goodput);
    }
}

/// SGLang's accept length: what its server reports of itself and nothing else, as SGLang has it. Zero
/// means that the server does not speculate.
pub(crate) fn accept_length(summary: &Summary) -> Option<f64> {
    summary.server.as_ref()?.reported_accept_length
}

fn set_sglang(
    report: &mut Report,
    figures: &FamilyFigures,
    layout: Layout,
    accept_length: Option<f64>,
) {
    report.set_number(Field::InputThroughput, figures.input_throughput);
    report.set_count(Field::InputTextTokens, figures.total_input);
    // Later SGLang shows this line for image datasets only; S2 always had it.
    if layout == Layout::S2 {
        report.set_count(Field::InputVisionTokens, 0);
    }
    // SGLang's embedding report has no line about an output, and only one latency.
    let is_pooling = figures.input_sequences.is_some();
    if is_pooling {
        report.set_count(Field::PeakConcurrency, figures.peak_concurrent_requests);
    } else if let Some(count) = figures.retokenized {
        report.set_count(Field::RetokenizedTokens, count);
    }
    report.set_number(Field::Concurrency, figures.concurrency);
    if let Some(length) = accept_length.filter(|length| *length > 0.0) {
        report.set_number(Field::AcceptLength, length);
    }
    if let Some(attainment) = &figures.attainment {
        set_attainment(report, attainment);
    }
    let shown: &[Metric] = if is_pooling {
        &[Metric::E2el]
    } else {
        &[Metric::E2el, Metric::Ttft, Metric::Tpot, Metric::Itl]
    };
    for metric in shown {
        set_stats(report, *metric, stats_of(figures, *metric));
    }
}

/// One objective: the quantity, its limit and the share of requests that met it.
pub(crate) struct Attained {
    /// The word that both tools' flags use, such as `e2el`.
    pub(crate) name: &'static str,
    quantity: Quantity,
    pub(crate) limit: f64,
    pub(crate) share: f64,
}

/// The objectives, in the order in which SGLang's help lists them.
pub(crate) fn attained(attainment: &Attainment) -> impl Iterator<Item = Attained> {
    attainment.objectives.limits().filter_map(|(quantity, limit)| {
        let share = match quantity {
            Quantity::Ttft => attainment.ttft,
            Quantity::Tpot => attainment.tpot,
            _ => attainment.e2el,
        };
        Some(Attained { name: quantity.section()?, quantity, limit, share: share? })
    })
}

fn set_attainment(report: &mut Report, attainment: &Attainment) {
    let words: Vec<String> =
        attained(attainment).map(|one| format!("{}:{}", one.name, one.limit)).collect();
    report.set_words(Field::GoodputLimits, words.join(" "));
    report.set_number(Field::Attainment, attainment.all * 100.0);
    for one in attained(attainment) {
        let field = match one.quantity {
            Quantity::Ttft => Field::TtftAttainment,
            Quantity::Tpot => Field::TpotAttainment,
            _ => Field::E2elAttainment,
        };
        report.set_number(field, one.share * 100.0);
    }
}

fn set_vllm(report: &mut Report, figures: &FamilyFigures, info: &RunInfo, shown: &Selection) {
    if report.layout == Some(Layout::V1) {
        report.set_number(Field::InputThroughput, figures.input_throughput);
    }
    // The Rust client hides the line of a run in which nothing was good enough.
    if report.layout == Some(Layout::Vr) && figures.goodput.is_some_and(|goodput| goodput <= 0.0) {
        report.values.remove(Key::Field(Field::Goodput));
    }
    if let Some(probe) = figures.probe.as_ref().filter(|probe| probe.completed > 0) {
        set_probe(report, probe);
    }
    if let Some(rate) = figures.input_sequence_throughput() {
        report.set_number(Field::InputSequenceThroughput, rate);
        report.set_number(Field::TotalThroughput, figures.total_throughput);
    }
    if figures.rtfx > 0.0 {
        report.set_number(Field::Rtfx, figures.rtfx);
    }
    // Without a cap nothing waits in the client, and without a rate there is no schedule to wait for.
    let has_queue = info.load.max_concurrency.is_some();
    let is_known = |metric: &&Metric| match metric {
        Metric::ClientQueue => has_queue,
        Metric::QueuedE2el => has_queue && info.load.request_rate.is_some(),
        Metric::E2el => true,
        _ => figures.input_sequences.is_none(),
    };
    for metric in shown.metrics.iter().filter(is_known) {
        set_stats(report, *metric, &shown.of(stats_of(figures, *metric)));
    }
    if let Some(steady) = &figures.steady {
        set_steady(report, steady, shown);
    }
}

pub(crate) fn stats_of(figures: &FamilyFigures, metric: Metric) -> &ListStats {
    match metric {
        Metric::Ttft | Metric::SteadyTtft => &figures.ttft,
        Metric::Tpot | Metric::SteadyTpot => &figures.tpot,
        Metric::Itl => &figures.itl,
        Metric::E2el => &figures.e2el,
        Metric::ClientQueue => &figures.client_queue,
        Metric::QueuedE2el => &figures.e2el_with_queue,
    }
}

fn set_stats(report: &mut Report, metric: Metric, stats: &ListStats) {
    report.set_latency(metric, Stat::Mean, stats.mean);
    report.set_latency(metric, Stat::Median, stats.median);
    report.set_latency(metric, Stat::Std, stats.std);
    report.set_latency(metric, Stat::Max, stats.max);
    for (percent, value) in &stats.percentiles {
        if let Some(percentile) = Percentile::from_percent(*percent) {
            report.set_latency(metric, Stat::Percentile(percentile), *value);
        }
    }
}

fn set_probe(report: &mut Report, probe: &ProbeFigures) {
    report.set_count(Field::ProbesCompleted, probe.completed);
    report.set_count(Field::ProbesFailed, probe.failed);
    report.set_number(Field::ProbeMedian, probe.median);
    report.set_number(Field::ProbeP99, probe.p99);
    report.set_number(Field::ProbeMax, probe.max);
}

fn set_speculation(report: &mut Report, speculation: &Speculation) {
    report.set_number(Field::SpecAcceptanceRate, speculation.acceptance_rate_percent);
    report.set_number(Field::SpecAcceptanceLength, speculation.acceptance_length);
    report.set_count(Field::SpecDrafts, nearest_count(speculation.drafts));
    report.set_count(Field::SpecDraftTokens, nearest_count(speculation.draft_tokens));
    report.set_count(Field::SpecAcceptedTokens, nearest_count(speculation.accepted_tokens));
    for (position, share) in (0..).zip(&speculation.per_position) {
        report.set(Key::Position(position), Scalar::Number(share * 100.0));
    }
}

fn set_steady(report: &mut Report, steady: &SteadyWindow, shown: &Selection) {
    let (begin, end) = (steady.begin_s, steady.end_s);
    let share = 100.0 * steady.started as f64 / steady.total.max(1) as f64;
    let threshold = format!(
        ">= {} * {} = {}",
        python_float(steady.threshold),
        steady.max_concurrency,
        steady.threshold_requests
    );
    report.set_words(Field::SteadyThreshold, threshold);
    let window = format!("{begin:.1}s -> {end:.1}s  ({:.1}s)", end - begin);
    report.set_words(Field::SteadyWindow, window);
    report.set_count(Field::SteadyPeakConcurrency, steady.observed_peak);
    let started = format!("{} / {} ({share:.1}%)", steady.started, steady.total);
    report.set_words(Field::SteadyStarted, started);
    report.set_count(Field::SteadyCompleted, steady.completed);
    report.set_number(Field::SteadyRequestThroughput, steady.request_throughput);
    report.set_number(Field::SteadyOutputThroughput, steady.output_throughput);
    report.set_number(Field::SteadyInputThroughput, steady.input_throughput);
    report.set_number(Field::SteadyTotalThroughput, steady.total_throughput);
    set_stats(report, Metric::SteadyTtft, &shown.of(&steady.ttft));
    set_stats(report, Metric::SteadyTpot, &steady.tpot);
}
