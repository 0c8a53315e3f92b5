//! The stages of a load: vLLM's ramp as one, what else may be said beside them, and the end that they give a run.

use tokometer_base::{Refusal, Seed};
use tokometer_schedule::{Length, Stage, StageLoad};

use crate::options::{Fragment, RampFlags};
use crate::{PartialPlan, Plan};

/// A ramp-up, which needs all three of its flags, as a stage as long as the run.
pub(super) fn of_ramp(ramp: &RampFlags) -> Result<Option<Stage>, Refusal> {
    let flags = [
        ("`--ramp-up-strategy`", &ramp.shape),
        ("`--ramp-up-start-rps`", &ramp.from),
        ("`--ramp-up-end-rps`", &ramp.to),
    ];
    let named = |is_given: bool| -> Vec<&str> {
        flags.iter().filter(|(_, word)| word.is_some() == is_given).map(|(flag, _)| *flag).collect()
    };
    let hint = "write `--ramp-up-strategy linear --ramp-up-start-rps 1 --ramp-up-end-rps 10`";
    let (Some(shape), Some(from), Some(to)) = (&ramp.shape, &ramp.from, &ramp.to) else {
        let (given, missing) = (named(true).join(" and "), named(false).join(" and "));
        let why =
            format!("cannot use {given} without {missing}: a ramp-up has a shape and two rates");
        return if given.is_empty() { Ok(None) } else { Err(Refusal::usage(why, hint)) };
    };
    format!("run@{from}..{to}/s {shape}")
        .parse()
        .map(Some)
        .map_err(|why: String| Refusal::usage(why, hint))
}

/// Refuses flags that ask for what stages say.
pub(super) fn check_company<'a>(
    all: &PartialPlan,
    layers: impl Iterator<Item = &'a Fragment>,
) -> Result<(), Refusal> {
    const RATES: [&str; 3] = ["stages", "ramp-up-strategy", "request-rate"];
    const ENDS: [&str; 4] = ["num-prompts", "duration", "until", "max-sessions"];
    let Some(stages) = all.load.stages.as_ref().filter(|stages| !stages.is_empty()) else {
        return Ok(());
    };
    let is_own = stages.iter().any(|stage| stage.length != Length::Run);
    for layer in layers {
        let rates: Vec<&&str> = RATES.iter().filter(|flag| layer.has(flag)).collect();
        let ends = ENDS.iter().find(|flag| is_own && layer.has(flag));
        let (one, other, hint) = match (&rates[..], ends) {
            ([one, other, ..], _) => {
                (**one, **other, "use one of them: both say when requests are sent")
            }
            (_, Some(end)) => ("stages", *end, "omit it: each stage has a length of its own"),
            _ => continue,
        };
        return Err(Refusal::usage(
            format!("cannot use `--{one}` together with `--{other}`"),
            hint,
        ));
    }
    Ok(())
}

/// Stages with lengths of their own are the run's length.
pub(super) fn settle(plan: &mut Plan) -> Result<(), Refusal> {
    let refused = |why: String| Refusal::usage(why, "`tokometer bench --help` shows `--stages`");
    if !plan.load.has_own_end() {
        return Ok(());
    }
    if plan.load.num_prompts.is_some() {
        let why =
            "cannot use `load.num_prompts` with `load.stages`: each stage has a length of its own";
        return Err(refused(why.to_owned()));
    }
    let offsets = plan.load.offsets(None, plan.conventions, Seed(plan.seed));
    let mut offsets = offsets.map_err(|why| refused(why.to_string()))?;
    let is_closed = |stage: &Stage| matches!(stage.load, StageLoad::Sessions { .. });
    let end = offsets.spans().last().and_then(|span| span.end);
    plan.load.duration_s = end.map(tokometer_base::Nanos::as_secs_f64);
    if offsets.advance().is_none() && !plan.load.stages.iter().any(is_closed) {
        return Err(refused("cannot use these stages: they have no request".to_owned()));
    }
    Ok(())
}
