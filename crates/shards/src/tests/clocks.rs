//! The clock of each point.

use tokometer_record::CommonStart;

use super::*;

/// The fit of a point began with the first measurement of the whole sweep, and the start of a shard of the
/// leader's own machine was off by the error of a measurement that nobody needs.
#[test]
fn each_point_measures_its_own_clock_and_one_clock_has_no_offset() {
    let root = tempfile::tempdir().unwrap();
    let leader = leader(root.path(), 3);
    let same = FollowerConfig { clock: Some("boot-1".to_owned()), ..config(2, 3) };
    let followers = [config(1, 3), same].map(|config| Arc::new(join(&leader, &config).unwrap()));
    let folders = [1, 2].map(|rank| root.path().join(format!("own{rank}")));
    for folder in &folders {
        std::fs::create_dir(folder).unwrap();
    }
    for point in 0..2 {
        let before = real().now();
        leader.hand_out(point, root.path(), "order");
        let waiting: Vec<Waiting> = followers
            .iter()
            .zip(folders.clone())
            .map(|(follower, folder)| {
                let (follower, run) = (Arc::clone(follower), Arc::new(Run::default()));
                std::thread::spawn(move || {
                    let own = OwnRun { folder, storage: RecordStorage::Shared, local: run };
                    follower.await_start(point, "p", own, &|| false)
                })
            })
            .collect();
        let at = leader.begin(point, "p", WAIT, None, &|| false).unwrap();
        let starts: Vec<CommonStart> =
            waiting.into_iter().map(|start| start.join().unwrap().unwrap().unwrap()).collect();
        assert_eq!(starts[1], CommonStart { leader: at, own: at });
        let stored = std::fs::read(folders[0].join(names::CLOCK)).unwrap();
        let stored: ShardClock = serde_json::from_slice(&stored).unwrap();
        assert!(stored.fit.from >= before, "point {point}: {:?} before {before:?}", stored.fit);
        for follower in &followers {
            follower.end(point).unwrap();
        }
    }
}
