//! Two targets in one plan: the second is filled in from the first, and the block gets its length.

use tokometer_base::{Nanos, units};
use tokometer_plan::{Interleave, Load, Plan};

use super::layer::Layer;
use crate::args::AgainstArgs;
use crate::exit::Refusal;

/// Pairs of blocks that the default length makes: enough for an interval that small differences show
/// in, and few enough that a block is longer than its own rise and tail.
const DEFAULT_PAIRS: u64 = 20;

/// Sets what the flags say.
pub(crate) fn put_against(layer: &mut Layer, args: &AgainstArgs) -> Result<(), Refusal> {
    if !args.is_given() {
        return match &args.block {
            Some(block) => Err(Refusal::usage(
                format!("cannot use `--block {block}`: there is one target"),
                "name another with `--against URL`",
            )),
            None => Ok(()),
        };
    }
    layer.put("interleave", serde_json::json!({}));
    layer.put("targets.1.address", &args.against);
    layer.put("interleave.switch_command", &args.switch_command);
    let Some(block) = &args.block else { return Ok(()) };
    if let Ok(requests) = block.parse::<u64>() {
        layer.put("interleave.block_requests", requests);
        return Ok(());
    }
    let span = units::parse_span(block, Nanos::from_secs(1)).map_err(|why| {
        Refusal::usage(
            format!("cannot use `--block {block}`: {why}"),
            "write requests or a time, such as `50` or `10s`",
        )
    })?;
    layer.put("interleave.block_s", span.as_secs_f64());
    Ok(())
}

/// Fills the second target in from the first: what nobody said is the same.
pub(crate) fn put_second_target(layer: &mut Layer) {
    if layer.at("interleave").is_none() && layer.at("targets.1").is_none() {
        return;
    }
    let object = |path: &str| {
        let found = layer.at(path).and_then(serde_json::Value::as_object);
        Layer::new(found.cloned().unwrap_or_default())
    };
    let mut second = object("targets.0");
    second.cover(&object("targets.1"));
    layer.put("targets.1", second.into_value());
}

/// Gives the blocks of a plan with two targets their length.
pub(crate) fn settle(plan: &mut Plan) -> Result<(), Refusal> {
    if plan.targets.len() < 2 {
        return Ok(());
    }
    let mut turns = plan.interleave.take().unwrap_or_default();
    turns.block_requests = block_requests(&turns, &plan.load)?;
    plan.interleave = Some(turns);
    Ok(())
}

fn block_requests(turns: &Interleave, load: &Load) -> Result<u64, Refusal> {
    let rate = Some(load.request_rate.0).filter(|rate| rate.is_finite());
    let expected = |seconds: f64| rate.map(|rate| whole(rate * seconds));
    let asked = match (turns.block_requests, turns.block_s) {
        (0, Some(seconds)) => Some(expected(seconds).ok_or_else(|| {
            Refusal::usage(
                "cannot use a `--block` of time: the load has no rate of its own",
                "write the number of requests of a block, such as `--block 50`",
            )
        })?),
        (0, None) => None,
        (requests, _) => Some(requests),
    };
    let planned = load.num_prompts.filter(|count| *count > 0);
    let planned = planned.or_else(|| load.duration_s.and_then(expected));
    let block = asked.or_else(|| planned.map(|count| count / (2 * DEFAULT_PAIRS)));
    let block = block.ok_or_else(|| {
        Refusal::usage(
            "cannot choose the length of a block: the number of requests is not known",
            "name it with `--block N`, or the requests with `--num-prompts N`",
        )
    })?;
    let block = block.max(1);
    if planned.is_some_and(|count| count < 2 * block) {
        return Err(Refusal::usage(
            format!(
                "cannot measure in turn: {} requests are less than two blocks of {block}",
                planned.unwrap_or(0)
            ),
            "send more requests, or choose a shorter `--block`",
        ));
    }
    Ok(block)
}

/// What the user should know about the blocks of a plan.
pub(crate) fn remarks(plan: &Plan) -> Vec<String> {
    let Some(turns) = &plan.interleave else { return Vec::new() };
    let block = turns.block_requests;
    let mut remarks = Vec::new();
    if let Some(cap) = plan.load.max_concurrency.filter(|cap| u64::from(*cap) > block) {
        remarks.push(format!(
            "a block of {block} requests never fills {cap} places: choose a longer `--block`, or more requests"
        ));
    }
    let left = plan.load.num_prompts.map_or(0, |count| count % (2 * block));
    if left > 0 {
        remarks.push(format!("{left} requests beyond the last whole pair of blocks are not sent"));
    }
    remarks
}

/// The nearest whole number, through the one type that converts without a cast.
fn whole(count: f64) -> u64 {
    Nanos::from_secs_f64(count.max(1.0) / 1e9).0
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokometer_plan::{Overload, Rate, Timing};

    fn load(rate: f64, num_prompts: Option<u64>, duration_s: Option<f64>) -> Load {
        Load {
            request_rate: Rate(rate),
            burstiness: Rate(1.0),
            max_concurrency: None,
            ramp: None,
            num_prompts,
            duration_s,
            until: None,
            overload: Overload::Continue,
            timing: Timing::Rate,
        }
    }

    #[test]
    fn a_block_is_as_long_as_asked_or_gives_twenty_pairs() {
        let check = |turns: Interleave, load: Load, expected: Option<u64>| {
            assert_eq!(block_requests(&turns, &load).ok(), expected, "{turns:?}");
        };
        let default = Interleave::default;
        let inf = f64::INFINITY;
        check(default(), load(inf, Some(1_000), None), Some(25));
        check(default(), load(inf, Some(10), None), Some(1));
        check(default(), load(inf, Some(1), None), None);
        check(default(), load(10.0, None, Some(60.0)), Some(15));
        check(default(), load(inf, None, Some(60.0)), None);
        check(Interleave { block_requests: 7, ..default() }, load(inf, None, Some(60.0)), Some(7));
        check(
            Interleave { block_s: Some(3.0), ..default() },
            load(20.0, Some(1_000), None),
            Some(60),
        );
        check(Interleave { block_s: Some(3.0), ..default() }, load(inf, Some(1_000), None), None);
        check(Interleave { block_requests: 600, ..default() }, load(inf, Some(1_000), None), None);
    }

    #[test]
    fn the_second_target_is_the_first_but_for_what_was_said() {
        let mut layer = Layer::default();
        layer.put("targets.0", serde_json::json!({"address": "http://x", "backend": "vllm"}));
        let args = AgainstArgs { against: Some("http://y".to_owned()), ..AgainstArgs::default() };
        put_against(&mut layer, &args).unwrap();
        put_second_target(&mut layer);
        assert_eq!(layer.text_at("targets.1.address"), Some("http://y"));
        assert_eq!(layer.text_at("targets.1.backend"), Some("vllm"));
        let mut switched = Layer::default();
        switched.put("targets.0", serde_json::json!({"address": "http://x"}));
        let args = AgainstArgs { switch_command: Some("do".to_owned()), ..AgainstArgs::default() };
        put_against(&mut switched, &args).unwrap();
        put_second_target(&mut switched);
        assert_eq!(switched.text_at("targets.1.address"), Some("http://x"));
    }

    #[test]
    fn a_block_without_a_second_target_is_refused() {
        let args = AgainstArgs { block: Some("5".to_owned()), ..AgainstArgs::default() };
        let refusal = put_against(&mut Layer::default(), &args).unwrap_err();
        assert!(refusal.to_string().contains("there is one target"), "{refusal}");
    }
}
