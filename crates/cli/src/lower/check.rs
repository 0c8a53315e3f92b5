//! Plans that make no sense are refused before anything is opened.

use std::path::Path;

use tokometer_compat::LayoutChoice;
use tokometer_plan::{Load, Plan};
use tokometer_record::STDOUT;

use super::{constraints, figures, numbers, pooling, route, sizes};
use crate::exit::Refusal;

/// Refuses a plan that makes no sense.
pub(crate) fn check(plan: &Plan) -> Result<(), Refusal> {
    numbers::check(plan)?;
    sizes::check(plan)?;
    check_load(&plan.load)?;
    pooling::check(plan)?;
    constraints::check_canaries(plan)?;
    route::check(plan)?;
    let layout = &plan.metrics.layout;
    let _choice = LayoutChoice::named(layout).map_err(|why| Refusal::usage(why.to_string(), ""))?;
    for name in &plan.metrics.sections {
        let _section = figures::section(name)?;
    }
    if plan.output.run_dir.as_deref() == Some(Path::new(STDOUT)) {
        return Err(Refusal::usage(
            "cannot use `--run-dir -`: a run is a folder",
            "`--json` prints the summary, `--no-run-dir` keeps no record",
        ));
    }
    if !(1..=2).contains(&plan.targets.len()) {
        return Err(Refusal::usage(
            format!("cannot measure {} targets in one run", plan.targets.len()),
            "measure the targets one after the other",
        ));
    }
    Ok(())
}

fn check_load(load: &Load) -> Result<(), Refusal> {
    let rate = load.request_rate.0;
    if rate.is_nan() || rate <= 0.0 {
        return Err(Refusal::usage(
            format!("cannot use `--request-rate {rate}`: a rate must be greater than zero"),
            "try `--request-rate inf` to send without waiting",
        ));
    }
    if load.burstiness.0.is_nan() || load.burstiness.0 <= 0.0 {
        return Err(Refusal::usage(
            format!(
                "cannot use `--burstiness {}`: it must be greater than zero",
                load.burstiness.0
            ),
            "use 1 for a Poisson process, inf for constant intervals",
        ));
    }
    if load.max_concurrency == Some(0) {
        return Err(Refusal::usage(
            "cannot use `--max-concurrency 0`: no request could be sent",
            "omit it for no limit",
        ));
    }
    if load.duration_s.is_some_and(|seconds| seconds <= 0.0) {
        return Err(Refusal::usage("`--duration` must be greater than zero", "write it as `30s`"));
    }
    match load.ramp {
        Some(_) if rate.is_finite() => Err(Refusal::usage(
            "cannot use `--request-rate` together with a ramp-up",
            "omit `--request-rate`: the ramp-up has its own start and end rate",
        )),
        Some(ramp) if ramp.from > ramp.to => Err(Refusal::usage(
            format!("cannot ramp down from {} to {}", ramp.from, ramp.to),
            "swap `--ramp-up-start-rps` and `--ramp-up-end-rps`",
        )),
        _ => Ok(()),
    }
}
