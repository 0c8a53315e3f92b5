//! A server's own counters, read without the program under test.

use std::time::Duration;

use anyhow::{Context, Result};

use super::recipe::Counters;
use crate::process::get;

/// Counters of a server at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Counted {
    pub(super) prompt: f64,
    pub(super) generated: f64,
    pub(super) running: f64,
}

/// Counters are brought up to date a while after the last token.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(100);

pub(super) fn read(url: &str, names: &Counters) -> Result<Counted> {
    let (_, page) = get(&format!("{url}/metrics"))?;
    Ok(of_page(&page, names))
}

pub(super) fn of_page(page: &str, names: &Counters) -> Counted {
    let all = |names: &[&str]| names.iter().filter_map(|name| sum(page, name)).reduce(|a, b| a + b);
    Counted {
        // A counter that has counted nothing yet may not be on the page.
        prompt: all(names.prompt).unwrap_or(0.0),
        generated: all(names.generated).unwrap_or(0.0),
        running: sum(page, names.running).unwrap_or(0.0),
    }
}

/// Reads them until nothing runs and two readings agree.
pub(super) fn settled(url: &str, names: &Counters) -> Result<Counted> {
    let mut last = read(url, names)?;
    for _ in 0..TRIES {
        std::thread::sleep(PAUSE);
        let now = read(url, names)?;
        if now == last && now.running < 0.5 {
            return Ok(now);
        }
        last = now;
    }
    Err(anyhow::anyhow!("{} requests still run", last.running)).context("the server does not rest")
}

/// A metric, summed over its labels.
pub(super) fn sum(page: &str, name: &str) -> Option<f64> {
    let value = |line: &str| {
        let rest = line.strip_prefix(name)?;
        let value = match rest.as_bytes().first()? {
            b'{' => &rest[rest.rfind('}')? + 1..],
            b' ' => rest,
            _ => return None,
        };
        value.split_whitespace().next()?.parse::<f64>().ok()
    };
    page.lines().filter_map(value).reduce(|a, b| a + b)
}

#[cfg(test)]
mod tests {
    use super::sum;

    #[test]
    fn labels_are_summed_and_longer_names_are_others() {
        let page = "a_total{x=\"1\"} 2\na_total{x=\"} \"} 3.5 17\na_total_created 9\nb 1\n";
        assert_eq!(sum(page, "a_total"), Some(5.5));
        assert_eq!(sum(page, "b"), Some(1.0));
        assert_eq!(sum(page, "c"), None);
    }
}
