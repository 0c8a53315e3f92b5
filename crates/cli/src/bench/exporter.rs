//! `--prometheus-port`: serves the run's counters on loopback.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use tokometer_base::Background;
use tokometer_drive::{Live, LiveCounts};
use tokometer_measure::Error;

/// Interval between checks for a connection.
const PAUSE: Duration = Duration::from_millis(50);

/// A server of counters. It ends when dropped.
pub(crate) struct Exporter {
    /// Where it listens: always on loopback.
    pub(crate) address: SocketAddr,
    _thread: Background,
}

impl Exporter {
    pub(crate) fn start(port: u16, live: &Arc<Live>) -> Result<Self, Error> {
        let fault = |why: std::io::Error| {
            Error::usage(format!("cannot listen on `--prometheus-port {port}`: {why}"), "")
        };
        let listener = TcpListener::bind(("127.0.0.1", port)).map_err(fault)?;
        listener.set_nonblocking(true).map_err(fault)?;
        let address = listener.local_addr().map_err(fault)?;
        let live = Arc::clone(live);
        let thread = Background::start("exporter", move |stop| {
            while !stop.is_raised_within(PAUSE) {
                while let Ok((caller, _)) = listener.accept() {
                    serve(caller, &live);
                }
            }
        });
        Ok(Self { address, _thread: thread })
    }
}

/// Every request gets the same response. A closed connection is ignored.
fn serve(mut caller: TcpStream, live: &Live) {
    let _ = caller.set_nonblocking(false);
    let _ = caller.set_read_timeout(Some(Duration::from_secs(1)));
    let _ = caller.read(&mut [0; 1_024]);
    let _ = caller.write_all(answer(&live.counts()).as_bytes());
}

fn answer(counts: &LiveCounts) -> String {
    let body = page(counts);
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    )
}

fn page(counts: &LiveCounts) -> String {
    let rows = [
        ("requests_sent_total", "counter", counts.sent as f64),
        ("requests_succeeded_total", "counter", counts.succeeded as f64),
        ("requests_failed_total", "counter", counts.failed as f64),
        ("requests_cancelled_total", "counter", counts.cancelled as f64),
        ("requests_in_flight", "gauge", counts.in_flight() as f64),
        ("content_events_total", "counter", counts.tokens as f64),
    ];
    let mut page = String::new();
    for (name, kind, value) in rows {
        let _ = write!(page, "# TYPE tokometer_{name} {kind}\ntokometer_{name} {value}\n");
    }
    if let Some(mean) = counts.ttft_mean {
        let name = "ttft_seconds_mean";
        let seconds = mean.as_secs_f64();
        let _ = write!(page, "# TYPE tokometer_{name} gauge\ntokometer_{name} {seconds}\n");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_served_on_loopback_only() {
        let exporter = Exporter::start(0, &Arc::new(Live::default())).unwrap();
        assert!(exporter.address.ip().is_loopback() && exporter.address.port() > 0);
    }

    #[test]
    fn counters_are_told_in_the_form_that_scrapers_read() {
        let counts =
            LiveCounts { sent: 5, succeeded: 2, failed: 1, tokens: 40, ..LiveCounts::default() };
        let page = page(&counts);
        assert!(page.contains(
            "# TYPE tokometer_requests_in_flight gauge\ntokometer_requests_in_flight 2\n"
        ));
        assert!(!page.contains("ttft"), "what is not known yet is not told");
    }
}
