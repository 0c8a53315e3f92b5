//! How long prompts and answers are: the two rules for lengths around a wanted one.
//!
//! vLLM's ratio widens the range on both sides (0 is fixed, below 1), SGLang's narrows it from
//! below (1 is fixed, 0 the widest). Both draw whole numbers, each equally likely.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tokometer_base::seed::{Generator, whole_between};

use tokometer_base::Conventions;

/// The spread of lengths: one number for both, or one for each.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(from = "WrittenRatio", into = "WrittenRatio")]
pub struct Ratio {
    pub input: f64,
    pub output: f64,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(untagged)]
enum WrittenRatio {
    Both(f64),
    Each { input: f64, output: f64 },
}

impl From<WrittenRatio> for Ratio {
    fn from(typed: WrittenRatio) -> Self {
        match typed {
            WrittenRatio::Both(ratio) => Self { input: ratio, output: ratio },
            WrittenRatio::Each { input, output } => Self { input, output },
        }
    }
}

impl From<Ratio> for WrittenRatio {
    fn from(ratio: Ratio) -> Self {
        if ratio.input.to_bits() == ratio.output.to_bits() {
            Self::Both(ratio.input)
        } else {
            Self::Each { input: ratio.input, output: ratio.output }
        }
    }
}

impl Ratio {
    pub const fn both(ratio: f64) -> Self {
        Self { input: ratio, output: ratio }
    }

    /// Why the ratio is outside of what a family's rule allows, or `None` if it is not.
    pub fn fault(self, conventions: Conventions) -> Option<String> {
        let is_allowed = |ratio: &f64| match conventions {
            Conventions::Vllm => (0.0..1.0).contains(ratio),
            Conventions::Sglang => (0.0..=1.0).contains(ratio),
        };
        let bad = [self.input, self.output].into_iter().find(|ratio| !is_allowed(ratio))?;
        let range = match conventions {
            Conventions::Vllm => "at least 0 and below 1",
            Conventions::Sglang => "between 0 and 1",
        };
        Some(format!("the range ratio `{bad}` must be {range}"))
    }
}

impl FromStr for Ratio {
    type Err = String;

    /// Reads `0.5` or `{"input":0.1,"output":0.5}`.
    fn from_str(text: &str) -> Result<Self, String> {
        serde_json::from_str(text.trim())
            .map_err(|_| format!(r#"`{text}` is neither a number nor {{"input":a,"output":b}}"#))
    }
}

/// The shortest and the longest length, both possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub low: u32,
    pub high: u32,
}

impl Span {
    /// The lengths that a family's rule gives around `length`; never below 1.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "products of a u32 with a ratio of at most 2; casts saturate"
    )]
    pub fn around(length: u32, ratio: f64, conventions: Conventions) -> Self {
        let wanted = f64::from(length);
        let (low, high) = match conventions {
            Conventions::Vllm => {
                ((wanted * (1.0 - ratio)).floor() as u32, (wanted * (1.0 + ratio)).ceil() as u32)
            }
            Conventions::Sglang => ((wanted * ratio) as u32, length),
        };
        Self { low: low.max(1), high: high.max(1) }
    }

    pub fn draw(self, generator: &mut Generator) -> u32 {
        let length = whole_between(generator, self.low.into(), self.high.into());
        u32::try_from(length).unwrap_or(self.high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokometer_base::Seed;

    #[test]
    fn each_family_has_its_own_span() {
        let check = |length, ratio, conventions, low, high| {
            let span = Span::around(length, ratio, conventions);
            assert_eq!(span, Span { low, high }, "{length} {ratio} {conventions:?}");
        };
        check(1_024, 0.0, Conventions::Vllm, 1_024, 1_024);
        check(1_000, 0.25, Conventions::Vllm, 750, 1_250);
        check(3, 0.5, Conventions::Vllm, 1, 5);
        check(1, 0.9, Conventions::Vllm, 1, 2);
        check(1_024, 1.0, Conventions::Sglang, 1_024, 1_024);
        check(1_024, 0.0, Conventions::Sglang, 1, 1_024);
        check(1_000, 0.25, Conventions::Sglang, 250, 1_000);
    }

    #[test]
    fn draws_reach_both_ends_of_the_span() {
        let span = Span { low: 2, high: 4 };
        let draw = |index| span.draw(&mut Seed(1).stream("lengths").at(index));
        let mut drawn: Vec<u32> = (0..100).map(draw).collect();
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn, [2, 3, 4]);
    }

    #[test]
    fn ratios_are_read_and_written_in_both_forms() {
        let check = |text: &str, input, output| {
            let ratio: Ratio = text.parse().unwrap();
            assert_eq!(ratio, Ratio { input, output });
            let written = serde_json::to_string(&ratio).unwrap();
            assert_eq!(written.parse::<Ratio>().unwrap(), ratio);
        };
        check("0.5", 0.5, 0.5);
        check("0", 0.0, 0.0);
        check(r#"{"input": 0.1, "output": 0.5}"#, 0.1, 0.5);
        assert!("wide".parse::<Ratio>().is_err());
        assert!(Ratio::both(1.0).fault(Conventions::Vllm).is_some());
        assert_eq!(Ratio::both(1.0).fault(Conventions::Sglang), None);
    }
}
