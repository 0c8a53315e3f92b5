//! One page that opens offline: figures, distributions, time axes and swim lanes of runs.
//!
//! In: what is known of each run and its timelines, one pass. Out: a single HTML file with its data,
//! its script and its plotting library inside; nothing is ever fetched. Sizes are bounded: curves are
//! resampled and lanes are thinned, and the page says so where it happens.

mod chart;
mod configuration;
mod cost;
mod facts;
mod inside;
mod lanes;
mod load_axis;
mod run;
mod spread;
mod sweep;

use serde::Serialize;
use serde_json::{Value, json};
use tokometer_figures::Verdict;

pub use chart::{
    Band, Chart, ChartAxis, ChartGroup, ChartPoint, FigureEstimate, LimitLine, Of, PointMark,
    Scale, Series, Table, doubt, estimate, graver,
};
pub use cost::Price;
pub use facts::{PageFact, command, command_lines, date, facts, quoted, title};
pub use run::RunPage;
pub use sweep::{ObjectivesOutcome, PageContext, SweepPoint, SweepView};

const PAGE: &str = include_str!("../../assets/page.html");
const PAGE_CSS: &str = include_str!("../../assets/page.css");
/// In the order in which they depend on each other.
const SCRIPTS: [&str; 4] = [
    include_str!("../../assets/parts.js"),
    include_str!("../../assets/charts.js"),
    include_str!("../../assets/run.js"),
    include_str!("../../assets/page.js"),
];
const UPLOT_JS: &str = include_str!("../../assets/uplot.min.js");
const UPLOT_CSS: &str = include_str!("../../assets/uplot.min.css");

/// Something that a reader must know before the figures of the whole page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PageNote {
    /// How much it matters: `invalid`, `suspect` or `remark`.
    pub severity: &'static str,
    /// Its word, such as `warning`.
    pub code: String,
    pub text: String,
}

/// The answer of a page, above everything else.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct PageAnswer {
    /// `good`, `bad` or `open`: whether there is an answer, and which; `plain` for figures that are
    /// neither good nor bad.
    pub tone: &'static str,
    pub headline: String,
    pub lines: Vec<String>,
    /// How far to trust it: a verdict, and where it comes from. `None` for a prediction.
    pub trust: Option<(Verdict, String)>,
}

/// One figure of a comparison, for the chart of differences.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DifferenceBar {
    pub figure: String,
    /// B minus A as a share of A.
    pub change: f64,
    /// Lower end of its 95 % confidence interval; `None` where there is none.
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// `better`, `worse`, `negligible`, `same` or `open`.
    pub verdict: &'static str,
    pub words: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Differences {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Value>>,
    pub bars: Vec<DifferenceBar>,
    /// Differences within this share are negligible.
    pub margin: f64,
}

/// What a chart says of a point's run when it is pointed at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunCard {
    pub name: String,
    /// The run's plan in brief, one line each.
    pub lines: Vec<String>,
}

#[derive(Debug, Default, Serialize)]
pub struct Page {
    /// Model, server and load: the title of window and page.
    pub title: String,
    /// What the page is about.
    pub answer: Option<PageAnswer>,
    /// What to know of all that follows.
    pub notes: Vec<PageNote>,
    /// Where the figures come from.
    pub facts: Vec<PageFact>,
    /// The command that repeats the measurement.
    pub command: Option<String>,
    /// One row per run of a sweep or a search.
    pub overview: Option<Table>,
    pub differences: Option<Differences>,
    pub groups: Vec<ChartGroup>,
    /// One per run that a chart's points refer to.
    pub cards: Vec<RunCard>,
    /// The runs, each with its own part of the page. Points refer to them by index.
    #[serde(skip)]
    pub runs: Vec<RunPage>,
}

impl Page {
    pub fn render(self) -> String {
        let is_single =
            self.runs.len() == 1 && self.overview.is_none() && self.differences.is_none();
        // Only runs have time axes, which are what the plotting library is for.
        let has_runs = !self.runs.is_empty();
        let mut data = json!(self);
        data["is_single"] = json!(is_single);
        data["footer"] = json!(format!("Made by tokometer {}.", env!("CARGO_PKG_VERSION")));
        data["runs"] = self.runs.into_iter().map(RunPage::into_json).collect();
        let library = |text: &str| if has_runs { text.to_owned() } else { String::new() };
        let parts = [
            ("@TITLE@", escape(&self.title)),
            ("@UPLOT_CSS@", library(UPLOT_CSS)),
            ("@PAGE_CSS@", PAGE_CSS.to_owned()),
            ("@DATA@", embedded(&data)),
            ("@UPLOT_JS@", library(UPLOT_JS)),
            ("@PAGE_JS@", format!("(() => {{\n\"use strict\";\n{}}})();", SCRIPTS.concat())),
        ];
        let mut page = String::new();
        let mut rest = PAGE;
        // One pass over the frame: text that was put in is never searched for marks again.
        for (mark, text) in parts {
            let (before, after) =
                rest.split_once(mark).expect("the frame has its marks in this order");
            page.extend([before, &text]);
            rest = after;
        }
        page + rest
    }
}

/// JSON inside a script element. HTML looks for `</script` and `<!--` in it, so every `<` is written as
/// JSON's escape for the same character; JavaScript of old took the two separators for line ends.
fn embedded(data: &Value) -> String {
    let text = data.to_string().replace('<', "\\u003c").replace('>', "\\u003e");
    text.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use tokometer_base::Nanos;
    use tokometer_record::{
        AttemptId, Event, EventKind, Outcome, Phase, RequestedLengths, Timeline,
    };

    use super::*;

    #[test]
    fn a_page_holds_everything_and_asks_for_nothing() {
        let page = Page { title: "a < b".into(), ..Page::default() }.render();
        assert!(page.contains("<title>a &lt; b</title>"));
        assert!(page.len() < 64_000, "a page without runs needs no plotting library");
        for remote in ["src=\"http", "href=\"http", "@import", "url(http"] {
            assert!(!page.contains(remote), "the page refers to something outside: {remote}");
        }
        assert!(!page.contains("@DATA@") && !page.contains("@PAGE_JS@"));
    }

    #[test]
    fn data_cannot_close_its_own_script() {
        let overview = Table {
            columns: vec!["x".into()],
            rows: vec![vec![Value::from("</script><script>alert(1)")]],
        };
        let page = Page { overview: Some(overview), ..Page::default() }.render();
        assert!(!page.contains("</script><script>alert(1)"));
    }

    /// A run named `a<!--<script` left the page blank: HTML then looks for a second end of the script.
    #[test]
    fn data_in_the_page_is_the_data_that_was_put_in() {
        let name = "a<!--<script>\u{2028}'\"&</title>-->\u{2029}";
        let overview = Table { columns: vec![name.into()], rows: vec![vec![Value::from(name)]] };
        let page =
            Page { title: name.into(), overview: Some(overview), ..Page::default() }.render();
        let start = page.find("id=\"data\">").unwrap() + "id=\"data\">".len();
        let data = &page[start..start + page[start..].find("</script>").unwrap()];
        for mark in ['<', '>', '\u{2028}', '\u{2029}'] {
            assert!(!data.contains(mark), "{mark:?} in {data}");
        }
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["title"], name);
        assert_eq!(data["overview"]["rows"][0][0], name);
        let title = &page[page.find("<title>").unwrap()..page.find("</title>").unwrap()];
        assert_eq!(title, format!("<title>{}", escape(name)));
        assert_eq!(page.matches("<script").count(), 3, "no script of a name's own");
    }

    #[test]
    fn a_hundred_thousand_requests_stay_below_ten_megabytes() {
        let (info, summary) = (crate::testing::info(), crate::testing::summary());
        let mut run = RunPage::new("run", &info, &summary);
        run.begin = Some(Nanos::ZERO);
        for index in 0..100_000 {
            let at = |ms: u64| Nanos::from_millis(index * 3 + ms);
            let mut timeline = Timeline::new(
                AttemptId::new(index, Phase::Measure),
                RequestedLengths::default(),
                at(1),
            );
            timeline.times.first_byte_sent = Some(at(2));
            for (read, ms) in (0..).zip([30, 41, 52]) {
                timeline.push(Event::new(at(ms + index % 7), read, EventKind::Text));
            }
            timeline.outcome = Outcome::Success;
            run.push(&timeline);
        }
        let page = Page { runs: vec![run], ..Page::default() }.render();
        assert!(page.len() < 10_000_000, "{} bytes", page.len());
        assert!(page.contains("One in 8 of 100000 requests."), "thinned lanes say so");
    }
}
