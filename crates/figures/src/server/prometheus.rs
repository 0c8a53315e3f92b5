//! Parses metrics in Prometheus text format.
//!
//! In: a page from a server, which may be invalid. Out: the samples that are used, by name with
//! labels as printed. Comments, invalid lines and values that are not finite are skipped, so an
//! invalid page gives no samples.

use std::collections::BTreeMap;

use tokometer_record::server::PROCESS_START;

use super::engines::{ENGINES, HISTOGRAMS, Histogram};
use super::gpu;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptSeries {
    /// Gauges, counters, and sums and counts of histograms, so that a scrape per second stays small.
    Values,
    /// Also the buckets of the TTFT histogram, which the first and the last scrape need.
    Buckets,
}

/// The samples of known engines and GPU exporters.
pub fn parse(text: &str, keep: KeptSeries) -> BTreeMap<String, f64> {
    text.lines().filter_map(line).filter(|(name, _)| is_kept(name, keep)).collect()
}

pub(super) fn bare_name(name: &str) -> &str {
    name.split('{').next().unwrap_or(name)
}

/// The value of a label, as printed.
pub(super) fn label<'a>(name: &'a str, key: &str) -> Option<&'a str> {
    let (_, labels) = name.split_once('{')?;
    labels.match_indices(key).find_map(|(at, _)| {
        let is_whole = at == 0 || labels[..at].ends_with([',', ' ']);
        let value = labels[at + key.len()..].strip_prefix("=\"").filter(|_| is_whole)?;
        value.split('"').next()
    })
}

fn is_kept(name: &str, keep: KeptSeries) -> bool {
    let bare = bare_name(name);
    if gpu::is_known(bare) || bare == PROCESS_START {
        return true;
    }
    if !ENGINES.iter().any(|(_, prefix)| bare.starts_with(prefix)) {
        return false;
    }
    match bare.strip_suffix("_bucket") {
        Some(histogram) => {
            keep == KeptSeries::Buckets && HISTOGRAMS.contains(&(Histogram::Ttft, histogram))
        }
        None => !bare.ends_with("_created"),
    }
}

fn line(line: &str) -> Option<(String, f64)> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    // A label may contain blanks and braces; the last brace of the line closes it.
    let (name, rest) = match line.rfind('}') {
        Some(brace) => line.split_at(brace + 1),
        None => line.split_at(line.find(char::is_whitespace)?),
    };
    // A timestamp may follow the value.
    let value: f64 = rest.split_whitespace().next()?.parse().ok()?;
    value.is_finite().then(|| (name.trim().to_owned(), value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_with_labels_times_and_odd_characters_are_read() {
        let check = |text: &str, expected: Option<(&str, f64)>| {
            let expected = expected.map(|(name, value)| (name.to_owned(), value));
            assert_eq!(line(text), expected, "{text}");
        };
        check("# HELP vllm:x of y", None);
        check("", None);
        check("vllm:x 3", Some(("vllm:x", 3.0)));
        check("vllm:x{a=\"b c}\"} 1.5e3 1700000", Some(("vllm:x{a=\"b c}\"}", 1_500.0)));
        check("vllm:x{a=\"b\"} NotANumber", None);
        check("nothing", None);
        // JSON cannot represent either, and no figure can use them.
        check("vllm:x NaN", None);
        check("vllm:x +Inf", None);
    }

    #[test]
    fn buckets_are_kept_only_where_they_are_wanted() {
        let text = "process_cpu_seconds_total 3\nvllm:a_created 1\nvllm:a_bucket{le=\"1\"} 2\n\
                    vllm:time_to_first_token_seconds_bucket{le=\"0.1\"} 2\n\
                    vllm:a_sum 4\nllamacpp:b 5\nDCGM_FI_DEV_GPU_UTIL{gpu=\"0\"} 7\n";
        let names = |keep| parse(text, keep).into_keys().collect::<Vec<_>>();
        let few = ["DCGM_FI_DEV_GPU_UTIL{gpu=\"0\"}", "llamacpp:b", "vllm:a_sum"];
        assert_eq!(names(KeptSeries::Values), few);
        assert_eq!(names(KeptSeries::Buckets).len(), 4);
    }

    #[test]
    fn labels_are_found_by_their_whole_name() {
        let name = "x{file=\"a\",le=\"0.5\", gpu=\"1\"}";
        assert_eq!(label(name, "le"), Some("0.5"));
        assert_eq!(label(name, "gpu"), Some("1"));
        assert_eq!(label(name, "e"), None);
        assert_eq!(label("x", "le"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "[ -~é\\n]{0,200}") {
            let _values = parse(&format!("vllm:{text}"), KeptSeries::Buckets);
            let _label = label(&text, "le");
        }
    }
}
