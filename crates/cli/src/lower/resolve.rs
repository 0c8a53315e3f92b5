//! Merges the layers of a plan: defaults, file, section, flags.

use tokometer_base::{Conventions, Partial};
use tokometer_measure::Credentials;
use tokometer_plan::{
    Address, Axis, AxisValues, Missing, PartialPlan, PartialTarget, Plan, PlanField, PlanSection,
};
use tokometer_workload::PartialSpec;

use super::check::check;
use super::defaults::{self, Addressed, Situation};
use super::flags::{Flags, address, flags};
use super::points::{self, PlannedPoint};
use super::{Environment, dataset, figures, file, turns};
use crate::args::BenchArgs;
use crate::exit::Refusal;

/// Flags, file and environment, as meant.
#[derive(Debug)]
pub(crate) struct Lowered {
    /// The whole plan, sweeps and sections unresolved, as `--print-plan` shows it.
    pub(crate) plan: Plan,
    /// One run each, in order. At least one.
    pub(crate) points: Vec<PlannedPoint>,
    /// Keys.
    pub(crate) secrets: Credentials,
    /// Flags that have no effect.
    pub(crate) remarks: Vec<String>,
}

impl Lowered {
    /// Refuses to measure by a stored plan whose secrets nobody has given again.
    pub(crate) fn require_secrets(&self) -> Result<(), Refusal> {
        let missing = self.points.iter().flat_map(|point| point.plan.missing_secrets());
        let mut missing: Vec<Missing> = missing.collect();
        missing.dedup();
        let fields: Vec<String> = missing.iter().map(|one| format!("`{}`", one.field)).collect();
        let flags: Vec<String> = missing.iter().map(|one| format!("`{}`", one.flag)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(Refusal::usage(
            format!("cannot run the plan: secrets are not stored with it: {}", fields.join(", ")),
            format!("set them again with {}", flags.join(", ")),
        ))
    }
}

/// Lowers what was typed. `order` are the flags as typed, first to last.
pub(crate) fn lower(
    args: &BenchArgs,
    order: &[String],
    environment: &Environment,
) -> Result<Lowered, Refusal> {
    let typed = FlagLayer { args, order, flags: flags(args)? };
    let mut file = args.plan.as_deref().map(file::read).transpose()?.unwrap_or_default();
    let mut sections = file.sections.take().unwrap_or_default();
    for part in std::iter::once(&mut file).chain(sections.iter_mut().map(|one| &mut one.changes)) {
        let written = std::mem::take(&mut part.metrics.goodput);
        part.metrics.goodput = figures::named_objectives(written)?;
    }
    let common = file.sweep.take().unwrap_or_default();
    if let Some(nested) = sections.iter().find(|section| section.changes.sections.is_some()) {
        return Err(Refusal::usage(
            format!("cannot use the section `{}`: sections cannot be nested", nested.heading),
            "move the inner sections to the top level",
        ));
    }
    let mut lowering = Lowering { typed, file, common, remarks: Vec::new() };

    let unchanged =
        PlanSection { heading: String::new(), sweep: Vec::new(), changes: PartialPlan::default() };
    let mut points = Vec::new();
    if sections.is_empty() {
        points = lowering.points(&unchanged)?;
    }
    for section in &sections {
        points.extend(lowering.points(section)?);
    }
    let plan = lowering.whole(&unchanged, sections)?;
    let family = plan.family;
    let mut known = environment.secrets.clone();
    points
        .iter()
        .map(|point| &point.plan)
        .chain([&plan])
        .for_each(|plan| plan.add_secrets(&mut known));
    let from_environment =
        || plan.targets.first().and_then(|target| environment.key(family, &target.backend));
    let api_key = args.target.key()?.or_else(from_environment);
    if let Some(key) = &api_key {
        key.add_to(&mut known);
    }
    let secrets = Credentials {
        api_key,
        hub: environment.hub(),
        known,
        proxies: environment.proxies.clone(),
    };
    lowering.remarks.dedup();
    Ok(Lowered { plan, points, secrets, remarks: lowering.remarks })
}

struct FlagLayer<'a> {
    args: &'a BenchArgs,
    order: &'a [String],
    flags: Flags,
}

struct Lowering<'a> {
    typed: FlagLayer<'a>,
    file: PartialPlan,
    common: Vec<Axis>,
    remarks: Vec<String>,
}

/// One section's layers, put together but for the defaults.
struct Stack {
    part: PartialPlan,
    axes: Vec<Axis>,
    situation: Situation,
}

impl Lowering<'_> {
    fn points(&mut self, section: &PlanSection) -> Result<Vec<PlannedPoint>, Refusal> {
        let stack = self.stack(section)?;
        let mut heading = Some(section.heading.clone()).filter(|heading| !heading.is_empty());
        let mut points = Vec::new();
        for combination in points::combinations(&stack.axes)? {
            let part = points::substituted(&stack.part, &combination)?;
            let plan = complete(part, &stack.situation)?;
            check(&plan)?;
            self.remarks.extend(turns::remarks(&plan));
            let coordinates = points::coordinates(&combination);
            points.push(PlannedPoint { heading: heading.take(), coordinates, plan });
        }
        Ok(points)
    }

    fn whole(
        &mut self,
        unchanged: &PlanSection,
        sections: Vec<PlanSection>,
    ) -> Result<Plan, Refusal> {
        let stack = self.stack(unchanged)?;
        let plan = complete(stack.part, &stack.situation)?;
        Ok(Plan { sweep: stack.axes, sections, ..plan })
    }

    fn stack(&mut self, section: &PlanSection) -> Result<Stack, Refusal> {
        let args = self.typed.args;
        let mut below = self.file.clone();
        below.merge(section.changes.clone());
        let mut all = below.clone();
        all.merge(self.typed.flags.part.clone());

        let dialect = match all.targets.first().and_then(|target| target.backend) {
            Some(dialect) => dialect,
            None => defaults::dialect(defaults::backend_of(all.family))?,
        };
        let family = all.family.unwrap_or(dialect.conventions().unwrap_or_default());
        let filed = below.workload.dataset.clone();
        let dataset = args.workload.dataset_name.clone().or(filed.clone());
        let dataset = dataset.unwrap_or_else(|| defaults::dataset_of(family).to_owned());
        if filed.is_some_and(|filed| filed != dataset) {
            // Options of another dataset mean nothing to this one.
            below.workload = PartialSpec::default();
        }
        let mut flags = self.typed.flags.clone();
        self.remarks.extend(dataset::put_options(&mut flags, &args.workload, &dataset)?);
        let is_named =
            !below.targets.is_empty() || args.target.names_a_target() || args.target.sim.is_some();
        let addressed = if is_named { Addressed::Yes } else { Addressed::No };
        let is_listed = |field| flags.lists.iter().any(|(_, listed, _)| *listed == field);
        let has_load = all.load.request_rate.is_some()
            || all.load.max_concurrency.is_some()
            || all.load.ramp.is_some()
            || is_listed(PlanField::RequestRate)
            || is_listed(PlanField::MaxConcurrency);
        let has_duration = all.load.duration_s.is_some();
        let axes = self.axes(section, &flags);
        below.merge(flags.part);
        below.workload.dataset = Some(dataset.clone());
        if let Some(address) = self.host_and_port(dialect, family)? {
            below.targets.resize_with(below.targets.len().max(1), PartialTarget::default);
            below.targets[0].address = Some(address);
        }
        let situation = Situation { dialect, family, dataset, addressed, has_load, has_duration };
        Ok(Stack { part: below, axes, situation })
    }

    /// `--host` and `--port` make an address, unless there is a whole one.
    fn host_and_port(
        &self,
        dialect: tokometer_client::Dialect,
        family: Conventions,
    ) -> Result<Option<Address>, Refusal> {
        let target = &self.typed.args.target;
        let has_part = target.host.is_some() || target.port.is_some();
        if !has_part || target.base_url.is_some() || target.sim.is_some() {
            return Ok(None);
        }
        let host = target.host.as_deref().unwrap_or("127.0.0.1");
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let port = target.port.unwrap_or_else(|| dialect.port_by(family));
        address("--host", &format!("http://{host}:{port}")).map(Some)
    }

    /// The file's axes that no flag has taken over, then the flags' own in the order of typing.
    fn axes(&self, section: &PlanSection, flags: &Flags) -> Vec<Axis> {
        let is_free = |axis: &&Axis| {
            let is_listed = flags.lists.iter().any(|(_, field, _)| *field == axis.field);
            !is_listed && !axis.field.is_set(&flags.part)
        };
        let own = |field: PlanField| section.sweep.iter().any(|axis| axis.field == field);
        let common = self.common.iter().filter(|axis| !own(axis.field));
        let mut axes: Vec<Axis> = common.chain(&section.sweep).filter(is_free).cloned().collect();
        let place = |flag: &str| self.typed.order.iter().position(|typed| typed == flag);
        let mut lists: Vec<_> = flags.lists.iter().collect();
        lists.sort_by_key(|(flag, ..)| place(flag));
        axes.extend(lists.into_iter().map(|(_, field, values)| Axis {
            field: *field,
            values: AxisValues::List(values.clone()),
        }));
        axes
    }
}

/// Completes a plan that the program makes itself, without flags or a file.
pub(crate) fn complete_part(part: PartialPlan) -> Result<Plan, Refusal> {
    let named = part.targets.first().and_then(|target| target.backend);
    let dialect = match named {
        Some(dialect) => dialect,
        None => defaults::dialect(defaults::backend_of(part.family))?,
    };
    let family = part.family.unwrap_or(dialect.conventions().unwrap_or_default());
    let dataset = part.workload.dataset.clone();
    let situation = Situation {
        dialect,
        family,
        dataset: dataset.unwrap_or_else(|| defaults::dataset_of(family).to_owned()),
        addressed: if part.targets.is_empty() { Addressed::No } else { Addressed::Yes },
        has_load: !part.load.is_unset(),
        has_duration: part.load.duration_s.is_some(),
    };
    let plan = complete(part, &situation)?;
    check(&plan)?;
    Ok(plan)
}

fn complete(part: PartialPlan, situation: &Situation) -> Result<Plan, Refusal> {
    let mut whole = defaults::defaults(situation)?;
    whole.merge(part);
    turns::put_second_target(&mut whole);
    let mut plan = whole.complete().map_err(|why| {
        let is_ramp = why.to_string().contains("`load.ramp.");
        let hint = if is_ramp {
            "`--ramp-up-strategy`, `--ramp-up-start-rps` and `--ramp-up-end-rps` go together"
        } else {
            "`--print-plan` shows all fields"
        };
        Refusal::usage(format!("cannot use the plan: {why}"), hint)
    })?;
    turns::settle(&mut plan)?;
    Ok(plan)
}
