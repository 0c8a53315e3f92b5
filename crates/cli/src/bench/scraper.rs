//! Reads the server's own metrics now and then, on a thread of its own and the run's clock.

use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;

use tokometer_base::{Clock, MonotonicClock, Nanos};
use tokometer_client::Control;
use tokometer_record::server::Scrape;

/// A scraper under way. It stops when dropped, after one last reading.
pub(crate) struct Scraper {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Scraper {
    /// Reads once before it returns, so that counters have a base line, and then every `interval`
    /// until stopped. A server whose first reading fails has no metrics for us and is left alone.
    pub(crate) fn start(source: Source, interval: Nanos, scrapes: Sender<Scrape>) -> Self {
        let (stop, stopped) = channel();
        let first = source.scrape();
        let is_useless = first.error.is_some();
        if scrapes.send(first).is_err() || is_useless {
            return Self { stop: None, thread: None };
        }
        let read = move || {
            loop {
                let is_over =
                    stopped.recv_timeout(interval.to_duration()) != Err(RecvTimeoutError::Timeout);
                if scrapes.send(source.scrape()).is_err() || is_over {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("scraper".to_owned()).spawn(read).ok();
        Self { stop: Some(stop), thread }
    }
}

impl Drop for Scraper {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

/// One endpoint that tells metrics.
pub(crate) struct Source {
    /// How it is asked.
    pub(crate) control: Control,
    /// Its number among those that are read.
    pub(crate) endpoint: u16,
}

impl Source {
    fn scrape(&self) -> Scrape {
        let answer = self.control.metrics_text();
        let (at, endpoint) = (MonotonicClock.now(), self.endpoint);
        match answer {
            Ok(text) => Scrape { at, endpoint, values: values(&text), error: None },
            Err(why) => {
                Scrape { at, endpoint, values: BTreeMap::new(), error: Some(why.to_string()) }
            }
        }
    }
}

/// The samples of a text in Prometheus' form: name and labels as printed, then the value.
fn values(text: &str) -> BTreeMap<String, f64> {
    let sample = |line: &str| {
        if line.starts_with('#') || line.contains("_bucket{") {
            return None;
        }
        // Labels may hold blanks, the value never does; a time stamp may follow it.
        let name_end = line.rfind('}').map_or_else(|| line.find(' '), |brace| Some(brace + 1))?;
        let value = line[name_end..].split_whitespace().next()?.parse().ok()?;
        Some((line[..name_end].to_owned(), value))
    };
    text.lines().filter_map(sample).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_keep_their_labels_and_histograms_are_left_out() {
        let text = "# HELP x y\n\
            vllm:num_requests_running{model_name=\"a b\"} 3.0\n\
            plain_total 5 1700000000\n\
            h_bucket{le=\"1\"} 4\n\
            broken\n";
        let values = values(text);
        assert_eq!(values.len(), 2);
        assert_eq!(values.get("vllm:num_requests_running{model_name=\"a b\"}"), Some(&3.0));
        assert_eq!(values.get("plain_total"), Some(&5.0));
    }
}
