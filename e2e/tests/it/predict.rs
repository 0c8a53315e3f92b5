//! Predictions: the usual reports without a server, and profiles made from what was measured.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::path::Path;

use tokometer_base::Nanos;
use tokometer_record::{EventKind, RunReader, Timeline};

use crate::program::{LONGEST, Server, command, ended, root, run};

#[test]
fn the_same_plan_and_seed_predict_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let line = "predict --engine vllm-405b --num-prompts 40 --random-input-len 80 --random-output-len 60 \
                --random-range-ratio 0.3 --request-rate 3 --explain";
    let once = run(folder.path(), line).succeeded().stdout;
    assert_eq!(once, run(folder.path(), line).succeeded().stdout);
    assert_ne!(once, run(folder.path(), &format!("{line} --seed 9")).succeeded().stdout);
    assert!(once.starts_with("======= Predicted Serving Benchmark Result ======="), "{once}");
    for part in ["from the engine profile `vllm-405b`", "90 % of seeds", "limited by"] {
        assert!(once.contains(part), "{part}: {once}");
    }
    let json = format!("{line} --format json");
    let value = run(folder.path(), &json).succeeded().json();
    assert_eq!(value["prediction"]["engine"], "vllm-405b");
    assert_eq!(value["prediction"]["seeds"], 20);
    assert_eq!(value["summary"]["counts"]["succeeded"], 40);
    assert_eq!(run(folder.path(), &json).succeeded().json(), value);
}

/// Sweeps, closed loops by time, fleets and data sheets all end in a table or a block.
#[test]
fn every_kind_of_load_can_be_predicted() {
    let folder = tempfile::tempdir().unwrap();
    let check = |flags: &str, parts: &[&str]| {
        let lengths = "--random-input-len 30 --random-output-len 10";
        let text = run(folder.path(), &format!("predict {lengths} {flags}")).succeeded().stdout;
        for part in parts {
            assert!(text.contains(part), "{flags}: {part}: {text}");
        }
    };
    check(
        "--engine default --num-prompts 2,4 --request-rate 5,inf",
        // The words of the field, as in the table of a measured sweep.
        &["PREDICTED, not measured\nrequest rate"],
    );
    check(
        "--engine default --duration 2s --max-concurrency 3",
        &["Maximum request concurrency:             3"],
    );
    check("--engine default --duration 4s --request-rate 5", &["Predicted Serving"]);
    check(
        "--engine default --num-prompts 30 --replicas 3 --router least-loaded",
        &["3 replicas behind least-loaded", "peak memory", "fleet"],
    );
    check("--engine sglang-rust --num-prompts 5 --layout s3", &["Predicted Serving"]);
    let mut roofline = command(folder.path(), "predict --num-prompts 5");
    roofline.args(["--roofline", "params=8e9 bytes=2 gpus=1 tflops=900 gbs=3350"]);
    let text = ended(&mut roofline).succeeded().stdout;
    assert!(text.contains("±50 %"), "{text}");
}

/// A saved prediction is a run like others, and says in every view that it is a prediction.
#[test]
fn a_saved_prediction_is_shown_again_and_calibrates_an_engine() {
    let folder = tempfile::tempdir().unwrap();
    let predict = |run_dir: &str, rate: u32| {
        let line = format!(
            "predict --engine default --num-prompts 120 --random-input-len 200 --random-output-len 40 \
             --random-range-ratio 0.5 --request-rate {rate} --run-dir {run_dir} --quiet"
        );
        run(folder.path(), &line).succeeded();
    };
    predict("slow", 2);
    predict("fast", 15);
    let shown = run(folder.path(), "report slow").succeeded().stdout;
    assert!(shown.contains("Predicted Serving Benchmark Result"), "{shown}");
    let found = run(folder.path(), "calibrate slow fast -o mine.toml --from default").succeeded();
    found.prints(&["cost.base_ms", "not measured on a server"]);
    let line =
        "predict --engine mine.toml --num-prompts 20 --random-input-len 200 --random-output-len 40";
    let again = run(folder.path(), line).succeeded().stdout;
    assert!(again.contains("from the engine profile `mine`"), "{again}");
    // The warning was on stderr alone.
    let longer = line.replace("--random-input-len 200", "--random-input-len 900");
    let longer = run(folder.path(), &longer).succeeded().stdout;
    assert!(longer.starts_with("OUTSIDE the fitted range: prompts of up to 900 "), "{longer}");
}

/// A sweep's blocks are a table like any other tool's, and a short search suffices to see the path.
#[test]
fn a_table_calibrates_an_engine_and_says_what_it_does_not_determine() {
    let folder = tempfile::tempdir().unwrap();
    let line = "predict --engine default --num-prompts 1,2,4,8,16 --random-input-len 40 \
                --random-output-len 12 --random-range-ratio 0.3 --layout v4";
    let table = run(folder.path(), line).succeeded().stdout;
    std::fs::write(folder.path().join("table.txt"), table).unwrap();
    let line = "calibrate table.txt -o mine.toml --name shop --searches 1 --from default";
    let found = run(folder.path(), line).succeeded();
    for part in ["cost.base_ms", "held-out error, two folds", "error on the rows of the fit"] {
        assert!(found.stdout.contains(part), "{part}: {}", found.stdout);
    }
    assert_eq!(found.stdout, run(folder.path(), line).succeeded().stdout);
    let profile = std::fs::read_to_string(folder.path().join("mine.toml")).unwrap();
    assert!(profile.contains("name = \"shop\"") && profile.contains("[evidence]"), "{profile}");
    let line =
        "predict --engine mine.toml --num-prompts 8 --random-input-len 40 --random-output-len 12";
    let text = run(folder.path(), line).succeeded().stdout;
    assert!(text.contains("validated         chunked-prefill, burst"), "{text}");
}

#[test]
fn what_cannot_be_predicted_or_calibrated_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let profile = std::fs::read_to_string(root().join("crates/sim/profiles/default.toml")).unwrap();
    write("negative.toml", &profile.replace("base_ms = ", "base_ms = -"));
    write("missing.toml", &profile.replace("max_seqs = 256\n", ""));
    write("small.toml", &profile.replace("tokens = 524288", "tokens = 512"));
    let seeds = root().join("fixtures/seeds");
    let table = std::fs::read_to_string(seeds.join("002_902df92d1b3a4732.txt")).unwrap();
    let end = table.match_indices("==================================================").nth(1);
    let one_row = &table[..end.map_or(table.len(), |(at, rule)| at + rule.len())];
    write("one-row.txt", &format!("{one_row}\n"));
    write("words.txt", "nothing here");
    let check = |line: &str, part: &str| {
        let ended = run(folder.path(), line);
        ended.says(2, &[part]);
    };
    let short = "--num-prompts 3 --random-input-len 10 --random-output-len 5";
    check(&format!("predict {short}"), "--engine");
    check(&format!("predict --engine vllm-406b {short}"), "unknown engine profile `vllm-406b`");
    check(&format!("predict --engine negative.toml {short}"), "`cost.base_ms = -9.5`");
    check(&format!("predict --engine missing.toml {short}"), "missing field `max_seqs`");
    check("predict --engine small.toml --num-prompts 3 --random-input-len 900", "can never run");
    check(&format!("predict --engine default --replicas 0 {short}"), "without replicas");
    check("predict --engine default --duration 5s", "the number of requests is unlimited");
    check("calibrate one-row.txt -o mine.toml", "at least 4 are needed");
    let grid = "completed,duration_s,total_input_tokens,total_output_tokens\n".to_owned()
        + &"40,31.1,40960,5120\n".repeat(6);
    write("grid.csv", &grid);
    check("calibrate grid.csv -o mine.toml", "it has none of the figures that a fit uses");
    check("calibrate grid.csv -o mine.toml", "at least 4 are needed");
    check("calibrate words.txt -o mine.toml", "cannot find a report in");
    check("calibrate nowhere -o mine.toml", "cannot read");
    let mixed =
        format!("calibrate {} -o mine.toml", seeds.join("004_8163290e84c3957c.txt").display());
    check(&mixed, "cannot calibrate");
    let line =
        "predict --engine default --num-prompts 1 --random-output-len 2 --run-dir brief --quiet";
    run(folder.path(), line).succeeded();
    check("calibrate brief -o mine.toml", "record a longer run");
    assert!(!folder.path().join("mine.toml").exists());
}

/// The same load on the same engine with fewer sequences: what the change was stands in every view.
#[test]
fn a_number_of_the_profile_can_be_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let load = "--engine default --num-prompts 64 --random-input-len 64 --random-output-len 16";
    let as_is = run(folder.path(), &format!("predict {load}")).succeeded().stdout;
    let line =
        format!("predict {load} --set scheduler.max_seqs=4 --set cost.scale=2 --run-dir changed");
    let changed = run(folder.path(), &line).succeeded().stdout;
    let label = "Output token throughput (tok/s):";
    assert!(printed(&changed, label) < 0.5 * printed(&as_is, label), "{as_is}\n{changed}");
    let said = "what-if           scheduler.max_seqs 256 → 4; cost.scale 1.0 → 2.0";
    assert!(changed.contains(said), "{changed}");
    assert!(!as_is.contains("what-if"), "{as_is}");
    let json = run(folder.path(), &format!("{line} --format json --overwrite")).succeeded().json();
    assert_eq!(json["prediction"]["what_if"][0]["before"], 256);
    assert_eq!(json["run"]["remarks"][0], "what-if: scheduler.max_seqs 256 → 4");
    let check = |line: &str, part: &str| {
        let ended = run(folder.path(), line);
        ended.says(2, &[part]);
    };
    check(&format!("predict {load} --set scheduler.max_seq=4"), "similar: scheduler.max_seqs");
    check(&format!("predict {load} --set cost.base_ms=-1"), "`cost.base_ms = -1`");
    check("sim --port 0 --set cost.base_ms=slow", "`cost.base_ms` must be a number");
}

#[test]
fn a_simulated_server_takes_other_numbers_too() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(&["--set", "max_model_len=64", "--set", "cost.scale=0.1"]);
    let bench = |input: u32| {
        let line = format!(
            "bench --base-url {} --num-prompts 2 --num-warmups 0 --random-input-len {input} \
             --random-output-len 2 --no-scrape",
            server.url
        );
        run(folder.path(), &line)
    };
    assert_eq!(bench(32).code, Some(0));
    let ended = bench(100);
    assert_eq!(ended.code, Some(7), "{ended:?}");
}

/// One engine in real time behind HTTP and in virtual time. Real time is only worth comparing while the
/// simulator keeps to its own schedule: above these latenesses a comparison is void. A machine that was too
/// late, or a client that was, gets a slower engine, for which the same lateness weighs less. What time does
/// not change must agree in every attempt, and no machine may be ahead of the prediction.
#[test]
fn the_simulator_and_the_prediction_of_one_profile_agree() {
    agree(&[], 1.0);
}

/// With cancelled requests they are further apart than the 1 % that other loads keep: mean TTFT was 4.5 % higher and
/// mean TPOT 1.8 % lower in real time, at any speed of the engine.
#[test]
fn the_simulator_and_the_prediction_agree_roughly_on_a_load_with_cancelled_requests() {
    agree(&["--cancel", "30% after 12 tokens"], 6.0);
}

/// Within so many times what is tolerated of a load without cancellations.
fn agree(cancel: &[&str], times: f64) {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(root().join("crates/sim/profiles/default.toml")).unwrap();
    let text = text.replace("jitter = 0.02", "jitter = 0.0");
    let text = text.replace("[front_end]", "[front_end]\ncoalesce = 0.05");
    let mut apart = Vec::new();
    for factor in [1, 2, 4, 8] {
        std::fs::write(folder.path().join("even.toml"), slowed(&text, factor)).unwrap();
        let name = format!("real-{factor}");
        let Some(found) = differences(folder.path(), &name, cancel, times) else { continue };
        if found.is_empty() {
            return;
        }
        apart.push(found);
    }
    assert!(apart.is_empty(), "real and virtual time differ in each attempt: {apart:#?}");
}

/// Requests that are alone meet the same steps in real and in virtual time, whatever else the machine does: a
/// late step makes a token later. So no token of any request may be earlier than predicted.
#[test]
fn no_token_of_the_simulator_is_earlier_than_predicted() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(root().join("crates/sim/profiles/default.toml")).unwrap();
    let text = text.replace("jitter = 0.02", "jitter = 0.0");
    std::fs::write(folder.path().join("even.toml"), text).unwrap();
    let profile = folder.path().join("even.toml");
    let server = Server::new(&["--profile", profile.to_str().unwrap(), "--seed", "5"]);
    let line = format!(
        "bench --base-url {} --num-prompts 6 --max-concurrency 1 --random-input-len 400 \
         --random-output-len 12 --random-range-ratio 0.5 --ignore-eos --num-warmups 0 --seed 5 --run-dir real --quiet",
        server.url
    );
    run(folder.path(), &line).succeeded();
    let line = "predict --engine even.toml --plan real/plan.json --run-dir predicted --quiet";
    run(folder.path(), line).succeeded();
    let (real, predicted) =
        (token_times(&folder.path().join("real")), token_times(&folder.path().join("predicted")));
    assert_eq!(real.keys().collect::<Vec<_>>(), predicted.keys().collect::<Vec<_>>());
    for (index, real) in &real {
        let predicted = &predicted[index];
        assert_eq!(real.len(), predicted.len(), "request {index}");
        for (at, (real, predicted)) in real.iter().zip(predicted).enumerate() {
            // The clocks of record and prediction have nothing in common but their unit.
            let least = predicted.as_secs_f64() * 0.995;
            assert!(
                real.as_secs_f64() >= least,
                "token {at} of request {index} after {real}, predicted {predicted}"
            );
        }
    }
}

/// When each token of each request arrived, from the time that the request was sent.
fn token_times(run: &Path) -> BTreeMap<u64, Vec<Nanos>> {
    let times = |row: Timeline| {
        let sent = row.times.first_byte_sent.unwrap_or(row.times.admitted);
        let text = row.events.iter().filter(|event| event.kind == EventKind::Text);
        (row.identity.index, text.map(|event| event.at - sent).collect())
    };
    RunReader::open(run).unwrap().timelines().unwrap().map(times).collect()
}

/// A profile whose every span of time is `factor` times as long.
fn slowed(profile: &str, factor: u32) -> String {
    let line = |line: &str| match line.split_once("_ms = ") {
        Some((key, span)) => {
            let span: f64 = span.parse().unwrap();
            format!("{key}_ms = {:?}\n", span * f64::from(factor))
        }
        None => format!("{line}\n"),
    };
    profile.lines().map(line).collect()
}

/// What differs between a run against the simulator and its prediction. `None` where the machine was too
/// late to tell. Prompts are long, so that the half millisecond which an unoptimised client takes to send a
/// wave, and the twin does not, is no part of the comparison.
fn differences(folder: &Path, name: &str, cancel: &[&str], times: f64) -> Option<Vec<String>> {
    let profile = folder.join("even.toml");
    let server = Server::new(&["--profile", profile.to_str().unwrap(), "--seed", "5"]);
    let line = format!(
        "bench --base-url {} --num-prompts 48 --max-concurrency 8 --random-input-len 1500 \
         --random-output-len 40 --ignore-eos --num-warmups 0 --seed 5 --run-dir {name}",
        server.url
    );
    let real = ended(command(folder, &line).args(cancel)).stdout;
    let (mean, max) = lateness(&server);
    let line = format!("predict --engine even.toml --plan {name}/plan.json");
    let predicted = run(folder, &line).succeeded().stdout;
    for label in ["Successful requests:", "Total input tokens:", "Total generated tokens:"] {
        assert_eq!(
            printed(&real, label).to_bits(),
            printed(&predicted, label).to_bits(),
            "{label}"
        );
    }
    // A late machine takes longer for the same work, never less.
    let label = "Output token throughput (tok/s):";
    let (reached, most) = (printed(&real, label), printed(&predicted, label));
    assert!(
        reached <= (1.0 + 0.01 * times) * most,
        "{label} {reached} in real time, {most} in virtual time"
    );
    // The rule of docs/simulator.md.
    let is_void = mean > 0.01 * printed(&predicted, "Mean ITL (ms):")
        || max > 0.03 * printed(&predicted, "P99 TTFT (ms):");
    if is_void || real.contains("verdict: INVALID") {
        return None;
    }
    // Which tokens wait for the next one is drawn apart, and they make the longest gaps.
    let labels = [
        ("Output token throughput (tok/s):", 0.01),
        ("Mean TTFT (ms):", 0.01),
        ("Mean TPOT (ms):", 0.01),
        ("Mean ITL (ms):", 0.01),
        ("P99 TTFT (ms):", 0.03),
        ("P99 TPOT (ms):", 0.03),
    ];
    let differs = |(label, tolerated): &(&str, f64)| {
        let (real, predicted) = (printed(&real, label), printed(&predicted, label));
        let told = format!(
            "{label} {real} in real time, {predicted} in virtual time; late by {mean} ms, at most {max} ms"
        );
        ((real / predicted - 1.0).abs() > times * tolerated).then_some(told)
    };
    Some(labels.iter().filter_map(differs).collect())
}

fn printed(block: &str, label: &str) -> f64 {
    let line = block.lines().find(|line| line.starts_with(label)).unwrap_or(block);
    line[label.len()..].trim().parse().unwrap()
}

/// How late the simulator's steps were, on average and at most, in milliseconds.
fn lateness(server: &Server) -> (f64, f64) {
    let authority = server.url.trim_start_matches("http://");
    let mut stream = std::net::TcpStream::connect(authority).unwrap();
    stream.set_read_timeout(Some(LONGEST)).unwrap();
    let request =
        format!("GET /server_info HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let body = answer.split("\r\n\r\n").nth(1).unwrap_or_default();
    let body = &body[body.find('{').unwrap()..=body.rfind('}').unwrap()];
    let info: serde_json::Value = serde_json::from_str(body).unwrap();
    let of = |key: &str| info[key].as_f64().unwrap();
    (of("lateness_ms_mean"), of("lateness_ms_max"))
}
