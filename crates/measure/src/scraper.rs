//! Scrapes the server's metrics periodically, on its own thread.
//!
//! An endpoint may hang, send slowly or send garbage: the run waits for it a few seconds at most,
//! before its start and after its end, and continues without it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use tokometer_base::{Background, Clock, Nanos};
use tokometer_client::Control;
use tokometer_figures::server::{KeptSeries, parse};
use tokometer_record::server::Scrape;

use crate::devices::Devices;

/// The longest that a run waits for a reading.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A running scraper. When dropped, it stops after a last scrape.
pub(crate) struct Scraper {
    _thread: Background,
}

impl Scraper {
    /// Scrapes once before it returns, so that counters have a base line, and then every `interval`
    /// until it is stopped. A server whose first scrape fails is not scraped again.
    pub(crate) fn start(
        source: MetricsSource,
        interval: Nanos,
        scrapes: Sender<Scrape>,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        Self::start_with_timeout(source, interval, scrapes, clock, TIMEOUT)
    }

    fn start_with_timeout(
        source: MetricsSource,
        interval: Nanos,
        scrapes: Sender<Scrape>,
        clock: &Arc<dyn Clock>,
        timeout: Duration,
    ) -> Self {
        let (at_first, first) = channel::<()>();
        let clock = Arc::clone(clock);
        let thread = Background::start("scraper", move |stop| {
            let baseline = source.scrape(KeptSeries::Buckets, &*clock);
            let is_useless = baseline.error.is_some();
            let is_unwanted = scrapes.send(baseline).is_err();
            drop(at_first);
            if is_useless || is_unwanted {
                return;
            }
            loop {
                let is_over = stop.is_raised_within(interval.to_duration());
                let keep = if is_over { KeptSeries::Buckets } else { KeptSeries::Values };
                if scrapes.send(source.scrape(keep, &*clock)).is_err() || is_over {
                    return;
                }
            }
        });
        // Nothing is ever sent: the channel closes after the first scrape, or at once without a
        // thread.
        let _ = first.recv_timeout(timeout);
        // A thread that still waits for its endpoint is detached, and its scrape is discarded.
        Self { _thread: thread.with_timeout(timeout) }
    }
}

pub(crate) struct MetricsSource {
    origin: Origin,
    /// Index among the scraped endpoints.
    endpoint: u16,
}

enum Origin {
    /// A page in Prometheus text format.
    Page(Box<Control>),
    /// The GPUs of this host.
    Devices(Box<Devices>),
}

impl MetricsSource {
    pub(crate) fn page(control: Control, endpoint: u16) -> Self {
        Self { origin: Origin::Page(Box::new(control)), endpoint }
    }

    pub(crate) fn devices(devices: Devices, endpoint: u16) -> Self {
        Self { origin: Origin::Devices(Box::new(devices)), endpoint }
    }

    fn scrape(&self, keep: KeptSeries, clock: &dyn Clock) -> Scrape {
        let (values, error) = match &self.origin {
            Origin::Page(control) => match control.metrics_text() {
                Ok(text) => (parse(&text, keep), None),
                Err(why) => (BTreeMap::new(), Some(why.to_string())),
            },
            Origin::Devices(devices) => (devices.values(), None),
        };
        Scrape { at: clock.now(), endpoint: self.endpoint, values, error }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use tokometer_base::{ManualClock, MonotonicClock};
    use tokometer_client::{Settings, Url};

    use super::*;

    /// For an endpoint that answers, however busy the machine is, and for one that does not.
    const LONG: Nanos = Nanos::from_secs(20);
    const SHORT: Nanos = Nanos::from_millis(200);

    /// An endpoint that runs `answer` for each connection, on a thread that ends with the test.
    fn endpoint(timeout: Nanos, answer: fn(TcpStream)) -> MetricsSource {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                std::thread::spawn(move || answer(stream.unwrap()));
            }
        });
        let settings = Settings::new(Url::parse(&url).unwrap(), String::new());
        let clock = Arc::new(MonotonicClock);
        MetricsSource::page(Control::new(&settings, Arc::default(), timeout, clock), 0)
    }

    fn page(mut stream: TcpStream, body: &str) {
        let mut head = [0; 4096];
        let _ = stream.read(&mut head);
        let length = body.len();
        let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
    }

    fn readings(source: MetricsSource) -> Vec<Scrape> {
        let (sender, receiver) = channel();
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
        let (interval, timeout) = (Nanos::from_secs(3_600), Duration::from_mins(1));
        drop(Scraper::start_with_timeout(source, interval, sender, &clock, timeout));
        receiver.try_iter().collect()
    }

    #[test]
    fn the_first_and_the_last_reading_hold_buckets() {
        let source = endpoint(LONG, |stream| {
            page(stream, "vllm:time_to_first_token_seconds_bucket{le=\"+Inf\"} 4\nother 1\n");
        });
        let found = readings(source);
        assert_eq!(found.len(), 2);
        for reading in found {
            let names: Vec<&str> = reading.values.keys().map(String::as_str).collect();
            assert_eq!(names, ["vllm:time_to_first_token_seconds_bucket{le=\"+Inf\"}"]);
        }
    }

    #[test]
    fn an_endpoint_that_hangs_fails_its_first_reading_and_is_left_alone() {
        let found = readings(endpoint(SHORT, |mut stream| {
            let mut all = Vec::new();
            let _ = stream.read_to_end(&mut all);
        }));
        assert_eq!(found.len(), 1);
        assert!(found[0].error.is_some());
    }

    /// Each read of such an answer is quick, so that only a limit of the whole request ends it.
    #[test]
    fn an_endpoint_that_trickles_is_not_waited_for() {
        let found = readings(endpoint(SHORT, |mut stream| {
            let _ = write!(stream, "HTTP/1.1 200 OK\r\n\r\nvllm:generation_tokens_total 5");
            while stream.write_all(b"0").is_ok() {
                std::thread::yield_now();
                let _ = stream.set_read_timeout(Some(Duration::from_millis(20)));
                let _ = stream.read(&mut [0; 512]);
            }
        }));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].error.is_some(), "{found:?}");
    }

    #[test]
    fn an_endpoint_that_tells_nonsense_gives_no_values() {
        let found = readings(endpoint(LONG, |stream| page(stream, "<html>vllm: NaN</html>")));
        assert!(found.iter().all(|reading| reading.values.is_empty()));
    }
}
