//! Items that a second thread makes ahead of their use, in the same order.
//!
//! Where making an item and using it take about the same time, this halves the wait. The items that
//! are ready are bounded by their bytes.

use std::io;
use std::panic;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::vec;

/// Items are handed over in lists of at least this many bytes: one by one they would cost a wake-up
/// each.
const LIST_BYTES: usize = 256 << 10;
const LISTS_WAITING: usize = 2;

#[derive(Debug)]
pub(crate) struct Ahead<T> {
    list: vec::IntoIter<T>,
    lists: Receiver<Vec<T>>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> Ahead<T> {
    /// Starts a thread that makes `items`; `bytes` is the memory of one, about.
    pub(crate) fn of(
        items: impl Iterator<Item = T> + Send + 'static,
        bytes: fn(&T) -> usize,
    ) -> io::Result<Self> {
        let (hand_over, lists) = sync_channel(LISTS_WAITING);
        let body = move || make(items, bytes, &hand_over);
        let thread = std::thread::Builder::new().name("ahead".to_owned()).spawn(body)?;
        Ok(Self { list: Vec::new().into_iter(), lists, thread: Some(thread) })
    }
}

/// Ends early when nobody takes the items any more.
fn make<T>(items: impl Iterator<Item = T>, bytes: fn(&T) -> usize, to: &SyncSender<Vec<T>>) {
    let (mut list, mut size) = (Vec::new(), 0);
    for item in items {
        size += bytes(&item);
        list.push(item);
        if size >= LIST_BYTES {
            size = 0;
            if to.send(std::mem::take(&mut list)).is_err() {
                return;
            }
        }
    }
    let _ = to.send(list);
}

impl<T> Iterator for Ahead<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        loop {
            if let Some(item) = self.list.next() {
                return Some(item);
            }
            if let Ok(list) = self.lists.recv() {
                self.list = list.into_iter();
                continue;
            }
            // A thread that panicked has not made all items: that must not look like the end.
            if let Some(Err(panicked)) = self.thread.take().map(JoinHandle::join) {
                panic::resume_unwind(panicked);
            }
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "items are passed by reference")]
    fn bytes(_: &u32) -> usize {
        LIST_BYTES / 3
    }

    #[test]
    fn items_come_in_their_order_and_all_of_them() {
        for count in [0, 1, 2, 3, 4, 1_000] {
            assert!(Ahead::of(0..count, bytes).unwrap().eq(0..count), "{count}");
        }
    }

    #[test]
    fn a_thread_that_panics_does_not_look_like_the_end() {
        let items = (0..10_u32).map(|item| if item < 7 { item } else { panic!("at {item}") });
        let ahead = Ahead::of(items, bytes).unwrap();
        let found = panic::catch_unwind(panic::AssertUnwindSafe(|| ahead.count()));
        assert!(found.is_err());
    }

    /// The thread holds a share of `held` for as long as it runs.
    #[test]
    fn a_thread_whose_items_nobody_takes_ends() {
        let held = Arc::new(());
        let kept = Arc::clone(&held);
        let items = (0..).inspect(move |_| drop(Arc::clone(&kept)));
        let mut ahead = Ahead::of(items, bytes).unwrap();
        assert_eq!(ahead.next(), Some(0));
        let thread = ahead.thread.take().unwrap();
        drop(ahead);
        thread.join().unwrap();
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
