//! Classes: a mix of adapters as classes, what their prompts are by default, and the rate of all.

use tokometer_base::{Partial, Refusal};
use tokometer_workload::PartialSpec;

use super::defaults::{self, Situation};
use crate::options::LoraFlags;
use crate::{ClassOrder, PartialClass, PartialPlan, Plan, Rate};

/// Steepness of a skewed assignment when none is given, as in SGLang's tool.
const ZIPF_ALPHA: f64 = 1.5;

/// A mix of adapters.
pub(crate) struct AdapterMix {
    pub(crate) classes: Vec<PartialClass>,
    pub(crate) order: ClassOrder,
}

impl LoraFlags {
    /// A class for each adapter; `None` without one.
    pub(crate) fn mix(&self) -> Result<Option<AdapterMix>, Refusal> {
        let steepness = self.alpha.as_deref().map_or(Ok(ZIPF_ALPHA), str::parse::<f64>);
        let steepness = steepness.ok().filter(|alpha| alpha.is_finite() && *alpha > 0.0);
        let alpha = steepness.ok_or_else(|| {
            let given = self.alpha.as_deref().unwrap_or_default();
            let message =
                format!("cannot use `--lora-zipf-alpha {given}`: it must be greater than zero");
            Refusal::usage(message, "omit it for 1.5")
        })?;
        let (order, alpha) = match self.assignment.as_deref() {
            None | Some("random" | "uniform") => (ClassOrder::Drawn, 1.0),
            Some("round-robin" | "distinct") => (ClassOrder::RoundRobin, 1.0),
            Some("skewed") => (ClassOrder::Drawn, alpha),
            Some(other) => {
                let message = format!("unknown assignment of adapters `{other}`");
                return Err(Refusal::usage(message, "use random, round-robin or skewed"));
            }
        };
        let class = |(at, adapter): (usize, &String)| PartialClass {
            // An adapter may be named twice to get more requests.
            name: Some(if self.names[..at].contains(adapter) {
                format!("{adapter} {}", at + 1)
            } else {
                adapter.clone()
            }),
            lora: Some(Some(adapter.clone())),
            // The first most often, each next one `alpha` times less.
            weight: Some(f64::powi(alpha, -i32::try_from(at).unwrap_or(i32::MAX))),
            ..PartialClass::default()
        };
        let classes = self.names.iter().enumerate().map(class).collect();
        Ok((!self.names.is_empty()).then_some(AdapterMix { classes, order }))
    }
}

/// The datasets of classes with what they do not say: the plan's own options where it is the same dataset.
pub(super) fn complete_prompts(
    part: &mut PartialPlan,
    situation: &Situation,
) -> Result<(), Refusal> {
    for class in &mut part.classes {
        let Some(own) = class.workload.take() else { continue };
        let name = own.dataset.clone().unwrap_or_else(|| situation.dataset.clone());
        let mut spec = PartialSpec::of(defaults::of_dataset(&name, situation.conventions)?);
        if name == situation.dataset {
            spec.merge(part.workload.clone());
        }
        spec.merge(own);
        class.workload = Some(spec);
    }
    Ok(())
}

/// The rates of classes add up to the rate of the run.
pub(super) fn settle(plan: &mut Plan) -> Result<(), Refusal> {
    let rates: Option<f64> = plan.classes.iter().map(|class| class.rate).sum();
    let Some(sum) = rates.filter(|_| !plan.classes.is_empty()) else { return Ok(()) };
    let said = plan.load.request_rate.0;
    if said.is_finite() && (said / sum - 1.0).abs() > 1e-9 {
        return Err(Refusal::usage(
            format!(
                "cannot use `--request-rate {said}` together with rates of classes: they add up to {sum}"
            ),
            "omit `--request-rate`, or give the classes weights",
        ));
    }
    // A rate that cannot be used is refused with its class.
    if sum > 0.0 && sum.is_finite() {
        plan.load.request_rate = Rate(sum);
    }
    Ok(())
}
