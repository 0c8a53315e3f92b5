//! One value of a whole run, a few times a second, in bounded memory.

use std::collections::VecDeque;

/// Values that are kept. Once there are more, neighbours become one.
const MOST: usize = 512;
/// Readings in a second.
const SMOOTHED: usize = 4;

#[derive(Debug)]
pub(super) struct Course {
    /// Means of so many readings each.
    values: Vec<f64>,
    each: usize,
    /// Readings that do not fill a value yet.
    open: Vec<u64>,
    /// The last second.
    latest: VecDeque<u64>,
}

impl Default for Course {
    fn default() -> Self {
        Self { values: Vec::new(), each: 1, open: Vec::new(), latest: VecDeque::new() }
    }
}

impl Course {
    pub(super) fn push(&mut self, reading: u64) {
        self.latest.push_back(reading);
        if self.latest.len() > SMOOTHED {
            self.latest.pop_front();
        }
        self.open.push(reading);
        if self.open.len() < self.each {
            return;
        }
        self.values.push(self.open.iter().sum::<u64>() as f64 / self.each as f64);
        self.open.clear();
        if self.values.len() == MOST {
            self.values = self.values.chunks(2).map(mean).collect();
            self.each *= 2;
        }
    }

    /// The mean of the last second: what came within one drawing is too jumpy to read.
    pub(super) fn latest(&self) -> u64 {
        self.latest.iter().sum::<u64>() / self.latest.len().max(1) as u64
    }

    /// The whole run in so many columns.
    pub(super) fn columns(&self, width: usize) -> Vec<f64> {
        let count = self.values.len();
        let column = |at: usize| {
            let (from, to) = (at * count / width, (at + 1) * count / width);
            mean(&self.values[from..to.max(from + 1)])
        };
        if count == 0 { Vec::new() } else { (0..width).map(column).collect() }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The charts showed the last ten seconds.
    #[test]
    fn a_course_shows_the_whole_run_whatever_its_length() {
        for readings in [3_u64, 40, 700, 100_000] {
            let mut course = Course::default();
            (0..readings).for_each(|at| course.push(at));
            let columns = course.columns(40);
            assert_eq!(columns.len(), 40);
            let last = readings as f64;
            assert!(columns[0] <= 0.05 * last && columns[39] >= 0.6 * last, "{readings}: {columns:?}");
            assert!(columns.is_sorted(), "{readings}: {columns:?}");
            assert!(course.values.len() <= MOST);
        }
        assert_eq!(Course::default().columns(9), Vec::<f64>::new());
    }

    #[test]
    fn figures_are_those_of_the_last_second() {
        let mut course = Course::default();
        [100, 1, 2, 3, 6].map(|reading| course.push(reading));
        assert_eq!(course.latest(), 3);
    }
}
