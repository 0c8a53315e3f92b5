//! Pages of several runs, of a capacity search and of a comparison.

use std::path::Path;

use serde_json::Value;
use tokometer_e2e::program;

use crate::webdriver::Browser;
use crate::{complaints, remote_requests};

/// Small runs of a server that answers at once.
const SMALL: &str = "--random-input-len 8 --random-output-len 4 --quiet";

fn open(browser: &Browser, folder: &Path, page: &str) -> String {
    browser.open(&format!("file://{}/{page}", folder.display())).unwrap();
    let _ = browser
        .script("document.querySelectorAll('details.told').forEach((one) => { one.open = true; })");
    browser.script("return document.body.innerText").unwrap().as_str().unwrap().to_owned()
}

fn number(browser: &Browser, script: &str) -> i64 {
    let found = browser.script(script).unwrap();
    found.as_i64().unwrap_or_else(|| panic!("{script} gave {found}"))
}

/// Every table can be scrolled to its last column, by keyboard too, and the page itself is not wider than
/// the window.
fn assert_narrow(browser: &Browser) {
    // Plots take their new width a moment after the window has.
    program::wait_until("the page is as narrow as the window", || {
        number(browser, "return document.documentElement.scrollWidth - innerWidth") <= 0
    });
    let hidden = "return [...document.querySelectorAll('.wide')].filter((box) => { \
        if (box.tabIndex !== 0 || box.getAttribute('role') !== 'region') return true; \
        box.scrollLeft = 1e6; const heads = [...box.querySelectorAll('thead th')].pop(); \
        return heads && heads.offsetParent && heads.getBoundingClientRect().right > box.getBoundingClientRect().right + 2; }).length";
    assert_eq!(number(browser, hidden), 0, "a column cannot be reached");
}

/// What a button would download, without leaving the page.
fn download(browser: &Browser, label: &str) -> String {
    let script = format!(
        "const made = []; const before = URL.createObjectURL; \
         URL.createObjectURL = (blob) => {{ made.push(blob); return before(blob); }}; \
         const found = [...document.querySelectorAll('.saves button')].find((one) => one.textContent === '{label}'); \
         found.click(); URL.createObjectURL = before; \
         window.saved = null; made[0].text().then((text) => {{ window.saved = text; }}); return made.length"
    );
    assert_eq!(number(browser, &script), 1, "one file for {label}");
    program::wait_until("the blob is read", || {
        !browser.script("return window.saved").unwrap().is_null()
    });
    browser.script("return window.saved").unwrap().as_str().unwrap().to_owned()
}

/// Two sweeps and a run at a rate, on the page `page.html`.
fn write_configurations(folder: &Path) {
    let servers = [program::Server::quick(), program::Server::quick()];
    for (server, name) in servers.iter().zip(["base", "<b>tuned</b>"]) {
        let line = format!(
            "bench --base-url {} --max-concurrency 1,4 --num-prompts 8 {SMALL}",
            server.url
        );
        let dir = name.replace(['<', '>', '/'], "");
        let _ = program::run(folder, &format!("{line} --run-dir {dir}")).succeeded();
    }
    let rate =
        format!("bench --base-url {} --request-rate 50 --num-prompts 8 {SMALL}", servers[0].url);
    let _ = program::run(folder, &format!("{rate} --run-dir rate")).succeeded();
    let mut report = program::command(folder, "report base btunedb rate --gpus 8 --price 2.5/h");
    let report =
        report.args(["--slo", "p99 ttft < 5s", "--label", "base", "--label", "<b>tuned</b>"]);
    let _ = program::ended(report.args(["--label", "rate", "--html", "page.html"])).succeeded();
}

#[test]
fn configurations_are_series_whose_points_lead_to_their_runs() {
    let folder = tempfile::tempdir().unwrap();
    write_configurations(folder.path());
    let profile = tempfile::tempdir().unwrap();
    let browser = Browser::start(profile.path()).unwrap();
    let text = open(&browser, folder.path(), "page.html");
    for words in [
        "<b>tuned</b>",
        "Pareto front",
        "p99 ttft < 5s",
        "Cost per million tokens",
        "Concurrency sweep",
        "Request-rate sweep",
        "tokometer bench --base-url",
        "measured by",
    ] {
        assert!(text.contains(words), "no {words} in {text}");
    }
    for absent in ["NaN", "undefined", "Infinity", "[object"] {
        assert!(!text.contains(absent), "{absent} in {text}");
    }
    // Two configurations of two points on the first chart; the rate has charts of its own.
    assert_eq!(
        number(
            &browser,
            "return document.querySelector('.chart').querySelectorAll('.point').length"
        ),
        4
    );
    assert_eq!(
        number(
            &browser,
            "return document.querySelector('.chart').querySelectorAll('.legend button').length"
        ),
        2
    );

    // The plan is shown when a point is focused, and Enter leads to its run.
    let tip = "const point = document.querySelector('.chart .point'); point.focus(); \
        return document.querySelector('.chart .tip').textContent";
    let tip = browser.script(tip).unwrap();
    assert!(tip.as_str().unwrap().contains("closed loop"), "{tip}");
    let opened = "document.querySelector('.chart .point').dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true})); \
        const run = document.querySelector('details.run[open]'); \
        return run ? run.innerText : ''";
    let opened = browser.script(opened).unwrap();
    assert!(opened.as_str().unwrap().contains("concurrency 1"), "{opened}");
    program::wait_until("the run's part is made", || {
        number(&browser, "return document.querySelectorAll('details.run[open] h3.head').length") > 0
    });

    let saved = download(&browser, "CSV");
    assert!(saved.starts_with("run,configuration,load,"), "{saved}");
    assert_eq!(saved.lines().count(), 6, "{saved}");
    let saved: Value = serde_json::from_str(&download(&browser, "JSON")).unwrap();
    assert_eq!(saved["runs"].as_array().unwrap().len(), 5);

    browser.resize(400, 800).unwrap();
    assert_narrow(&browser);
    assert_eq!(complaints(&browser), Vec::<Value>::new());
    assert_eq!(remote_requests(&browser), Vec::<String>::new());
}

#[test]
fn capacity_and_compare_pages_show_the_answer_first_and_verdicts_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let server = program::Server::quick();
    let line = format!(
        "capacity --base-url {} --start 20 --max 40 --min-duration 300ms --max-duration 600ms \
         --disable-tqdm --run-dir cap --html cap.html {SMALL}",
        server.url
    );
    let mut search = program::command(folder.path(), &line);
    let _ = program::ended(search.args(["--slo", "p50 ttft < 10s"])).succeeded();
    for name in ["a", "b"] {
        let line = format!(
            "bench --base-url {} --num-prompts 20 --max-concurrency 4 {SMALL} --run-dir {name}",
            server.url
        );
        let _ = program::run(folder.path(), &line).succeeded();
    }
    let _ = program::run(folder.path(), "compare --a a --b b --html compare.html").succeeded();

    let profile = tempfile::tempdir().unwrap();
    let browser = Browser::start(profile.path()).unwrap();
    let text = open(&browser, folder.path(), "cap.html");
    let answer = browser.script("return document.querySelector('.answer').innerText").unwrap();
    assert!(answer.as_str().unwrap().starts_with("at least 40.00 req/s"), "{answer}");
    assert!(text.contains("p50 ttft < 10s") && text.contains("met"), "{text}");
    assert!(number(&browser, "return document.querySelectorAll('.limit').length") >= 1);

    let text = open(&browser, folder.path(), "compare.html");
    assert!(text.contains("tokometer compare --a a --b b"), "{text}");
    let words = browser
        .script("return [...document.querySelectorAll('svg .words')].map((one) => one.textContent)")
        .unwrap();
    let words = words.as_array().unwrap();
    assert!(words.len() > 5, "{words:?}");
    for one in words {
        let word = one.as_str().unwrap();
        let known = [
            "▲ better",
            "▼ worse",
            "≈ differs, negligible",
            "= no difference found",
            "? cannot tell",
        ];
        assert!(known.contains(&word), "{word}");
    }
    browser.resize(400, 800).unwrap();
    assert_narrow(&browser);
    assert_eq!(complaints(&browser), Vec::<Value>::new());
    assert_eq!(remote_requests(&browser), Vec::<String>::new());
}

/// Legends showed `--` for every value until the mouse came.
#[test]
fn a_page_at_rest_shows_no_placeholders_and_has_a_table_behind_each_chart() {
    let folder = tempfile::tempdir().unwrap();
    let server = program::Server::quick();
    let line = format!(
        "bench --base-url {} --num-prompts 30 --max-concurrency 4 {SMALL} --run-dir r",
        server.url
    );
    let _ = program::run(folder.path(), &line).succeeded();
    let _ = program::run(folder.path(), "report r --html page.html").succeeded();
    let profile = tempfile::tempdir().unwrap();
    let browser = Browser::start(profile.path()).unwrap();
    let text = open(&browser, folder.path(), "page.html");
    assert!(text.contains("CDF") && text.contains("histogram"), "{text}");
    let legends =
        "return [...document.querySelectorAll('.u-legend')].map((one) => one.innerText).join(' ')";
    let legends = browser.script(legends).unwrap();
    assert!(!legends.as_str().unwrap().contains(['-', '–']), "{legends}");
    let tables = "const all = [...document.querySelectorAll('figure:not(.full)')]; \
        const details = all.map((one) => one.querySelector('details.data')); \
        details.forEach((one) => { one.open = true; }); return details.filter((one) => !one).length";
    assert_eq!(number(&browser, tables), 0);
    program::wait_until("the tables are made", || {
        number(&browser, "return document.querySelectorAll('details.data table tbody tr').length")
            > 10
    });
    let saved = download(&browser, "CSV");
    assert!(saved.starts_with("key,statistic,value\nplanned,count,30\n"), "{saved}");
    browser.resize(400, 800).unwrap();
    assert_narrow(&browser);
    assert_eq!(complaints(&browser), Vec::<Value>::new());
}
