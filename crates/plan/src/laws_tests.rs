//! Laws of partial plans: merging, completing, writing and reading.

use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use proptest::strategy::Strategy;
use tokometer_base::{IgnoreEos, Partial};
use tokometer_client::PartialSampling;
use tokometer_client::secret::Headers;
use tokometer_client::tls::Trust;
use tokometer_drive::Connections;
use tokometer_schedule::{Length, Stage, StageLoad};
use tokometer_workload::{OrNone, PartialSpec, PartialTurns, Ratio};

use super::*;

/// A plan with every field that has no default.
const PLAN: &str = r#"
    name = "x"
    conventions = "vllm"
    seed = 0
    content = "fresh"
    targets = [{ address = "simulator", backend = "vllm" }]
    workload = { dataset = "random" }
    prompts = { form = "text", row_order = "shuffled", oversample = "by_tool", templating = "by_tool" }
    load = { request_rate = 1.0, burstiness = 1.0, timing = "rate" }
    phases = { ready_timeout_s = 0.0, warmups = 0, cache = "keep", flush_timeout_s = 60.0, profiler = "off", probe_rate = 0.0 }
    request = { ignore_eos = "off", delivery = "streamed", usage = "at_end" }
    client = { connections = "on-demand", socket_reads = "adaptive", connect_timeout_s = 10.0, retries = 0, scrape_interval_s = 1.0 }
    metrics = { layout = "auto", sections = ["ttft"], percentiles = [99.0], judgement = "lenient" }
    output = { record = "kept", shown = "text" }
"#;

pub(crate) fn least() -> PartialPlan {
    toml::from_str(PLAN).unwrap()
}

/// Numbers as people write them: JSON keeps fifteen digits exactly.
fn number() -> impl Strategy<Value = f64> {
    (0_u32..1_000_000_000).prop_map(|thousandths| f64::from(thousandths) / 1e3)
}

fn rate() -> impl Strategy<Value = Rate> {
    prop_oneof![Just(Rate(f64::INFINITY)), number().prop_map(Rate)]
}

fn text() -> impl Strategy<Value = String> {
    "[a-z\"'=\\\\\n é]{0,6}"
}

/// TOML has no larger whole number.
fn count() -> impl Strategy<Value = u64> {
    0..=i64::MAX.unsigned_abs()
}

fn load() -> impl Strategy<Value = PartialLoad> {
    let stage = (1_u64..9, 1_u32..9).prop_map(|(requests, rate)| {
        let (length, load) = (Length::Requests(requests), StageLoad::Flat { rate: rate.into() });
        Stage { length, load }
    });
    let stages = vec(stage, 0..3);
    let limits = (of(of(any::<u32>())), of(of(count())), of(of(number())));
    (of(rate()), of(rate()), limits, of(stages)).prop_map(
        |(request_rate, burstiness, (max_concurrency, num_prompts, duration_s), stages)| {
            PartialLoad {
                request_rate,
                burstiness,
                max_concurrency,
                stages,
                num_prompts,
                duration_s,
                ..PartialLoad::default()
            }
        },
    )
}

fn phases() -> impl Strategy<Value = PartialPhases> {
    (of(number()), of(count()), of(of(any::<u32>())), of(number())).prop_map(
        |(ready_timeout_s, warmups, warmup_output_max, probe_rate)| PartialPhases {
            ready_timeout_s,
            warmups,
            warmup_output_max,
            probe_rate,
            ..PartialPhases::default()
        },
    )
}

fn client() -> impl Strategy<Value = PartialClient> {
    let connections = prop_oneof![Just(Connections::Preopen), Just(Connections::PerRequest)];
    (of(connections), of(of(number())), of(any::<u32>()), of(vec(text().prop_map(UrlText), 0..3)))
        .prop_map(|(connections, timeout_s, retries, metrics_urls)| PartialClient {
            connections,
            timeout_s,
            retries,
            metrics_urls,
            ..PartialClient::default()
        })
}

fn request() -> impl Strategy<Value = PartialRequest> {
    (of(of(number())), of(of(-5_i64..5)), of(of(text()))).prop_map(
        |(temperature, top_k, request_id_prefix)| PartialRequest {
            ignore_eos: Some(IgnoreEos::Asked),
            sampling: PartialSampling { temperature, top_k, ..PartialSampling::default() },
            request_id_prefix,
            ..PartialRequest::default()
        },
    )
}

fn workload() -> impl Strategy<Value = PartialSpec> {
    let ratio = (number(), number()).prop_map(|(input, output)| Ratio { input, output });
    (of(any::<u32>()), of(any::<u32>()), of(ratio), of(of("[a-z/]{1,5}"))).prop_map(
        |(input_len, output_len, range_ratio, path)| PartialSpec {
            input_len,
            output_len: output_len.map(|tokens| OrNone(Some(tokens))),
            range_ratio,
            content_path: path.map(|path| OrNone(path.map(Into::into))),
            ..PartialSpec::default()
        },
    )
}

fn target() -> impl Strategy<Value = PartialTarget> {
    let header = (Just("x-request-id".to_owned()), "[a-z]{0,4}");
    (of(of(text())), of(vec(header, 0..2)), of(Just(Trust::File("a.pem".into())))).prop_map(
        |(model, headers, trust)| PartialTarget {
            model,
            headers: headers.map(Headers),
            trust,
            ..PartialTarget::default()
        },
    )
}

fn part() -> impl Strategy<Value = PartialPlan> {
    let turns = (of(1_u32..9), of(number())).prop_map(|(most, think_ms)| PartialTurns {
        least: Some(1),
        most,
        think_ms,
        ..PartialTurns::default()
    });
    let prompts = of(turns).prop_map(|turns| PartialPrompts { turns, ..PartialPrompts::default() });
    let goodput = btree_map("[a-z]{1,4}", number(), 0..3);
    let metrics = (goodput, of(vec(number(), 0..3))).prop_map(|(goodput, percentiles)| {
        PartialMetrics { percentiles, goodput, ..PartialMetrics::default() }
    });
    let heads = (of(text()), of(count()), vec(target(), 0..2));
    (heads, workload(), prompts, load(), phases(), request(), client(), metrics).prop_map(
        |((name, seed, targets), workload, prompts, load, phases, request, client, metrics)| {
            PartialPlan {
                name,
                seed,
                targets,
                workload,
                prompts,
                load,
                phases,
                request,
                client,
                metrics,
                ..PartialPlan::default()
            }
        },
    )
}

fn merged(mut under: PartialPlan, over: PartialPlan) -> PartialPlan {
    under.merge(over);
    under
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_sets_nothing_changes_nothing_and_a_later_value_wins(a in part(), b in part()) {
        let nothing = PartialPlan::default;
        prop_assert_eq!(&merged(a.clone(), nothing()), &a);
        prop_assert_eq!(&merged(nothing(), a.clone()), &a);
        prop_assert_eq!(&merged(a.clone(), a.clone()), &a);
        let both = merged(a.clone(), b.clone());
        prop_assert_eq!(both.load.request_rate, b.load.request_rate.or(a.load.request_rate));
        prop_assert_eq!(both.load.num_prompts, b.load.num_prompts.or(a.load.num_prompts));
        prop_assert_eq!(&both.name, &b.name.clone().or(a.name.clone()));
        prop_assert_eq!(
            both.load.stages.as_ref(),
            b.load.stages.as_ref().or(a.load.stages.as_ref())
        );
    }

    #[test]
    fn layers_may_be_merged_in_any_grouping(a in part(), b in part(), c in part()) {
        let left = merged(merged(a.clone(), b.clone()), c.clone());
        let right = merged(a, merged(b, c));
        prop_assert_eq!(left, right);
    }

    #[test]
    fn a_partial_plan_survives_json(part in part()) {
        let text = serde_json::to_string(&part).unwrap();
        prop_assert_eq!(serde_json::from_str::<PartialPlan>(&text).unwrap(), part, "{}", text);
    }

    #[test]
    fn a_plan_survives_json_toml_and_its_twin(part in part()) {
        let Ok(plan) = merged(least(), part).complete() else { return Ok(()) };
        prop_assert_eq!(&PartialPlan::of(plan.clone()).complete().unwrap(), &plan);
        let text = serde_json::to_string(&plan).unwrap();
        let read: PartialPlan = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(&read.complete().unwrap(), &plan, "{}", text);
        let text = toml::to_string(&plan).unwrap();
        let read: PartialPlan = toml::from_str(&text).unwrap();
        prop_assert_eq!(&read.complete().unwrap(), &plan, "{}", text);
    }
}

#[test]
fn a_field_that_nobody_sets_is_named_by_its_path() {
    let check = |change: &str, expected: &str| {
        let part = merged(least(), toml::from_str(change).unwrap());
        assert_eq!(part.complete().unwrap_err().to_string(), expected);
    };
    check("[[classes]]\nweight = 2.0\n", "`classes.0.name` is missing");
    assert_eq!(PartialPlan::default().complete().unwrap_err().to_string(), "`name` is missing");
}

#[test]
fn sections_and_sweeps_survive_toml() {
    let text = r#"
        [[sweep]]
        field = "load.request_rate"
        values = [1, 2.5, inf]
        [[sections]]
        heading = "long"
        [sections.workload]
        input_len = 5
        output_len = "none"
        [[sections.sweep]]
        field = "load.num_prompts"
        values = "1,2,...,8"
    "#;
    let part = merged(least(), toml::from_str(text).unwrap());
    let axis = &part.sweep.as_ref().unwrap()[0];
    let inf = SweepValue::Text("inf".to_owned());
    let values = vec![SweepValue::Whole(1), SweepValue::Number(2.5), inf];
    assert_eq!(axis, &Axis { field: PlanField::REQUEST_RATE, values: AxisValues::List(values) });
    let plan = part.complete().unwrap();
    let read: PartialPlan = toml::from_str(&toml::to_string(&plan).unwrap()).unwrap();
    assert_eq!(read.complete().unwrap(), plan);
}
