//! Values in ten bins, as lines of text.

use serde::Serialize;

const BAR_CHARS: usize = 40;

const BINS: u64 = 10;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Histogram {
    pub count: u64,
    pub total: u64,
    pub bins: Vec<Bin>,
}

/// The values from `low` to `high`, both included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bin {
    pub low: u64,
    pub high: u64,
    pub count: u64,
}

impl Histogram {
    /// The histogram of values. Without values it has no bins.
    pub fn of(values: &[u64]) -> Self {
        let (count, total) = (values.len() as u64, values.iter().sum());
        let (Some(low), Some(high)) = (values.iter().min(), values.iter().max()) else {
            return Self { count, total, bins: Vec::new() };
        };
        let width = (high - low + 1).div_ceil(BINS);
        let mut bins: Vec<Bin> = (0..(high - low + 1).div_ceil(width))
            .map(|bin| low + bin * width)
            .map(|low| Bin { low, high: (low + width - 1).min(*high), count: 0 })
            .collect();
        for value in values {
            let bin = usize::try_from((value - low) / width).unwrap_or(0);
            bins[bin].count += 1;
        }
        Self { count, total, bins }
    }

    /// The histogram as lines of text, one per bin. `title` says what is counted.
    pub fn lines(&self, title: &str) -> Vec<String> {
        if self.bins.is_empty() {
            return vec![format!("{title}: not counted")];
        }
        let mean = self.total as f64 / self.count as f64;
        let mut lines =
            vec![format!("{title}: {} values, mean {mean:.1}, total {}", self.count, self.total)];
        lines.extend(bars(&self.bins));
        lines
    }
}

/// A line with a bar for each bin.
pub(crate) fn bars(bins: &[Bin]) -> Vec<String> {
    let most = bins.iter().map(|bin| bin.count).max().unwrap_or(1).max(1);
    let digits = bins.last().map_or(1, |bin| bin.high.to_string().len());
    let count_digits = most.to_string().len();
    let bar = |Bin { low, high, count }: &Bin| {
        // A bin that is not empty shows at least one mark.
        let marks = (count * BAR_CHARS as u64).div_ceil(most);
        let bar = "#".repeat(usize::try_from(marks).unwrap_or(BAR_CHARS));
        let line = format!("  {low:>digits$} - {high:>digits$}  {count:>count_digits$}  {bar}");
        line.trim_end().to_owned()
    };
    bins.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_shows_every_value_in_equal_bins() {
        let histogram = Histogram::of(&[5, 5, 6, 10, 24]);
        assert_eq!(
            histogram.lines("prompt tokens").join("\n"),
            "\
prompt tokens: 5 values, mean 10.0, total 50
   5 -  6  3  ########################################
   7 -  8  0
   9 - 10  1  ##############
  11 - 12  0
  13 - 14  0
  15 - 16  0
  17 - 18  0
  19 - 20  0
  21 - 22  0
  23 - 24  1  ##############"
        );
        assert_eq!(Histogram::of(&[7, 7]).bins, [Bin { low: 7, high: 7, count: 2 }]);
        assert_eq!(Histogram::of(&[]).lines("x"), ["x: not counted"]);
    }
}
