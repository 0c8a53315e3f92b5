//! What servers said of failures, with the number of requests that each message belongs to.

use std::collections::BTreeMap;

use tokometer_base::printable;

use crate::rows::{FailureClass, RequestRow};
use crate::summary::FailureGroup;

const MESSAGES_MAX: u8 = 63;

/// Messages that are shown of each kind and status. The rest is one group.
const SHOWN: usize = 3;

/// The messages of failed requests. Two that differ only in words with digits, such as an id or a time, are one.
#[derive(Debug, Default)]
pub(crate) struct FailureMessages {
    numbers: BTreeMap<(FailureClass, String), u8>,
    /// The first of each as it came. The number is its index here.
    first: Vec<String>,
}

impl FailureMessages {
    /// The number of a message. Those beyond the limit share the last one.
    pub(crate) fn number(&mut self, class: FailureClass, message: &str) -> u8 {
        let key = (class, pattern(message));
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        let number = u8::try_from(self.first.len()).unwrap_or(MESSAGES_MAX).min(MESSAGES_MAX);
        if number < MESSAGES_MAX {
            let _earlier = self.numbers.insert(key, number);
        }
        if self.first.len() <= usize::from(MESSAGES_MAX) {
            self.first.push(printable::short(message));
        }
        number
    }

    /// Failed requests by kind, status and message, the most frequent first.
    pub(crate) fn groups(&self, rows: &[RequestRow]) -> Vec<FailureGroup> {
        let mut counts: BTreeMap<FailureClass, BTreeMap<u8, u64>> = BTreeMap::new();
        for row in rows {
            if let Some(class) = row.failure {
                *counts.entry(class).or_default().entry(row.message).or_default() += 1;
            }
        }
        let mut groups = Vec::new();
        for (class, messages) in counts {
            let mut messages: Vec<(u8, u64)> = messages.into_iter().collect();
            messages.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            let rest = if messages.len() > SHOWN + 1 { messages.split_off(SHOWN) } else { vec![] };
            let text =
                |number: u8| self.first.get(usize::from(number)).cloned().unwrap_or_default();
            let group =
                |count, example| FailureGroup { kind: class.0, status: class.1, count, example };
            groups.extend(messages.iter().map(|(number, count)| group(*count, text(*number))));
            if let Some((first, _)) = rest.first() {
                let count = rest.iter().map(|(_, count)| count).sum();
                let example = format!("{} other messages, such as: {}", rest.len(), text(*first));
                groups.push(group(count, example));
            }
        }
        groups.sort_by_key(|group| std::cmp::Reverse(group.count));
        groups
    }
}

/// A message with each word that has a digit replaced.
fn pattern(message: &str) -> String {
    let words = message.split(|character: char| !character.is_alphanumeric());
    let has_digit = |word: &str| word.bytes().any(|byte| byte.is_ascii_digit());
    let mut kept: Vec<&str> = words.map(|word| if has_digit(word) { "#" } else { word }).collect();
    // The number of digits behind a point may differ.
    kept.dedup_by(|later, earlier| *later == "#" && *earlier == "#");
    kept.join(" ")
}

#[cfg(test)]
mod tests {
    use tokometer_record::{Failure, FailureKind, Outcome};

    use super::*;

    fn groups(said: &[(&str, usize)]) -> Vec<(u64, String)> {
        let mut messages = FailureMessages::default();
        let mut rows = Vec::new();
        for (message, count) in said {
            for _ in 0..*count {
                let mut timeline = crate::testing::answer(0, 0, &[]);
                timeline.status = Some(500);
                let failure = Failure::new(FailureKind::Status, *message);
                timeline.outcome = Outcome::Failed(failure);
                let mut row = RequestRow::of(&timeline, None);
                row.message = messages.number(row.failure.unwrap(), message);
                rows.push(row);
            }
        }
        let groups = messages.groups(&rows);
        groups.into_iter().map(|group| (group.count, group.example)).collect()
    }

    /// `failed 9 × status 500: CUDA oom` stood there for three messages.
    #[test]
    fn every_message_has_its_own_count() {
        let found = groups(&[("CUDA oom", 3), ("queue full", 4), ("bad field", 2)]);
        let expected = [(4, "queue full"), (3, "CUDA oom"), (2, "bad field")];
        assert_eq!(found, expected.map(|(count, text)| (count, text.to_owned())));
        let numbered = groups(&[("request a1 took 5 s", 2), ("request b22 took 17.5 s", 1)]);
        assert_eq!(numbered, [(3, "request a1 took 5 s".to_owned())]);
    }

    #[test]
    fn rare_messages_are_one_group() {
        let found = groups(&[("a", 9), ("b", 8), ("c", 7), ("d", 2), ("e", 1)]);
        assert_eq!(found.len(), 4);
        assert_eq!(found[3], (3, "2 other messages, such as: d".to_owned()));
        // One more is named instead of counted.
        let found = groups(&[("a", 9), ("b", 8), ("c", 7), ("d", 2)]);
        assert_eq!(found[3], (2, "d".to_owned()));
        let names: Vec<String> = (0..600).map(|at| "x".repeat(at + 1)).collect();
        let many: Vec<(&str, usize)> = names.iter().map(|name| (name.as_str(), 1)).collect();
        let found = groups(&many);
        assert_eq!(found.iter().map(|(count, _)| count).sum::<u64>(), 600, "no request is lost");
    }
}
