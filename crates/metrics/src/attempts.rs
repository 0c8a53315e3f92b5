//! A request that was retried counts once: by its last attempt.

use std::cmp::Reverse;

/// Sorts by request and leaves the last attempt of each. `identity` names the request and the
/// attempt. Returns how many attempts were removed.
pub fn keep_last<T, K: Ord>(attempts: &mut Vec<T>, identity: impl Fn(&T) -> (K, u32)) -> u64 {
    let before = attempts.len();
    attempts.sort_by_key(|item| {
        let (request, attempt) = identity(item);
        (request, Reverse(attempt))
    });
    attempts.dedup_by(|later, earlier| identity(later).0 == identity(earlier).0);
    (before - attempts.len()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_attempt_of_each_request_stays_in_the_order_of_requests() {
        let mut attempts = vec![(7, 0), (3, 1), (7, 2), (3, 0), (5, 0), (7, 1)];
        assert_eq!(keep_last(&mut attempts, |item| *item), 3);
        assert_eq!(attempts, [(3, 1), (5, 0), (7, 2)]);
    }
}
