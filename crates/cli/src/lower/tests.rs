//! Command lines of the tools that people come from, as plans.

use tokometer_base::{Backend, Conventions, IgnoreEos};
use tokometer_drive::Connections;
use tokometer_plan::resolve::PROMPT_LEN;
use tokometer_plan::{Address, Content, Plan, options};
use tokometer_workload::Spec;

use super::{Environment, Lowered, lower};
use crate::args::{Command, ParseOutcome, parse};

fn lowered(line: &str) -> Lowered {
    let words: Vec<String> =
        format!("bench {line}").split_whitespace().map(str::to_owned).collect();
    let typed = parse(&words).unwrap_or_else(|why| panic!("{line}: {why:?}"));
    let Command::Bench(args) = typed.command else { panic!("{line} is not a bench") };
    lower(&args.bench, &typed.order, &Environment::default())
        .unwrap_or_else(|refusal| panic!("{line}: {refusal}"))
}

/// What a bench with these flags is refused with; `None`: it is not.
pub(crate) fn refused(line: &str) -> Option<String> {
    let words: Vec<String> =
        format!("bench {line}").split_whitespace().map(str::to_owned).collect();
    let typed = match parse(&words) {
        Ok(typed) => typed,
        Err(ParseOutcome::Clap(why)) => return Some(why.to_string()),
        Err(ParseOutcome::Refused(why)) => return Some(why.to_string()),
    };
    let Command::Bench(args) = typed.command else { panic!("{line} is not a bench") };
    lower(&args.bench, &typed.order, &Environment::default())
        .err()
        .map(|refusal| refusal.to_string())
}

pub(crate) fn plan(line: &str) -> Plan {
    let mut lowered = lowered(line);
    assert_eq!(lowered.points.len(), 1, "{line}");
    lowered.points.remove(0).plan
}

fn address(line: &str) -> String {
    plan(line).targets[0].address.to_string()
}

#[test]
fn any_target_flag_means_a_server_and_none_means_the_simulator() {
    let check = |line: &str, expected: &str| assert_eq!(address(line), expected, "{line}");
    check("", "simulator:default");
    check("--num-prompts 5 --request-rate 3", "simulator:default");
    check("--sim", "simulator:default");
    check("--sim small --backend sglang", "simulator:small");
    check("--backend vllm", "http://127.0.0.1:8000");
    check("--model m", "http://127.0.0.1:8000");
    check("--backend sglang --dataset-name random", "http://127.0.0.1:30000");
    check(
        "--backend lmdeploy --conventions sglang --dataset-name random",
        "http://127.0.0.1:23333",
    );
    check("--port 9", "http://127.0.0.1:9");
    check("--host ::1 --port 9", "http://[::1]:9");
    check("--host h --base-url https://x/y", "https://x/y");
}

#[test]
fn a_family_brings_its_tool_s_defaults() {
    let vllm = plan("--model m");
    assert_eq!((vllm.conventions, vllm.seed), (Conventions::Vllm, 0));
    assert_eq!(vllm.client.connections, Connections::Auto);
    assert_eq!(vllm.request.ignore_eos, IgnoreEos::Implied);
    assert_eq!((vllm.load.num_prompts, vllm.phases.warmups), (Some(1_000), 0));
    assert!(matches!(&vllm.workload, Spec::Random(options) if options.output_len == 128));

    let sglang = plan("--conventions sglang --model m");
    assert_eq!((sglang.conventions, sglang.seed), (Conventions::Sglang, 42));
    assert_eq!(sglang.targets[0].backend.name(), "sglang");
    assert_eq!(sglang.workload.name(), "sharegpt");
    assert_eq!(sglang.client.connections, Connections::PerRequest);
    assert_eq!((sglang.phases.warmups, sglang.phases.warmup_output_max), (1, Some(32)));

    let tgi = plan("--backend tgi");
    assert_eq!((tgi.conventions, tgi.request.ignore_eos), (Conventions::Vllm, IgnoreEos::Off));
    assert_eq!(plan("--model m --dataset-name sonnet").request.ignore_eos, IgnoreEos::Off);
}

/// `bench -h` showed defaults of one target only, which did not apply to the others.
#[test]
fn the_defaults_that_the_help_shows_are_those_that_apply() {
    let check = |flag: &str, defaults: &str| {
        let shown = options::named(flag).unwrap().described();
        assert!(shown.ends_with(&format!("[{defaults}]")), "--{flag}: {shown}");
    };
    let lengths = |plan: &Plan| match &plan.workload {
        Spec::Random(options) => (options.input_len, options.output_len),
        other => panic!("{other:?}"),
    };
    let (server, alone) = (plan("--model m"), plan(""));
    let sglang = plan("--conventions sglang --model m --dataset-name random");
    let (prompt, answer) = lengths(&server);
    let (url_prompt, url_answer) = PROMPT_LEN;
    let (own_prompt, own_answer) = lengths(&alone);
    let sglang_answer = lengths(&sglang).1;
    assert_eq!((lengths(&sglang).0, url_answer), (prompt, u64::from(answer)));
    check("input-len", &format!("default: {prompt}; URL: {url_prompt}; demo: {own_prompt}"));
    let lengths = format!("default: {answer}; SGLang: {sglang_answer}; demo: {own_answer}");
    check("output-len", &lengths);
    let count = |plan: &Plan| plan.load.num_prompts.unwrap();
    check("num-prompts", &format!("default: {}; demo: {}", count(&server), count(&alone)));
    let rate = alone.load.request_rate.0;
    assert!(server.load.request_rate.0.is_infinite());
    check("request-rate", &format!("default: inf; demo: {rate}"));
    check("seed", &format!("default: {}; SGLang: {}", server.seed, sglang.seed));
    let backend = |plan: &Plan| plan.targets[0].backend.name();
    check("backend", &format!("default: {}; for a URL: openai-chat", backend(&server)));
}

/// `vllm-chat` comes from SGLang's tool, which its name does not say.
#[test]
fn the_help_of_backends_names_those_that_select_sglang_s_conventions() {
    let help = options::named("conventions").unwrap().help;
    for backend in Backend::all() {
        let name = backend.name();
        let is_named = help.contains(&format!("{name},"))
            || help.contains(&format!("{name} and"))
            || help.contains(&format!("and {name};"));
        let is_sglang = backend.conventions() == Some(Conventions::Sglang);
        assert_eq!(is_named || name.starts_with("sglang"), is_sglang, "{name}");
    }
}

#[test]
fn the_command_lines_of_the_seed_reports_are_understood() {
    let sweep = lowered(
        "--backend tgi --model meta-llama/Llama-3.1-405B-Instruct --dataset-name book \
         --book-input-len 10000 --endpoint /generate_stream --dataset-path=book.txt \
         --num-prompt=1,2,...,4096",
    );
    assert_eq!(sweep.points.len(), 13);
    assert_eq!(sweep.points[12].label(), "num_prompts=4096");
    assert!(matches!(&sweep.points[0].plan.workload, Spec::Book(book) if book.input_len == 10_000));

    let sglang = plan(
        "--backend sglang-oai-chat --dataset-name sharegpt --dataset-path f.json --num-prompts 100 \
         --request-rate 20 --max-concurrency 20 --warmup-requests 5",
    );
    assert_eq!((sglang.conventions, sglang.phases.warmups), (Conventions::Sglang, 5));
    assert_eq!((sglang.load.request_rate.0, sglang.load.max_concurrency), (20.0, Some(20)));

    let vllm = plan(
        "--backend vllm --dataset-name random --random-input-len 8191 --random-output-len 1 \
         --num-prompts 512 --percentile-metrics ttft,tpot,itl,e2el \
         --metric-percentiles 50,75,90,95,99",
    );
    assert_eq!(vllm.metrics.percentiles, [50.0, 75.0, 90.0, 95.0, 99.0]);
    assert_eq!(vllm.metrics.sections.len(), 4);
}

#[test]
fn an_explicit_seed_repeats_the_content_and_a_duration_replaces_the_count() {
    assert_eq!(plan("").content, Content::Fresh);
    assert_eq!(plan("--seed 0").content, Content::Repeated);
    assert_eq!(plan("--model m --duration 30s").load.num_prompts, None);
    assert_eq!(plan("--model m --duration 30s --num-prompts 7").load.num_prompts, Some(7));
}

#[test]
fn flags_of_another_dataset_are_named_and_left_out() {
    let lowered = lowered("--model m --dataset-name sonnet --random-input-len 5 --output-len 9");
    assert_eq!(lowered.remarks.len(), 1, "{:?}", lowered.remarks);
    assert!(lowered.remarks[0].contains("`--random-input-len`"));
    let plan = &lowered.points[0].plan;
    assert!(matches!(&plan.workload, Spec::Sonnet(options) if options.output_len == 9));
}

#[test]
fn sections_of_a_plan_file_change_it_and_flags_change_them_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.toml");
    let text = r#"
        [[targets]]
        address = "simulator:small"
        backend = "vllm"
        [load]
        num_prompts = 7
        [[sections]]
        heading = "first"
        [sections.workload]
        dataset = "random"
        input_len = 5
        [[sections]]
        heading = "second"
        [[sections.sweep]]
        field = "load.num_prompts"
        values = "1,2,...,8"
    "#;
    std::fs::write(&path, text).unwrap();
    let shown = |flags: &str| -> Vec<(Option<String>, Option<u64>)> {
        let lowered = lowered(&format!("--plan {} {flags}", path.display()));
        lowered
            .points
            .into_iter()
            .map(|point| (point.heading, point.plan.load.num_prompts))
            .collect()
    };
    let second = Some("second".to_owned());
    let expected = [
        (Some("first".to_owned()), Some(7)),
        (second.clone(), Some(1)),
        (None, Some(2)),
        (None, Some(4)),
        (None, Some(8)),
    ];
    assert_eq!(shown(""), expected);
    let expected = [(Some("first".to_owned()), Some(3)), (second, Some(3))];
    assert_eq!(shown("--num-prompts 3"), expected);
    let lowered = lowered(&format!("--plan {} --base-url http://h:1", path.display()));
    let is_server = |plan: &Plan| matches!(plan.targets[0].address, Address::Server(_));
    assert!(lowered.points.iter().all(|point| is_server(&point.plan)));
}

#[test]
fn flags_of_the_profiler_become_the_fields_that_sglang_s_server_reads() {
    assert_eq!(plan("--backend sglang --model m --profile").phases.profile_request, None);
    let plan = plan(
        "--backend sglang --model m --profile --profile-activities MEM --profile-steps 5 \
         --profile-by-stage --profile-stages decode --profile-output-dir /tmp/p \
         --profile-prefix a --profile-start-step 3",
    );
    let expected = serde_json::json!({
        "activities": ["MEM"], "num_steps": 5, "profile_by_stage": true,
        "profile_stages": ["decode"], "output_dir": "/tmp/p", "profile_prefix": "a",
        "start_step": 3,
    });
    assert_eq!(
        plan.phases.profile_request.map(|body| serde_json::Value::Object(body.0)),
        Some(expected)
    );
}

/// Once `--ready-check-timeout-sec inf` silently meant the default, because JSON has no infinity.
#[test]
fn numbers_that_mean_nothing_are_refused_for_every_flag() {
    let shared = "--dataset-name generated-shared-prefix --model m";
    let trace = "--dataset-name timed_trace --dataset-path f --model m";
    let mooncake = "--dataset-name mooncake --dataset-path f --model m";
    let not_negative = [
        ("", "--ready-check-timeout-sec"),
        ("", "--flush-cache-timeout"),
        ("", "--probe-request-rate"),
        ("", "--scrape-interval"),
        ("", "--temperature"),
        ("", "--top-p"),
        ("", "--min-p"),
        ("", "--repetition-penalty"),
        ("", "--timeout"),
        ("", "--connect-timeout"),
        ("", "--stall-timeout"),
        ("", "--retry-max-wait"),
        ("", "--duration"),
        ("", "--random-range-ratio"),
        ("", "--metric-percentiles"),
        ("--multi-turn", "--multi-turn-delay-ms"),
        ("--lora-modules a", "--lora-zipf-alpha"),
        ("--ramp-up-strategy linear --ramp-up-end-rps 9", "--ramp-up-start-rps"),
        ("--ramp-up-strategy linear --ramp-up-start-rps 0.1", "--ramp-up-end-rps"),
        (shared, "--gsp-range-ratio"),
        (shared, "--gsp-zipf-alpha"),
        (trace, "--timed-trace-sec-multiplier"),
        (mooncake, "--mooncake-slowdown-factor"),
    ];
    for (others, flag) in not_negative {
        for number in ["nan", "inf", "-inf", "-1"] {
            let line = format!("{others} {flag}={number}");
            assert!(refused(&line).is_some(), "{line} is accepted");
        }
        let line = format!("{others} {flag}=0.5");
        assert_eq!(refused(&line), None, "{line}");
    }
    for flag in ["--frequency-penalty", "--presence-penalty"] {
        assert!(refused(&format!("{flag}=nan")).is_some(), "{flag}");
        assert!(refused(&format!("{flag}=inf")).is_some(), "{flag}");
        assert_eq!(refused(&format!("{flag}=-1")), None, "{flag}");
    }
    for number in ["nan", "-1", "inf"] {
        assert!(refused(&format!("--goodput ttft:{number}")).is_some(), "goodput {number}");
    }
    for flag in ["--request-rate", "--burstiness"] {
        for number in ["nan", "-1", "0", "-inf"] {
            assert!(refused(&format!("{flag}={number}")).is_some(), "{flag} {number}");
        }
        assert_eq!(refused(&format!("{flag}=inf")), None, "{flag}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.toml");
    std::fs::write(&path, "phases = { ready_timeout_s = inf }\n").unwrap();
    let message = refused(&format!("--plan {}", path.display())).unwrap();
    assert!(message.contains("cannot use inf for `phases.ready_timeout_s`"), "{message}");
    std::fs::write(&path, "metrics = { percentiles = [50, 101] }\n").unwrap();
    let message = refused(&format!("--plan {}", path.display())).unwrap();
    assert!(message.contains("cannot use 101 for `metrics.percentiles`"), "{message}");
    assert!(plan("--burstiness inf").load.burstiness.is_infinite());
}

#[test]
fn a_block_without_a_second_target_is_refused() {
    assert!(refused("--block 5").unwrap().contains("--against"));
}

#[test]
fn stages_are_the_length_and_the_load_of_a_run() {
    let staged = plan("--stages 2m@5/s,30s@5..50/s,2m@8session");
    assert_eq!(staged.load.stages.len(), 3);
    assert_eq!((staged.load.num_prompts, staged.load.duration_s), (None, Some(270.0)));
    let ramp = "--ramp-up-strategy exponential --ramp-up-start-rps 1 --ramp-up-end-rps 9 -n 50";
    let ramp = plan(ramp);
    assert_eq!(ramp.load.stages[0].to_string(), "run@1..9/s exponential");
    assert_eq!((ramp.load.num_prompts, ramp.load.duration_s), (Some(50), None));
}

#[test]
fn classes_come_from_flags_and_a_mix_of_adapters_is_a_set_of_them() {
    let mix = plan("--lora-modules a b --lora-request-distribution skewed --lora-zipf-alpha 2");
    let of = |plan: &Plan| -> Vec<_> {
        plan.classes
            .iter()
            .map(|class| (class.name.clone(), class.lora.clone(), class.weight))
            .collect()
    };
    let adapter = |name: &str, weight| (name.to_owned(), Some(name.to_owned()), weight);
    assert_eq!(of(&mix), [adapter("a", 1.0), adapter("b", 0.5)]);
    let words =
        ["bench", "--class", "name=chat rate=3 priority=0 goodput.ttft=500 headers.x-tenant=a"];
    let batch = ["--class", "name=batch rate=1 workload.input_len=2000 extra_body.min_tokens=3"];
    let words: Vec<String> = words.iter().chain(&batch).map(|word| (*word).to_owned()).collect();
    let typed = parse(&words).unwrap();
    let Command::Bench(args) = typed.command else { panic!() };
    let lowered = lower(&args.bench, &typed.order, &Environment::default()).unwrap();
    let plan = &lowered.points[0].plan;
    assert!((plan.load.request_rate.0 - 4.0).abs() < 1e-9, "rates add up");
    let [chat, batch] = &plan.classes[..] else { panic!("{:?}", plan.classes) };
    assert_eq!(
        (chat.priority, chat.goodput["ttft"], chat.workload.is_some()),
        (Some(0), 500.0, false)
    );
    let own = serde_json::to_value(&batch.workload).unwrap();
    assert_eq!((&own["input_len"], &own["dataset"]), (&2000.into(), &"random".into()));
}

#[test]
fn loads_that_contradict_themselves_say_what_to_write_instead() {
    let check = |line: &str, words: &[&str]| {
        let said = refused(line).unwrap_or_else(|| panic!("{line} is accepted"));
        assert!(words.iter().all(|word| said.contains(word)), "{line}: {said}");
    };
    check("--stages 5/s", &["no length", "`2m@5/s`"]);
    check("--stages 2m@-5/s", &["must not be negative"]);
    check("--stages 2m@0/s", &["have no request"]);
    for other in ["--request-rate 5", "-n 5", "--duration 5s", "--max-sessions 5"] {
        check(&format!("--stages 2m@5/s {other}"), &["`--stages` together with `--"]);
    }
    let ramp = "--ramp-up-strategy linear --ramp-up-start-rps 1 --ramp-up-end-rps 9";
    check(&format!("{ramp} --stages 2m@5/s"), &["`--stages` together with `--ramp-up-strategy`"]);
    check(
        &format!("{ramp} --request-rate 5"),
        &["`--ramp-up-strategy` together with `--request-rate`"],
    );
    check("--class=weight=1", &["no name; write `name=chat`"]);
    check("--class=name=a --lora-modules x", &["`--lora-modules` together with `--class`"]);
    let file = tempfile::NamedTempFile::new().unwrap();
    let plan = |classes: &str, words: &[&str]| {
        std::fs::write(file.path(), classes).unwrap();
        check(&format!("--plan {}", file.path().display()), words);
    };
    let class = |rest: &str| format!("[[classes]]\nname = \"a\"\n{rest}");
    plan(&class("weight = 0"), &["the weight 0 of the class `a`", "greater than zero"]);
    plan(&class("weight = -1"), &["the weight -1"]);
    plan(&class("rate = -2"), &["the rate -2"]);
    plan(&class("colour = 1"), &["unknown key `colour`"]);
    plan(&class("goodput = { itl = 5 }"), &["objective `itl`"]);
    plan(&class("").repeat(2), &["the name `a`"]);
    plan(&format!("{}[[classes]]\nname = \"b\"\nrate = 1\n", class("")), &["every class a `rate`"]);
    let rare =
        format!("{}[[classes]]\nname = \"b\"\nweight = 1e-9\n[load]\nnum_prompts = 20", class(""));
    plan(&rare, &["no request belongs to the class `b`: there are 20", "raise its weight"]);
}
