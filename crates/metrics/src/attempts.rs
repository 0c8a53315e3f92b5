//! A request that was retried counts once: by its last attempt.

use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Sorts by request and keeps the last attempt of each. `identity` returns the request and the
/// attempt. Returns the number of attempts removed.
pub fn keep_last<T, K: Ord>(attempts: &mut Vec<T>, identity: impl Fn(&T) -> (K, u32)) -> u64 {
    let before = attempts.len();
    attempts.sort_by_key(|item| {
        let (request, attempt) = identity(item);
        (request, Reverse(attempt))
    });
    attempts.dedup_by(|later, earlier| identity(later).0 == identity(earlier).0);
    (before - attempts.len()) as u64
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
    pub fn push(&mut self, (request, attempt): (u64, u32), value: impl FnOnce() -> T) {
        let known = self.0.get(&request).map(|(known, _)| *known);
        if known.is_none_or(|known| attempt > known) {
            self.0.insert(request, (attempt, value()));
        }
    }

    /// Requests seen.
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
    use super::*;

    #[test]
    fn the_last_attempt_of_each_request_stays_in_the_order_of_requests() {
        let mut attempts = vec![(7, 0), (3, 1), (7, 2), (3, 0), (5, 0), (7, 1)];
        let mut one_by_one = LastAttempts::default();
        for attempt in &attempts {
            one_by_one.push(*attempt, || *attempt);
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
            one_by_one.push((*request, *attempt), || *name);
        }
        keep_last(&mut attempts, |(request, attempt, _)| (*request, *attempt));
        assert_eq!(attempts[0].2, 'a');
        assert_eq!(one_by_one.values().collect::<String>(), "a");
    }
}
