//! Two targets in one plan: the second is filled in from the first, and the block gets its length.

use crate::{PartialPlan, PartialTarget, Plan, TurnOrder};
use tokometer_base::Partial;

use tokometer_base::Refusal;

/// Completes the second target from the first: unset fields are the same.
pub(crate) fn put_second_target(part: &mut PartialPlan) {
    if part.interleave.is_none() && part.targets.len() < 2 {
        return;
    }
    let mut second = part.targets.first().cloned().unwrap_or_default();
    part.targets.resize_with(part.targets.len().max(2), PartialTarget::default);
    second.merge(std::mem::take(&mut part.targets[1]));
    part.targets[1] = second;
    part.interleave.get_or_insert_default().order.get_or_insert(TurnOrder::Drawn);
}

pub(crate) fn settle(plan: &mut Plan) -> Result<(), Refusal> {
    if plan.targets.len() < 2 {
        return Ok(());
    }
    let mut turns = plan.interleave.take().unwrap_or_default();
    turns.block_requests = turns.requests_of_block(&plan.load)?;
    plan.interleave = Some(turns);
    Ok(())
}

pub(crate) fn remarks(plan: &Plan) -> Vec<String> {
    let Some(turns) = &plan.interleave else { return Vec::new() };
    let block = turns.block_requests;
    let mut remarks = Vec::new();
    if let Some(cap) = plan.load.max_concurrency.filter(|cap| u64::from(*cap) > block) {
        remarks.push(format!(
            "a block of {block} requests never reaches the concurrency of {cap}: use a longer `--block`, or more requests"
        ));
    }
    let left = turns.left_over(&plan.load);
    if left > 0 {
        remarks.push(format!("{left} requests beyond the last whole pair of blocks are not sent"));
    }
    remarks
}

#[cfg(test)]
mod tests {
    use crate::options::Fragment;

    use super::*;

    fn addresses(part: &PartialPlan) -> Vec<String> {
        let shown = |target: &PartialTarget| target.address.as_ref().map(ToString::to_string);
        part.targets.iter().filter_map(shown).collect()
    }

    #[test]
    fn the_second_target_is_the_first_but_for_what_was_said() {
        let first = PartialTarget {
            address: Some("http://x".parse().unwrap()),
            backend: tokometer_client::Dialect::named("vllm"),
            ..PartialTarget::default()
        };
        let below = PartialPlan { targets: vec![first], ..PartialPlan::default() };
        let with = |flag: &'static str, word: &str| {
            let mut flags = Fragment::default();
            flags.add(flag, word).unwrap();
            let mut part = below.clone();
            part.merge(flags.part);
            put_second_target(&mut part);
            part
        };
        let other = with("against", "http://y");
        assert_eq!(addresses(&other), ["http://x", "http://y"]);
        assert_eq!(other.targets[1].backend, tokometer_client::Dialect::named("vllm"));
        assert_eq!(addresses(&with("switch-command", "do")), ["http://x", "http://x"]);
    }
}
