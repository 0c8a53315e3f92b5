//! Lines about the inside of the server: what it reports, and what can be inferred from the streams.
//!
//! An unknown part has no line; what could not be inferred has a line with the reason.

use tokometer_figures::anatomy::{Part, PartSource, PartStage};
use tokometer_figures::figure::{Quantity, Statistic};
use tokometer_figures::server::BucketQuantile;
use tokometer_figures::steps::{Stalls, StepFigures, Steps};

use super::{SummaryPage, count, line, short, whole};

/// A quantile of the server's histogram: between two bounds, of which neither is a measured value. One that is
/// interpolated between them was printed above our own maximum.
pub(crate) fn bucket(found: &BucketQuantile, number: fn(f64) -> String) -> String {
    match found.high_ms {
        Some(high) => format!("between {} and {}", number(found.low_ms), number(high)),
        None => format!("> {}", number(found.low_ms)),
    }
}

impl SummaryPage<'_> {
    pub(super) fn server(&self) -> Option<String> {
        let server = self.summary.server.as_ref()?;
        let share = |value: Option<f64>, word: &str| {
            value.map(|share| format!("{word} {:.0} %", share * 100.0))
        };
        let number =
            |value: Option<f64>, word: &str| value.map(|value| format!("{word} {value:.0}"));
        let parts: Vec<String> = [
            number(server.running_max, "max running"),
            number(server.waiting_max, "max waiting"),
            share(server.kv_use_max, "max KV cache"),
            number(server.preemptions.filter(|count| *count > 0.0), "preemptions"),
            share(server.prefix_hit_share, "prefix-cache hits"),
        ]
        .into_iter()
        .flatten()
        .collect();
        (!parts.is_empty()).then(|| line("server", &parts.join(" · ")))
    }

    /// What was cancelled, and what the server's counters say of it.
    pub(super) fn cancelled(&self) -> Option<String> {
        let found = self.summary.cancelled.as_ref()?;
        let parts = [
            Some(count(found.requests)),
            (found.before_first_token > 0)
                .then(|| format!("{} before a first token", count(found.before_first_token))),
            Some(format!("{} tokens received", count(found.received_tokens))),
            found.server_aborts.map(|aborts| format!("the server aborted {}", whole(aborts))),
            found.tokens_after_each.map(|tokens| {
                let time = found.stopped_after_ms.map(|ms| format!(" ({} ms)", short(ms)));
                format!("and generated {} more of each{}", short(tokens), time.unwrap_or_default())
            }),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        Some(line("cancelled", &parts.join(" · ")))
    }

    /// The server's own first-token times beside ours.
    pub(super) fn server_ttft(&self) -> Option<String> {
        let server = self.summary.server.as_ref().filter(|_| !self.is_pooling())?;
        let millis = |value: f64| self.style.millis(value);
        let quantile = |name: Statistic, found: Option<BucketQuantile>| {
            found.map(|found| format!("{name} {}", bucket(&found, whole)))
        };
        let theirs: Vec<String> = [
            quantile(Statistic::MEDIAN, server.ttft_p50),
            quantile(Statistic::P99, server.ttft_p99),
            server.ttft_ms_mean.map(|mean| format!("mean {}", millis(mean))),
        ]
        .into_iter()
        .flatten()
        .collect();
        if theirs.is_empty() {
            return None;
        }
        let ours = self.summary.distribution(Quantity::Ttft);
        let longest = ours.and_then(|ours| ours.max);
        let above = server.ttft_p99.zip(longest).filter(|(p99, longest)| p99.low_ms > *longest);
        let above = above.map_or(String::new(), |(_, longest)| {
            format!(" (our longest: {}; the server counted other requests too)", millis(longest))
        });
        let percentile = |statistic: Statistic| {
            let value = ours?.percentile(statistic.percentile()?.percent())?.value?;
            Some(format!("{statistic} {}", millis(value)))
        };
        let mean = ours.and_then(|ours| ours.mean).map(|mean| format!("mean {}", millis(mean)));
        let ours: Vec<String> = [percentile(Statistic::MEDIAN), percentile(Statistic::P99), mean]
            .into_iter()
            .flatten()
            .collect();
        let beside =
            if ours.is_empty() { String::new() } else { format!("; ours {}", ours.join(" · ")) };
        Some(line("server TTFT", &format!("{} ms{above}{beside}", theirs.join(" · "))))
    }

    pub(super) fn speculation(&self) -> Option<String> {
        let server = self.summary.server.as_ref()?;
        let Some(found) = &server.speculation else {
            let length = server.accept_length?;
            return Some(line("spec. decode", &format!("{length:.2} tokens per step")));
        };
        let accepted: Vec<String> =
            found.per_position.iter().map(|share| format!("{:.0} %", share * 100.0)).collect();
        let mut parts = vec![
            format!("{:.1} % of drafted tokens accepted", found.acceptance_rate_percent),
            format!("{:.2} tokens per step", found.acceptance_length),
            format!("{} drafts", whole(found.drafts)),
        ];
        if !accepted.is_empty() {
            parts.push(format!("by position {}", accepted.join(", ")));
        }
        Some(line("spec. decode", &parts.join(" · ")))
    }

    pub(super) fn gpu(&self) -> Option<String> {
        let gpu = self.summary.server.as_ref()?.gpu.as_ref()?;
        let about = if gpu.is_energy_from_power { "about " } else { "" };
        let parts: Vec<String> = [
            gpu.utilisation_percent_mean.map(|percent| format!("{percent:.0} % utilisation")),
            gpu.memory_mib_max.map(|memory| format!("{:.1} GiB", memory / 1024.0)),
            gpu.power_w_mean.map(|power| format!("{power:.0} W")),
            gpu.energy_j.map(|energy| format!("{about}{} J", whole(energy))),
            gpu.energy_j_per_output_token
                .map(|energy| format!("{about}{energy:.3} J per output token")),
        ]
        .into_iter()
        .flatten()
        .collect();
        let unused = match gpu.unused_devices {
            0 => String::new(),
            unused => format!(", {unused} unused excluded"),
        };
        let source = format!("({} GPU by {}{unused})", gpu.devices, gpu.source);
        Some(line("GPU", &format!("{} {source}", parts.join(" · "))))
    }

    /// Mean parts of the time to first token, by how they are known.
    pub(super) fn ttft_split(&self) -> Option<String> {
        let parts = &self.summary.ttft_parts;
        // Smaller parts than can be shown are noise in a line that should be short.
        let is_shown = |part: &&Part| part.mean_ms >= 0.005;
        let named = |part: &Part| format!("{} {}", part.name, self.style.millis(part.mean_ms));
        let of = |word: &str, choose: &dyn Fn(&Part) -> bool| {
            let chosen: Vec<String> =
                parts.iter().filter(is_shown).filter(|part| choose(part)).map(named).collect();
            (!chosen.is_empty()).then(|| format!("{word}: {}", chosen.join(", ")))
        };
        let within = |known: PartSource| {
            move |part: &Part| part.stage == PartStage::Within && part.known == known
        };
        let groups: Vec<String> = [
            of("measured", &within(PartSource::Measured)),
            of("reported", &within(PartSource::Reported)),
            of("inferred", &within(PartSource::Inferred)),
            of("before sending", &|part| part.stage == PartStage::Before),
        ]
        .into_iter()
        .flatten()
        .collect();
        (!groups.is_empty()).then(|| line("TTFT split", &(groups.join(" · ") + " (means, ms)")))
    }

    pub(super) fn steps(&self) -> Option<String> {
        let text = match self.summary.steps.as_ref()? {
            Steps::Refused { why } => format!("not visible: {why}"),
            Steps::Seen(found) => self.seen_steps(found),
        };
        Some(line("engine steps", &text))
    }

    fn seen_steps(&self, found: &StepFigures) -> String {
        let millis = |value: f64| self.style.millis(value);
        let mut parts = Vec::new();
        parts.extend(found.span_ms_p50.map(|span| format!("p50 {} ms", millis(span))));
        parts.extend(found.span_ms_p99.map(|span| format!("p99 {} ms", millis(span))));
        parts.extend(
            found.batch_p50.map(|batch| format!("batch p50 {batch:.0}, max {}", found.batch_max)),
        );
        parts.extend(found.stalls.map(|Stalls { count: number, longest_ms, time_share }| {
            match number {
                0 => "no prefill stall".to_owned(),
                _ => format!(
                    "{} prefill stalls of up to {} ms, {:.1} % of the time",
                    count(number),
                    millis(longest_ms),
                    time_share * 100.0
                ),
            }
        }));
        parts.push(format!("{} steps inferred from the streams", count(found.steps)));
        if found.joined > 0 {
            parts.push(format!("{} of them came with a later one", count(found.joined)));
        }
        if found.kept_share < 1.0 {
            parts.push(format!("from {:.0} % of the time", found.kept_share * 100.0));
        }
        parts.join(" · ")
    }
}

#[cfg(test)]
mod tests {
    use tokometer_figures::server::GpuFigures;

    use crate::style::Style;
    use crate::summary::print_summary;
    use crate::testing::{info, summary};

    use super::*;

    #[test]
    fn a_refusal_is_said_with_its_reason() {
        let mut run = summary();
        run.steps = Some(Steps::Refused { why: "9 of 20 events shared a read".to_owned() });
        let text = print_summary(&run, &info(), None, Style::default());
        assert!(
            text.contains("\nengine steps not visible: 9 of 20 events shared a read\n"),
            "{text}"
        );
    }

    #[test]
    fn energy_from_power_is_said_to_be_about_right() {
        let mut run = summary();
        let gpu = GpuFigures {
            source: "NVML".to_owned(),
            devices: 1,
            energy_j: Some(12_345.0),
            is_energy_from_power: true,
            energy_j_per_output_token: Some(0.0976),
            ..GpuFigures::default()
        };
        run.server.as_mut().unwrap().gpu = Some(gpu);
        let text = print_summary(&run, &info(), None, Style::default());
        let expected =
            "\nGPU          about 12,345 J · about 0.098 J per output token (1 GPU by NVML)\n";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn first_tokens_above_the_last_bucket_are_a_lower_bound() {
        let mut run = summary();
        let beyond = BucketQuantile { value_ms: None, low_ms: 10_000.0, high_ms: None };
        run.server.as_mut().unwrap().ttft_p99 = Some(beyond);
        let text = print_summary(&run, &info(), None, Style::default());
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(" · p99 > 10,000 · mean"), "{text}");
    }

    /// "p99 4,863" beside our own maximum of 3,168: it lay between 2,500 and 5,000.
    #[test]
    fn a_quantile_of_buckets_is_never_one_number_and_one_above_our_maximum_says_why() {
        let mut run = summary();
        run.distributions.get_mut("ttft_ms").unwrap().max = Some(3_168.0);
        let mut line = |low_ms: f64, high_ms: f64| {
            let p99 = BucketQuantile { value_ms: Some(4_863.0), low_ms, high_ms: Some(high_ms) };
            run.server.as_mut().unwrap().ttft_p99 = Some(p99);
            let text = print_summary(&run, &info(), None, Style::default());
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let text = line(2_500.0, 5_000.0);
        assert!(text.contains(" · p99 between 2,500 and 5,000 · mean"), "{text}");
        assert!(!text.contains("4863") && !text.contains("our longest"), "{text}");
        let text = line(5_000.0, 7_500.0);
        assert!(
            text.contains("(our longest: 3168; the server counted other requests too)"),
            "{text}"
        );
    }
}
