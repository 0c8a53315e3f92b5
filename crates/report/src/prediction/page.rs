//! The lines under a predicted report: its source and its known error.

use serde_json::{Value, json};
use tokometer_base::digits::digits;
use tokometer_figures::figure::{Figure, Statistic};
use tokometer_sim::Profile;
use tokometer_sim::what_if::Change;
use tokometer_twin::weighted::PRECISION;
use tokometer_twin::{
    self as twin, BeyondRange, InPlay, LoadSide, Prediction, SEEDS, SeedInterval,
};

use super::explanation;
use crate::Grid;
use crate::summary::fold::beside;

pub(super) const LABEL: usize = 17;

#[derive(Debug, Clone, Copy)]
pub struct PredictionPage<'a> {
    pub profile: &'a Profile,
    /// Share by which its times may be off; `None` where the profile has its own evidence.
    pub uncertainty: Option<f64>,
    /// Numbers of the profile that were changed for this prediction.
    pub changes: &'a [Change],
    /// The run of the plan's seed.
    pub prediction: &'a Prediction,
    /// Answer tokens above which figures are kept instead of timelines, where this run has more.
    pub figures_above: Option<u64>,
    /// The main figures over [`SEEDS`] seeds; empty for a run that is known by figures alone.
    pub intervals: &'a [SeedInterval],
    /// Parts of the model that it used.
    pub in_play: &'a [InPlay],
    /// Sides of the load that the profile's data do not cover.
    pub beyond: &'a [BeyondRange],
    pub options: twin::PredictOptions,
    pub is_explained: bool,
    /// Most memory that this process held, in bytes; only for runs where it matters.
    pub peak_memory_bytes: Option<u64>,
}

impl PredictionPage<'_> {
    pub fn text(&self) -> String {
        let profile = self.profile;
        let range =
            if self.beyond.is_empty() { "" } else { ", OUTSIDE the range that it was fitted to" };
        let text =
            format!("from the engine profile `{}`{range}; no server was measured", profile.name);
        let mut lines = vec![line("prediction", &text)];
        lines.push(line("provenance", &profile.provenance));
        if !self.changes.is_empty() {
            // The error below is that of the profile as it was.
            let changes: Vec<String> = self.changes.iter().map(Change::to_string).collect();
            lines.push(line("what-if", &changes.join("; ")));
        }
        lines.push(line("held-out error", &self.evidence()));
        lines.extend(self.beyond.iter().map(|one| line("beyond data", &beyond_text(*one))));
        lines.extend(self.mechanisms());
        lines.extend(self.fleet_and_client());
        lines.extend(self.intervals());
        let mut text = lines.join("\n");
        text.push('\n');
        if self.is_explained {
            text.push_str(&explanation::text(self.prediction, profile, self.in_play));
        }
        text
    }

    fn evidence(&self) -> String {
        if let Some(share) = self.uncertainty {
            return format!(
                "none: derived from a data sheet, times may be off by ±{:.0} %; left out: {}",
                100.0 * share,
                twin::roofline::LEFT_OUT
            );
        }
        let Some(evidence) = &self.profile.evidence else {
            return "not stated in the profile; see its provenance".to_owned();
        };
        let mut parts = Vec::new();
        if let Some(median) = evidence.held_out_median {
            parts.push(format!("median {:.1} %", 100.0 * median));
        }
        if let Some(share) = evidence.held_out_within_10 {
            parts.push(format!("{:.0} % of the cells within 10 %", 100.0 * share));
        }
        if parts.is_empty() {
            parts.push("none: no whole load was left out of the fit".to_owned());
        }
        if !evidence.not_identified.is_empty() {
            parts.push(format!(
                "not determined by the data: {}",
                evidence.not_identified.join(", ")
            ));
        }
        parts.join("; ")
    }

    fn mechanisms(&self) -> Vec<String> {
        let named = |is_validated: bool| {
            let used = self.in_play.iter().filter(|one| one.is_validated == is_validated);
            used.map(|one| one.mechanism).collect::<Vec<_>>().join(", ")
        };
        let (validated, open) = (named(true), named(false));
        if self.profile.evidence.is_none() {
            let text = format!(
                "{open}: the profile does not state which of these were validated with data"
            );
            return vec![line("mechanisms", &text)];
        }
        let some = |text: &str| if text.is_empty() { "none".to_owned() } else { text.to_owned() };
        let mut lines = vec![line("validated", &some(&validated))];
        if !open.is_empty() {
            lines.push(line(
                "not validated",
                &format!("{open}: used here, but not covered by the profile's data"),
            ));
        }
        lines
    }

    fn fleet_and_client(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.options.replicas > 1 {
            let router = json!(self.options.routing);
            let router = router.as_str().unwrap_or_default();
            let text = format!("{} replicas behind {router}", self.options.replicas);
            lines.push(line("fleet", &text));
        }
        let client = self.options.client;
        if client != twin::OldClient::default() {
            let text = format!(
                "single-threaded: the figures include {} ms per request and {} ms per event",
                client.request_ms, client.event_ms
            );
            lines.push(line("client", &text));
        }
        if let Some(bytes) = self.peak_memory_bytes {
            lines.push(line("peak memory", &format!("{:.1} MiB", bytes as f64 / 1_048_576.0)));
        }
        lines
    }

    fn intervals(&self) -> Vec<String> {
        if let Some(most) = self.figures_above {
            let text = format!(
                "one: above {most} answer tokens figures are kept instead of timelines, percentiles \
                 to within {:.2} %, and no other seeds are tried",
                100.0 * PRECISION
            );
            return vec![line("seeds", &text)];
        }
        let head = format!("{:<LABEL$} {SEEDS}", "seeds");
        let mut grid = Grid::new().left(head).right("mean").right("90 % of seeds");
        if let Some(share) = self.uncertainty {
            grid = grid.right(format!("±{:.0} %", 100.0 * share));
        }
        let span = |(low, high): (f64, f64)| format!("{} … {}", digits(low), digits(high));
        for interval in self.intervals {
            let SeedInterval { figure, mean, low, high } = *interval;
            let cells = [figure.label(), digits(mean), span((low, high))];
            let by_profile = self.uncertainty.map(|share| span(interval.around(share)));
            grid.push(cells.into_iter().chain(by_profile));
        }
        grid.lines()
    }

    pub fn json(&self) -> Value {
        let profile = self.profile;
        let used = self.in_play.iter();
        let mechanisms: Vec<Value> = used
            .map(|one| json!({ "name": one.mechanism, "is_validated": one.is_validated }))
            .collect();
        let figures = &self.prediction.figures;
        let of_seeds = self.intervals.iter();
        let intervals: Vec<Value> = of_seeds
            .map(|one| json!({ "metric": stored_name(one.figure), "mean": one.mean, "low": one.low, "high": one.high }))
            .collect();
        let mut page = json!({
            "engine": profile.name,
            "provenance": profile.provenance,
            "evidence": profile.evidence,
            "uncertainty": self.uncertainty,
            "what_if": self.changes.iter().map(Change::json).collect::<Vec<Value>>(),
            "replicas": self.options.replicas,
            "router": self.options.routing,
            "old_client": self.options.client,
            "is_exact": self.figures_above.is_none(),
            "completed": figures.completed,
            "duration_s": figures.duration_s,
            "output_tokens": figures.output_tokens,
            "seeds": if intervals.is_empty() { 1 } else { SEEDS },
            "intervals": intervals,
            "mechanisms": mechanisms,
            "beyond_range": self.beyond.first(),
            "beyond_ranges": self.beyond,
        });
        if self.is_explained {
            page["explanation"] = json!(self.prediction.explanation);
        }
        if let Some(bytes) = self.peak_memory_bytes {
            page["peak_memory_bytes"] = json!(bytes);
        }
        page
    }
}

/// What a load beyond the profile's data means for its figures.
pub fn beyond_text(beyond: BeyondRange) -> String {
    let BeyondRange { side, asked, calibrated } = beyond;
    match side {
        LoadSide::PromptTokens => format!(
            "prompts of up to {asked} tokens, but the profile was fitted to prompts of up to {calibrated}: TTFT and \
             throughput are extrapolated and usually too optimistic, because short prompts do not show what attention costs"
        ),
        LoadSide::AnswerTokens => format!(
            "answers of up to {asked} tokens, but the profile was fitted to answers of up to {calibrated}: TPOT is \
             extrapolated, because short answers do not show what a long context costs"
        ),
        LoadSide::InFlight => format!(
            "up to {asked} requests in flight, but the profile was fitted to up to {calibrated}: the stated error does \
             not hold, because smaller batches do not show when requests wait and what larger steps cost"
        ),
    }
}

/// A label and its text, wrapped beside it.
fn line(label: &str, text: &str) -> String {
    beside(&format!("{label:<LABEL$}"), text).join("\n")
}

/// The name of a figure in the page for other programs: `ttft_median`, `output_throughput`.
fn stored_name(figure: Figure) -> String {
    let statistic = match figure.statistic {
        Statistic::Whole => return "output_throughput".to_owned(),
        Statistic::MEDIAN => "median".to_owned(),
        other => other.to_string(),
    };
    format!("{}_{statistic}", figure.quantity.section().unwrap_or(figure.quantity.key()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokometer_base::Seed;
    use tokometer_figures::Quantity;
    use tokometer_twin::{Ask, PredictOptions, RequestLoad, in_play, predict};

    fn page(profile: &Profile, uncertainty: Option<f64>) -> (String, Value) {
        let options = PredictOptions { replicas: 2, ..PredictOptions::default() };
        let workload = RequestLoad::burst(vec![Ask::new(20, 5); 4]);
        let prediction = predict(profile, &workload, Seed(1), options).unwrap();
        let page = PredictionPage {
            profile,
            uncertainty,
            changes: &[],
            prediction: &prediction,
            figures_above: None,
            intervals: &[SeedInterval {
                figure: Figure::mean(Quantity::Ttft),
                mean: 20.0,
                low: 18.0,
                high: 23.5,
            }],
            in_play: &in_play(profile, &workload, &prediction.explanation),
            beyond: &[BeyondRange { side: LoadSide::PromptTokens, asked: 9_000, calibrated: 80 }],
            options,
            is_explained: uncertainty.is_some(),
            peak_memory_bytes: None,
        };
        (page.text(), page.json())
    }

    #[test]
    fn the_page_says_where_the_figures_come_from_and_what_nobody_confirmed() {
        let mut profile = Profile::open("default").unwrap();
        "Made by hand.".clone_into(&mut profile.provenance);
        profile.evidence = Some(tokometer_sim::profile::Evidence {
            held_out_median: Some(0.029),
            held_out_within_10: Some(0.84),
            not_identified: vec!["cost.cliff_ms".to_owned()],
            validated: vec!["chunked-prefill".to_owned()],
            ..tokometer_sim::profile::Evidence::default()
        });
        let (text, value) = page(&profile, None);
        insta::assert_snapshot!(text, @r"
        prediction        from the engine profile `default`, OUTSIDE the range that it
                          was fitted to; no server was measured
        provenance        Made by hand.
        held-out error    median 2.9 %; 84 % of the cells within 10 %; not determined by
                          the data: cost.cliff_ms
        beyond data       prompts of up to 9000 tokens, but the profile was fitted to
                          prompts of up to 80: TTFT and throughput are extrapolated and
                          usually too optimistic, because short prompts do not show what
                          attention costs
        validated         chunked-prefill
        not validated     burst, fleet: used here, but not covered by the profile's data
        fleet             2 replicas behind round-robin
        seeds             20   mean  90 % of seeds
        mean TTFT             20.00  18.00 … 23.50
        ");
        assert_eq!(value["mechanisms"][0]["is_validated"], true);
        assert_eq!(value["beyond_range"]["asked"], 9_000);
        assert_eq!(value["intervals"][0]["low"], 18.0);
        assert_eq!(value["intervals"][0]["metric"], "ttft_mean");
        assert!(value.get("explanation").is_none());
    }

    #[test]
    fn a_data_sheet_s_figures_carry_their_uncertainty() {
        let profile = Profile { evidence: None, ..Profile::open("default").unwrap() };
        let (text, value) = page(&profile, Some(0.5));
        assert!(text.contains("±50 %") && text.contains("10.00 … 30.00"), "{text}");
        assert!(text.contains("limited by"), "{text}");
        assert!(text.contains("communication between devices"), "{text}");
        assert_eq!(value["uncertainty"], 0.5);
        assert!(value["explanation"]["decode"]["count"].is_u64());
    }
}
