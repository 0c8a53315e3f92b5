//! The block of a predicted run that is known by its figures alone.

use tokometer_compat::{Field, Layout, Metric, Percentile, Report, Selection, Stat, Title};
use tokometer_record::RunInfo;
use tokometer_twin::PredictedFigures;
use tokometer_twin::weighted::Weighted;

/// The block of a run of which only figures were kept. Peaks and standard deviations have no line.
pub fn block(
    info: &RunInfo,
    figures: &PredictedFigures,
    layout: Layout,
    wanted: &Selection,
) -> Report {
    let mut block = Report { layout: Some(layout), title: Title::Predicted, ..Report::default() };
    if let Some(cap) = info.load.max_concurrency {
        block.set_count(Field::MaxConcurrency, u64::from(cap));
    }
    if let Some(rate) = info.load.request_rate {
        block.set_number(Field::RateConfigured, rate);
    }
    block.set_count(Field::Successful, figures.completed);
    block.set_count(Field::Failed, 0);
    block.set_number(Field::Duration, figures.duration_s);
    block.set_count(Field::InputTokens, figures.input_tokens);
    block.set_count(Field::OutputTokens, figures.output_tokens);
    let rates = [
        (Field::RequestThroughput, figures.completed),
        (Field::OutputThroughput, figures.output_tokens),
        (Field::TotalThroughput, figures.total_tokens()),
    ];
    for (field, count) in rates {
        if let Some(rate) = figures.per_second(count) {
            block.set_number(field, rate);
        }
    }
    for metric in &wanted.metrics {
        let samples = match metric {
            Metric::Ttft => &figures.ttft,
            Metric::Tpot => &figures.tpot,
            Metric::Itl => &figures.itl,
            Metric::E2el => &figures.e2el,
            _ => continue,
        };
        set_latencies(&mut block, *metric, samples, &wanted.percentiles);
    }
    block
}

fn set_latencies(block: &mut Report, metric: Metric, samples: &Weighted, percents: &[f64]) {
    let Some(mean) = samples.mean_ms() else { return };
    block.set_latency(metric, Stat::Mean, mean);
    let one = |percent: f64| samples.percentiles_ms(&[percent]).first().copied();
    if let Some(median) = one(50.0) {
        block.set_latency(metric, Stat::Median, median);
    }
    for percent in percents {
        let pair = Percentile::from_percent(*percent).zip(one(*percent));
        if let Some((percentile, value)) = pair {
            block.set_latency(metric, Stat::Percentile(percentile), value);
        }
    }
    if let Some(max) = samples.max_ms() {
        block.set_latency(metric, Stat::Max, max);
    }
}
