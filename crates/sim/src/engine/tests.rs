//! The engine in virtual time: steps worked out by hand, and properties of any run.

use std::collections::HashMap;

use base::{Nanos, Seed};
use proptest::prelude::*;
use tokometer_base as base;

use super::{Engine, Job, JobRefusal, StepKind};
use crate::profile::{Kv, Policy, PrefixCache, Profile, SpeculativeDecoding};

const STEPS: usize = 100_000;

/// A profile whose steps take 10 ms plus 1 ms per token, exactly.
fn profile(policy: &str, kv: Option<(u64, u32, PrefixCache)>) -> Profile {
    let text = format!(
        "name = 'test'\nprovenance = ''\nmax_model_len = 4096\n\
         [scheduler]\nmax_seqs = 8\npolicy = {{ {policy} }}\n\
         [cost]\nbase_ms = 10.0\ntoken_ms = 1.0\nprefill = {{ base_ms = 20.0, token_ms = 1.0 }}\n"
    );
    let mut profile = Profile::parse("test", &text).unwrap();
    if matches!(profile.scheduler.policy, Policy::Chunked { .. }) {
        profile.cost.prefill = None;
    }
    profile.kv =
        kv.map(|(tokens, block_tokens, prefix_cache)| Kv { tokens, block_tokens, prefix_cache });
    profile
}

fn job(id: u64, prompt_tokens: u32, output_tokens: u32) -> Job {
    Job { id, prompt_tokens, output_tokens, output_limit: output_tokens, ..Job::default() }
}

/// Runs to the end; one line per step: when it ends, what it does, who gets a token (`!` the last).
fn history(engine: &mut Engine, mut now: Nanos) -> Vec<String> {
    let mut lines = Vec::new();
    for _ in 0..STEPS {
        let step = engine.step(now);
        engine.audit();
        if step.until == Nanos::MAX {
            return lines;
        }
        let tokens: Vec<String> = engine
            .produced()
            .iter()
            .map(|one| {
                format!("{}#{}{}", one.id, one.generated, if one.is_last { "!" } else { "" })
            })
            .collect();
        let end = step.until.as_millis_f64();
        lines.push(format!("{end} {:?} {}", step.kind, tokens.join(" ")).trim_end().to_owned());
        assert!(step.until > now, "time stands still");
        now = step.until;
    }
    panic!("the engine does not come to an end: {lines:?}");
}

#[test]
fn a_long_prompt_is_cut_into_pieces_beside_the_decodes() {
    let mut engine = Engine::new(profile("kind = 'chunked', token_budget = 10", None), Seed(1));
    engine.submit(Nanos::ZERO, job(1, 8, 3)).unwrap();
    engine.submit(Nanos::ZERO, job(2, 12, 2)).unwrap();
    // 8 + 2 tokens; then 1 + 9; then 1 + the last 1; then the second request alone.
    let expected = ["20 Prefill 1#1", "40 Mixed 1#2", "52 Mixed 1#3! 2#1", "63 Decode 2#2!"];
    assert_eq!(history(&mut engine, Nanos::ZERO), expected);
    assert_eq!(engine.counters().prompt_tokens, 20);
    assert_eq!(engine.counters().computed_prompt_tokens, 20);
}

#[test]
fn when_memory_runs_out_the_newest_request_is_put_back_and_computed_again() {
    // Four blocks of four tokens: the first request needs all of them for its 6 + 7 tokens.
    let kv = Some((16, 4, PrefixCache::Off));
    let mut engine = Engine::new(profile("kind = 'chunked', token_budget = 100", kv), Seed(1));
    engine.submit(Nanos::ZERO, job(1, 6, 8)).unwrap();
    engine.submit(Nanos::ZERO, job(2, 6, 4)).unwrap();
    let expected = [
        "22 Prefill 1#1 2#1",
        "34 Decode 1#2 2#2",
        "46 Decode 1#3 2#3",
        // The ninth token needs a third block: request 2 loses its two.
        "57 Decode 1#4",
        "68 Decode 1#5",
        "79 Decode 1#6",
        "90 Decode 1#7",
        "101 Decode 1#8!",
        // Its prompt of 6 and its answer of 3 are prefilled again.
        "120 Prefill 2#4!",
    ];
    assert_eq!(history(&mut engine, Nanos::ZERO), expected);
    assert_eq!(engine.counters().preemptions, 1);
    assert_eq!(engine.counters().computed_prompt_tokens, 21);
    assert_eq!(engine.counters().prompt_tokens, 12);
}

#[test]
fn a_blocking_prefill_stops_the_decodes() {
    let mut engine = Engine::new(profile("kind = 'blocking', prefill_budget = 10", None), Seed(1));
    engine.submit(Nanos::ZERO, job(1, 6, 3)).unwrap();
    engine.submit(Nanos::ZERO, job(2, 6, 2)).unwrap();
    // Both prompts exceed the budget of ten together, so each has a step of its own.
    let expected = ["26 Prefill 1#1", "52 Prefill 2#1", "64 Decode 1#2 2#2!", "75 Decode 1#3!"];
    assert_eq!(history(&mut engine, Nanos::ZERO), expected);
}

#[test]
fn the_router_waits_for_a_batch_worth_stopping_for() {
    let policy = "kind = 'tgi', max_batch_prefill_tokens = 100, max_batch_total_tokens = 100, \
                  waiting_served_ratio = 1.5, max_waiting_tokens = 3";
    let mut engine = Engine::new(profile(policy, None), Seed(1));
    engine.submit(Nanos::ZERO, job(1, 5, 6)).unwrap();
    assert_eq!(engine.step(Nanos::ZERO).kind, StepKind::Prefill);
    // One waiting request is less than 1.5 × the one running; after three steps it may come anyway.
    engine.submit(Nanos(1), job(2, 5, 2)).unwrap();
    let expected = [
        "36 Decode 1#2",
        "47 Decode 1#3",
        "72 Prefill 2#1",
        "84 Decode 1#4 2#2!",
        "95 Decode 1#5",
        "106 Decode 1#6!",
    ];
    assert_eq!(history(&mut engine, Nanos::from_millis(25)), expected);
    // What is reserved counts, not what is used: 60 + 60 is more than 100.
    for id in [3, 4] {
        let reserved = Job { output_limit: 55, ..job(id, 5, 2) };
        engine.submit(Nanos::ZERO, reserved).unwrap();
    }
    let expected = ["25 Prefill 3#1", "36 Decode 3#2!", "61 Prefill 4#1", "72 Decode 4#2!"];
    assert_eq!(history(&mut engine, Nanos::ZERO), expected);
}

#[test]
fn a_known_prefix_is_not_computed_again_but_is_still_context() {
    let kv = Some((64, 4, PrefixCache::Lru));
    let mut engine = Engine::new(profile("kind = 'chunked', token_budget = 100", kv), Seed(1));
    let with_hashes = |id| Job { block_hashes: Box::new([11, 12, 13]), ..job(id, 12, 1) };
    engine.submit(Nanos::ZERO, with_hashes(1)).unwrap();
    assert_eq!(history(&mut engine, Nanos::ZERO), ["22 Prefill 1#1!"]);
    engine.submit(Nanos::ZERO, with_hashes(2)).unwrap();
    let step = engine.step(Nanos::ZERO);
    // The last token must be computed, so the third block is not taken from the cache.
    assert_eq!((step.batch.prefill_tokens, step.batch.longest_context), (4, 12));
    assert_eq!(engine.counters().prefix_hits, 8);
    let _end = engine.step(step.until);
    assert_eq!(engine.reset_prefix_cache(), 3);
}

#[test]
fn urgent_requests_go_first_only_where_the_profile_says_so() {
    let order_of = |order: &str| {
        let mut profile = profile("kind = 'chunked', token_budget = 10", None);
        profile.scheduler.max_seqs = 1;
        profile.scheduler.order = toml::Value::from(order).try_into().unwrap();
        let mut engine = Engine::new(profile, Seed(1));
        for (id, priority) in [(1, 5), (2, 0), (3, -1)] {
            engine.submit(Nanos::ZERO, Job { priority, ..job(id, 2, 1) }).unwrap();
        }
        history(&mut engine, Nanos::ZERO).join(", ")
    };
    assert_eq!(order_of("fcfs"), "12 Prefill 1#1!, 24 Prefill 2#1!, 36 Prefill 3#1!");
    assert_eq!(order_of("priority"), "12 Prefill 3#1!, 24 Prefill 2#1!, 36 Prefill 1#1!");
}

#[test]
fn an_idle_engine_gathers_before_its_first_step() {
    let mut profile = profile("kind = 'chunked', token_budget = 10", None);
    profile.front_end.gather_ms = 5.0;
    let mut engine = Engine::new(profile, Seed(1));
    engine.submit(Nanos::from_millis(1), job(1, 2, 1)).unwrap();
    assert_eq!(history(&mut engine, Nanos::from_millis(1)), ["6 Idle", "18 Prefill 1#1!"]);
}

#[test]
fn what_can_never_run_is_refused_with_the_limit() {
    let kv = Some((16, 4, PrefixCache::Off));
    let mut engine = Engine::new(profile("kind = 'chunked', token_budget = 10", kv), Seed(1));
    assert_eq!(engine.submit(Nanos::ZERO, job(1, 10, 7)), Ok(()));
    let refusal = engine.submit(Nanos::ZERO, job(2, 10, 8)).unwrap_err();
    insta::assert_snapshot!(refusal, @"the request can never run: 10 prompt and 8 answer tokens do not fit into a KV cache of 16 tokens");
    assert_eq!(engine.submit(Nanos::ZERO, job(1, 1, 1)), Err(JobRefusal::DuplicateId(1)));
}

#[test]
fn a_cancelled_request_gives_back_its_memory_wherever_it_is() {
    let kv = Some((64, 4, PrefixCache::Off));
    let mut engine = Engine::new(profile("kind = 'chunked', token_budget = 6", kv), Seed(1));
    for id in 1..=4 {
        engine.submit(Nanos::ZERO, job(id, 6, 1)).unwrap();
    }
    let step = engine.step(Nanos::ZERO);
    // Finished but not settled, and still waiting.
    assert!(engine.cancel(1) && engine.cancel(3) && !engine.cancel(9));
    engine.audit();
    assert_eq!(history(&mut engine, step.until), ["32 Prefill 2#1!", "48 Prefill 4#1!"]);
    assert_eq!(engine.load().kv_share, Some(0.0));
}

fn any_policy() -> impl Strategy<Value = String> {
    prop_oneof![
        (1_u32..40).prop_map(|budget| format!("kind = 'chunked', token_budget = {budget}")),
        (1_u32..60).prop_map(|budget| format!("kind = 'blocking', prefill_budget = {budget}")),
        (1_u32..60, 0_u32..5).prop_map(|(prefill, wait)| format!(
            "kind = 'tgi', max_batch_prefill_tokens = {prefill}, max_batch_total_tokens = 200, \
             waiting_served_ratio = 0.7, max_waiting_tokens = {wait}"
        )),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_request_gets_exactly_its_tokens_and_time_always_advances(
        policy in any_policy(),
        blocks in 12_u64..30,
        caching in any::<bool>(),
        jobs in prop::collection::vec((1_u32..30, 1_u32..20, 0_u64..4, 0_u64..80, -2_i32..3), 1..25),
        cancelled in prop::collection::vec(0_usize..25, 0..4),
    ) {
        let cache = if caching { PrefixCache::Lru } else { PrefixCache::Off };
        let mut engine = Engine::new(profile(&policy, Some((blocks * 4, 4, cache))), Seed(3));
        let mut got: HashMap<u64, u32> = HashMap::new();
        let mut now = Nanos::ZERO;
        let mut next = 0;
        for turn in 0_usize.. {
            prop_assert!(turn < 20_000, "no end in sight");
            while let Some((prompt, output, family, at, priority)) = jobs.get(next).copied() {
                if Nanos::from_millis(at) > now && !engine.produced().is_empty() {
                    break;
                }
                let block_hashes = (0..u64::from(prompt + output) / 4).map(|b| family * 100 + b).collect();
                let id = next as u64;
                let job = Job { block_hashes, priority, ..job(id, prompt, output) };
                engine.submit(now, job).unwrap();
                if cancelled.contains(&next) {
                    prop_assert!(engine.cancel(id));
                }
                next += 1;
            }
            let step = engine.step(now);
            engine.audit();
            for one in engine.produced() {
                let count = got.entry(one.id).or_default();
                *count += one.tokens;
                prop_assert_eq!(*count, one.generated);
                prop_assert_eq!(one.is_last, *count == jobs[usize::try_from(one.id).unwrap()].1);
            }
            if step.until == Nanos::MAX {
                if next == jobs.len() { break }
                now += Nanos::from_millis(1);
                continue;
            }
            prop_assert!(step.until > now);
            now = step.until;
        }
        for (id, (_, output, ..)) in jobs.iter().enumerate() {
            let expected = if cancelled.contains(&id) { 0 } else { *output };
            prop_assert_eq!(got.get(&(id as u64)).copied().unwrap_or(0), expected);
        }
        prop_assert_eq!(engine.load().kv_share, Some(0.0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Reporting only ends and reporting every token give the same steps.
    #[test]
    fn reporting_only_ends_changes_no_step(
        policy in any_policy(),
        blocks in 12_u64..60,
        jobs in prop::collection::vec((1_u32..30, 1_u32..20, 0_u64..4, any::<bool>()), 1..25),
    ) {
        let profile = profile(&policy, Some((blocks * 4, 4, PrefixCache::Off)));
        let mut full = Engine::new(profile.clone(), Seed(3));
        let mut short = Engine::new(profile, Seed(3)).report_ends_only();
        for (id, (prompt, output, family, has_answer_hashes)) in (0_u64..).zip(jobs) {
            let hashed = if has_answer_hashes { prompt + output } else { prompt };
            let block_hashes = (0..u64::from(hashed) / 4).map(|b| family * 100 + b).collect();
            let job = Job { block_hashes, ..job(id, prompt, output) };
            full.submit(Nanos::ZERO, job.clone()).unwrap();
            short.submit(Nanos::ZERO, job).unwrap();
        }
        let mut now = Nanos::ZERO;
        let mut steps = 0;
        while now < Nanos::MAX {
            steps += 1;
            prop_assert!(steps < STEPS, "the engines do not come to an end");
            let (one, other) = (full.step(now), short.step(now));
            prop_assert_eq!(one, other);
            prop_assert_eq!(full.counters(), short.counters());
            prop_assert_eq!(full.load(), short.load());
            let ends = |engine: &Engine| -> Vec<u64> {
                let produced = engine.produced().iter().filter(|one| one.is_last);
                let mut ids: Vec<u64> = produced.map(|one| one.id).collect();
                ids.sort_unstable();
                ids
            };
            prop_assert_eq!(ends(&full), ends(&short));
            now = one.until;
        }
    }
}

#[test]
fn an_asynchronous_scheduler_sees_a_request_one_step_late_and_runs_an_ended_one_once_more() {
    let mut profile = profile("kind = 'chunked', token_budget = 64", None);
    profile.scheduler.is_async = true;
    let mut engine = Engine::new(profile, Seed(1));
    engine.submit(Nanos::ZERO, job(0, 4, 9)).unwrap();
    let mut now = engine.step(Nanos::ZERO).until;
    engine.submit(now, job(1, 4, 2)).unwrap();
    let mut seen = Vec::new();
    for _ in 0..5 {
        let step = engine.step(now);
        engine.audit();
        seen.push((step.batch.prefill_tokens, step.batch.decodes, step.batch.stale));
        now = step.until;
    }
    assert_eq!(seen, [(0, 1, 0), (4, 1, 0), (0, 2, 0), (0, 1, 1), (0, 1, 0)]);
}

#[test]
fn right_guesses_come_in_one_step_and_wrong_ones_cost_their_check() {
    let steps = |acceptance: f64| {
        let mut profile =
            profile("kind = 'blocking', prefill_budget = 64", Some((64, 4, PrefixCache::Off)));
        profile.scheduler.speculation = Some(SpeculativeDecoding { tokens: 3, acceptance });
        let mut engine = Engine::new(profile, Seed(1));
        engine.submit(Nanos::ZERO, job(0, 4, 9)).unwrap();
        let (mut now, mut tokens) = (Nanos::ZERO, Vec::new());
        for _ in 0..STEPS {
            let step = engine.step(now);
            engine.audit();
            if step.until == Nanos::MAX {
                return tokens;
            }
            tokens
                .extend(engine.produced().iter().map(|one| (one.tokens, step.batch.draft_tokens)));
            now = step.until;
        }
        panic!("the engine does not come to an end");
    };
    assert_eq!(steps(1.0), [(1, 0), (4, 3), (4, 3)]);
    assert_eq!(steps(0.0).len(), 9);
    assert_eq!(steps(0.0).iter().map(|(tokens, _)| tokens).sum::<u32>(), 9);
}
