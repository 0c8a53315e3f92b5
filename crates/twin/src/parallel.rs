//! Independent work on several threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Works through `jobs` on several threads; results keep the order of the jobs.
pub fn in_parallel<J: Sync, R: Send>(
    jobs: &[J],
    threads: usize,
    work: impl Fn(&J) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<R>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    let take_turns = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(at) else { return };
            let result = work(job);
            *results[at].lock().expect("no worker panics while it stores") = Some(result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, jobs.len().max(1)) {
            scope.spawn(take_turns);
        }
    });
    results
        .into_iter()
        .filter_map(|slot| slot.into_inner().expect("no worker panics while it stores"))
        .collect()
}
