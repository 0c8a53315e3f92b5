//! The identities by name, and what the doctor says about them.

use std::fmt;

use tokometer_compat::Report;

/// How bad a finding is. Ordered from harmless to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Worth knowing.
    Remark,
    /// The figures are correct, but easily misread.
    Misleading,
    /// The figures contradict each other.
    Inconsistent,
}

impl Level {
    pub fn name(self) -> &'static str {
        match self {
            Self::Remark => "remark",
            Self::Misleading => "misleading",
            Self::Inconsistent => "inconsistent",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An identity that a report must satisfy. [`Rule::TABLE`] says what each demands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    WholeBlock,
    ReadableValues,
    PossibleValues,
    OtherDefinition,
    Throughput,
    MedianIsP50,
    SingleRequest,
    TwoRequests,
    Little,
    QueueSum,
    InputSum,
    PercentileOrder,
    MeanWithinBounds,
    LatencyWithinRun,
    EndAfterFirst,
    WithinCap,
    PeakAboveMean,
    DecodingWithinFlight,
    EventsPerToken,
    TokenWeightedTpot,
    TpotAgainstItl,
    Retokenized,
    WholeGaps,
    GapsPerToken,
    RateReached,
    RisingWithLoad,
    AllAccounted,
    Quantum,
    ServerLimit,
    Backlog,
    EndToEndSum,
    PinnedLength,
    PercentileSupport,
    StatedLength,
}

#[derive(Debug, Clone, Copy)]
pub struct Identity {
    pub rule: Rule,
    pub code: &'static str,
    pub sentence: &'static str,
}

const fn identity(rule: Rule, code: &'static str, sentence: &'static str) -> Identity {
    Identity { rule, code, sentence }
}

impl Rule {
    pub const TABLE: [Identity; 34] = [
        identity(
            Self::WholeBlock,
            "whole-block",
            "the block is complete and not mixed with another",
        ),
        identity(Self::ReadableValues, "readable-values", "every value of the block can be read"),
        identity(
            Self::PossibleValues,
            "possible-values",
            "nothing is below zero, and no value is zero where others show that it cannot be",
        ),
        identity(
            Self::OtherDefinition,
            "other-definition",
            "figures follow the definitions of the tools, not those of a fork",
        ),
        identity(
            Self::Throughput,
            "throughput",
            "requests, input, output and total tokens per second are counts / duration",
        ),
        identity(Self::MedianIsP50, "median-p50", "the median equals P50"),
        identity(
            Self::SingleRequest,
            "single-request",
            "one request: mean = median = percentile, and the request takes the whole duration",
        ),
        identity(
            Self::TwoRequests,
            "two-requests",
            "two requests: mean = median, and P99 determines both values",
        ),
        identity(Self::Little, "little", "concurrency = requests × mean E2E / duration"),
        identity(
            Self::QueueSum,
            "queue-sum",
            "mean E2E with client queue time = mean client queue time + mean E2E",
        ),
        identity(Self::InputSum, "input-sum", "input tokens = text tokens + vision tokens"),
        identity(Self::PercentileOrder, "percentile-order", "percentiles do not fall"),
        identity(
            Self::MeanWithinBounds,
            "mean-bounds",
            "the mean lies within what the percentiles allow",
        ),
        identity(
            Self::LatencyWithinRun,
            "latency-within-run",
            "latencies, and TPOT × tokens, lie between zero and the duration",
        ),
        identity(
            Self::EndAfterFirst,
            "end-after-first",
            "each percentile of E2E is at least that of TTFT",
        ),
        identity(Self::WithinCap, "within-cap", "mean requests in flight do not exceed the cap"),
        identity(
            Self::PeakAboveMean,
            "peak-above-mean",
            "peaks are at least their means, at most all requests, and what the streams can give",
        ),
        identity(
            Self::DecodingWithinFlight,
            "decoding-within-flight",
            "requests decoding do not exceed requests in flight",
        ),
        identity(
            Self::EventsPerToken,
            "events-per-token",
            "events = requests × (E2E − TTFT) / ITL + requests ≈ tokens",
        ),
        identity(
            Self::TokenWeightedTpot,
            "weighted-tpot",
            "requests × (E2E − TTFT) / (tokens − requests) ≈ ITL",
        ),
        identity(
            Self::TpotAgainstItl,
            "tpot-itl",
            "mean TPOT / mean ITL lies between 0.97 and 1.03 + 2.5 / (tokens per answer − 1)",
        ),
        identity(Self::Retokenized, "retokenized", "tokens of the text ≈ tokens reported"),
        identity(
            Self::WholeGaps,
            "whole-gaps",
            "one request: TPOT × (tokens − 1) / ITL is a whole number",
        ),
        identity(Self::GapsPerToken, "gaps-per-token", "one request: that number is tokens − 1"),
        identity(
            Self::RateReached,
            "rate-reached",
            "the achieved rate is at least 90 % of the stated one, and not above it",
        ),
        identity(
            Self::RisingWithLoad,
            "rising-with-load",
            "throughput, TTFT and TPOT do not fall as the load grows",
        ),
        identity(Self::AllAccounted, "all-accounted", "stated requests = successful + failed"),
        identity(Self::Quantum, "quantum", "gaps do not cluster just above multiples of 100 ms"),
        identity(
            Self::ServerLimit,
            "server-limit",
            "output tokens per second × time per token (requests decoding) is near the requests in flight",
        ),
        identity(
            Self::Backlog,
            "backlog",
            "mean TTFT is not a third to a half of the duration, with P99 near its end",
        ),
        identity(Self::EndToEndSum, "e2e-sum", "mean E2E ≈ TTFT + TPOT × (tokens per answer − 1)"),
        identity(Self::PinnedLength, "pinned-length", "answers differ in length"),
        identity(
            Self::PercentileSupport,
            "percentile-support",
            "there are enough requests for the percentile",
        ),
        identity(
            Self::StatedLength,
            "stated-length",
            "prompts are as long as the command line or the settings say",
        ),
    ];

    fn row(self) -> &'static Identity {
        Self::TABLE.iter().find(|row| row.rule == self).expect("the table has a row for each rule")
    }

    pub fn code(self) -> &'static str {
        self.row().code
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub level: Level,
    pub rule: Rule,
    /// What failed, with its numbers.
    pub what: String,
    pub meaning: String,
}

impl Finding {
    pub(crate) fn new(
        level: Level,
        rule: Rule,
        what: impl Into<String>,
        meaning: impl Into<String>,
    ) -> Self {
        Self { level, rule, what: with_short_numbers(&what.into()), meaning: meaning.into() }
    }

    pub(crate) fn inconsistent(
        rule: Rule,
        what: impl Into<String>,
        meaning: impl Into<String>,
    ) -> Self {
        Self::new(Level::Inconsistent, rule, what, meaning)
    }
}

/// Digits in a row beyond which a number is shown with an exponent.
const MOST_DIGITS: usize = 18;

/// The text with every number of too many digits as a power of ten. What a file says may be 1e308.
pub(crate) fn with_short_numbers(text: &str) -> String {
    let mut short = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(|letter: char| letter.is_ascii_digit()) {
        short.push_str(&rest[..start]);
        rest = &rest[start..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let decimals = rest[digits..]
            .strip_prefix('.')
            .map_or(0, |after| after.bytes().take_while(u8::is_ascii_digit).count() + 1);
        let number = rest[..digits].parse::<f64>().ok().filter(|_| digits > MOST_DIGITS);
        let end = if number.is_some() { digits + decimals } else { digits };
        match number {
            Some(number) => short.extend([format!("{number:.2e}")]),
            None => short.push_str(&rest[..end]),
        }
        rest = &rest[end..];
    }
    short + rest
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Examination {
    /// Findings of each block, worst first.
    pub blocks: Vec<Vec<Finding>>,
    pub file: Vec<Finding>,
}

impl Examination {
    pub fn worst(&self) -> Option<Level> {
        self.blocks.iter().flatten().chain(&self.file).map(|finding| finding.level).max()
    }
}

/// A file with its reports and what was found in them.
#[derive(Debug, Clone, Copy)]
pub struct ExaminedFile<'a> {
    pub name: &'a str,
    pub reports: &'a [Report],
    pub examination: &'a Examination,
}

impl<'a> ExaminedFile<'a> {
    /// Each report with its number from one and its findings.
    pub fn blocks(self) -> impl Iterator<Item = (usize, &'a Report, &'a [Finding])> {
        let blocks = self.reports.iter().zip(&self.examination.blocks);
        (1..).zip(blocks).map(|(number, (report, findings))| (number, report, findings.as_slice()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_hundreds_of_digits_are_powers_of_ten() {
        let text = format!("{:.2} is not {:.0} / 2.50 s (a12)", 1e308, 2.5e20);
        assert_eq!(with_short_numbers(&text), "1.00e308 is not 2.50e20 / 2.50 s (a12)");
    }
}
