//! One change for each note that makes it appear.

use super::*;

/// Changes a good run so that the note of this code appears.
pub(super) fn spoil(scene: &mut Scene, code: &str) {
    match code {
        "no-success" => scene.summary.counts.succeeded = 0,
        "late-sends" => scene.observed.sends.late = 11,
        "rate-missed" => {
            scene.observed.last_send = Some(Nanos::from_secs(101));
            scene.effects.add("ttft_ms_p99", "rate-missed", 0.1);
        }
        "stalls" => {
            let stall = ThreadStall { begin: Nanos::from_secs(5), end: Nanos::from_secs(7) };
            scene.health.stalls = Some(vec![stall]);
        }
        "starved-client" => {
            scene.health.workers[0].run_queue_delay = Some(Nanos::from_secs(21));
        }
        "throttled-client" => scene.health.throttled = Some(Nanos::from_secs(2)),
        "lost-stamps" => scene.observed.user_stamped = 50,
        "canary-failed" => {
            let fault = CanaryFault { canary: 1, answer: "x".to_owned() };
            let faults = vec![fault];
            scene.summary.canaries = Some(Canaries { sent: 2, as_expected: 1, faults });
        }
        "slow-disk" => scene.health.disk_wait = Some(Nanos::from_secs(3)),
        "clock-step" => scene.health.clock_steps = 1,
        "clock-faults" => scene.observed.clock_faults = 2,
        "token-ids-disagree" => scene.observed.usage_and_events.right = 98_000,
        "server-counted-less" => scene.server().generation_tokens = Some(97_000.0),
        "other-clients" => scene.server().present_max = Some(30.0),
        "text-disagrees" => scene.observed.usage_and_text.right = 120_000,
        "prompt-length" => scene.observed.prompt_lengths.right = 1_020_000,
        "missing-usage" => scene.observed.uncounted = 11,
        "usage-contradicts-stream" => scene.observed.contradictions = 11,
        "impossible-numbers" => scene.observed.ignored = [("queue time", 3)].into(),
        "user-stamps" => {
            (scene.observed.user_stamped, scene.observed.kernel_stamped) = (1_000, 0);
        }
        "slow-reads" => scene.health.workers[0].kernel_to_user.add(Nanos::from_millis(50)),
        "shared-reads" => scene.set_figure("shared_read_share", 0.06),
        "merged-segments" => scene.set_figure("merged_inner_share", 0.06),
        "busy-client" => scene.health.workers[0].cpu_time = Some(Nanos::from_secs(95)),
        "stolen-time" => scene.health.stolen = Some(Nanos::from_secs(12)),
        "cpu-pressure" => scene.health.cpu_pressure = Some(Nanos::from_secs(50)),
        "cap-hits" => scene.health.cap_waits = 100,
        "slow-refill" => {
            scene.summary.load_class = LoadClass::Closed;
            scene.health.refill_delay.add(Nanos::from_millis(40));
        }
        "retransmits" => scene.observed.retransmitting = 20,
        "outside-server" => {
            let e2e = Distribution { count: 1_000, mean: Some(1_000.0), ..Distribution::default() };
            scene.summary.distributions.insert("e2e_ms".to_owned(), e2e);
            scene.server().e2e_ms_mean = Some(900.0);
            scene.effects.add("e2e_ms_mean", "outside-server", 0.1);
        }
        "round-trip-outliers" => scene.observed.round_trips[7].0 = Nanos::from_millis(90),
        "descriptor-limit" => scene.health.descriptor_limit = Some(21),
        "port-limit" => scene.health.connections_opened = 25_000,
        "warm-cache" => scene.observed.cached.right = 20_000,
        _ => spoil_load(scene, code),
    }
}

fn spoil_load(scene: &mut Scene, code: &str) {
    match code {
        "few-samples" => {
            let ttft = scene.summary.distributions.get_mut("ttft_ms").unwrap();
            ttft.percentiles[0].is_supported = false;
        }
        "no-steady-state" => scene.unsteady = Some(Unsteady::Sloping),
        "short-steady-state" => {
            let steady = Steady { mean_stays: Some(4.0), ..Steady::default() };
            scene.summary.steady = Some(steady);
        }
        "overloaded" => scene.overload = Some(GrowingBacklog { growth_per_s: 3.0, backlog: 200 }),
        "burst" => scene.summary.load_class = LoadClass::Burst,
        "failures" => scene.summary.counts.failed = 100,
        "few-failures" => scene.summary.counts.failed = 1,
        "partial-run" => scene.summary.ended = Ended::Early(Stop::Interrupted),
        "tokens-after-text" => {
            scene.observed.tails = Tails {
                answers: 10,
                after_text: Nanos::from_secs(2),
                until_text: Nanos::from_secs(100),
            };
        }
        "hidden-reasoning" => scene.set_figure("hidden_tokens", 50.0),
        "answer-length" => scene.observed.answer_lengths.right = 90_000,
        "ended-answers" => {
            scene.info.plan = serde_json::json!({ "request": { "ignore_eos": "asked" } });
            scene.observed.answer_lengths.right = 90_000;
        }
        "long-answers" => scene.observed.answer_lengths.right = 110_000,
        "one-core" => {
            scene.health.cores = Some(1);
            scene.health.is_same_host = Some(true);
        }
        "same-host" => scene.health.is_same_host = Some(true),
        "proxy" => scene.info.targets[0].proxy = Some("http://proxy:3128".into()),
        "simulated-target" => scene.info.targets[0].is_simulated = true,
        "dropped-fields" => scene.health.dropped_fields = vec!["stream_options".into()],
        "several-choices" => {
            // Each choice is a request inside the server, not another client's.
            scene.observed.several_choices = 5;
            scene.server().present_max = Some(40.0);
        }
        "open-bodies" => scene.observed.open_bodies = 5,
        "unstreamed-answers" => {
            (scene.observed.several_tokens, scene.observed.unstreamed) = (1_000, 501);
        }
        "client-limit" => {
            scene.summary.counts.failed = 3;
            scene.summary.failures = vec![FailureGroup {
                kind: FailureKind::Client,
                status: None,
                count: 3,
                example: "raise `ulimit -n`".to_owned(),
            }];
        }
        "compressed-stream" => scene.health.compressed_answers = 5,
        "reopened-connections" => scene.observed.reopened = 3,
        "retries" => scene.summary.counts.retries = 3,
        "preemptions" => scene.server().preemptions = Some(4.0),
        "missing-shards" => scene.info.sharding = Some(merged(3, Some(ClockFit::SAME))),
        "shard-starts" => scene.info.sharding = Some(apart(2)),
        "shard-clocks" => scene.info.sharding = Some(merged(2, None)),
        "preparation" => scene.info.remarks = vec!["the built-in tokenizer was used".into()],
        other => panic!("no test provokes the note `{other}`"),
    }
}
