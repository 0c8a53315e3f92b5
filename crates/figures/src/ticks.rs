//! Arrival times of chunks, kept so that they can later be counted per second or per window.
//!
//! The tools' buckets start at the earliest successful request, which is known only at the end. So
//! the first [`crate::sample::EXACT_LIMIT`] times are kept exactly; with one more they are counted
//! per millisecond, and per two, four … milliseconds in runs of more than an hour.

use tokometer_base::Nanos;

use crate::sample::EXACT_LIMIT;

const MOST_CELLS: usize = 1 << 22;

#[derive(Debug, Clone)]
pub struct Ticks {
    origin: Nanos,
    exact: Vec<u64>,
    cells: Vec<u32>,
    cell_width: u64,
}

impl Ticks {
    /// Times before `origin` count as `origin`.
    pub fn new(origin: Nanos) -> Self {
        Self { origin, exact: Vec::new(), cells: Vec::new(), cell_width: 1_000_000 }
    }

    pub fn push(&mut self, at: Nanos) {
        self.push_many(at, 1);
    }

    pub fn push_many(&mut self, at: Nanos, count: u32) {
        let offset = (at - self.origin).0;
        let room = EXACT_LIMIT.saturating_sub(self.exact.len());
        if self.cells.is_empty() && count as usize <= room {
            self.exact.extend(std::iter::repeat_n(offset, count as usize));
            return;
        }
        for earlier in std::mem::take(&mut self.exact) {
            self.count(earlier, 1);
        }
        self.count(offset, count);
    }

    fn count(&mut self, offset: u64, count: u32) {
        while offset / self.cell_width >= MOST_CELLS as u64 {
            self.cell_width *= 2;
            let sum = |pair: &[u32]| pair.iter().fold(0_u32, |sum, one| sum.saturating_add(*one));
            self.cells = self.cells.chunks(2).map(sum).collect();
        }
        let cell = usize::try_from(offset / self.cell_width).unwrap_or(MOST_CELLS - 1);
        if self.cells.len() <= cell {
            self.cells.resize(cell + 1, 0);
        }
        self.cells[cell] = self.cells[cell].saturating_add(count);
    }

    /// Calls `visit` with (time, number of chunks), in any order.
    pub fn for_each(&self, mut visit: impl FnMut(Nanos, u64)) {
        for offset in &self.exact {
            visit(self.origin + Nanos(*offset), 1);
        }
        for (cell, count) in self.cells.iter().enumerate().filter(|(_, count)| **count > 0) {
            visit(self.origin + Nanos(cell as u64 * self.cell_width), u64::from(*count));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_tick_is_lost_when_they_become_cells() {
        let mut ticks = Ticks::new(Nanos::ZERO);
        let count = EXACT_LIMIT as u64 + 10;
        for tick in 0..count {
            ticks.push(Nanos::from_micros(tick * 10));
        }
        ticks.push(Nanos::from_secs(6_000));
        let (mut total, mut first_second) = (0, 0);
        ticks.for_each(|at, number| {
            total += number;
            first_second += if at < Nanos::from_secs(1) { number } else { 0 };
        });
        assert_eq!((total, first_second), (count + 1, 100_000));
        assert!(ticks.exact.is_empty());
    }
}
