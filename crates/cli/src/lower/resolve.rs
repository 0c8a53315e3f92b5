//! Puts the layers together: defaults, file, section, flags.

use serde_json::Value;
use tokometer_base::Conventions;
use tokometer_base::conventions::UnknownTool;
use tokometer_measure::Secrets;
use tokometer_plan::{Axis, AxisValues, Plan, Section};

use super::check::check;
use super::defaults::{self, Addressed, Situation};
use super::flags::{Flags, flags};
use super::layer::Layer;
use super::points::{self, Point};
use super::{Environment, dataset, file, turns};
use crate::args::BenchArgs;
use crate::exit::Refusal;

/// Flags, file and environment, as meant.
#[derive(Debug)]
pub(crate) struct Lowered {
    /// The whole plan, sweeps and sections unresolved, as `--print-plan` shows it.
    pub(crate) plan: Plan,
    /// One run each, in order. At least one.
    pub(crate) points: Vec<Point>,
    /// Keys.
    pub(crate) secrets: Secrets,
    /// Flags that have no effect.
    pub(crate) remarks: Vec<String>,
}

/// Lowers what was typed. `order` are the flags as typed, first to last.
pub(crate) fn lower(
    args: &BenchArgs,
    order: &[String],
    environment: &Environment,
) -> Result<Lowered, Refusal> {
    let typed = Typed { args, order, flags: flags(args)? };
    let mut file = args.plan.as_deref().map(file::read).transpose()?.unwrap_or_default();
    let sections: Vec<Section> = parsed(file.take("sections"), "sections")?;
    let common: Vec<Axis> = parsed(file.take("sweep"), "sweep")?;
    let mut lowering = Lowering { typed, file, common, remarks: Vec::new() };

    let unchanged =
        Section { heading: String::new(), sweep: Vec::new(), changes: serde_json::Map::new() };
    let mut points = Vec::new();
    if sections.is_empty() {
        points = lowering.points(&unchanged)?;
    }
    for section in &sections {
        points.extend(lowering.points(section)?);
    }
    let plan = lowering.whole(&unchanged, sections)?;
    let family = plan.family;
    let secrets = Secrets { api_key: environment.key(family), hub: environment.hub() };
    lowering.remarks.dedup();
    Ok(Lowered { plan, points, secrets, remarks: lowering.remarks })
}

fn parsed<T: serde::de::DeserializeOwned + Default>(
    value: Option<Value>,
    name: &str,
) -> Result<T, Refusal> {
    let Some(value) = value else { return Ok(T::default()) };
    serde_json::from_value(value)
        .map_err(|why| Refusal::usage(format!("cannot use `{name}` of the plan: {why}"), ""))
}

struct Typed<'a> {
    args: &'a BenchArgs,
    order: &'a [String],
    flags: Flags,
}

struct Lowering<'a> {
    typed: Typed<'a>,
    file: Layer,
    common: Vec<Axis>,
    remarks: Vec<String>,
}

/// One section's layers, put together but for the defaults.
struct Stack {
    layer: Layer,
    axes: Vec<Axis>,
    situation: Situation,
}

impl Lowering<'_> {
    fn points(&mut self, section: &Section) -> Result<Vec<Point>, Refusal> {
        let stack = self.stack(section)?;
        let mut heading = Some(section.heading.clone()).filter(|heading| !heading.is_empty());
        let mut points = Vec::new();
        for combination in points::combinations(&stack.axes)? {
            let layer = points::substituted(&stack.layer, &combination);
            let plan = complete(&layer, &stack.situation)?;
            check(&plan)?;
            self.remarks.extend(turns::remarks(&plan));
            let coordinates = points::coordinates(&combination);
            points.push(Point { heading: heading.take(), coordinates, plan });
        }
        Ok(points)
    }

    fn whole(&mut self, unchanged: &Section, sections: Vec<Section>) -> Result<Plan, Refusal> {
        let stack = self.stack(unchanged)?;
        let plan = complete(&stack.layer, &stack.situation)?;
        Ok(Plan { sweep: stack.axes, sections, ..plan })
    }

    fn stack(&mut self, section: &Section) -> Result<Stack, Refusal> {
        let args = self.typed.args;
        let mut below = self.file.clone();
        below.cover(&Layer::new(section.changes.clone()));
        let mut all = below.clone();
        all.cover(&self.typed.flags.layer);

        let named = match all.text_at("family") {
            Some(name) => Some(family(name)?),
            None => None,
        };
        let backend = all.text_at("targets.0.backend").unwrap_or(defaults::backend_of(named));
        let dialect = defaults::dialect(backend)?;
        let family = named.unwrap_or(dialect.conventions().unwrap_or_default());
        let filed = below.text_at("workload.dataset").map(str::to_owned);
        let dataset = args.workload.dataset_name.clone().or(filed.clone());
        let dataset = dataset.unwrap_or_else(|| defaults::dataset_of(family).to_owned());
        if filed.is_some_and(|filed| filed != dataset) {
            // Options of another dataset would be unknown fields of this one.
            let _options = below.take("workload");
        }
        let mut flags = self.typed.flags.clone();
        self.remarks.extend(dataset::put_options(&mut flags, &args.workload, &dataset)?);
        let is_named = !(below.at("targets").is_none()
            && !args.target.names_a_target()
            && args.target.sim.is_none());
        let addressed = if is_named { Addressed::Yes } else { Addressed::No };
        let has_load = ["request_rate", "max_concurrency", "ramp"].into_iter().any(|field| {
            let path = format!("load.{field}");
            all.at(&path).is_some() || flags.lists.iter().any(|list| list.1 == path)
        });
        let has_duration = all.at("load.duration_s").is_some();
        below.cover(&flags.layer);
        below.put("workload.dataset", &dataset);
        self.put_host_and_port(&mut below, dialect, family);
        let axes = self.axes(section, &flags);
        let situation = Situation { dialect, family, dataset, addressed, has_load, has_duration };
        Ok(Stack { layer: below, axes, situation })
    }

    /// `--host` and `--port` make an address, unless there is a whole one.
    fn put_host_and_port(
        &self,
        layer: &mut Layer,
        dialect: tokometer_client::Dialect,
        family: Conventions,
    ) {
        let target = &self.typed.args.target;
        let has_part = target.host.is_some() || target.port.is_some();
        if !has_part || target.base_url.is_some() || target.sim.is_some() {
            return;
        }
        let host = target.host.as_deref().unwrap_or("127.0.0.1");
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let port = target.port.unwrap_or_else(|| dialect.port_by(family));
        layer.put("targets.0.address", format!("http://{host}:{port}"));
    }

    /// The file's axes that no flag has taken over, then the flags' own in the order of typing.
    fn axes(&self, section: &Section, flags: &Flags) -> Vec<Axis> {
        let is_free = |axis: &&Axis| {
            let is_listed = flags.lists.iter().any(|(_, path, _)| *path == axis.field);
            !is_listed && flags.layer.at(&axis.field).is_none()
        };
        let own = |field: &str| section.sweep.iter().any(|axis| axis.field == field);
        let common = self.common.iter().filter(|axis| !own(&axis.field));
        let mut axes: Vec<Axis> = common.chain(&section.sweep).filter(is_free).cloned().collect();
        let place = |flag: &str| self.typed.order.iter().position(|typed| typed == flag);
        let mut lists: Vec<_> = flags.lists.iter().collect();
        lists.sort_by_key(|(flag, ..)| place(flag));
        axes.extend(lists.into_iter().map(|(_, field, values)| Axis {
            field: field.clone(),
            values: AxisValues::List(values.clone()),
        }));
        axes
    }
}

fn family(name: &str) -> Result<Conventions, Refusal> {
    name.parse().map_err(|why: UnknownTool| Refusal::usage(why.to_string(), ""))
}

fn complete(layer: &Layer, situation: &Situation) -> Result<Plan, Refusal> {
    let mut whole = defaults::defaults(situation)?;
    whole.cover(layer);
    put_implied(&mut whole);
    turns::put_second_target(&mut whole);
    let mut plan: Plan = serde_json::from_value(whole.into_value()).map_err(|why| {
        Refusal::usage(format!("cannot use the plan: {why}"), "`--print-plan` shows all fields")
    })?;
    turns::settle(&mut plan)?;
    Ok(plan)
}

/// Fields that stand or fall with another one.
fn put_implied(layer: &mut Layer) {
    let is_missing = |layer: &Layer, path: &str| layer.at(path).is_none();
    if !is_missing(layer, "request.lora.names") {
        if is_missing(layer, "request.lora.assignment") {
            layer.put("request.lora.assignment", "random");
        }
        if is_missing(layer, "request.lora.alpha") {
            layer.put("request.lora.alpha", 1.5);
        }
    }
}
