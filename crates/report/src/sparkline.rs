//! A series of numbers in one line of text.

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The series in at most `width` characters, each the mean of its part, from zero to the largest.
/// Empty for an empty series.
pub fn sparkline(series: &[f64], width: usize) -> String {
    let columns = width.min(series.len());
    let part = |column: usize| {
        let (begin, end) = (column * series.len() / columns, (column + 1) * series.len() / columns);
        series[begin..end].iter().sum::<f64>() / (end - begin) as f64
    };
    let means: Vec<f64> = (0..columns).map(part).collect();
    let largest = means.iter().copied().fold(0.0, f64::max);
    means.iter().map(|mean| bar(mean / largest)).collect()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the share is clamped to 0..=1, and a series of zeros gives NaN, which becomes zero"
)]
fn bar(share: f64) -> char {
    BARS[(share.clamp(0.0, 1.0) * 7.0).round() as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_scaled_to_its_largest_value_and_to_the_width() {
        assert_eq!(sparkline(&[], 10), "");
        assert_eq!(sparkline(&[0.0, 0.0], 10), "▁▁");
        assert_eq!(sparkline(&[0.0, 7.0, 14.0], 10), "▁▅█");
        assert_eq!(sparkline(&[1.0, 1.0, 2.0, 2.0], 2), "▅█");
    }
}
