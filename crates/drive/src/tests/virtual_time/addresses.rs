//! Several addresses behind one name.

use tokometer_base::Nanos;
use tokometer_client::conn::HEAD_START;
use tokometer_record::{Outcome, Timeline};

use super::faults::check;
use super::scenario::{Ran, Scenario};
use super::server::{REFUSING, SILENT};
use crate::Connections;

fn shares(ran: &Ran, addresses: usize) -> Vec<usize> {
    let count = |address: usize| {
        let address = u16::try_from(address).ok();
        ran.measured().filter(|timeline| timeline.connection.address == address).count()
    };
    (0..addresses).map(count).collect()
}

fn setup(timeline: &Timeline) -> Nanos {
    timeline.times.connect_end.unwrap() - timeline.times.connect_begin.unwrap()
}

fn run(ports: &[u16], connections: Connections) -> Ran {
    let mut scenario = Scenario::plain(5, 60, 6);
    scenario.listen_at(ports);
    scenario.config.connections = connections;
    let ran = check(&scenario);
    assert!(ran.measured().all(Timeline::is_success), "no request may be lost");
    ran
}

/// All load went to the first address.
#[test]
fn connections_take_the_addresses_in_turn() {
    let ran = run(&[80, 80, 80], Connections::PerRequest);
    assert_eq!(shares(&ran, 3), [20, 20, 20]);
    let ran = run(&[80, 80], Connections::OnDemand);
    let shares = shares(&ran, 2);
    assert!(shares.iter().all(|share| *share >= 20), "{shares:?}");
}

#[test]
fn an_address_that_refuses_gives_way_at_once() {
    let ran = run(&[REFUSING, 80, REFUSING, 80], Connections::PerRequest);
    assert_eq!(shares(&ran, 4)[0] + shares(&ran, 4)[2], 0);
    assert!(shares(&ran, 4)[1] >= 25, "{:?}", shares(&ran, 4));
    assert!(ran.measured().all(|timeline| setup(timeline) < Nanos::from_millis(10)));
}

/// each of the six slots waits for the head start at most once: then all know that the address is silent.
#[test]
fn a_silent_address_costs_its_head_start_once() {
    let ran = run(&[SILENT, 80], Connections::PerRequest);
    assert_eq!(shares(&ran, 2), [0, 60]);
    let slow: Vec<Nanos> =
        ran.measured().map(setup).filter(|setup| *setup > Nanos::from_millis(10)).collect();
    assert!((1..=6).contains(&slow.len()), "{slow:?}");
    let longest = HEAD_START + Nanos::from_millis(60);
    assert!(slow.iter().all(|setup| (HEAD_START..longest).contains(setup)), "{slow:?}");
}

#[test]
fn a_target_whose_addresses_all_refuse_fails_as_one() {
    let mut scenario = Scenario::plain(5, 6, 2);
    scenario.listen_at(&[REFUSING, REFUSING]);
    let ran = check(&scenario);
    let message = |timeline: &Timeline| match &timeline.outcome {
        Outcome::Failed(failure) => failure.message.clone(),
        other => panic!("{other:?}"),
    };
    let failures: Vec<String> = ran.measured().map(message).collect();
    assert_eq!(failures.len(), 6);
    assert!(
        failures.iter().all(|text| text.ends_with("(the last of 2 addresses)")),
        "{failures:?}"
    );
    assert!(ran.measured().all(|timeline| timeline.connection.address.is_none()));
}
