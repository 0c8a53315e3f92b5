//! Default values of plan fields, by the conventions of the tool to follow.

use crate::options::{self, Fragment, SGLANG_WARMUP_TOKENS};
use crate::{
    Address, Cache, Content, Form, Judgement, PartialLoad, PartialMetrics, PartialOutput,
    PartialPhases, PartialPlan, PartialPrompts, PartialRequest, PartialTarget, Profiler, Rate,
    Record, Shown, Timing,
};
use tokometer_base::neighbours::suggestion;
use tokometer_base::{Conventions, IgnoreEos, Partial};
use tokometer_client::settings::Delivery;
use tokometer_client::{self as client, Dialect, UsageReports};
use tokometer_compat::{Metric, Selection};
use tokometer_schedule::Length;
use tokometer_workload::{OrNone, Oversample, PartialSpec, RowOrder, Spec, Templating};

use super::foreign;
use tokometer_base::Refusal;

/// What the defaults depend on.
#[derive(Debug, Clone)]
pub(crate) struct Situation {
    pub(crate) dialect: Dialect,
    pub(crate) conventions: Conventions,
    pub(crate) dataset: String,
    /// Whether anything names a target; otherwise the embedded simulator is meant.
    pub(crate) is_addressed: bool,
    pub(crate) has_load: bool,
    pub(crate) has_duration: bool,
    pub(crate) stages: Option<Vec<tokometer_schedule::Stage>>,
}

impl Situation {
    /// What a plan of these fields has, with a dataset by its name unless the plan names one.
    pub(crate) fn of(part: &PartialPlan, dataset: Option<String>) -> Result<Self, Refusal> {
        let dialect = match part.targets.first().and_then(|target| target.backend) {
            Some(dialect) => dialect,
            None => dialect(backend_of(part.conventions))?,
        };
        let conventions = part.conventions.unwrap_or(dialect.conventions().unwrap_or_default());
        let dataset = dataset.or(part.workload.dataset.clone());
        Ok(Self {
            dialect,
            conventions,
            dataset: dataset.unwrap_or_else(|| dataset_of(conventions).to_owned()),
            is_addressed: !part.targets.is_empty(),
            has_load: !part.load.is_unset(),
            has_duration: part.load.duration_s.is_some()
                || part.load.stages.iter().flatten().any(|stage| stage.length != Length::Run),
            stages: part.load.stages.clone(),
        })
    }

    fn is_sglang(&self) -> bool {
        self.conventions == Conventions::Sglang
    }

    /// Whether nothing but the embedded simulator and random prompts are asked for.
    fn is_demo(&self) -> bool {
        !self.is_addressed && self.has_dataset(|spec| matches!(spec, Spec::Random(_)))
    }

    /// Whether the dataset is one of some kind; a name of no dataset is none.
    fn has_dataset(&self, is_kind: impl Fn(&Spec) -> bool) -> bool {
        Spec::defaults(&self.dataset, self.conventions).is_some_and(|spec| is_kind(&spec))
    }
}

pub fn dialect(name: &str) -> Result<Dialect, Refusal> {
    Dialect::named(name).ok_or_else(|| {
        if let Some(instead) = foreign::backend(name) {
            return Refusal::usage(format!("unsupported backend `{name}`"), instead);
        }
        let all: Vec<&str> = Dialect::names().collect();
        Refusal::usage(format!("unknown backend `{name}`"), suggestion(name, &all))
    })
}

/// The embedded simulator's default run: open loop, long enough for its own P99, about 20 seconds.
const DEMO_RATE: f64 = 25.0;
const DEMO_PROMPTS: u64 = 480;
const DEMO_WARMUPS: u64 = 8;
const DEMO_INPUT: u32 = 256;
const DEMO_OUTPUT: u32 = 64;

fn sections(shown: &Selection) -> Vec<String> {
    let words = shown.metrics.iter().filter_map(|metric| metric.quantity()?.section());
    words.map(str::to_owned).collect()
}

pub(crate) fn defaults(situation: &Situation) -> Result<PartialPlan, Refusal> {
    let name = if situation.is_addressed { situation.dialect.name() } else { "simulator" };
    let target = PartialTarget {
        address: Some(address(situation)),
        backend: Some(situation.dialect),
        ..PartialTarget::default()
    };
    let mut shown = Selection::default();
    if situation.dialect.is_pooling() {
        shown.metrics = vec![Metric::E2el];
    }
    let mut all = by_table(situation.conventions)?;
    all.merge(PartialPlan {
        name: Some(name.to_owned()),
        conventions: Some(situation.conventions),
        seed: Some(if situation.is_sglang() { 42 } else { 0 }),
        content: Some(Content::Fresh),
        targets: vec![target],
        workload: workload(situation)?,
        prompts: PartialPrompts {
            form: Some(Form::Text),
            row_order: Some(RowOrder::Shuffled),
            oversample: Some(Oversample::ByTool),
            templating: Some(Templating::ByTool),
            ..PartialPrompts::default()
        },
        load: load(situation),
        phases: phases(situation),
        request: PartialRequest {
            ignore_eos: Some(ignore_eos(situation)),
            delivery: Some(Delivery::Streamed),
            usage: Some(UsageReports::AtEnd),
            ..PartialRequest::default()
        },
        metrics: PartialMetrics {
            sections: Some(sections(&shown)),
            percentiles: Some(shown.percentiles),
            judgement: Some(Judgement::Lenient),
            ..PartialMetrics::default()
        },
        output: PartialOutput {
            record: Some(Record::Kept),
            shown: Some(Shown::Text),
            ..PartialOutput::default()
        },
        ..PartialPlan::default()
    });
    Ok(all)
}

/// Defaults that depend on nothing but conventions.
fn by_table(conventions: Conventions) -> Result<PartialPlan, Refusal> {
    let mut fragment = Fragment::default();
    for row in options::rows() {
        if let Some(default) = row.default {
            fragment.add(row.flag, default.by(conventions))?;
        }
    }
    Ok(fragment.part)
}

pub(crate) fn of_dataset(name: &str, conventions: Conventions) -> Result<Spec, Refusal> {
    Spec::defaults(name, conventions).ok_or_else(|| {
        if let Some(instead) = foreign::dataset(name) {
            return Refusal::usage(format!("unsupported dataset `{name}`"), instead);
        }
        let hint = suggestion(name, Spec::NAMES);
        Refusal::usage(format!("unknown dataset `{name}`"), hint)
    })
}

fn workload(situation: &Situation) -> Result<PartialSpec, Refusal> {
    let mut options = PartialSpec::of(of_dataset(&situation.dataset, situation.conventions)?);
    if situation.is_demo() {
        options.input_len = Some(DEMO_INPUT);
        options.output_len = Some(OrNone(Some(DEMO_OUTPUT)));
    }
    Ok(options)
}

fn load(situation: &Situation) -> PartialLoad {
    let is_demo = situation.is_demo();
    let rate = if is_demo && !situation.has_load { DEMO_RATE } else { f64::INFINITY };
    let num_prompts = match (situation.has_duration, is_demo) {
        (true, _) => None,
        // All of its sessions.
        (false, _) if situation.has_dataset(|spec| matches!(spec, Spec::Trace(_))) => Some(0),
        (false, true) => Some(DEMO_PROMPTS),
        (false, false) => Some(1_000),
    };
    PartialLoad {
        request_rate: Some(Rate(rate)),
        num_prompts: Some(num_prompts),
        timing: Some(timing(situation)),
        ..PartialLoad::default()
    }
}

fn phases(situation: &Situation) -> PartialPhases {
    let is_sglang = situation.is_sglang();
    let warmups = if situation.is_demo() { DEMO_WARMUPS } else { u64::from(is_sglang) };
    PartialPhases {
        warmups: Some(warmups),
        warmup_output_max: is_sglang.then_some(Some(SGLANG_WARMUP_TOKENS)),
        cache: Some(Cache::Keep),
        profiler: Some(Profiler::Off),
        ..PartialPhases::default()
    }
}

fn address(situation: &Situation) -> Address {
    if !situation.is_addressed {
        return Address::Simulator("default".to_owned());
    }
    // SGLang's tool says 0.0.0.0, which a connect takes for this host: the name says so.
    let port = situation.dialect.port_by(situation.conventions);
    let url = client::Url::parse(&format!("http://127.0.0.1:{port}"));
    Address::Server(url.expect("a host of digits and a port make a URL"))
}

/// Traces keep their own times by default.
fn timing(situation: &Situation) -> Timing {
    if situation.has_dataset(Spec::is_traced) && situation.stages.is_none() {
        Timing::Trace
    } else {
        Timing::Rate
    }
}

/// vLLM's tool lets no answer to random prompts end early where the server uses OpenAI's routes,
/// SGLang's lets none at all.
fn ignore_eos(situation: &Situation) -> IgnoreEos {
    let is_made_up = situation.has_dataset(Spec::is_random);
    let can_ignore = situation.dialect.takes_ignore_eos();
    match situation.conventions {
        Conventions::Sglang => IgnoreEos::Implied,
        Conventions::Vllm if is_made_up && can_ignore => IgnoreEos::Implied,
        Conventions::Vllm => IgnoreEos::Off,
    }
}

/// The dataset that a tool uses when none is named.
pub(crate) fn dataset_of(conventions: Conventions) -> &'static str {
    match conventions {
        Conventions::Vllm => "random",
        Conventions::Sglang => "sharegpt",
    }
}

/// The backend that a tool uses when none is named.
pub(crate) fn backend_of(conventions: Option<Conventions>) -> &'static str {
    match conventions {
        Some(Conventions::Sglang) => "sglang",
        Some(Conventions::Vllm) | None => "openai",
    }
}
