//! Whole predictions: behaviour of clients, agreement of the two ways of keeping, bad input.

use std::sync::Arc;

use base::{CancelAfter, Nanos, Seed};
use schedule::Arrivals;
use sim::Profile;
use tokometer_base as base;
use tokometer_record as record;
use tokometer_schedule as schedule;
use tokometer_sim as sim;

use crate::{
    Ask, KeptDetail, OldClient, PredictOptions, PredictedFigures, Prediction, RequestLoad, Routing,
    TurnPlace, predict,
};

fn profile() -> Profile {
    Profile::shipped("default").unwrap()
}

fn asks(count: u32) -> Vec<Ask> {
    (0..count).map(|index| Ask::new(30 + index % 7 * 10, 5 + index % 11 * 3)).collect()
}

fn with(workload: &RequestLoad, options: PredictOptions) -> Prediction {
    predict(&profile(), workload, Seed(7), options).unwrap()
}

fn timelines(workload: &RequestLoad) -> Prediction {
    with(workload, PredictOptions { keep: KeptDetail::Timelines, ..PredictOptions::default() })
}

/// Every figure of a run as text, so that two runs can be compared to the last bit.
fn text(figures: &PredictedFigures) -> String {
    let all = [&figures.ttft, &figures.tpot, &figures.itl, &figures.e2el].map(|samples| {
        let percents = samples.percentiles_ms(&[0.0, 10.0, 50.0, 90.0, 99.0, 100.0]);
        format!("{} {:?} {percents:?}", samples.count(), samples.mean_ms())
    });
    format!(
        "{} {} {}\n{}",
        figures.completed,
        figures.output_tokens,
        figures.duration_s,
        all.join("\n")
    )
}

fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[test]
fn the_same_plan_and_seed_give_the_same_bytes_on_any_machine() {
    let mut profile = profile();
    profile.cost.jitter = 0.05;
    profile.cost.cliff_ms = 3.0;
    profile.cost.cliff_tokens = 20.0;
    profile.cost.cliff_steepness = 2.5;
    profile.front_end.coalesce = 0.05;
    let workload = RequestLoad::burst(asks(300)).arriving(Arrivals::poisson(40.0)).capped(64);
    let run = |seed| {
        text(&predict(&profile, &workload, Seed(seed), PredictOptions::default()).unwrap().figures)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    assert_eq!(fnv(&run(1)), 8_768_940_588_916_304_680, "{}", run(1));
}

#[test]
fn figures_and_timelines_tell_the_same_run() {
    let loads = [
        RequestLoad::burst(asks(200)),
        RequestLoad::burst(asks(200)).capped(16),
        RequestLoad::burst(asks(200)).arriving(Arrivals::poisson(20.0)),
    ];
    for workload in loads {
        let (short, long) = (with(&workload, PredictOptions::default()), timelines(&workload));
        assert_eq!(text(&short.figures), text(&long.figures), "{workload:?}");
        assert!(short.explanation == long.explanation);
        let gaps: u64 = long.timelines.iter().map(|one| one.events.len() as u64 - 1).sum();
        assert_eq!(gaps, short.figures.itl.count());
    }
}

/// Without a prefix cache, figures of disaggregated engines ended with the first token: throughput was too
/// high, and there was no TPOT.
#[test]
fn figures_and_timelines_agree_when_answers_move_between_engines() {
    let mut profile = profile();
    profile.kv = None;
    profile.disaggregation = Some(sim::profile::Disaggregation {
        prefill_engines: 1,
        decode_engines: 1,
        transfer_ms: 5.0,
        transfer_token_ms: 0.0,
    });
    let workload = RequestLoad::burst(asks(100)).arriving(Arrivals::poisson(20.0));
    let run = |keep| {
        let options = PredictOptions { keep, ..PredictOptions::default() };
        predict(&profile, &workload, Seed(1), options).unwrap()
    };
    let (short, long) = (run(KeptDetail::Figures), run(KeptDetail::Timelines));
    assert!(short.figures.tpot.count() > 0);
    assert_eq!(text(&short.figures), text(&long.figures));
}

/// With little memory requests are preempted and recomputed, in both ways of reporting.
#[test]
fn figures_and_timelines_agree_when_memory_runs_out() {
    let mut profile = profile();
    profile.kv.as_mut().unwrap().tokens = 640;
    let workload = RequestLoad::burst(asks(60));
    let run = |keep| {
        let options = PredictOptions { keep, ..PredictOptions::default() };
        predict(&profile, &workload, Seed(1), options).unwrap()
    };
    let (short, long) = (run(KeptDetail::Figures), run(KeptDetail::Timelines));
    assert!(short.explanation.memory.preemptions > 10, "{:?}", short.explanation);
    assert!(short.explanation == long.explanation);
    assert_eq!(short.figures.itl.count(), long.figures.itl.count());
    assert_eq!(short.figures.tpot.mean_ms(), long.figures.tpot.mean_ms());
    let (one, other) = (short.figures.itl.mean_ms().unwrap(), long.figures.itl.mean_ms().unwrap());
    assert!((one / other - 1.0).abs() < 0.01, "{one} against {other}");
}

#[test]
fn a_closed_loop_never_has_more_in_flight_than_its_cap() {
    let run = timelines(&RequestLoad::burst(asks(100)).capped(9));
    let mut changes: Vec<(Nanos, i32)> = Vec::new();
    for timeline in &run.timelines {
        changes.push((timeline.times.first_byte_sent.unwrap(), 1));
        changes.push((timeline.times.end.unwrap(), -1));
    }
    // An end and the send that it allows fall on the same instant: the end comes first.
    changes.sort_unstable();
    let mut in_flight = 0;
    let most = changes
        .iter()
        .map(|(_, change)| {
            in_flight += change;
            in_flight
        })
        .max();
    assert_eq!(most, Some(9));
    assert_eq!(run.timelines.len(), 100);
}

#[test]
fn an_overloaded_cap_shows_as_waiting_from_the_intended_time() {
    let workload = RequestLoad::burst(asks(400)).arriving(Arrivals::poisson(400.0)).capped(2);
    let run = timelines(&workload);
    let waits = run.timelines.iter().map(|one| one.times.admitted - one.times.intended.unwrap());
    assert!(waits.max().unwrap() > Nanos::from_secs(5));
}

#[test]
fn a_turn_waits_for_the_answer_before_it_and_for_its_reader() {
    let think = Nanos::from_secs(3);
    let mut asks = asks(3);
    for (turn, before) in [(1, 0), (2, 1)] {
        asks[turn].after = Box::new([before]);
        asks[turn].delay = think;
    }
    let mut run = timelines(&RequestLoad::burst(asks)).timelines;
    run.sort_by_key(|timeline| timeline.identity.index);
    for pair in run.windows(2) {
        let pause = pair[1].times.first_byte_sent.unwrap() - pair[0].times.end.unwrap();
        assert_eq!(pause, think);
    }
}

#[test]
fn a_turn_that_joins_others_waits_for_the_last_of_them() {
    let mut asks = asks(4);
    asks[1].output_tokens *= 3;
    asks[2].after = Box::new([0, 1]);
    asks[2].delay = Nanos::from_secs(1);
    asks[3].after = Box::new([2]);
    asks[3].due = Some(Nanos::from_secs(500));
    let mut run = timelines(&RequestLoad::burst(asks).arriving(Arrivals::Traced)).timelines;
    run.sort_by_key(|timeline| timeline.identity.index);
    let ends: Vec<_> = run.iter().map(|one| one.times.end.unwrap()).collect();
    let sent: Vec<_> = run.iter().map(|one| one.times.first_byte_sent.unwrap()).collect();
    assert!(ends[1] > ends[0]);
    assert_eq!(sent[2], ends[1] + Nanos::from_secs(1));
    assert_eq!(sent[3], Nanos::from_secs(500), "not before a time of its own");
}

/// Two turns wait for the first one of each session; one of them takes long, the other one's pause does.
#[test]
fn a_limit_on_sessions_holds_until_the_whole_tree_of_a_session_has_ended() {
    let mut asks = asks(9);
    for session in 0..3_u64 {
        for turn in 0..3_u32 {
            let index = session + 3 * u64::from(turn);
            let ask = &mut asks[usize::try_from(index).unwrap()];
            let parents = if turn == 0 { Vec::new() } else { vec![0] };
            ask.after = parents.iter().map(|_| session).collect();
            ask.delay = Nanos::from_secs(u64::from(turn / 2 * 5));
            ask.place = Some(Box::new(TurnPlace {
                session,
                turn,
                turns: 3,
                parents,
                ..TurnPlace::default()
            }));
        }
    }
    let spans = |most: Option<u32>| {
        let load = RequestLoad { max_sessions: most, ..RequestLoad::burst(asks.clone()) };
        let run = timelines(&load).timelines;
        assert_eq!(run.len(), 9);
        let of = |session: u64| {
            let own = || run.iter().filter(|one| one.identity.session == Some(session));
            let begin = own().filter_map(|one| one.times.first_byte_sent).min().unwrap();
            (begin, own().filter_map(|one| one.times.end).max().unwrap())
        };
        [0, 1, 2].map(of)
    };
    let [first, second, third] = spans(Some(1));
    assert!(first.1 > Nanos::from_secs(5), "{first:?}");
    assert_eq!((second.0, third.0), (first.1, second.1), "one after the other");
    let [first, second, third] = spans(Some(2));
    assert!(second.0 < first.1 && third.0 == first.1.min(second.1));
}

#[test]
fn a_trace_is_sent_at_its_own_times_in_any_order() {
    let mut asks = asks(3);
    for (ask, at) in asks.iter_mut().zip([5, 0, 2]) {
        ask.due = Some(Nanos::from_secs(at));
    }
    let run = timelines(&RequestLoad::burst(asks).arriving(Arrivals::Traced)).timelines;
    let sent: Vec<u64> = run.iter().map(|one| one.times.first_byte_sent.unwrap().0).collect();
    assert_eq!(sent, [0, 2_000_000_000, 5_000_000_000]);
}

#[test]
fn the_old_client_delays_what_the_server_did_not() {
    let workload = RequestLoad::burst(asks(300));
    let client = OldClient { request_ms: 0.0, event_ms: 1.0 };
    let perfect = with(&workload, PredictOptions::default());
    let old = with(&workload, PredictOptions { client, ..PredictOptions::default() });
    let added = old.figures.ttft.mean_ms().unwrap() - perfect.figures.ttft.mean_ms().unwrap();
    // Hundreds of first tokens in a few steps, a millisecond each, one after the other.
    assert!(added > 50.0, "{added}");
}

#[test]
fn every_router_serves_all_and_a_divided_fleet_is_the_same_fleet() {
    let mut list = asks(2_000);
    for (index, ask) in (0_u64..).zip(&mut list) {
        ask.block_hashes = vec![(index % 5).wrapping_mul(0x9e37_79b9_7f4a_7c15)].into();
    }
    let workload = RequestLoad::burst(list).arriving(Arrivals::poisson(300.0));
    let routers =
        [Routing::RoundRobin, Routing::LeastLoaded, Routing::PrefixAffinity, Routing::Random2];
    for routing in routers {
        let run = |threads| {
            with(
                &workload,
                PredictOptions { replicas: 8, routing, threads, ..PredictOptions::default() },
            )
        };
        let (one, two) = (run(1), run(3));
        assert_eq!(one.figures.completed, 2_000, "{routing:?}");
        assert_eq!(text(&one.figures), text(&two.figures), "{routing:?}");
        assert_eq!(one.explanation.decode, two.explanation.decode, "{routing:?}");
    }
}

#[test]
fn an_idle_single_request_takes_what_its_parts_take() {
    let mut profile = profile();
    profile.cost.jitter = 0.0;
    let workload = RequestLoad::burst(vec![Ask::new(100, 1)]);
    let run = predict(&profile, &workload, Seed(1), PredictOptions::default()).unwrap();
    let cost = &profile.cost;
    let step = cost.base_ms + 100.0 * cost.token_ms + cost.pair_ms * 5_000.0 + cost.eager_ms;
    let expected = profile.front_end.arrival_ms + profile.front_end.serial_ms + step;
    let got = run.figures.ttft.mean_ms().unwrap();
    assert!((got - expected).abs() < 1e-3, "{got} instead of {expected}");
    let share = run.explanation.first_token;
    assert!((share.prefill_s * 1e3 - step).abs() < 1e-3, "{share:?}");
    assert!(share.queue_s.abs() < 1e-9, "{share:?}");
}

#[test]
fn what_cannot_be_predicted_is_said_clearly() {
    let check =
        |workload: &RequestLoad, profile: &Profile, options: PredictOptions, expected: &str| {
            let error = predict(profile, workload, Seed(1), options).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
    let mut small = profile();
    small.kv.as_mut().unwrap().tokens = 1_024;
    let one = |prompt, output| RequestLoad::burst(vec![Ask::new(prompt, output)]);
    let plain = PredictOptions::default();
    check(&one(2_000, 100), &small, plain, "can never run");
    check(&one(200_000, 1), &profile(), plain, "longest context");
    check(&RequestLoad::burst(Vec::new()), &profile(), plain, "without requests");
    check(&one(1, 1), &profile(), PredictOptions { replicas: 0, ..plain }, "without replicas");
    let mut negative = profile();
    negative.cost.token_ms = -1.0;
    check(&one(1, 1), &negative, plain, "cost.token_ms = -1");
    let mut flood = RequestLoad::burst(asks(1_000)).arriving(Arrivals::poisson(1e6));
    flood.in_flight_max = 100;
    check(&flood, &profile(), plain, "cannot serve this rate");
    check(&flood.clone().arriving(Arrivals::poisson(0.0)), &profile(), plain, "greater than zero");
    let endless: Arc<dyn crate::RequestSource> = Arc::new(vec![Ask::new(1, 120_000); 600]);
    let long = RequestLoad { asks: endless, ..one(1, 1) };
    let keep = PredictOptions { keep: KeptDetail::Timelines, ..plain };
    check(&long, &profile(), keep, "do not fit into memory");
}

/// A profile without any cost must not stop virtual time.
#[test]
fn time_advances_even_when_nothing_costs_anything() {
    let mut free = profile();
    free.cost = sim::cost::Cost { base_ms: 0.0, token_ms: 0.0, ..free.cost };
    free.cost.sequence_ms = 0.0;
    free.cost.context_ms = 0.0;
    free.cost.pair_ms = 0.0;
    free.front_end = sim::profile::FrontEnd::default();
    let run =
        predict(&free, &RequestLoad::burst(asks(50)).capped(3), Seed(1), PredictOptions::default());
    let run = run.unwrap();
    assert_eq!(run.figures.completed, 50);
    assert!(run.figures.duration_s > 0.0);
}

#[test]
fn answers_written_by_other_engines_are_not_held_up_by_prompts() {
    let mut together = profile();
    together.cost.jitter = 0.0;
    let mut apart = together.clone();
    apart.disaggregation = Some(sim::profile::Disaggregation {
        prefill_engines: 1,
        decode_engines: 1,
        transfer_ms: 7.0,
        transfer_token_ms: 0.01,
    });
    let asks: Vec<Ask> = (0..200).map(|index| Ask::new(2_000, 40 + index % 5)).collect();
    let workload = RequestLoad::burst(asks).arriving(Arrivals::poisson(8.0));
    let run = |profile: &Profile| {
        let options = PredictOptions { keep: KeptDetail::Timelines, ..PredictOptions::default() };
        predict(profile, &workload, Seed(1), options).unwrap()
    };
    let (one, two) = (run(&together), run(&apart));
    assert_eq!(two.figures.output_tokens, one.figures.output_tokens);
    assert_eq!(two.figures.itl.count(), one.figures.itl.count());
    let p99 = |run: &Prediction| run.figures.itl.percentiles_ms(&[95.0])[0];
    assert!(p99(&two) < 0.6 * p99(&one), "{} against {}", p99(&two), p99(&one));
    // The second token waits for the transfer: 7 ms and 2,000 tokens of 0.01 ms.
    let second = two.timelines.iter().map(|one| one.events[1].at - one.events[0].at).min();
    assert!(second.unwrap() > Nanos::from_millis(27), "{second:?}");
}

/// What a cancelled request costs the others: its tokens, and the step that has begun when its client leaves.
#[test]
fn a_request_cancelled_after_tokens_costs_the_others_one_step_more() {
    let mut profile = profile();
    profile.cost.jitter = 0.0;
    let run = |list: Vec<Ask>| {
        let workload = RequestLoad::burst(list).capped(6);
        let options = PredictOptions { keep: KeptDetail::Timelines, ..PredictOptions::default() };
        predict(&profile, &workload, Seed(7), options).unwrap()
    };
    let is_drawn = |index: usize| index % 3 == 1;
    let long = |index: usize| Ask::new(40, if is_drawn(index) { 30 } else { 17 });
    let list: Vec<Ask> = (0..6).map(long).collect();
    let mut cancelled = list.clone();
    let mut short = list;
    for index in (0..6).filter(|index| is_drawn(*index)) {
        cancelled[index].cancel = Some(CancelAfter::Tokens(9));
        short[index] = Ask::new(40, 10);
    }
    let (cancelled, short) = (run(cancelled), run(short));
    assert_eq!((cancelled.figures.completed, cancelled.figures.cancelled), (4, 2));
    for row in &cancelled.timelines {
        let same = short.timelines.iter().find(|one| one.identity.index == row.identity.index);
        let (same, length) = (&same.unwrap().events, row.events.len());
        let is_cut = row.outcome == record::Outcome::Cancelled;
        assert_eq!((is_cut, length), (same.len() == 10, same.len() - usize::from(is_cut)));
        assert_eq!(row.events, same[..length]);
    }
}

#[test]
fn a_request_is_cancelled_at_its_time_wherever_it_is_and_its_slot_is_free_at_once() {
    let mut list = vec![Ask::new(4_000, 400); 12];
    for ask in &mut list[..6] {
        ask.cancel = Some(CancelAfter::Time(Nanos::from_millis(7)));
    }
    // One that is over by then is complete.
    list[6] = Ask { cancel: Some(CancelAfter::Time(Nanos::from_secs(600))), ..Ask::new(20, 5) };
    let run = timelines(&RequestLoad::burst(list).capped(3));
    assert_eq!((run.figures.completed, run.figures.cancelled), (6, 6));
    let mut ends = Vec::new();
    for row in run.timelines.iter().filter(|row| row.outcome == record::Outcome::Cancelled) {
        assert_eq!(
            row.times.end.unwrap() - row.times.last_byte_sent.unwrap(),
            Nanos::from_millis(7)
        );
        assert_eq!(row.usage, None, "nothing came that counts the tokens");
        ends.push(row.times.end.unwrap());
    }
    let starts: Vec<Nanos> =
        run.timelines.iter().filter_map(|row| row.times.first_byte_sent).collect();
    assert!(ends.iter().all(|end| starts.contains(end)), "{ends:?} {starts:?}");
}

/// Rates have as many requests as they say, a closed loop never has more in progress, and the load goes on behind it.
#[test]
fn stages_follow_one_another_and_a_closed_loop_keeps_its_number() {
    let stages = schedule::Stage::list("5s@4/s, 4s@6 sessions, 3s@0..20/s").unwrap();
    let pace = schedule::Pace { stages, burstiness: Some(1.0), first: schedule::First::Waits };
    let load = RequestLoad {
        duration: Some(Nanos::from_secs(12)),
        ..RequestLoad::burst(asks(5_000)).arriving(schedule::Arrivals::Paced(pace))
    };
    let run = timelines(&load);
    assert_eq!(text(&run.figures), text(&with(&load, PredictOptions::default()).figures));
    let (begin, end) = (Nanos::from_secs(5), Nanos::from_secs(9));
    let due = |one: &&tokometer_record::Timeline| one.times.intended;
    let before = run.timelines.iter().filter(|one| due(one).is_some_and(|at| at < begin)).count();
    let after = run.timelines.iter().filter(|one| due(one).is_some_and(|at| at >= end)).count();
    assert_eq!((before, after), (20, 30));
    let looped: Vec<_> = run.timelines.iter().filter(|one| due(one).is_none()).collect();
    assert_eq!(looped.len() + 50, run.timelines.len());
    for one in &looped {
        let sent = one.times.admitted;
        assert!((begin..end).contains(&sent), "{sent}");
        let is_there = |other: &&tokometer_record::Timeline| {
            other.times.admitted <= sent && other.times.end.unwrap() > sent
        };
        assert!(run.timelines.iter().filter(is_there).count() <= 6);
    }
    // The loop is full: its requests take all of its time.
    let busy: f64 =
        looped.iter().map(|one| (one.times.end.unwrap() - one.times.admitted).as_secs_f64()).sum();
    assert!(busy > 0.97 * 6.0 * 4.0, "{busy}");
}
