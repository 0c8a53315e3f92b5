//! From what every source says to one plan per point.
//!
//! In: defaults, our own values for a bare URL, config file, environment, plan file, section, flags, the
//! weakest first. Out: the plan as meant, the origin of each of its values, and its points. Files are read
//! by the caller.
//!
//! - `preset` has the config file and the variables, `file` plan files, `bare_url` a server by its address,
//!   `defaults` the rest; `origin` says where a value comes from, `points` makes a sweep's points.
//! - `check` refuses plans that make no sense. `constraints`, `figures`, `turns` and
//!   `foreign` are about single options; `secrets` finds keys in what was given.

mod bare_url;
mod check;
mod classes;
mod constraints;
mod defaults;
mod figures;
mod file;
mod foreign;
mod origin;
mod points;
mod preset;
mod secrets;
mod stages;
mod turns;

use std::io;
use std::path::Path;

use tokometer_base::redact::hide_in_url;
use tokometer_base::{Conventions, Partial, Refusal};
use tokometer_client::ApiKey;
use tokometer_workload::PartialSpec;

use crate::options::{Fragment, api_key};
use crate::{Address, Axis, PartialPlan, PartialTarget, Plan, PlanField, PlanSection};

use check::check;
use defaults::Situation;

pub use bare_url::{OpenChoices, OwnDefaults, PROMPT_LEN, dataset_for, load_flag, put_address};
pub use defaults::dialect;
pub use figures::{objective, seconds, sections};
pub use file::{key_variable, plan_of, written};
pub use origin::{Origins, ValueOrigin};
pub use points::PlannedPoint;
pub use preset::{ConfigFile, PREFIX, Preset, Presets, config_text, layered, parsed};
pub use secrets::{of_variable, of_words, shown_words};

/// Reads the text of a file that an option names.
pub type ReadText = fn(&Path) -> io::Result<String>;

#[derive(Debug)]
pub struct Sources<'a> {
    /// The weakest first.
    pub presets: &'a [Preset],
    pub typed: &'a Fragment,
    /// Its flags as typed, first to last.
    pub order: &'a [String],
    pub file: PartialPlan,
    pub read: ReadText,
}

#[derive(Debug)]
pub struct Resolved {
    /// The whole plan, sweeps and sections unresolved, as `--print-plan` shows it.
    pub plan: Plan,
    pub origins: Origins,
    /// One run each, in order. At least one.
    pub points: Vec<PlannedPoint>,
    pub api_key: Option<ApiKey>,
    /// Flags that have no effect.
    pub remarks: Vec<String>,
}

pub fn resolve(sources: Sources<'_>) -> Result<Resolved, Refusal> {
    let Sources { presets, typed: args, order, mut file, read } = sources;
    let fragment = completed(args, read)?;
    let typed = FlagLayer { origin: ValueOrigin::Flag, order, fragment };
    let remarks = address_remark(args).into_iter().collect();
    let presets: Vec<FlagLayer<'_>> =
        presets.iter().map(|one| FlagLayer::of_preset(one, read)).collect::<Result<_, _>>()?;
    let mut sections = file.sections.take().unwrap_or_default();
    for part in std::iter::once(&mut file).chain(sections.iter_mut().map(|one| &mut one.changes)) {
        figures::put_names(part)?;
    }
    let common = file.sweep.take().unwrap_or_default();
    if let Some(nested) = sections.iter().find(|section| section.changes.sections.is_some()) {
        return Err(Refusal::usage(
            format!("cannot use the section `{}`: sections cannot be nested", nested.heading),
            "move the inner sections to the top level",
        ));
    }
    let mut lowering = Lowering { typed, presets, file, common, remarks };

    let unchanged =
        PlanSection { heading: String::new(), sweep: Vec::new(), changes: PartialPlan::default() };
    let whole = lowering.stack(&unchanged)?;
    let mut points = Vec::new();
    if sections.is_empty() {
        points = lowering.points(&whole, "")?;
    }
    for section in &sections {
        let stack = lowering.stack(section)?;
        points.extend(lowering.points(&stack, &section.heading)?);
    }
    let (plan, origins) = whole.plan(sections)?;
    let mut api_key = None;
    for layer in lowering.layers() {
        api_key = key(&layer.fragment, read)?.or(api_key);
    }
    // Every point of a sweep repeats them.
    let mut said = std::collections::BTreeSet::new();
    lowering.remarks.retain(|remark| said.insert(remark.clone()));
    Ok(Resolved { plan, origins, points, api_key, remarks: lowering.remarks })
}

/// As in vLLM's tool, a whole address takes precedence over its parts.
fn address_remark(args: &Fragment) -> Option<String> {
    let parts = ["host", "port"].into_iter().filter(|flag| args.has(flag));
    let parts: Vec<String> = parts.map(|flag| format!("`--{flag}`")).collect();
    let has = if parts.len() == 1 { "has" } else { "have" };
    (args.has("base-url") && !parts.is_empty()).then(|| {
        format!("{} {has} no effect: `--base-url` is the whole address", parts.join(" and "))
    })
}

/// Flags with what words alone do not say: the backend by its name, the content of files, and figures by
/// the names that reports have.
fn completed(args: &Fragment, read: ReadText) -> Result<Fragment, Refusal> {
    let mut fragment = args.clone();
    let part = &mut fragment.part;
    if let Some(name) = &args.backend {
        first_target(part).backend = Some(defaults::dialect(name)?);
    }
    part.output.run_dir = args.output.run_dir.clone().map(Some);
    part.request.structured = constraints::structured(&args.files, read)?.map(Some);
    part.request.tools = constraints::tools(&args.files, read)?.map(Some);
    if let Some(rows) = constraints::canaries(&args.files, read)? {
        part.canary.get_or_insert_default().rows = Some(rows);
    }
    if let Some(ramp) = stages::of_ramp(&args.ramp)? {
        part.load.stages = Some(vec![ramp]);
    }
    if let Some(mix) = args.lora.mix()? {
        (part.classes, part.class_order) = (mix.classes, Some(mix.order));
    }
    figures::put_names(part)?;
    Ok(fragment)
}

fn first_target(part: &mut PartialPlan) -> &mut PartialTarget {
    part.targets.resize_with(part.targets.len().max(1), PartialTarget::default);
    &mut part.targets[0]
}

fn key(args: &Fragment, read: ReadText) -> Result<Option<ApiKey>, Refusal> {
    let Some(path) = &args.api_key_file else { return Ok(args.api_key.clone()) };
    let refused = |why: String| {
        let message = format!("cannot use `--api-key-file {}`: {why}", path.display());
        Refusal::usage(message, "write the key alone into the file")
    };
    let text = read(path).map_err(|why| refused(tokometer_base::refusal::reason(&why)))?;
    api_key(text.trim()).map(Some).map_err(refused)
}

struct FlagLayer<'a> {
    origin: ValueOrigin,
    order: &'a [String],
    fragment: Fragment,
}

impl<'a> FlagLayer<'a> {
    fn of_preset(preset: &'a Preset, read: ReadText) -> Result<Self, Refusal> {
        let source = format!("{} preset", preset.origin.name());
        let fragment = completed(&preset.fragment, read)
            .map_err(|refusal| preset::from_source(refusal, &source))?;
        Ok(Self { origin: preset.origin, order: &[], fragment })
    }

    /// Whether the layer sets a field to one value or to a list.
    fn has(&self, field: PlanField) -> bool {
        self.lists(field) || field.is_set(&self.fragment.part)
    }

    fn lists(&self, field: PlanField) -> bool {
        self.fragment.lists.iter().any(|list| list.axis.field == field)
    }

    /// Its lists as axes, in the order of typing.
    fn axes(&self, fragment: &Fragment) -> Vec<(ValueOrigin, Axis)> {
        let typed_at = |flag: &str| self.order.iter().position(|typed| typed == flag);
        let mut lists = fragment.lists.clone();
        lists.sort_by_key(|list| typed_at(list.flag));
        lists.into_iter().map(|list| (self.origin, list.axis)).collect()
    }
}

/// Flags that name a target: the simulator is then used only if requested.
const TARGET: [&str; 7] = ["backend", "base-url", "host", "port", "endpoint", "model", "sim"];

struct Lowering<'a> {
    typed: FlagLayer<'a>,
    /// The weakest first.
    presets: Vec<FlagLayer<'a>>,
    file: PartialPlan,
    common: Vec<Axis>,
    remarks: Vec<String>,
}

/// One section's layers but for the defaults, the weakest first.
struct Stack {
    layers: Vec<(ValueOrigin, PartialPlan)>,
    axes: Vec<(ValueOrigin, Axis)>,
    situation: Situation,
}

impl Stack {
    fn merged(&self) -> PartialPlan {
        let mut all = PartialPlan::default();
        self.layers.iter().for_each(|(_, part)| all.merge(part.clone()));
        all
    }

    /// The whole plan with its sweeps and sections, and the origins of its values.
    fn plan(mut self, sections: Vec<PlanSection>) -> Result<(Plan, Origins), Refusal> {
        let plan = complete(self.merged(), &self.situation)?;
        self.layers.insert(0, (ValueOrigin::Default, defaults::defaults(&self.situation)?));
        let (from, axes): (Vec<ValueOrigin>, Vec<Axis>) = self.axes.into_iter().unzip();
        let origins = Origins::of(&self.layers, &from);
        Ok((Plan { sweep: axes, sections, ..plan }, origins))
    }
}

impl<'a> Lowering<'a> {
    /// Layers of flags, the weakest first.
    fn layers(&self) -> impl Iterator<Item = &FlagLayer<'a>> {
        self.presets.iter().chain(std::iter::once(&self.typed))
    }

    fn points(&mut self, stack: &Stack, heading: &str) -> Result<Vec<PlannedPoint>, Refusal> {
        let mut heading = Some(heading.to_owned()).filter(|heading| !heading.is_empty());
        let mut points = Vec::new();
        let axes: Vec<Axis> = stack.axes.iter().map(|(_, axis)| axis.clone()).collect();
        let merged = stack.merged();
        for combination in points::combinations(&axes)? {
            let part = points::substituted(&merged, &combination)?;
            let plan = complete(part, &stack.situation)?;
            check(&plan)?;
            self.remarks.extend(turns::remarks(&plan));
            self.remarks.extend(figures::remarks(&plan));
            self.remarks.extend(figures::unit_remark(&plan));
            let coordinates = points::coordinates(&combination);
            points.push(PlannedPoint { heading: heading.take(), coordinates, plan });
        }
        Ok(points)
    }

    fn stack(&mut self, section: &PlanSection) -> Result<Stack, Refusal> {
        let (mut file, mut changes) = (self.file.clone(), section.changes.clone());
        if !self.typed.fragment.part.classes.is_empty() {
            // Lists are merged by position, and a class is not a change of another one.
            (file.classes, changes.classes) = (Vec::new(), Vec::new());
        }
        let mut all = PartialPlan::default();
        self.presets.iter().for_each(|layer| all.merge(layer.fragment.part.clone()));
        all.merge(file.clone());
        all.merge(changes.clone());
        all.merge(self.typed.fragment.part.clone());

        let filed = changes.workload.dataset.clone().or(file.workload.dataset.clone());
        let named = |layer: &FlagLayer<'_>| layer.fragment.part.workload.dataset.clone();
        let dataset = named(&self.typed).or(filed.clone());
        let dataset = dataset.or_else(|| self.presets.iter().rev().find_map(named));
        let mut situation = Situation::of(&all, dataset)?;
        if filed.is_some_and(|filed| filed != situation.dataset) {
            // Options of another dataset mean nothing to this one.
            (file.workload, changes.workload) = (PartialSpec::default(), PartialSpec::default());
        }
        stages::check_company(&all, self.layers().map(|layer| &layer.fragment))?;
        let has_target = !file.targets.is_empty() || !changes.targets.is_empty();
        let is_named = has_target || self.layers().any(|layer| layer.fragment.has_any(&TARGET));
        let is_listed = |field| self.layers().any(|layer| layer.lists(field));
        situation.is_addressed = is_named;
        situation.has_load = all.load.request_rate.is_some()
            || all.load.max_concurrency.is_some()
            || all.load.stages.is_some()
            || all.classes.iter().any(|class| class.rate.is_some())
            || is_listed(PlanField::REQUEST_RATE)
            || is_listed(PlanField::MAX_CONCURRENCY);

        let typed = self.put(self.presets.len(), &situation)?;
        let mut layers = Vec::new();
        for at in 0..self.presets.len() {
            layers.push((self.presets[at].origin, self.put(at, &situation)?.part));
        }
        let axes = self.axes(section, &file, &changes, &typed);
        layers.push((ValueOrigin::Plan, file));
        layers.push((ValueOrigin::Plan, changes));
        layers.push((self.typed.origin, typed.part));
        Ok(Stack { layers, axes, situation })
    }

    /// The flags of a layer with what depends on the others: options of the dataset, and the address.
    fn put(&mut self, at: usize, situation: &Situation) -> Result<Fragment, Refusal> {
        let is_typed = at == self.presets.len();
        let below = &self.presets[..at];
        let layer = self.presets.get(at).unwrap_or(&self.typed);
        let mut fragment = layer.fragment.clone();
        let known = defaults::of_dataset(&situation.dataset, Conventions::Vllm)?;
        let known = PartialPlan { workload: PartialSpec::of(known), ..PartialPlan::default() };
        let unused = fragment.put_dataset(&situation.dataset, &known)?;
        if let Some(address) = host_and_port(layer, below, situation)? {
            first_target(&mut fragment.part).address = Some(address);
        }
        // A preset is for all datasets; a typed flag was meant for this one.
        if is_typed {
            let dataset = &situation.dataset;
            let remark = |flag| format!("`--{flag}` has no effect with the dataset `{dataset}`");
            self.remarks.extend(unused.into_iter().map(remark));
        }
        Ok(fragment)
    }

    /// The axes of presets and of the file that nothing stronger has taken over, then the flags' own.
    fn axes(
        &self,
        section: &PlanSection,
        file: &PartialPlan,
        changes: &PartialPlan,
        typed: &Fragment,
    ) -> Vec<(ValueOrigin, Axis)> {
        let swept = |axes: &[Axis], field: PlanField| axes.iter().any(|axis| axis.field == field);
        let is_filed = |field: PlanField| {
            let is_swept = swept(&self.common, field) || swept(&section.sweep, field);
            is_swept || field.is_set(file) || field.is_set(changes)
        };
        let mut axes: Vec<(ValueOrigin, Axis)> = Vec::new();
        for (at, layer) in self.presets.iter().enumerate() {
            let above = &self.presets[at + 1..];
            let is_kept = |(_, axis): &(ValueOrigin, Axis)| {
                !is_filed(axis.field) && !above.iter().any(|layer| layer.has(axis.field))
            };
            axes.extend(layer.axes(&layer.fragment).into_iter().filter(is_kept));
        }
        let common = self.common.iter().filter(|axis| !swept(&section.sweep, axis.field));
        axes.extend(common.chain(&section.sweep).map(|axis| (ValueOrigin::Plan, axis.clone())));
        let is_listed = |field| typed.lists.iter().any(|list| list.axis.field == field);
        axes.retain(|(_, axis)| !is_listed(axis.field) && !axis.field.is_set(&typed.part));
        axes.extend(self.typed.axes(typed));
        axes
    }
}

/// `--host` and `--port` make an address, unless the layer has a whole one. A layer that names one of
/// them takes the other from the layers below, as far as they name no whole address.
fn host_and_port(
    layer: &FlagLayer<'_>,
    below: &[FlagLayer<'_>],
    situation: &Situation,
) -> Result<Option<Address>, Refusal> {
    let is_whole = |layer: &FlagLayer<'_>| layer.fragment.has_any(&["base-url", "sim"]);
    if is_whole(layer) || !layer.fragment.has_any(&["host", "port"]) {
        return Ok(None);
    }
    let below = below.iter().rev().take_while(|layer| !is_whole(layer));
    let parts = std::iter::once(layer).chain(below).map(|layer| &layer.fragment);
    let host = parts.clone().find_map(|part| part.host.as_deref()).unwrap_or("127.0.0.1");
    let port = parts.clone().find_map(|part| part.port);
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let port = port.unwrap_or_else(|| situation.dialect.port_by(situation.conventions));
    let address = format!("http://{host}:{port}").parse::<Address>().map_err(|why| {
        Refusal::usage(format!("cannot use `--host {}`: {why}", hide_in_url(&host)), "")
    })?;
    Ok(Some(address))
}

/// Completes a plan that the program makes itself, without flags or a file.
pub fn complete_part(part: PartialPlan) -> Result<Plan, Refusal> {
    let situation = Situation::of(&part, None)?;
    let plan = complete(part, &situation)?;
    check(&plan)?;
    Ok(plan)
}

fn complete(part: PartialPlan, situation: &Situation) -> Result<Plan, Refusal> {
    let mut whole = defaults::defaults(situation)?;
    whole.merge(part);
    turns::put_second_target(&mut whole);
    classes::complete_prompts(&mut whole, situation)?;
    let mut plan = whole.complete().map_err(|why| {
        Refusal::usage(format!("cannot use the plan: {why}"), "`--print-plan` shows all fields")
    })?;
    turns::settle(&mut plan)?;
    stages::settle(&mut plan)?;
    classes::settle(&mut plan)?;
    constraints::settle(&mut plan);
    Ok(plan)
}
