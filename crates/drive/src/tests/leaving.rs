//! Interrupts while something other than an answer is waited for.

use std::io::Read as _;
use std::sync::{Arc, Barrier, mpsc};

use tokometer_record::{Outcome as End, Phase, Stop};

use super::server::{
    AfterResponse, answer, config, event, head, item, run_source, run_with, serve, serve_answers,
};
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

/// The server has reported an error and left the body open; the request was then only called abandoned.
/// The third request shows that the client has read the error: it follows an answer that came later.
#[test]
fn an_error_that_the_server_reported_outlives_an_interrupt() {
    let interrupt = Arc::new(Interrupt::default());
    let (raised, written) = (Arc::clone(&interrupt), Barrier::new(2));
    let address = serve(move |asked| {
        match (asked.connection, asked.request) {
            (0, _) => {
                head(asked.stream);
                event(asked.stream, r#"{"error":{"message":"worker gone"}}"#);
                written.wait();
            }
            (_, 0) => {
                written.wait();
                answer(asked.stream, 1);
                return AfterResponse::Stay;
            }
            _ => {
                raised.raise();
                raised.raise();
            }
        }
        let _ = asked.stream.read(&mut [0; 1]);
        AfterResponse::Close
    });
    let outcome = run_with(config(address, 10, 2), interrupt);
    assert_eq!((outcome.end.stop, outcome.end.abandoned), (Stop::Interrupted, 1));
    let failed: Vec<&str> = outcome
        .measured()
        .iter()
        .filter_map(|timeline| match &timeline.outcome {
            End::Failed(failure) => Some(failure.message.as_str()),
            End::Success | End::Cancelled | End::Abandoned => None,
        })
        .collect();
    assert_eq!(failed, ["worker gone"]);
}
