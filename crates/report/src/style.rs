//! How our own summary may look: how much of it, its colours, and how many digits are worth printing.

use tokometer_base::Nanos;
use tokometer_base::digits::decimals;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Style {
    pub is_coloured: bool,
    /// Everything that is known, instead of the first screen.
    pub is_detailed: bool,
    /// The instrument's error, where it is known: digits below it are not printed.
    pub error: Option<Nanos>,
}

/// What a piece of text is, for its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Strong,
    Faint,
    Good,
    Doubtful,
    Bad,
}

impl Style {
    /// `text` in the colour of its tone, or as it is.
    pub(crate) fn paint(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Strong => "1",
            Tone::Faint => "2",
            Tone::Good => "32",
            Tone::Doubtful => "33",
            Tone::Bad => "31",
        };
        if self.is_coloured { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Milliseconds with the digits that they deserve, and none below the instrument's error.
    pub(crate) fn millis(self, millis: f64) -> String {
        let by_size = decimals(millis);
        let by_error = self.error.map_or(by_size, |error| match error.as_millis_f64() {
            error if error <= 0.001 => 3,
            error if error <= 0.01 => 2,
            error if error <= 0.1 => 1,
            _ => 0,
        });
        format!("{millis:.*}", by_size.min(by_error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_below_the_instrument_s_error_are_not_printed() {
        let check = |millis: f64, error: Option<u64>, expected: &str| {
            let style = Style { error: error.map(Nanos::from_micros), ..Style::default() };
            assert_eq!(style.millis(millis), expected);
        };
        check(0.123_456, None, "0.123");
        check(12.345_6, None, "12.35");
        check(123.456, None, "123.5");
        check(12_345.6, None, "12346");
        check(12.345_6, Some(50), "12.3");
        check(0.123_456, Some(5), "0.12");
        check(0.123_456, Some(2_000), "0");
    }

    #[test]
    fn colours_appear_only_when_asked_for() {
        assert_eq!(Style::default().paint(Tone::Bad, "x"), "x");
        let style = Style { is_coloured: true, ..Style::default() };
        assert_eq!(style.paint(Tone::Bad, "x"), "\x1b[31mx\x1b[0m");
    }
}
