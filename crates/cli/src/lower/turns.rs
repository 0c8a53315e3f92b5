//! Two targets in one plan: the second is filled in from the first, and the block gets its length.

use tokometer_base::{Nanos, Partial, units};
use tokometer_plan::{NoBlock, PartialPlan, PartialTarget, Plan, ShellCommand, TurnOrder};

use super::flags::address;
use crate::args::AgainstArgs;
use crate::exit::Refusal;

/// Sets what the flags say.
pub(crate) fn put_against(part: &mut PartialPlan, args: &AgainstArgs) -> Result<(), Refusal> {
    if !args.is_given() {
        return match &args.block {
            Some(block) => Err(Refusal::usage(
                format!("cannot use `--block {block}`: there is only one target"),
                "add a second target with `--against URL`",
            )),
            None => Ok(()),
        };
    }
    let turns = part.interleave.get_or_insert_default();
    turns.switch_command = args.switch_command.clone().map(|command| Some(ShellCommand(command)));
    if let Some(block) = &args.block {
        if let Ok(requests) = block.parse::<u64>() {
            turns.block_requests = Some(requests);
        } else {
            turns.block_s = Some(Some(block_seconds(block)?));
        }
    }
    if let Some(url) = &args.against {
        let second =
            PartialTarget { address: Some(address("--against", url)?), ..PartialTarget::default() };
        part.targets.resize_with(1, PartialTarget::default);
        part.targets.push(second);
    }
    Ok(())
}

fn block_seconds(block: &str) -> Result<f64, Refusal> {
    let span = units::parse_span(block, Nanos::from_secs(1)).map_err(|why| {
        Refusal::usage(
            format!("cannot use `--block {block}`: {why}"),
            "write requests or a time, such as `50` or `10s`",
        )
    })?;
    Ok(span.as_secs_f64())
}

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

/// Gives the blocks of a plan with two targets their length.
pub(crate) fn settle(plan: &mut Plan) -> Result<(), Refusal> {
    if plan.targets.len() < 2 {
        return Ok(());
    }
    let mut turns = plan.interleave.take().unwrap_or_default();
    turns.block_requests = turns.requests_of_block(&plan.load).map_err(refused)?;
    plan.interleave = Some(turns);
    Ok(())
}

/// The error when two targets cannot be alternated.
fn refused(why: NoBlock) -> Refusal {
    match why {
        NoBlock::NoRate => Refusal::usage(
            "cannot use a time for `--block`: the load has no finite request rate",
            "give a number of requests, such as `--block 50`",
        ),
        NoBlock::Unlimited => Refusal::usage(
            "cannot choose the length of a block: the number of requests is unknown",
            "set it with `--block N`, or set the number of requests with `--num-prompts N`",
        ),
        NoBlock::TooFew { planned, block } => Refusal::usage(
            format!(
                "cannot alternate between two targets: {planned} requests are fewer than two blocks of {block}"
            ),
            "send more requests, or use a shorter `--block`",
        ),
    }
}

/// What the user should know about the blocks of a plan.
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
        let with = |args: AgainstArgs| {
            let mut flags = PartialPlan::default();
            put_against(&mut flags, &args).unwrap();
            let mut part = below.clone();
            part.merge(flags);
            put_second_target(&mut part);
            part
        };
        let args = AgainstArgs { against: Some("http://y".to_owned()), ..AgainstArgs::default() };
        let other = with(args);
        assert_eq!(addresses(&other), ["http://x", "http://y"]);
        assert_eq!(other.targets[1].backend, tokometer_client::Dialect::named("vllm"));
        let args = AgainstArgs { switch_command: Some("do".to_owned()), ..AgainstArgs::default() };
        assert_eq!(addresses(&with(args)), ["http://x", "http://x"]);
    }

    #[test]
    fn a_block_without_a_second_target_is_refused() {
        let args = AgainstArgs { block: Some("5".to_owned()), ..AgainstArgs::default() };
        let refusal = put_against(&mut PartialPlan::default(), &args).unwrap_err();
        assert!(refusal.to_string().contains("there is only one target"), "{refusal}");
    }
}
