//! A figure is one number of a run: a metric, and the statistic taken of it, such as `p99 TTFT`.
//!
//! In: the names of figures in flags, rules and result files. Out: one [`Figure`] with its unit, the
//! direction in which it is better, its label and its key. Every rule, table and file names figures
//! through this module, so that `p99 ttft`, `ttft p99`, `ttft_ms_p99` and vLLM's `p99_ttft_ms` mean
//! the same and are printed in one way.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::define::Unit;

mod quantity;
mod statistic;

use self::quantity::{named, normal, unknown};

pub use self::quantity::{Better, Quantity};
pub use self::statistic::{Percentile, Statistic};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Figure {
    pub quantity: Quantity,
    /// Such as p99; [`Statistic::Whole`] for a quantity without a distribution.
    pub statistic: Statistic,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("`{text}` is not a metric\n  {hint}")]
    Unknown {
        text: String,
        /// The nearest known names, or all of them.
        hint: String,
    },
    #[error(
        "`{word}` is not a percentile\n  use one above p0 and below p100, such as p99 or p99.9"
    )]
    Percentile { word: String },
    #[error("{} is one value per run and has no {statistic}\n  leave out `{statistic}`", .quantity.label())]
    NoDistribution { quantity: Quantity, statistic: Statistic },
    #[error("`{text}` names two statistics\n  use one, such as `p99 ttft`")]
    TwoStatistics { text: String },
}

impl Figure {
    /// Does not check that the quantity has a distribution; [`Figure::parse`] does.
    pub const fn new(quantity: Quantity, statistic: Statistic) -> Self {
        Self { quantity, statistic }
    }

    pub const fn whole(quantity: Quantity) -> Self {
        Self::new(quantity, Statistic::Whole)
    }

    pub const fn mean(quantity: Quantity) -> Self {
        Self::new(quantity, Statistic::Mean)
    }

    /// `percent` is a whole number.
    pub const fn percentile(quantity: Quantity, percent: u32) -> Self {
        Self::new(quantity, Statistic::Percentile(Percentile::whole(percent)))
    }

    /// Parses a metric and its statistic in either order, separated by spaces, `_` or `-`, in any
    /// case. A metric alone means its mean, or its value if it has no distribution.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let words = normal(text);
        // Some metrics have the name of a statistic in their own.
        if let Some(quantity) = named(&words) {
            let statistic =
                if quantity.is_distribution() { Statistic::Mean } else { Statistic::Whole };
            return Ok(Self { quantity, statistic });
        }
        let (mut statistics, mut rest) = (Vec::new(), Vec::new());
        for word in words.split(' ') {
            match Statistic::named(word) {
                Some(statistic) => statistics.push(statistic?),
                None => rest.push(word),
            }
        }
        let rest = rest.join(" ");
        let Some(quantity) = named(&rest) else {
            return Err(unknown(if statistics.len() == 1 { &rest } else { text }, &rest));
        };
        match statistics[..] {
            [statistic] if quantity.is_distribution() => Ok(Self { quantity, statistic }),
            [statistic] => Err(Error::NoDistribution { quantity, statistic }),
            _ => Err(Error::TwoStatistics { text: text.trim().to_owned() }),
        }
    }

    /// For programs, with the unit before the statistic: `ttft_ms_p99`.
    pub fn key(self) -> String {
        match self.statistic {
            Statistic::Whole => self.quantity.key().to_owned(),
            statistic => format!("{}_{statistic}", self.quantity.key()),
        }
    }

    /// For people: `p99 TTFT`.
    pub fn label(self) -> String {
        match self.statistic {
            Statistic::Whole => self.quantity.label().to_owned(),
            statistic => format!("{statistic} {}", self.quantity.label()),
        }
    }

    /// Its name with the metric first, for rows and columns that are grouped by metric: `TTFT p99`.
    pub fn metric_first(self) -> String {
        match self.statistic {
            Statistic::Whole => self.quantity.label().to_owned(),
            statistic => format!("{} {statistic}", self.quantity.label()),
        }
    }

    pub fn unit(self) -> Unit {
        self.quantity.unit()
    }

    pub fn better(self) -> Better {
        self.quantity.better()
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label())
    }
}

impl FromStr for Figure {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.key())
    }
}

impl<'de> Deserialize<'de> for Figure {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
#[path = "figure_tests.rs"]
mod tests;
