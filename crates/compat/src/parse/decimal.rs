//! Which sign a block has between whole numbers and decimals.
//!
//! `3.000` is three or three thousand. The other values of the block decide: `1.055,18` and
//! `2.004.890` have a single meaning. Without any such value, or with values of both kinds, the sign
//! is not known, and a count such as `3.000` is not read.

/// The sign before the decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum DecimalMark {
    /// No value shows it, or values disagree.
    #[default]
    Unknown,
    /// `1,055.18`.
    Point,
    /// `1.055,18`.
    Comma,
}

impl DecimalMark {
    /// The mark that these values of one block agree on.
    pub(super) fn of<'a>(texts: impl Iterator<Item = &'a str>) -> Self {
        let mut agreed = Self::Unknown;
        for shown in texts.map(shown_by).filter(|shown| *shown != Self::Unknown) {
            if agreed != Self::Unknown && agreed != shown {
                return Self::Unknown;
            }
            agreed = shown;
        }
        agreed
    }

    /// The body of a number with a point before its decimals, if the mark is known.
    pub(super) fn with_point(self, body: &str) -> String {
        let swap = |letter| match letter {
            '.' => ',',
            ',' => '.',
            other => other,
        };
        match self {
            Self::Comma => body.chars().map(swap).collect(),
            Self::Unknown | Self::Point => body.to_owned(),
        }
    }
}

/// The mark that one value shows by itself.
fn shown_by(text: &str) -> DecimalMark {
    let text = text.trim_start_matches(|letter: char| !letter.is_ascii_digit());
    let is_body = |letter: char| letter.is_ascii_digit() || matches!(letter, '.' | ',');
    let end = text.find(|letter| !is_body(letter)).unwrap_or(text.len());
    let body = text[..end].trim_end_matches(['.', ',']);
    let Some(last) = body.rfind(['.', ',']) else { return DecimalMark::Unknown };
    let (before, after) = (&body[..last], &body[last + 1..]);
    let (as_decimal, as_group) = match &body[last..=last] {
        "." => (DecimalMark::Point, DecimalMark::Comma),
        _ => (DecimalMark::Comma, DecimalMark::Point),
    };
    let is_repeated = before.contains(&body[last..=last]);
    let is_mixed = before.contains(['.', ',']);
    // A group has three digits, one to three before it, and the first is no zero.
    let is_like_group = after.len() == 3 && before.len() <= 3 && !before.starts_with('0');
    if is_repeated {
        as_group
    } else if is_like_group && !is_mixed {
        DecimalMark::Unknown
    } else {
        as_decimal
    }
}

/// Whether a count written like this may be one of thousands: `3.000`.
pub(super) fn is_ambiguous_count(digits: &str) -> bool {
    let parts = digits.split_once('.');
    parts
        .is_some_and(|(whole, rest)| rest.len() == 3 && whole.len() <= 3 && !whole.starts_with('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_the_one_that_values_with_a_single_meaning_show() {
        let check = |texts: &[&str], expected: DecimalMark| {
            assert_eq!(DecimalMark::of(texts.iter().copied()), expected, "{texts:?}");
        };
        check(&["3.000", "1.055,18"], DecimalMark::Comma);
        check(&["3.000", "2.004.890"], DecimalMark::Comma);
        check(&["3.000", "2,84"], DecimalMark::Comma);
        check(&["3.000", "2.84"], DecimalMark::Point);
        check(&["3.000", "0.125"], DecimalMark::Point);
        check(&["3.000", "1234.125"], DecimalMark::Point);
        check(&["3,000", "2,004,890"], DecimalMark::Point);
        check(&["3.000", "696.991", "7"], DecimalMark::Unknown);
        check(&["3.000", "2,84", "2.84"], DecimalMark::Unknown);
        check(&["N/A", "", "."], DecimalMark::Unknown);
    }
}
