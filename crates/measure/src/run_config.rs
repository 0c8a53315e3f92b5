//! Builds a run from its plan: configuration, source of requests, and facts for the record.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use serde_json::json;
use tokometer_base::backend::ServerKind;
use tokometer_base::{Conventions, Nanos, Seed, WallNanos};
use tokometer_client::control::ModelEntry;
use tokometer_client::{ApiKey, KeepText, Settings};
use tokometer_drive::{self as drive, Interrupt, Prepare};
use tokometer_plan::{ClassDraw, Content, Form, Overload, Plan, ShellCommand, Timing};
use tokometer_record::RunInfo;
use tokometer_record::run::SCHEMA_VERSION;
use tokometer_schedule::{Limits, Offsets, SendLimit};
use tokometer_workload::{Answers, SeenPrefixes, fingerprint};

use crate::Error;
use crate::alternating::{Alternating, AwaitBlock, BlockTimes, Switch};
use crate::preparer::{ClassRequests, RequestPreparer, Supply};
use crate::ready_targets::ReadyTargets;
use crate::shard::{self, ShardPart};
use crate::target::Reached;
use crate::tools::Tools;
use crate::workload::{OpenedWorkload, prompts_needed};

/// Everything that a run needs besides its record.
pub(crate) struct RunSetup<'a> {
    pub(crate) tools: &'a Tools,
    /// This process's part of the plan.
    pub(crate) plan: &'a Plan,
    pub(crate) ready: &'a ReadyTargets,
    pub(crate) opened: &'a OpenedWorkload,
    /// Number of the run in its measurement.
    pub(crate) point: u32,
    /// Runs that are planned, for a display.
    pub(crate) points: usize,
}

/// The seed of the content: new for every run and point, or fixed by the plan's seed.
pub(crate) fn salt(plan: &Plan, point: u32, now: WallNanos) -> Seed {
    let root = match plan.content {
        Content::Fresh => Seed(now.0),
        Content::Repeated => Seed(plan.seed),
    };
    Seed(root.stream("content").draw(u64::from(point)))
}

/// Text is kept where token counts or detailed result files need it. Otherwise only the text of
/// responses without usage is kept, until it is counted.
pub(crate) fn keep_text(plan: &Plan) -> KeepText {
    let is_counted_by_usage =
        plan.targets.first().is_some_and(|target| target.backend.is_counted_by_usage());
    let is_detailed = plan.output.vllm_result.as_ref().is_some_and(|file| file.is_detailed)
        || plan.output.sglang_result.as_ref().is_some_and(|file| file.is_detailed);
    // Whether an answer fits is judged by its text.
    let is_judged = plan.request.structured.is_some() || plan.request.tools.is_some();
    if plan.conventions == Conventions::Sglang || !is_counted_by_usage || is_detailed || is_judged {
        KeepText::Yes
    } else {
        KeepText::Uncounted
    }
}

/// The source of requests, for one target or for two in A/B blocks.
pub(crate) fn source(
    setup: &RunSetup<'_>,
    interrupt: &Arc<Interrupt>,
    await_block: Option<AwaitBlock>,
) -> Result<Box<dyn Prepare>, Error> {
    let RunSetup { tools, plan, ready, opened, .. } = *setup;
    if opened.has_turns() && opened.against.is_some() {
        return Err(Error::usage(
            "cannot use conversations with two targets",
            "measure the targets one after the other",
        ));
    }
    let is_live = opened.has_turns() && opened.workload.answers() == Answers::Live;
    if is_live && plan.prompts.form == Form::TokenIds {
        return Err(Error::usage(
            "cannot repeat answers in prompts of token ids: answers are returned as text",
            "omit `--prompt-token-ids`, or use `--answers recorded`",
        ));
    }
    let own = preparer(plan, &ready.reached, opened);
    let Some((against, reached)) = opened.against.as_ref().zip(ready.against.as_ref()) else {
        return Ok(Box::new(own));
    };
    let other = RequestPreparer {
        workload: Arc::clone(&against.workload),
        ..preparer(plan, reached, opened)
    };
    let config = config(plan, ready, opened);
    let extent = config.whole_extent.unwrap_or(config.limits.extent);
    let of_side = SendLimit { count: extent.count.map(|count| count / 2), ..extent };
    let offsets = Offsets::new(&config.arrivals, of_side, config.seed)
        .map_err(|why| Error::usage(why.to_string(), ""))?;
    let timeout = Nanos::from_secs_f64(plan.phases.ready_timeout_s);
    let switch = switch_command(plan).filter(|_| opened.share.is_first()).map(|command| {
        let control = ready.reached.control.clone();
        Switch::new(command.clone(), control, timeout, interrupt, &tools.clock)
    });
    Ok(Box::new(Alternating {
        sides: [own, other],
        blocks: against.blocks,
        warmups: plan.phases.warmups,
        count: extent.count,
        share: opened.share,
        await_block,
        times: BlockTimes::new(offsets),
        switch,
        made: 0,
    }))
}

pub(crate) fn switch_command(plan: &Plan) -> Option<&ShellCommand> {
    plan.interleave.as_ref()?.switch_command.as_ref()
}

/// A timed run ends by time only, unless its prompts are a trace, conversations, or rows that must
/// not be repeated.
fn supply(plan: &Plan, opened: &OpenedWorkload) -> Supply {
    let is_timed = plan.load.num_prompts.is_none() && plan.load.duration_s.is_some();
    let is_short = opened.workload.len() < prompts_needed(&plan.load);
    if is_timed && !is_short && plan.load.timing == Timing::Rate && !opened.has_turns() {
        Supply::GoesOn
    } else {
        Supply::Ends
    }
}

pub(crate) fn preparer(plan: &Plan, reached: &Reached, opened: &OpenedWorkload) -> RequestPreparer {
    RequestPreparer {
        workload: Arc::clone(&opened.workload),
        kept: opened.kept.clone(),
        dialect: reached.dialect,
        settings: Arc::clone(&reached.settings),
        warmups: plan.phases.warmups,
        warmup_output_max: plan.phases.warmup_output_max,
        classes: plan
            .classes
            .iter()
            .map(|class| ClassRequests::of(class, &reached.settings))
            .collect(),
        class_draw: ClassDraw::of(plan),
        timing: plan.load.timing,
        answers: opened.workload.answers(),
        sessions: HashMap::new(),
        roots: VecDeque::new(),
        supply: supply(plan, opened),
        share: opened.share,
        made: 0,
        lost: 0,
        seen: SeenPrefixes::default(),
        overflows: 0,
        max_model_len: plan.prompts.max_model_len,
    }
}

/// llama.cpp's server announces that a connection stays open, ends it behind each answer, and acknowledges and throws
/// away a request that meets the end.
fn connections(plan: &Plan) -> drive::Connections {
    let mut servers = plan.targets.iter().map(|target| target.backend.server());
    let is_auto = plan.client.connections == drive::Connections::Auto;
    if is_auto && servers.any(|server| server == ServerKind::LlamaCpp) {
        drive::Connections::PerRequest
    } else {
        plan.client.connections
    }
}

/// How answers are read: nothing that a class sends may appear in what is kept of them.
fn read_settings(plan: &Plan, reached: &Reached) -> Arc<Settings> {
    if plan.classes.is_empty() {
        return Arc::clone(&reached.settings);
    }
    let mut settings = (*reached.settings).clone();
    for class in &plan.classes {
        class.headers.add_to(&mut settings.other_secrets);
        class.extra_body.add_to(&mut settings.other_secrets);
    }
    Arc::new(settings)
}

pub(crate) fn config(
    plan: &Plan,
    ready: &ReadyTargets,
    opened: &OpenedWorkload,
) -> drive::RunConfig {
    let target = |reached: &Reached| drive::config::TargetServer {
        endpoint: reached.endpoint.clone(),
        dialect: reached.dialect,
        settings: read_settings(plan, reached),
        keep_text: if opened.has_turns() { KeepText::Yes } else { keep_text(plan) },
    };
    let targets = ready.all_reached().map(target).collect();
    let load = &plan.load;
    let whole = SendLimit {
        count: load.num_prompts.map(|_| opened.len()),
        duration: load.duration_s.map(Nanos::from_secs_f64),
    };
    let limits = Limits {
        max_concurrency: load.max_concurrency.map(|cap| opened.share.of_cap(cap)),
        extent: SendLimit { count: whole.count.map(|_| opened.own_len()), ..whole },
        warmups: plan.phases.warmups,
    };
    let client = &plan.client;
    drive::RunConfig {
        arrivals: load.arrivals(plan.conventions),
        seed: Seed(plan.seed),
        share: opened.share,
        whole_extent: Some(whole),
        connections: connections(plan),
        socket_reads: client.socket_reads,
        stamps: client.stamps,
        max_sessions: load.most_sessions(plan.conventions).map(|cap| opened.share.of_cap(cap)),
        warm_ups: match plan.conventions {
            Conventions::Sglang => drive::WarmUps::Needed,
            Conventions::Vllm => drive::WarmUps::Tolerated,
        },
        refusals: match load.overload {
            Overload::Stop => drive::Refusals::All,
            Overload::Continue => drive::Refusals::OfTheClient,
        },
        timeouts: drive::Timeouts {
            connect: Nanos::from_secs_f64(client.connect_timeout_s),
            stall: limit(client.stall_timeout_s),
            total: limit(client.timeout_s),
        },
        cancellation: load.cancel,
        retries: client.retries,
        retry_max_wait: Nanos::from_secs_f64(client.retry_max_wait_s),
        workers: client.workers,
        ..drive::RunConfig::new(targets, limits)
    }
}

pub(crate) fn info(
    plan: &Plan,
    ready: &ReadyTargets,
    opened: &OpenedWorkload,
    (salt, tools, part): (Seed, &Tools, Option<&ShardPart>),
) -> RunInfo {
    let remarks = ready.remarks.iter().chain(&opened.remarks);
    let load = plan.load.asked(opened.len(), plan.conventions, Seed(plan.seed));
    RunInfo {
        schema: SCHEMA_VERSION,
        version: tools.version.clone(),
        name: plan.name.clone(),
        started: tools.clock.wall(),
        origin: tools.clock.now(),
        seed: Seed(plan.seed),
        salt: salt.0,
        family: plan.conventions,
        targets: ready.all_reached().map(|reached| reached.described.clone()).collect(),
        load: shard::own_load(&load, opened.share, opened.own_len()),
        classes: plan.recorded_classes(),
        dataset: plan.workload.name().to_owned(),
        tokenizer: Some(ready.tokenizer.name().to_owned()),
        plan: serde_json::to_value(plan).unwrap_or_default(),
        environment: tools.secrets.clean_json(&environment(
            ready.reached.model.as_ref(),
            fingerprint(&plan.workload).as_deref(),
            tools,
        )),
        remarks: remarks.map(|remark| tools.secrets.clean(remark)).collect(),
        sharding: part.map(|part| shard::sharding(part, load)),
    }
}

/// Facts about the machine, for readers of old results.
fn environment(
    model: Option<&ModelEntry>,
    dataset: Option<&str>,
    tools: &Tools,
) -> serde_json::Value {
    let line = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let processor = line("/proc/cpuinfo").and_then(|text| {
        let row = text.lines().find(|row| row.starts_with("model name"))?;
        row.split_once(':').map(|(_, name)| name.trim().to_owned())
    });
    json!({
        "kernel": line("/proc/sys/kernel/osrelease"),
        "cores": std::thread::available_parallelism().ok().map(std::num::NonZero::get),
        "processor": processor,
        "model_root": model.and_then(|model| model.root.clone()),
        "max_model_len": model.and_then(|model| model.max_model_len),
        "dataset_fingerprint": dataset,
        "key_variable": tools.secrets.api_key.as_ref().map(ApiKey::variable),
        "command": tools.command,
    })
}

/// A limit in seconds; zero is none.
fn limit(seconds: Option<f64>) -> Option<Nanos> {
    seconds.map(Nanos::from_secs_f64).filter(|limit| *limit > Nanos::ZERO)
}
