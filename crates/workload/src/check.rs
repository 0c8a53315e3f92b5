//! Checks on a sample that prompts have the requested lengths.

use rayon::prelude::*;
use tokometer_tokenize::Reach;

use crate::{DatasetContext, DatasetNote, Item, Result};

const SAMPLE_PROMPTS: u64 = 300;

/// At most so many tokens are counted: a tokenizer does some 300,000 a second on one core, and the
/// check must not outlast the making of the prompts.
const SAMPLE_TOKENS: u64 = 100_000;

/// With a server's tokenizer every count is a round trip.
const SAMPLE_PROMPTS_REMOTE: u64 = 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct LengthCheck {
    pub checked: u64,
    /// Prompts whose length is not the one asked for.
    pub missed: u64,
    /// The largest difference, counted minus asked; 0 when none missed.
    pub worst: i64,
}

impl LengthCheck {
    pub fn note(self) -> Option<DatasetNote> {
        let Self { checked, missed, worst } = self;
        (missed > 0).then(|| {
            DatasetNote::new(
                "prompt-lengths",
                format!("{missed} of {checked} sampled prompts do not have the requested length (worst {worst:+} tokens)"),
            )
        })
    }

    fn with(self, difference: i64) -> Self {
        Self {
            checked: self.checked + 1,
            missed: self.missed + u64::from(difference != 0),
            worst: if difference.abs() > self.worst.abs() { difference } else { self.worst },
        }
    }
}

/// Counts prompts that are evenly spread over the `total` ones. Only generated prompts have an asked
/// length; for any other source the check is empty.
pub(crate) fn sample(
    total: u64,
    item_at: &(dyn Fn(u64) -> Result<Item> + Sync),
    context: &DatasetContext,
) -> Result<LengthCheck> {
    let first = (total > 0).then(|| item_at(0)).transpose()?;
    let Some(first_asked) = first.and_then(|item| item.asked_tokens) else {
        return Ok(LengthCheck::default());
    };
    let prompts_max = match context.tokenizer.reach() {
        Reach::Local => SAMPLE_PROMPTS.min((SAMPLE_TOKENS / u64::from(first_asked.max(1))).max(4)),
        Reach::Remote => SAMPLE_PROMPTS_REMOTE,
    };
    let wanted = total.min(prompts_max);
    let difference = |at: u64| {
        let item = item_at(at * total / wanted)?;
        let Some(asked) = item.asked_tokens else { return Ok(None) };
        let counted = context.tokens_of(&item.prompt.content)?;
        Ok(Some(i64::from(counted) - i64::from(asked)))
    };
    let differences: Result<Vec<Option<i64>>> =
        (0..wanted).into_par_iter().map(difference).collect();
    Ok(differences?.into_iter().flatten().fold(LengthCheck::default(), LengthCheck::with))
}
