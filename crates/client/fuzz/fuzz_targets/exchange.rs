//! No answer makes the reader panic, and splitting it anywhere gives the same outcome, for every
//! backend. The first byte chooses the backend, the second the size of the pieces.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tokometer_base::Nanos;
use tokometer_client::{Dialect, Exchange, KeepText, ResponseProgress, ReadStamp, Settings, Url};
use tokometer_record::{RequestedLengths, AttemptId, Phase, Timeline};

fn read<'a>(backend: &str, pieces: impl Iterator<Item = &'a [u8]>) -> Timeline {
    let dialect = Dialect::named(backend).expect("a name of the table");
    let settings = Settings::new(Url::http("127.0.0.1", 8000), "tiny");
    let mut exchange = Exchange::new(&dialect, &settings, KeepText::Yes);
    let mut timeline =
        Timeline::new(AttemptId::new(0, Phase::Measure), RequestedLengths::default(), Nanos::ZERO);
    for piece in pieces {
        let stamp = ReadStamp::exact(Nanos::ZERO);
        if exchange.on_read(piece, stamp, &mut timeline) != ResponseProgress::More {
            return timeline;
        }
    }
    let _closed = exchange.on_eof(Nanos::ZERO, &mut timeline);
    timeline
}

fuzz_target!(|bytes: &[u8]| {
    let [backend, size, answer @ ..] = bytes else { return };
    let names: Vec<&str> = Dialect::names().collect();
    let backend = names[usize::from(*backend) % names.len()];
    let split = read(backend, answer.chunks(usize::from(*size) + 1));
    let whole = read(backend, std::iter::once(answer));
    assert_eq!(split.outcome, whole.outcome);
    assert_eq!(split.text, whole.text);
    assert_eq!(split.events.len(), whole.events.len());
});
