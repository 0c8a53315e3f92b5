//! The page in a real browser: it renders, reacts to the mouse, and sends no requests.
//!
//! Needs `chromium` and `chromedriver`; `cargo xtask ci` runs it where they are installed.

#![expect(clippy::unwrap_used, reason = "what a test needs and does not get fails the test")]

mod pages;
mod webdriver;

use serde_json::Value;

use nix::sys::signal::Signal;
use tokometer_e2e::program;
use tokometer_record::RunReader;

use crate::webdriver::Browser;

/// Console entries that mean something went wrong.
fn complaints(browser: &Browser) -> Vec<Value> {
    let entries = browser.log("browser").unwrap();
    entries.into_iter().filter(|entry| entry["level"] == "SEVERE").collect()
}

/// Addresses that the page asked for, apart from itself.
fn remote_requests(browser: &Browser) -> Vec<String> {
    let entries = browser.log("performance").unwrap();
    let address = |entry: &Value| {
        let message: Value = serde_json::from_str(entry["message"].as_str()?).ok()?;
        let is_request = message["message"]["method"] == "Network.requestWillBeSent";
        let url = message["message"]["params"]["request"]["url"].as_str()?.to_owned();
        (is_request && url.starts_with("http")).then_some(url)
    };
    entries.iter().filter_map(address).collect()
}

/// The middle of a plot's drawing area on the screen.
fn position_of(browser: &Browser, plot: usize) -> (i64, i64, i64) {
    let script = format!(
        "const over = document.querySelectorAll('.u-over')[{plot}]; over.scrollIntoView({{block: 'center'}}); \
         const box = over.getBoundingClientRect(); \
         return [box.left + box.width / 2, box.top + box.height / 2, box.width].map(Math.round)"
    );
    let position = browser.script(&script).unwrap();
    let number = |index: usize| position[index].as_i64().unwrap();
    (number(0), number(1), number(2))
}

fn width_of_x(browser: &Browser, plot: usize) -> f64 {
    let script = format!("const s = tokometerPlots[{plot}].plot.scales.x; return s.max - s.min");
    browser.script(&script).unwrap().as_f64().unwrap()
}

#[test]
fn the_page_renders_answers_to_the_mouse_and_asks_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let server = program::Server::quick();
    let line = format!(
        "bench --backend openai-chat --base-url {} --num-prompts 60 --request-rate 40 \
         --random-input-len 8 --random-output-len 12 --quiet --run-dir run",
        server.url
    );
    program::run(folder.path(), &line).succeeded();
    let _ = program::run(folder.path(), "report run --html page.html").succeeded();
    let profile = tempfile::tempdir().unwrap();
    let browser = Browser::start(profile.path()).unwrap();
    browser.open(&format!("file://{}/page.html", folder.path().display())).unwrap();

    let plots = browser.script("return document.querySelectorAll('.uplot').length").unwrap();
    // Two for each of four distributions, three time axes, the server's gauges, the lanes.
    assert!(plots.as_u64().unwrap() >= 12, "{plots} plots");
    let verdict = browser.script("return document.querySelector('.verdict').textContent").unwrap();
    assert!(["VALID", "SUSPECT", "INVALID"].contains(&verdict.as_str().unwrap()), "{verdict}");

    let (x, y, width) = position_of(&browser, 0);
    browser.hover(&[(x - 20, y), (x, y)]).unwrap();
    let legend = browser
        .script("return document.querySelector('.u-legend').textContent")
        .unwrap()
        .as_str()
        .unwrap()
        .to_owned();
    assert!(legend.contains('%'), "hovering shows no value: {legend}");

    let before = width_of_x(&browser, 0);
    browser.drag(&[(x - width / 8, y), (x, y), (x + width / 8, y)]).unwrap();
    let after = width_of_x(&browser, 0);
    assert!(after < before * 0.7, "dragging did not zoom: {before} to {after}");

    assert_eq!(complaints(&browser), Vec::<Value>::new());
    assert_eq!(remote_requests(&browser), Vec::<String>::new());
}

/// The page of the run `r` in `folder`, opened, with its whole text.
fn opened(folder: &std::path::Path, browser: &Browser) -> String {
    let _ = program::run(folder, "report r --html page.html").succeeded();
    browser.open(&format!("file://{}/page.html", folder.display())).unwrap();
    browser.script("return document.body.innerText").unwrap().as_str().unwrap().to_owned()
}

/// A comment with a script inside left the page blank: the browser then looks for a second end.
#[test]
fn the_page_of_a_run_with_a_name_of_html_shows_that_name() {
    let profile = tempfile::tempdir().unwrap();
    let browser = Browser::start(profile.path()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let server = program::Server::quick();
    let name = "a<!--<script>alert(1)</script>&amp;";
    let line = format!(
        "bench --base-url {} --num-prompts 5 --random-input-len 8 --random-output-len 4 --quiet --run-dir r",
        server.url
    );
    let mut bench = program::command(folder.path(), &line);
    let _ = program::ended(bench.args(["--name", name])).succeeded();
    let text = opened(folder.path(), &browser);
    assert!(text.contains(name) && text.contains("Figures"), "{text}");
    assert_eq!(complaints(&browser), Vec::<Value>::new());
}

#[test]
fn pages_of_interrupted_and_of_failed_runs_render_on_a_phone() {
    let profile = tempfile::tempdir().unwrap();
    let browser = Browser::start(profile.path()).unwrap();
    browser.resize(390, 844).unwrap();

    let folder = tempfile::tempdir().unwrap();
    let server = program::Server::quick();
    let line = format!(
        "bench --base-url {} --duration 10m --max-concurrency 4 --random-input-len 8 \
         --random-output-len 12 --quiet --run-dir r",
        server.url
    );
    let bench = program::Started::new(folder.path(), &line);
    program::wait_until("some requests are on disk", || {
        let reader = RunReader::open(&folder.path().join("r")).ok();
        reader.is_some_and(|reader| reader.timelines().is_ok_and(|rows| rows.count() >= 8))
    });
    bench.signal(Signal::SIGKILL);
    let _ = bench.wait();
    let text = opened(folder.path(), &browser);
    assert!(text.contains("Partial run"), "{text}");
    assert!(text.contains("Figures"), "{text}");

    let folder = tempfile::tempdir().unwrap();
    let faults = r#"{"errors":{"status":503,"which":{"every":1}}}"#;
    let server = program::Server::new(&["--ttft", "5ms", "--itl", "1ms", "--faults", faults]);
    let line = format!(
        "bench --base-url {} --num-prompts 5 --random-input-len 8 --random-output-len 4 \
         --ready-check-timeout-sec 0 --quiet --run-dir r",
        server.url
    );
    let _failed = program::run(folder.path(), &line);
    let text = opened(folder.path(), &browser);
    assert!(text.contains("INVALID") && text.contains("503"), "{text}");
    for absent in ["NaN", "undefined", "Infinity"] {
        assert!(!text.contains(absent), "{absent} in {text}");
    }

    let widths = "return [document.documentElement.scrollWidth, innerWidth]";
    let widths = browser.script(widths).unwrap();
    assert!(widths[0].as_i64() <= widths[1].as_i64(), "the page is wider than a phone: {widths}");
    assert_eq!(complaints(&browser), Vec::<Value>::new());
}
