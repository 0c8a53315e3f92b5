//! Splitting a stream anywhere gives the same events. The first byte chooses the size of the pieces.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tokometer_client::sse::{SseEvent, Parser};

fn events_of<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut events = Vec::new();
    let mut sink = |event: SseEvent<'_>| events.push((event.name.to_vec(), event.data.to_vec()));
    let mut parser = Parser::default();
    for piece in pieces {
        parser.feed(piece, &mut sink);
    }
    parser.finish(&mut sink);
    events
}

fuzz_target!(|bytes: &[u8]| {
    let Some((size, stream)) = bytes.split_first() else { return };
    let split = events_of(stream.chunks(usize::from(*size) + 1));
    assert_eq!(split, events_of(std::iter::once(stream)));
});
