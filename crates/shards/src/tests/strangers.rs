//! Connections that prove nothing.

use std::cell::{Cell, RefCell};

use super::*;

/// More of them than the leader has time for: a shard that came among them ended with the advice to use
/// TLS.
#[test]
fn a_shard_that_is_turned_away_among_strangers_tries_again() {
    let root = tempfile::tempdir().unwrap();
    let leader = leader(root.path(), 2);
    let connect = |_| TcpStream::connect(leader.address()).unwrap();
    let strangers: RefCell<Vec<TcpStream>> = RefCell::new((0..70).map(connect).collect());
    let attempts = Cell::new(0);
    let is_stopped = || {
        attempts.set(attempts.get() + 1);
        strangers.borrow_mut().clear();
        false
    };
    let address = leader.address().to_string();
    let joined = Follower::join(&address, &config(1, 2), &real(), WAIT, &is_stopped);
    assert!(joined.is_ok(), "{}", joined.err().unwrap());
    assert!(attempts.get() > 0, "it was let in at once");
}
