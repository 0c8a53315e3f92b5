//! Interrupts while something other than a request is waited for.

use std::sync::{Arc, mpsc};

use tokometer_record::{Phase, Stop};

use super::server::{config, item, run_source, serve_answers};
use crate::Interrupt;

/// A tokenizer on a server that hangs keeps the preparer busy for as long as it likes. The run used to
/// wait for it, whatever the user asked for.
#[test]
fn a_preparer_that_waits_for_a_server_does_not_keep_the_run_from_ending() {
    let address = serve_answers(1);
    for warmups in [0, 1] {
        let mut config = config(address, 10, 1);
        config.limits.warmups = warmups;
        let interrupt = Arc::new(Interrupt::default());
        let (source, raised) = (config.clone(), Arc::clone(&interrupt));
        // The sender lives until the run has ended: until then nothing is received.
        let (release, released) = mpsc::channel::<()>();
        let mut made = 0;
        let prepare = move || {
            made += 1;
            if made <= warmups {
                return Ok(Some(item(&source, made - 1, Phase::Warmup)));
            }
            raised.raise();
            raised.raise();
            let _nothing = released.recv();
            Ok(None)
        };
        let outcome = run_source(config, Box::new(prepare), interrupt);
        assert_eq!((outcome.end.stop, outcome.end.never_sent), (Stop::Interrupted, 10));
        drop(release);
    }
}
