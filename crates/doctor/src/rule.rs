//! The identities by name, and what the doctor says about them.

use std::fmt;

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
    /// The word in reports.
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

/// An identity. The number of each stands in [`Rule::TABLE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// The block is whole.
    WholeBlock,
    /// Its values can be read.
    ReadableValues,
    /// Its values are possible.
    PossibleValues,
    /// Figures follow the tools' definitions.
    OtherDefinition,
    /// Throughputs are counts over the duration.
    Throughput,
    /// The median is P50.
    MedianIsP50,
    /// One request has one latency.
    SingleRequest,
    /// Two requests have a mean equal to their median.
    TwoRequests,
    /// Concurrency follows Little's law.
    Little,
    /// Waiting in the client and the service add up.
    QueueSum,
    /// Text and images are all of the input.
    InputSum,
    /// Percentiles rise.
    PercentileOrder,
    /// The mean lies between the bounds that the percentiles give.
    MeanWithinBounds,
    /// No latency is longer than the run.
    LatencyWithinRun,
    /// The end comes after the first token.
    EndAfterFirst,
    /// No more requests in flight than the cap.
    WithinCap,
    /// A peak is not below its mean.
    PeakAboveMean,
    /// No more requests decode than are in flight.
    DecodingWithinFlight,
    /// As many events as tokens.
    EventsPerToken,
    /// Time per token agrees with the time between events.
    TokenWeightedTpot,
    /// Mean TPOT agrees with mean ITL.
    TpotAgainstItl,
    /// Tokens of the text agree with the reported count.
    Retokenized,
    /// The gaps of a single request are a whole number.
    WholeGaps,
    /// A single request has one gap less than tokens.
    GapsPerToken,
    /// The stated rate was reached.
    RateReached,
    /// Load does not make a server faster.
    RisingWithLoad,
    /// Every request asked for is accounted for.
    AllAccounted,
    /// Gaps do not sit on multiples of a quantum.
    Quantum,
    /// The server ran what the client had in flight.
    ServerLimit,
    /// TTFT measures the engine, not a backlog.
    Backlog,
    /// Mean E2E is TTFT plus TPOT for the tokens after the first.
    EndToEndSum,
    /// Answer lengths are free.
    PinnedLength,
    /// The sample supports the percentile.
    PercentileSupport,
    /// Prompts are as long as stated.
    StatedLength,
}

/// A rule, its number in the list of identities (none for those beyond it), its code, its sentence.
type Identity = (Rule, Option<u8>, &'static str, &'static str);

impl Rule {
    /// All rules in order.
    pub const TABLE: [Identity; 34] = [
        (Self::WholeBlock, None, "whole-block", "the block is complete and not mixed with another"),
        (Self::ReadableValues, None, "readable-values", "every value of the block can be read"),
        (
            Self::PossibleValues,
            None,
            "possible-values",
            "nothing is below zero, and no value is zero where others show that it cannot be",
        ),
        (
            Self::OtherDefinition,
            None,
            "other-definition",
            "figures follow the definitions of the tools, not those of a fork",
        ),
        (
            Self::Throughput,
            Some(1),
            "throughput",
            "requests, input, output and total tokens per second are counts / duration",
        ),
        (Self::MedianIsP50, Some(2), "median-p50", "the median equals P50"),
        (
            Self::SingleRequest,
            Some(3),
            "single-request",
            "one request: mean = median = percentile, and the request takes the whole duration",
        ),
        (
            Self::TwoRequests,
            Some(4),
            "two-requests",
            "two requests: mean = median, and P99 determines both values",
        ),
        (Self::Little, Some(5), "little", "concurrency = requests × mean E2E / duration"),
        (
            Self::QueueSum,
            None,
            "queue-sum",
            "mean E2E with client queue time = mean client queue time + mean E2E",
        ),
        (Self::InputSum, None, "input-sum", "input tokens = text tokens + vision tokens"),
        (Self::PercentileOrder, Some(6), "percentile-order", "percentiles do not fall"),
        (
            Self::MeanWithinBounds,
            Some(7),
            "mean-bounds",
            "the mean lies within what the percentiles allow",
        ),
        (
            Self::LatencyWithinRun,
            Some(8),
            "latency-within-run",
            "latencies lie between zero and the duration",
        ),
        (
            Self::EndAfterFirst,
            Some(9),
            "end-after-first",
            "each percentile of E2E is at least that of TTFT",
        ),
        (Self::WithinCap, Some(10), "within-cap", "mean requests in flight do not exceed the cap"),
        (
            Self::PeakAboveMean,
            Some(11),
            "peak-above-mean",
            "peaks are at least their means, and at most all requests",
        ),
        (
            Self::DecodingWithinFlight,
            Some(12),
            "decoding-within-flight",
            "requests decoding do not exceed requests in flight",
        ),
        (
            Self::EventsPerToken,
            Some(13),
            "events-per-token",
            "events = requests × (E2E − TTFT) / ITL + requests ≈ tokens",
        ),
        (
            Self::TokenWeightedTpot,
            Some(14),
            "weighted-tpot",
            "requests × (E2E − TTFT) / (tokens − requests) ≈ ITL",
        ),
        (
            Self::TpotAgainstItl,
            Some(15),
            "tpot-itl",
            "mean TPOT / mean ITL lies between 0.97 and 1.03 + 2.5 / (tokens per answer − 1)",
        ),
        (Self::Retokenized, Some(16), "retokenized", "tokens of the text ≈ tokens reported"),
        (
            Self::WholeGaps,
            Some(17),
            "whole-gaps",
            "one request: TPOT × (tokens − 1) / ITL is a whole number",
        ),
        (Self::GapsPerToken, Some(18), "gaps-per-token", "one request: that number is tokens − 1"),
        (
            Self::RateReached,
            Some(19),
            "rate-reached",
            "the achieved rate is at least 90 % of the stated one",
        ),
        (
            Self::RisingWithLoad,
            Some(20),
            "rising-with-load",
            "throughput, TTFT and TPOT do not fall as the load grows",
        ),
        (Self::AllAccounted, Some(21), "all-accounted", "stated requests = successful + failed"),
        (Self::Quantum, Some(22), "quantum", "gaps do not cluster just above multiples of 100 ms"),
        (
            Self::ServerLimit,
            Some(23),
            "server-limit",
            "output tokens per second × ITL (requests decoding) is near the requests in flight",
        ),
        (
            Self::Backlog,
            Some(24),
            "backlog",
            "mean TTFT is not a third to a half of the duration, with P99 near its end",
        ),
        (Self::EndToEndSum, None, "e2e-sum", "mean E2E ≈ TTFT + TPOT × (tokens per answer − 1)"),
        (Self::PinnedLength, None, "pinned-length", "answers differ in length"),
        (
            Self::PercentileSupport,
            None,
            "percentile-support",
            "there are enough requests for the percentile",
        ),
        (
            Self::StatedLength,
            None,
            "stated-length",
            "prompts are as long as the command line or the settings say",
        ),
    ];

    fn row(self) -> &'static Identity {
        Self::TABLE
            .iter()
            .find(|(rule, ..)| *rule == self)
            .expect("the table has a row for each rule")
    }

    /// Its number in the list of identities; `None` for those beyond it.
    pub fn number(self) -> Option<u8> {
        self.row().1
    }

    /// Its short name.
    pub fn code(self) -> &'static str {
        self.row().2
    }

    /// What it demands.
    pub fn sentence(self) -> &'static str {
        self.row().3
    }
}

/// One thing found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// The identity that fails.
    pub rule: Rule,
    /// What failed, with its numbers.
    pub what: String,
    /// What it probably means.
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

/// All findings of one file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Examination {
    /// Findings of each block, worst first.
    pub blocks: Vec<Vec<Finding>>,
    /// Findings about the file as a whole.
    pub file: Vec<Finding>,
}

impl Examination {
    /// The worst level found anywhere.
    pub fn worst(&self) -> Option<Level> {
        self.blocks.iter().flatten().chain(&self.file).map(|finding| finding.level).max()
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

    #[test]
    fn the_table_holds_the_24_identities_in_order() {
        let numbers: Vec<u8> = Rule::TABLE.iter().filter_map(|(_, number, ..)| *number).collect();
        assert_eq!(numbers, (1..=24).collect::<Vec<u8>>());
        for (rule, number, code, _) in Rule::TABLE {
            assert_eq!((rule.number(), rule.code()), (number, code));
        }
    }
}
