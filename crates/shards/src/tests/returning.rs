//! Shards that are refused, or come back.

use super::*;

/// A shard that was restarted while others were waited for was refused: it had joined before.
#[test]
fn a_shard_that_is_restarted_before_the_start_joins_again() {
    let root = tempfile::tempdir().unwrap();
    let leader = leader(root.path(), 3);
    drop(join(&leader, &config(1, 3)).unwrap());
    let other = Arc::new(join(&leader, &config(2, 3)).unwrap());
    // Its connection ends a moment later.
    let again = std::cell::OnceCell::new();
    wait_for("it joins again", || match join(&leader, &config(1, 3)) {
        Ok(joined) => again.set(Arc::new(joined)).is_ok(),
        Err(why) => {
            assert!(why.to_string().contains("joined before"), "{why}");
            false
        }
    });
    let again = again.into_inner().unwrap();
    let runs = [(&again, 1), (&other, 2)].map(|(follower, rank)| {
        let own = root.path().join(format!("own{rank}"));
        std::fs::create_dir_all(&own).unwrap();
        start(follower, &own, "p", &Arc::new(Run::default()))
    });
    assert!(leader.begin(0, "p", WAIT, None, &|| false).is_some());
    for run in runs {
        assert!(run.join().unwrap().unwrap().is_some(), "all begin");
    }
    assert_eq!(leader.finish(0, &|| true), []);
}

/// Shard 0 said that the shard had not joined, and nobody saw why.
#[test]
fn a_leader_that_waits_no_longer_names_why_a_shard_was_refused() {
    let root = tempfile::tempdir().unwrap();
    let leader = leader(root.path(), 2);
    let other = FollowerConfig { secret: secret("another secret!!"), ..config(1, 2) };
    drop(refused(&leader, &other));
    assert!(leader.begin(0, "p", Nanos::ZERO, None, &|| false).is_some());
    let why = "it was refused: its secret is not that of the leader".to_owned();
    assert_eq!(leader.finish(0, &|| false), [(1, why)]);
}

/// The leader was there, and the shard said that there was none any more.
#[test]
fn a_shard_with_other_prompts_is_refused_by_a_leader_that_is_there() {
    let root = tempfile::tempdir().unwrap();
    let leader = leader(root.path(), 2);
    let follower = Arc::new(join(&leader, &config(1, 2)).unwrap());
    let waiting = start(&follower, root.path(), "q", &Arc::new(Run::default()));
    assert!(leader.begin(0, "p", WAIT, None, &|| false).is_some());
    let why = waiting.join().unwrap().unwrap_err();
    assert!(why.starts_with("shard 0 refused this shard: its prompts (q)"), "{why}");
    assert!(follower.is_refused());
}

/// A leader that exits during the handshake was called one that cannot be trusted.
#[test]
fn a_leader_that_exits_during_the_handshake_is_named_as_such() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answer = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let nonce = crate::secret::hex(&crate::secret::nonce().unwrap());
        let hello = crate::message::ToFollower::Hello { nonce };
        crate::wire::MessageWriter::new(&mut stream).send(&hello).unwrap();
    });
    let joined = Follower::join(&address, &config(1, 2), &real(), Nanos::ZERO, &|| false);
    let why = joined.err().unwrap();
    assert!(matches!(why, JoinError::Closed { .. }), "{why}");
    answer.join().unwrap();
}
