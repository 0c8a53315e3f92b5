//! Statistics of a distribution: mean, extremes, and percentiles that compare exactly.

use std::fmt;

use super::Error;

/// A percentile such as 99 or 99.9, stored in millionths of a percent so that it compares exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percentile(pub(super) u32);

pub(super) const MILLIONTHS: u32 = 1_000_000;

impl Percentile {
    /// `percent` is a whole number.
    pub const fn whole(percent: u32) -> Self {
        Self(percent * MILLIONTHS)
    }

    /// The percentile nearest to `percent`; `None` outside 0 to 100.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range check keeps the product between 0 and 1e8"
    )]
    pub fn from_percent(percent: f64) -> Option<Self> {
        let in_range = (0.0..=100.0).contains(&percent);
        in_range.then(|| Self((percent * f64::from(MILLIONTHS)).round() as u32))
    }

    pub fn parse(text: &str) -> Option<Self> {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        text.parse().ok().filter(|_| is_plain).and_then(Self::from_percent)
    }

    pub fn percent(self) -> f64 {
        f64::from(self.0) / f64::from(MILLIONTHS)
    }

    pub fn share(self) -> f64 {
        self.percent() / 100.0
    }

    /// The share of a sample beyond it, on its smaller side.
    pub fn tail(self) -> f64 {
        self.share().min(1.0 - self.share())
    }
}

impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.percent())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Statistic {
    /// The value itself, for a quantity without a distribution.
    Whole,
    Mean,
    /// Population standard deviation.
    Std,
    Min,
    Max,
    Percentile(Percentile),
}

impl Statistic {
    pub const MEDIAN: Self = Self::Percentile(Percentile::whole(50));
    pub const P90: Self = Self::Percentile(Percentile::whole(90));
    pub const P99: Self = Self::Percentile(Percentile::whole(99));

    pub fn percentile(self) -> Option<Percentile> {
        if let Self::Percentile(percentile) = self { Some(percentile) } else { None }
    }

    /// `None` when the word is not a statistic.
    pub(super) fn named(word: &str) -> Option<Result<Self, Error>> {
        let statistic = match word {
            "mean" | "avg" | "average" => Self::Mean,
            "median" => Self::MEDIAN,
            "std" => Self::Std,
            "min" => Self::Min,
            "max" => Self::Max,
            _ => {
                let digits = word.strip_prefix('p')?;
                let is_number = digits.starts_with(|first: char| first.is_ascii_digit());
                let inner = |one: &Percentile| (1..100 * MILLIONTHS).contains(&one.0);
                let percentile = Percentile::parse(digits).filter(inner).map(Self::Percentile);
                let refused = || Error::Percentile { word: word.to_owned() };
                return is_number.then(|| percentile.ok_or_else(refused));
            }
        };
        Some(Ok(statistic))
    }
}

/// `mean`, `p99.9`, or `value` for a quantity without a distribution. It is the suffix of a key and
/// the name of a column.
impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => f.write_str("value"),
            Self::Mean => f.write_str("mean"),
            Self::Std => f.write_str("std"),
            Self::Min => f.write_str("min"),
            Self::Max => f.write_str("max"),
            Self::Percentile(percentile) => write!(f, "p{percentile}"),
        }
    }
}
