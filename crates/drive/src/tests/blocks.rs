//! Runs in blocks: each begins when the one before it has drained.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};

use tokometer_base::{Clock as _, MonotonicClock, Nanos};
use tokometer_record::{Phase, Timeline};

use super::server::{
    AfterResponse, answer, config, item, run_source, serve, serve_answers, target,
};
use crate::{Connections, Interrupt, Prepare, PrepareError, QueuedRequest, RunConfig};

/// Items in blocks of this many, each due a millisecond after the one before it.
const BLOCK: u64 = 3;

/// One block for each target in turn.
struct Blocks {
    config: RunConfig,
    made: u64,
    count: u64,
    entered: Arc<AtomicU64>,
    /// The start that was given to the last block.
    given: Arc<AtomicU64>,
}

impl Prepare for Blocks {
    fn prepare(&mut self) -> Result<Option<QueuedRequest>, PrepareError> {
        let index = self.made;
        self.made += 1;
        let due = Some(Nanos::from_millis(index % BLOCK));
        if index >= self.count {
            return Ok(None);
        }
        let mut item = item(&self.config, index, Phase::Measure);
        let targets = u64::try_from(self.config.targets.len())?;
        item.identity.target = u16::try_from(index / BLOCK % targets)?;
        Ok(Some(QueuedRequest { due, ..item }))
    }

    fn begins_block(&self, item: &QueuedRequest) -> bool {
        item.identity.index.is_multiple_of(BLOCK)
    }

    fn enter_block(&mut self, item: &QueuedRequest) -> Result<Option<Nanos>, PrepareError> {
        let before = self.entered.fetch_add(1, Ordering::SeqCst);
        assert_eq!(before, item.identity.index / BLOCK, "each block is entered once, in order");
        // Others begin the last block a while later.
        let now = MonotonicClock.now();
        Ok((before == 2).then(|| {
            let at = now + Nanos::from_millis(30);
            self.given.store(at.0, Ordering::SeqCst);
            at
        }))
    }
}

#[test]
fn a_block_begins_when_everything_before_it_has_ended() {
    let address = serve_answers(2);
    let config = config(address, 9, 8);
    let entered = Arc::new(AtomicU64::new(0));
    let given = Arc::new(AtomicU64::new(0));
    let source = Blocks {
        config: config.clone(),
        made: 0,
        count: 9,
        entered: Arc::clone(&entered),
        given: Arc::clone(&given),
    };
    let outcome = run_source(config, Box::new(source), Arc::new(Interrupt::default()));
    assert_eq!((outcome.end.never_sent, entered.load(Ordering::SeqCst)), (0, 3));
    let timelines = outcome.measured();
    assert_eq!(timelines.len(), 9);
    let block_size = usize::try_from(BLOCK).unwrap();
    let blocks: Vec<&[&Timeline]> = timelines.chunks(block_size).collect();
    for pair in blocks.windows(2) {
        let last_end = pair[0].iter().filter_map(|timeline| timeline.times.end).max();
        let intended: Vec<_> = pair[1].iter().map(|timeline| timeline.times.intended).collect();
        assert!(last_end < intended[0], "{last_end:?} {intended:?}");
        assert_eq!(intended[1], intended[0].map(|first| first + Nanos::from_millis(1)));
    }
    let given = Nanos(given.load(Ordering::SeqCst));
    assert_eq!(blocks[2][0].times.intended, Some(given), "the start that all processes share");
}

/// Two targets shared the connections of one, so that a block, which goes to one target alone, found
/// half of those that the limit allows.
#[test]
fn each_of_two_targets_has_connections_for_a_whole_block() {
    // Each server responds when a whole block has arrived, so that the block is in flight together.
    let serve_blocks = || {
        let block = Barrier::new(usize::try_from(BLOCK).unwrap());
        serve(move |asked| {
            let _ = block.wait();
            answer(asked.stream, 2);
            AfterResponse::Stay
        })
    };
    let cap = u32::try_from(BLOCK).unwrap();
    let mut config = config(serve_blocks(), 4 * BLOCK, cap);
    config.targets.push(target(serve_blocks()));
    config.connections = Connections::Preopen;
    config.timeouts.total = Some(Nanos::from_secs(20));
    let source = Blocks {
        config: config.clone(),
        made: 0,
        count: 4 * BLOCK,
        entered: Arc::new(AtomicU64::new(0)),
        given: Arc::new(AtomicU64::new(0)),
    };
    let outcome = run_source(config, Box::new(source), Arc::new(Interrupt::default()));
    let timelines = outcome.measured();
    assert_eq!(timelines.iter().filter(|row| row.is_success()).count() as u64, 4 * BLOCK);
    assert!(timelines.iter().all(|row| row.times.connect_begin.is_none()));
    let opened = outcome.end.health.connections_opened;
    assert_eq!(opened, 2 * BLOCK, "all were open before the first request");
}
