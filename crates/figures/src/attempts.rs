//! A request that was retried counts once: by its last attempt.

use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Sorts by request and keeps the last attempt of each. `identity` returns the request and the
/// attempt. Returns the number of attempts removed.
pub fn keep_last<T, K: Ord>(attempts: &mut Vec<T>, identity: impl Fn(&T) -> (K, u32)) -> u64 {
    let last = LastOfEach::among(attempts, identity);
    last.keep_in(attempts);
    last.removed()
}

/// Which attempts count, for several lists that have one entry per attempt in the same order.
#[derive(Debug, Clone)]
pub struct LastOfEach {
    /// Positions of the last attempts in the order of requests, then those of the others.
    order: Vec<u32>,
    kept: usize,
}

impl LastOfEach {
    /// `identity` returns the request and the attempt. Of two attempts with one number the first
    /// counts.
    pub fn among<T, K: Ord>(attempts: &[T], identity: impl Fn(&T) -> (K, u32)) -> Self {
        let count = u32::try_from(attempts.len()).expect("four billion attempts fit in no memory");
        let at = |nth: u32| identity(&attempts[nth as usize]);
        let mut order: Vec<u32> = (0..count).collect();
        order.sort_by_key(|nth| {
            let (request, attempt) = at(*nth);
            (request, Reverse(attempt))
        });
        let mut others = Vec::new();
        let mut last = None;
        order.retain(|nth| {
            let is_last = last.is_none_or(|last| at(last).0 != at(*nth).0);
            if is_last {
                last = Some(*nth);
            } else {
                others.push(*nth);
            }
            is_last
        });
        let kept = order.len();
        order.extend(others);
        Self { order, kept }
    }

    /// Attempts that do not count.
    pub fn removed(&self) -> u64 {
        (self.order.len() - self.kept) as u64
    }

    /// Keeps the last attempts of a list, in the order of requests. Moves entries within the list: a second
    /// list would double the memory.
    pub fn keep_in<T>(&self, list: &mut Vec<T>) {
        assert_eq!(list.len(), self.order.len(), "the lists have one entry per attempt");
        let mut order = self.order.clone();
        for start in 0..order.len() {
            let mut at = start;
            loop {
                let from = order[at] as usize;
                order[at] = u32::try_from(at).unwrap_or(u32::MAX);
                if from == start {
                    break;
                }
                list.swap(at, from);
                at = from;
            }
        }
        list.truncate(self.kept);
    }
}

/// The same for attempts that come one by one, in any order, of which little is kept.
#[derive(Debug, Clone)]
pub struct LastAttempts<T>(BTreeMap<u64, (u32, T)>);

impl<T> Default for LastAttempts<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> LastAttempts<T> {
    /// Takes an attempt of a request. `value` is asked for what to keep of it only if it is the last
    /// one so far.
    pub fn push(&mut self, request: u64, attempt: u32, value: impl FnOnce() -> T) {
        let known = self.0.get(&request).map(|(known, _)| *known);
        if known.is_none_or(|known| attempt > known) {
            self.0.insert(request, (attempt, value()));
        }
    }

    pub fn requests(&self) -> u64 {
        self.0.len() as u64
    }

    /// What was kept of each request, in the order of requests.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.0.values().map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use tokometer_base::Seed;
    use tokometer_base::seed::whole_between;

    use super::*;

    /// Two lists of the same attempts stay side by side, whatever the order of arrival.
    #[test]
    fn several_lists_keep_the_same_attempts() {
        let mut draws = Seed(3).stream("attempts").at(0);
        for count in 0..200 {
            let attempts: Vec<(u64, u32)> = (0..count)
                .map(|_| (whole_between(&mut draws, 0, 60), whole_between(&mut draws, 0, 3)))
                .map(|(request, attempt)| (request, u32::try_from(attempt).unwrap()))
                .collect();
            let last = LastOfEach::among(&attempts, |item| *item);
            let (mut own, mut order) = (attempts.clone(), (0..attempts.len()).collect::<Vec<_>>());
            last.keep_in(&mut own);
            last.keep_in(&mut order);
            assert!(own.windows(2).all(|pair| pair[0].0 < pair[1].0), "{own:?}");
            for ((request, attempt), nth) in own.iter().zip(order) {
                let of_request = || attempts.iter().filter(|item| item.0 == *request);
                assert_eq!(of_request().map(|item| item.1).max(), Some(*attempt));
                let first = attempts.iter().position(|item| item == &(*request, *attempt));
                assert_eq!(first, Some(nth));
            }
            assert_eq!(last.removed(), (attempts.len() - own.len()) as u64);
        }
    }

    #[test]
    fn the_last_attempt_of_each_request_stays_in_the_order_of_requests() {
        let mut attempts = vec![(7, 0), (3, 1), (7, 2), (3, 0), (5, 0), (7, 1)];
        let mut one_by_one = LastAttempts::default();
        for (request, attempt) in &attempts {
            one_by_one.push(*request, *attempt, || (*request, *attempt));
        }
        assert_eq!(keep_last(&mut attempts, |item| *item), 3);
        assert_eq!(attempts, [(3, 1), (5, 0), (7, 2)]);
        assert_eq!(one_by_one.values().copied().collect::<Vec<_>>(), attempts);
        assert_eq!(one_by_one.requests(), 3);
    }

    /// Both ways keep the first of two attempts that claim one number.
    #[test]
    fn an_attempt_that_comes_twice_counts_as_it_first_came() {
        let mut attempts = vec![(1, 0, 'a'), (1, 0, 'b')];
        let mut one_by_one = LastAttempts::default();
        for (request, attempt, name) in &attempts {
            one_by_one.push(*request, *attempt, || *name);
        }
        keep_last(&mut attempts, |(request, attempt, _)| (*request, *attempt));
        assert_eq!(attempts[0].2, 'a');
        assert_eq!(one_by_one.values().collect::<String>(), "a");
    }
}
