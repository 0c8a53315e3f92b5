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

/// An identity that a report must satisfy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    pub code: &'static str,
    /// What it demands.
    pub sentence: &'static str,
}

impl Rule {
    pub const WHOLE_BLOCK: Self =
        Self { code: "whole-block", sentence: "the block is complete and not mixed with another" };
    pub const READABLE_VALUES: Self =
        Self { code: "readable-values", sentence: "every value of the block can be read" };
    pub const POSSIBLE_VALUES: Self = Self {
        code: "possible-values",
        sentence: "nothing is below zero, and no value is zero where others show that it cannot be",
    };
    pub const OTHER_DEFINITION: Self = Self {
        code: "other-definition",
        sentence: "figures follow the definitions of the tools, not those of a fork",
    };
    pub const THROUGHPUT: Self = Self {
        code: "throughput",
        sentence: "requests, input, output and total tokens per second are counts / duration",
    };
    pub const MEDIAN_IS_P50: Self = Self { code: "median-p50", sentence: "the median equals P50" };
    pub const SINGLE_REQUEST: Self = Self {
        code: "single-request",
        sentence: "one request: mean = median = percentile, and the request takes the whole duration",
    };
    pub const TWO_REQUESTS: Self = Self {
        code: "two-requests",
        sentence: "two requests: mean = median, and P99 determines both values",
    };
    pub const LITTLE: Self =
        Self { code: "little", sentence: "concurrency = requests × mean E2E / duration" };
    pub const QUEUE_SUM: Self = Self {
        code: "queue-sum",
        sentence: "mean E2E with client queue time = mean client queue time + mean E2E",
    };
    pub const INPUT_SUM: Self =
        Self { code: "input-sum", sentence: "input tokens = text tokens + vision tokens" };
    pub const PERCENTILE_ORDER: Self =
        Self { code: "percentile-order", sentence: "percentiles do not fall" };
    pub const MEAN_WITHIN_BOUNDS: Self =
        Self { code: "mean-bounds", sentence: "the mean lies within what the percentiles allow" };
    pub const LATENCY_WITHIN_RUN: Self = Self {
        code: "latency-within-run",
        sentence: "latencies, and TPOT × tokens, lie between zero and the duration",
    };
    pub const END_AFTER_FIRST: Self = Self {
        code: "end-after-first",
        sentence: "each percentile of E2E is at least that of TTFT",
    };
    pub const WITHIN_CAP: Self =
        Self { code: "within-cap", sentence: "mean requests in flight do not exceed the cap" };
    pub const PEAK_ABOVE_MEAN: Self = Self {
        code: "peak-above-mean",
        sentence: "peaks are at least their means, at most all requests, and what the streams can give",
    };
    pub const DECODING_WITHIN_FLIGHT: Self = Self {
        code: "decoding-within-flight",
        sentence: "requests decoding do not exceed requests in flight",
    };
    pub const EVENTS_PER_TOKEN: Self = Self {
        code: "events-per-token",
        sentence: "events = requests × (E2E − TTFT) / ITL + requests ≈ tokens",
    };
    pub const TOKEN_WEIGHTED_TPOT: Self = Self {
        code: "weighted-tpot",
        sentence: "requests × (E2E − TTFT) / (tokens − requests) ≈ ITL",
    };
    pub const TPOT_AGAINST_ITL: Self = Self {
        code: "tpot-itl",
        sentence: "mean TPOT / mean ITL lies between 0.97 and 1.03 + 2.5 / (tokens per answer − 1)",
    };
    pub const RETOKENIZED: Self =
        Self { code: "retokenized", sentence: "tokens of the text ≈ tokens reported" };
    pub const WHOLE_GAPS: Self = Self {
        code: "whole-gaps",
        sentence: "one request: TPOT × (tokens − 1) / ITL is a whole number",
    };
    pub const GAPS_PER_TOKEN: Self =
        Self { code: "gaps-per-token", sentence: "one request: that number is tokens − 1" };
    pub const RATE_REACHED: Self = Self {
        code: "rate-reached",
        sentence: "the achieved rate is at least 90 % of the stated one, and not above it",
    };
    pub const RISING_WITH_LOAD: Self = Self {
        code: "rising-with-load",
        sentence: "throughput, TTFT and TPOT do not fall as the load grows",
    };
    pub const ALL_ACCOUNTED: Self =
        Self { code: "all-accounted", sentence: "stated requests = successful + failed" };
    pub const QUANTUM: Self =
        Self { code: "quantum", sentence: "gaps do not cluster just above multiples of 100 ms" };
    pub const SERVER_LIMIT: Self = Self {
        code: "server-limit",
        sentence: "output tokens per second × time per token (requests decoding) is near the requests in flight",
    };
    pub const BACKLOG: Self = Self {
        code: "backlog",
        sentence: "mean TTFT is not a third to a half of the duration, with P99 near its end",
    };
    pub const END_TO_END_SUM: Self =
        Self { code: "e2e-sum", sentence: "mean E2E ≈ TTFT + TPOT × (tokens per answer − 1)" };
    pub const PINNED_LENGTH: Self =
        Self { code: "pinned-length", sentence: "answers differ in length" };
    pub const PERCENTILE_SUPPORT: Self = Self {
        code: "percentile-support",
        sentence: "there are enough requests for the percentile",
    };
    pub const STATED_LENGTH: Self = Self {
        code: "stated-length",
        sentence: "prompts are as long as the command line or the settings say",
    };

    /// All rules in order.
    pub const TABLE: [Self; 34] = [
        Self::WHOLE_BLOCK,
        Self::READABLE_VALUES,
        Self::POSSIBLE_VALUES,
        Self::OTHER_DEFINITION,
        Self::THROUGHPUT,
        Self::MEDIAN_IS_P50,
        Self::SINGLE_REQUEST,
        Self::TWO_REQUESTS,
        Self::LITTLE,
        Self::QUEUE_SUM,
        Self::INPUT_SUM,
        Self::PERCENTILE_ORDER,
        Self::MEAN_WITHIN_BOUNDS,
        Self::LATENCY_WITHIN_RUN,
        Self::END_AFTER_FIRST,
        Self::WITHIN_CAP,
        Self::PEAK_ABOVE_MEAN,
        Self::DECODING_WITHIN_FLIGHT,
        Self::EVENTS_PER_TOKEN,
        Self::TOKEN_WEIGHTED_TPOT,
        Self::TPOT_AGAINST_ITL,
        Self::RETOKENIZED,
        Self::WHOLE_GAPS,
        Self::GAPS_PER_TOKEN,
        Self::RATE_REACHED,
        Self::RISING_WITH_LOAD,
        Self::ALL_ACCOUNTED,
        Self::QUANTUM,
        Self::SERVER_LIMIT,
        Self::BACKLOG,
        Self::END_TO_END_SUM,
        Self::PINNED_LENGTH,
        Self::PERCENTILE_SUPPORT,
        Self::STATED_LENGTH,
    ];

    /// Its position among all: findings of one level stand in this order.
    pub(crate) fn position(self) -> Option<usize> {
        Self::TABLE.iter().position(|rule| *rule == self)
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
