//! How this client works, and which figures are shown and judged.

use serde_json::Value;

use super::row::Kind::{
    Choice, Count, Joined, Pairs, Parsed, Repeated, Seconds, Text, Texts, Time,
};
use super::row::{Holds, option, other, switch};
use super::{Fragment, Group};

#[rustfmt::skip] // The columns of a row stand side by side.
pub(super) const GROUPS: &[Group] = &[
    Group { title: "Client", rows: &[
        option("connections", "WHEN", Choice(&["auto", "preopen", "on-demand", "per-request"]), "When connections are opened; auto: before a burst, otherwise on demand")
            .sets("client.connections").defaults("auto", "per-request"),
        option("socket-reads", "HOW", Choice(&["eager", "adaptive"]), "When sockets are read: as soon as they are readable, or about once per millisecond where no two events can merge")
            .sets("client.socket_reads").default("adaptive"),
        option("stamps", "CLOCK", Choice(&["kernel", "user"]), "Source of arrival timestamps; `user` shows what a client without kernel timestamps reports")
            .sets("client.stamps").default("kernel"),
        switch("calibrate", "", "Measure this client's own timing error at this load first, and omit digits below it")
            .flag(|to| &mut to.calibrate),
        option("workers", "N", Count, "Number of worker threads [default: depends on the number of cores]")
            .sets("client.workers").most(1_024.0).also(&[other("rust-worker-threads", "S")]),
        option("timeout", "TIME", Time, "Timeout of a request; 0 disables it")
            .sets("client.timeout_s").default("6h"),
        option("connect-timeout", "TIME", Time, "Timeout for opening a connection")
            .sets("client.connect_timeout_s").default("10s"),
        option("stall-timeout", "TIME", Time, "Timeout from one token of a stream to the next; 0 disables it")
            .sets("client.stall_timeout_s").default("120s"),
        option("retries", "N", Count, "Retries of a failed request; every attempt is recorded")
            .sets("client.retries").default("0"),
        option("retry-max-wait", "TIME", Time, "Longest wait before a retry, whatever `Retry-After` says")
            .sets("client.retry_max_wait_s").default("60s"),
        option("scrape-interval", "SECONDS", Seconds, "Seconds between scrapes of the server's /metrics; 0 disables them")
            .sets("client.scrape_interval_s").default("1"),
        switch("no-scrape", "0.0", "Do not scrape the server's /metrics")
            .sets("client.scrape_interval_s").without(&["scrape-interval"]),
        option("metrics-url", "URL", Repeated(text), "URL to scrape metrics from; repeat it for each replica [default: the server itself]")
            .sets("client.metrics_urls").holds(Holds::Url),
        option("metrics-header", "NAME=VALUE", Pairs, "Headers for --metrics-url, NAME=VALUE; the API key and --header go to the server itself only")
            .sets("client.metrics_headers").holds(Holds::Header).needs(&["metrics-url"]),
    ]},
    Group { title: "Metrics", rows: &[
        option("layout", "NAME", Text, "Layout of the classic report; `tokometer` prints only our summary")
            .sets("metrics.layout").default("auto"),
        option("percentile-metrics", "LIST", Parsed(words), "Sections of the report: any of ttft,tpot,itl,e2el [default: ttft,tpot,itl]")
            .sets("metrics.sections").known("PRO"),
        option("metric-percentiles", "LIST", Parsed(|text| percentiles(text).map(Value::from)), "Percentiles of each section [default: 99]")
            .sets("metrics.percentiles").known("PRO"),
        option("goodput", "METRIC:MS", Texts, "Goodput objectives in milliseconds, such as ttft:200 tpot:50 e2el:3000")
            .put(objective).known("PRSO"),
        switch("strict", "strict", "Exit with code 4 if the run is INVALID")
            .sets("metrics.judgement"),
    ]},
];

#[rustfmt::skip] // The columns of a row stand side by side.
/// Options of `bench`; `capacity` requires its own of this name.
pub const JUDGED: Group = Group { title: "Metrics", rows: &[
    option("slo", "OBJECTIVES", Joined, "Objectives to judge the run by, such as \"p99 ttft < 500ms, goodput > 99%\"; exit code 1 if it misses one")
        .sets("metrics.slo"),
]};

#[expect(clippy::unnecessary_wraps, reason = "it is a parser like others")]
fn text(text: &str) -> Result<Value, String> {
    Ok(Value::from(text))
}

fn listed(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty())
}

#[expect(clippy::unnecessary_wraps, reason = "it is a parser like others")]
fn words(text: &str) -> Result<Value, String> {
    Ok(listed(text).collect())
}

/// `50,99.9` as percentiles.
pub fn percentiles(text: &str) -> Result<Vec<f64>, String> {
    let percentile = |word: &str| {
        word.parse().ok().filter(|percent| (0.0..=100.0).contains(percent)).ok_or_else(|| {
            format!(
                "`{word}` is not a percentile; write numbers between 0 and 100, such as `50,90,99`"
            )
        })
    };
    listed(text).map(percentile).collect()
}

/// `ttft:200` as a figure and its limit in milliseconds.
fn objective(to: &mut Fragment, word: &str) -> Result<(), String> {
    let (name, limit) = word.split_once(':').ok_or("it has no `:`")?;
    let limit = limit.trim().parse::<f64>().ok().filter(|limit| *limit >= 0.0 && limit.is_finite());
    let limit = limit.ok_or("its limit is not a number of milliseconds")?;
    to.part.metrics.goodput.insert(name.to_owned(), limit);
    Ok(())
}
