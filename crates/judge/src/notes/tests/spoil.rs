//! One change for each note that makes it appear.

use super::*;

/// Changes a good run so that the note of this code appears.
pub(super) fn spoil(scene: &mut Scene, code: NoteCode) {
    match code {
        NoteCode::NoSuccess => scene.summary.counts.succeeded = 0,
        NoteCode::LateSends => scene.observed.sends.late = 11,
        NoteCode::RateMissed => {
            scene.observed.last_send = Some(Nanos::from_secs(101));
            scene.effects.add("ttft_ms_p99", NoteCode::RateMissed, 0.1);
        }
        NoteCode::Stalls => {
            let stall = ThreadStall { begin: Nanos::from_secs(5), end: Nanos::from_secs(7) };
            scene.health.stalls = Some(vec![stall]);
        }
        NoteCode::StarvedClient => {
            scene.health.workers[0].run_queue_delay = Some(Nanos::from_secs(21));
        }
        NoteCode::ThrottledClient => scene.health.throttled = Some(Nanos::from_secs(2)),
        NoteCode::LostStamps => scene.observed.user_stamped = 50,
        NoteCode::CanaryFailed => {
            let fault = CanaryFault { canary: 1, answer: "x".to_owned() };
            let faults = vec![fault];
            scene.summary.canaries = Some(Canaries { sent: 2, as_expected: 1, faults });
        }
        NoteCode::SlowDisk => scene.health.disk_wait = Some(Nanos::from_secs(3)),
        NoteCode::ClockStep => scene.health.clock_steps = 1,
        NoteCode::ClockFaults => scene.observed.clock_faults = 2,
        NoteCode::TokenIdsDisagree => scene.observed.usage_and_events.right = 98_000,
        NoteCode::ServerCountedLess => scene.server().generation_tokens = Some(97_000.0),
        NoteCode::OtherClients => scene.server().present_max = Some(30.0),
        NoteCode::TextDisagrees => scene.observed.usage_and_text.right = 120_000,
        NoteCode::PromptLength => scene.observed.prompt_lengths.right = 1_020_000,
        NoteCode::MissingUsage => scene.observed.uncounted = 11,
        NoteCode::UsageContradictsStream => scene.observed.contradictions = 11,
        NoteCode::ImpossibleNumbers => scene.observed.ignored = [("queue time", 3)].into(),
        NoteCode::UserStamps => {
            (scene.observed.user_stamped, scene.observed.kernel_stamped) = (1_000, 0);
        }
        NoteCode::SlowReads => scene.health.workers[0].kernel_to_user.add(Nanos::from_millis(50)),
        NoteCode::SharedReads => scene.set_figure("shared_read_share", 0.06),
        NoteCode::MergedSegments => scene.set_figure("merged_inner_share", 0.06),
        NoteCode::BusyClient => scene.health.workers[0].cpu_time = Some(Nanos::from_secs(95)),
        NoteCode::StolenTime => scene.health.stolen = Some(Nanos::from_secs(12)),
        NoteCode::CpuPressure => scene.health.cpu_pressure = Some(Nanos::from_secs(50)),
        NoteCode::CapHits => scene.health.cap_waits = 100,
        NoteCode::SlowRefill => {
            scene.summary.load_class = LoadClass::Closed;
            scene.health.refill_delay.add(Nanos::from_millis(40));
        }
        NoteCode::Retransmits => scene.observed.retransmitting = 20,
        NoteCode::OutsideServer => {
            let e2e = Distribution { count: 1_000, mean: Some(1_000.0), ..Distribution::default() };
            scene.summary.distributions.insert("e2e_ms".to_owned(), e2e);
            scene.server().e2e_ms_mean = Some(900.0);
            scene.effects.add("e2e_ms_mean", NoteCode::OutsideServer, 0.1);
        }
        NoteCode::RoundTripOutliers => scene.observed.round_trips[7].0 = Nanos::from_millis(90),
        NoteCode::DescriptorLimit => scene.health.descriptor_limit = Some(21),
        NoteCode::PortLimit => scene.health.connections_opened = 25_000,
        NoteCode::WarmCache => scene.observed.cached.right = 20_000,
        _ => spoil_load(scene, code),
    }
}

#[expect(clippy::too_many_lines, reason = "an arm per note")]
fn spoil_load(scene: &mut Scene, code: NoteCode) {
    match code {
        NoteCode::FewSamples => {
            let ttft = scene.summary.distributions.get_mut("ttft_ms").unwrap();
            ttft.percentiles[0].is_supported = false;
        }
        NoteCode::NoSteadyState => scene.unsteady = Some(Unsteady::Sloping),
        NoteCode::ShortSteadyState => {
            let steady = Steady { mean_stays: Some(4.0), ..Steady::default() };
            scene.summary.steady = Some(steady);
        }
        NoteCode::Overloaded => {
            scene.overload = Some(GrowingBacklog { growth_per_s: 3.0, backlog: 200 });
        }
        NoteCode::Burst => scene.summary.load_class = LoadClass::Burst,
        NoteCode::Failures => scene.summary.counts.failed = 100,
        NoteCode::FewFailures => scene.summary.counts.failed = 1,
        NoteCode::PartialRun => scene.summary.ended = Ended::Early(Stop::Interrupted),
        NoteCode::TokensAfterText => {
            scene.observed.tails = Tails {
                answers: 10,
                after_text: Nanos::from_secs(2),
                until_text: Nanos::from_secs(100),
            };
        }
        NoteCode::TokensOutsideTpot => {
            scene.observed.tpot = TpotSums { defined: 8e9, likely: 10e9, answers: 1_000 };
        }
        NoteCode::HiddenReasoning => scene.set_figure("hidden_tokens", 50.0),
        NoteCode::AnswerLength => scene.observed.answer_lengths.right = 90_000,
        NoteCode::EndedAnswers => {
            scene.info.plan = serde_json::json!({ "request": { "ignore_eos": "asked" } });
            scene.observed.answer_lengths.right = 90_000;
        }
        NoteCode::LongAnswers => scene.observed.answer_lengths.right = 110_000,
        NoteCode::HistoryDrift => {
            scene.observed.live_turns = 5;
            scene.observed.session_answers = Pair { requests: 5, left: 500, right: 300 };
        }
        NoteCode::ContextOverflow => scene.health.overflows = 3,
        NoteCode::OneCore => {
            scene.health.cores = Some(1);
            scene.health.is_same_host = Some(true);
        }
        NoteCode::SameHost => scene.health.is_same_host = Some(true),
        NoteCode::Proxy => scene.info.targets[0].proxy = Some("http://proxy:3128".into()),
        NoteCode::SimulatedTarget => scene.info.targets[0].is_simulated = true,
        NoteCode::DroppedFields => scene.health.dropped_fields = vec!["stream_options".into()],
        NoteCode::SeveralChoices => {
            // Each choice is a request inside the server, not another client's.
            scene.observed.several_choices = 5;
            scene.server().present_max = Some(40.0);
        }
        NoteCode::OpenBodies => scene.observed.open_bodies = 5,
        NoteCode::UnstreamedAnswers => {
            (scene.observed.several_tokens, scene.observed.unstreamed) = (1_000, 501);
        }
        NoteCode::ClientLimit => {
            scene.summary.counts.failed = 3;
            scene.summary.failures = vec![FailureGroup {
                kind: FailureKind::Client,
                status: None,
                count: 3,
                example: "raise `ulimit -n`".to_owned(),
            }];
        }
        NoteCode::CompressedStream => scene.health.compressed_answers = 5,
        NoteCode::ReopenedConnections => scene.observed.reopened = 3,
        NoteCode::Retries => scene.summary.counts.retries = 3,
        NoteCode::Preemptions => scene.server().preemptions = Some(4.0),
        NoteCode::MissingShards => scene.info.sharding = Some(merged(3, Some(ClockFit::SAME))),
        NoteCode::ShardStarts => scene.info.sharding = Some(apart(2)),
        NoteCode::ShardClocks => scene.info.sharding = Some(merged(2, None)),
        NoteCode::Preparation => {
            scene.info.remarks = vec!["the built-in tokenizer was used".into()];
        }
        other => panic!("no test provokes the note `{other}`"),
    }
}
