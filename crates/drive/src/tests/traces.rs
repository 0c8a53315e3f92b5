//! Items with times of their own, as those of a trace.

use std::sync::Arc;

use tokometer_base::Nanos;
use tokometer_record::Phase;
use tokometer_schedule::SendLimit;

use super::server::{config, item, run_source, serve_answers};
use crate::{Interrupt, Prepare, PrepareError, QueuedRequest, RunConfig};

/// More items than are made ahead.
const COUNT: u64 = 20_000;

/// All but the last item are due at once; the last one long after the run.
struct Trace {
    config: RunConfig,
    made: u64,
}

impl Trace {
    fn due(index: u64) -> Nanos {
        if index + 1 < COUNT { Nanos::ZERO } else { Nanos::from_secs(3_600) }
    }
}

impl Prepare for Trace {
    fn prepare(&mut self) -> Result<Option<QueuedRequest>, PrepareError> {
        let index = self.made;
        self.made += 1;
        let due = Some(Self::due(index));
        Ok((index < COUNT)
            .then(|| QueuedRequest { due, ..item(&self.config, index, Phase::Measure) }))
    }

    fn due_before(&self, end: Nanos, most: u64) -> u64 {
        (0..COUNT.min(most)).take_while(|index| Self::due(*index) < end).count() as u64
    }
}

/// Only so many requests are made ahead. Those behind them were missing from the count of the due ones.
#[test]
fn requests_of_a_trace_that_were_due_and_never_made_are_counted() {
    let address = serve_answers(2);
    let mut config = config(address, COUNT, 1);
    let duration = Some(Nanos::from_millis(50));
    config.limits.extent = SendLimit { count: None, duration };
    let source = Trace { config: config.clone(), made: 0 };
    let outcome = run_source(config, Box::new(source), Arc::new(Interrupt::default()));
    let sent = outcome.measured().len() as u64;
    assert!(sent < COUNT / 2, "{sent} requests in {duration:?}");
    assert_eq!(outcome.end.never_sent + sent, COUNT - 1);
}
