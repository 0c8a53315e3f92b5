//! Items that a second thread makes ahead of their use, in the same order.
//!
//! Where making an item and using it take about the same time, this halves the wait. The items that
//! are ready are bounded by their bytes. Without a second thread (the system has none left) items are
//! made when they are asked for.

use std::panic;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::vec;

/// Items are handed over in lists of at least this many bytes: one by one they would cost a wake-up
/// each.
const LIST_BYTES: usize = 256 << 10;
/// Lists that wait to be used.
const LISTS_WAITING: usize = 2;

/// Items of `I`, made ahead.
#[derive(Debug)]
pub(crate) struct Ahead<I: Iterator> {
    /// What was handed over last.
    list: vec::IntoIter<I::Item>,
    from: Maker<I>,
}

#[derive(Debug)]
enum Maker<I: Iterator> {
    Thread { lists: Receiver<Vec<I::Item>>, thread: Option<JoinHandle<()>> },
    Here(I),
}

impl<I> Ahead<I>
where
    I: Iterator + Send + 'static,
    I::Item: Send + 'static,
{
    /// Starts a thread that makes `items`; `bytes` is the memory of one, about.
    pub(crate) fn of(items: I, bytes: fn(&I::Item) -> usize) -> Self {
        let (hand_over, lists) = sync_channel(LISTS_WAITING);
        // The thread exists before it gets the items, so that they are not lost without one.
        let (give, given) = channel::<I>();
        let body = move || {
            if let Ok(items) = given.recv() {
                make(items, bytes, &hand_over);
            }
        };
        let thread = std::thread::Builder::new().name("ahead".to_owned()).spawn(body).ok();
        let from = match thread {
            None => Maker::Here(items),
            Some(thread) => match give.send(items) {
                Ok(()) => Maker::Thread { lists, thread: Some(thread) },
                Err(unsent) => Maker::Here(unsent.0),
            },
        };
        Self { list: Vec::new().into_iter(), from }
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

impl<I: Iterator> Iterator for Ahead<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        loop {
            if let Some(item) = self.list.next() {
                return Some(item);
            }
            let (lists, thread) = match &mut self.from {
                Maker::Here(items) => return items.next(),
                Maker::Thread { lists, thread } => (lists, thread),
            };
            if let Ok(list) = lists.recv() {
                self.list = list.into_iter();
                continue;
            }
            // A thread that panicked has not made all items: that must not look like the end.
            if let Some(Err(panicked)) = thread.take().map(JoinHandle::join) {
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
            assert!(Ahead::of(0..count, bytes).eq(0..count), "{count}");
        }
    }

    #[test]
    fn a_thread_that_panics_does_not_look_like_the_end() {
        let items = (0..10_u32).map(|item| if item < 7 { item } else { panic!("at {item}") });
        let ahead = Ahead::of(items, bytes);
        let found = panic::catch_unwind(panic::AssertUnwindSafe(|| ahead.count()));
        assert!(found.is_err());
    }

    /// The thread holds a share of `held` for as long as it runs.
    #[test]
    fn a_thread_whose_items_nobody_takes_ends() {
        let held = Arc::new(());
        let kept = Arc::clone(&held);
        let mut ahead = Ahead::of((0..).inspect(move |_| drop(Arc::clone(&kept))), bytes);
        assert_eq!(ahead.next(), Some(0));
        let Maker::Thread { thread, .. } = &mut ahead.from else { panic!("no thread") };
        let thread = thread.take().unwrap();
        drop(ahead);
        thread.join().unwrap();
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
