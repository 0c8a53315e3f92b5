//! The share of the load that a client held back.

use tokometer_base::Nanos;
use tokometer_record::RecordedLoad;

use super::{closed_loop, delay, ms, open_loop};
use crate::effects::held::{Division, held, lateness};
use tokometer_figures::rows::RequestRow;
use tokometer_figures::testing;

/// 20 of 400 requests in a row are 40 ms late, 2 ms on average. They are half of the worst tenth.
#[test]
fn the_worst_tenth_of_a_run_has_its_own_share() {
    let mut rows = open_loop().rows;
    rows[100..120].iter_mut().for_each(|row| delay(row, ms(40)));
    let late: Vec<Nanos> = rows.iter().map(RequestRow::lateness).collect();
    let found = held(&rows, &late, Nanos::MAX);
    assert!((found.raw - 0.002).abs() < 1e-9, "{found:?}");
    assert!(found.worst > 9.0 * found.mean, "{found:?}");
    // Delays above the limit are left to another rule.
    assert!(held(&rows, &late, ms(39)).raw <= 0.0);
}

/// Lateness keeps nobody away from a request that is alone in the server.
#[test]
fn requests_that_are_alone_are_hardly_affected() {
    let share = |every: u64| {
        let row = |index: u64| testing::row(index, ms(index * every), ms(index * every + 1_000));
        let rows: Vec<RequestRow> = (0..100).map(row).collect();
        let found = held(&rows, &vec![ms(10); 100], Nanos::MAX);
        found.mean / found.raw
    };
    // A tenth of a request in flight, and nearly ten.
    assert!((share(10_000) - 0.5 * 0.1 / 1.1).abs() < 0.002, "{}", share(10_000));
    assert!((share(100) - 0.5 * 9.0 / 10.0).abs() < 0.01, "{}", share(100));
}

/// A retried request holds its slot from its first attempt on; the wait before the last one is the
/// server's.
#[test]
fn a_retry_is_no_late_refill() {
    let scene = closed_loop(500);
    let load = RecordedLoad { max_concurrency: Some(10), ..scene.load.clone() };
    let late = |rows: &[RequestRow]| lateness(rows, &load, Division { block: None, shards: 1 })[15];
    assert_eq!(late(&scene.rows), ms(500));
    let mut rows = scene.rows.clone();
    rows[15].attempt = 1;
    assert_eq!(late(&rows), Nanos::ZERO);
}

/// A request that was retried seemed to leave its slot empty until its last attempt, and all others seemed
/// to be late.
#[test]
fn a_request_that_is_retried_holds_its_slot() {
    let mut rows: Vec<RequestRow> =
        [(0, 1_000), (1_500, 2_000), (1_000, 2_000), (2_000, 3_000), (2_000, 3_000)]
            .into_iter()
            .zip(0..)
            .map(|((start, end), index)| testing::row(index, ms(start), ms(end)))
            .collect();
    (rows[1].attempt, rows[1].due) = (1, ms(0));
    let load = RecordedLoad { max_concurrency: Some(2), ..testing::load(None, 5) };
    let late = lateness(&rows, &load, Division { block: None, shards: 1 });
    assert_eq!(late, [Nanos::ZERO; 5]);
}

/// 202 requests and seven slots among four shards: the shard with one slot is the last by far, and the others
/// have nothing to send meanwhile. The client was blamed for their empty slots.
#[test]
fn shards_refill_their_own_part_of_the_slots() {
    let slots = [2_u64, 2, 2, 1];
    let row = |index: u64| {
        let (shard, nth) = (usize::try_from(index % 4).unwrap(), index / 4);
        let start = nth / slots[shard] * 1_000;
        testing::row(index, ms(start), ms(start + 1_000))
    };
    let rows: Vec<RequestRow> = (0..202).map(row).collect();
    let load = RecordedLoad { max_concurrency: Some(7), ..testing::load(None, 202) };
    let late = |shards| lateness(&rows, &load, Division { block: None, shards });
    assert!(late(4).iter().all(|late| *late == Nanos::ZERO), "{:?}", late(4));
    assert!(late(1).iter().any(|late| *late > ms(1_000)), "as if one process had all slots");
}
