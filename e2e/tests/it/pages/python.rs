//! Programs in Python, run with a run folder of the program. A package that Python does not bring along
//! is replaced by one that accepts every call, and fails for a file that does not exist or a figure that
//! is not a number; the page must say that it is needed.

use std::fs;

use serde_json::Value;

use super::block::{Page, Script};
use super::session::Session;
use crate::scripted::{AfterResponse, Scripted, ScriptedRequest};

/// Runs `script.py`, and writes the packages that are not Python's own to `packages.txt`.
const RUNNER: &str = r#"
import ast, os, sys, types

class StandIn(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self
    def __call__(self, *arguments, **named):
        for one in [*arguments, *named.values()]:
            if isinstance(one, str) and os.path.splitext(one)[1]:
                assert os.path.exists(one), f"there is no file {one}"
            if isinstance(one, dict):
                assert one and all(isinstance(value, (int, float)) for value in one.values()), one
        return self
    def __enter__(self):
        return self
    def __exit__(self, *why):
        return None

code = open("script.py").read()
names = set()
for node in ast.walk(ast.parse(code)):
    if isinstance(node, ast.Import):
        names |= {alias.name for alias in node.names}
    elif isinstance(node, ast.ImportFrom):
        names.add(node.module)
foreign = {name for name in names if name.split(".")[0] not in sys.stdlib_module_names}
for name in foreign:
    sys.modules[name] = StandIn(name)
open("packages.txt", "w").write("\n".join(sorted(foreign)))
exec(compile(code, "script.py", "exec"), {"__name__": "__main__"})
"#;

/// The address of a collector of metrics on the reader's machine.
const COLLECTOR: &str = "http://127.0.0.1:4318";

/// The run folder and the page that scripts read.
const PREPARED: &str =
    "tokometer bench --sim --num-prompts 20 --max-concurrency 4 --random-input-len 8 \
     --random-output-len 4 --quiet --run-dir demo
mkdir runs; cp -r demo runs/RUN
tokometer report demo --html demo.html --parquet requests.parquet > /dev/null";

/// A collector that refuses what is not OTLP's JSON with at least one metric.
fn collector() -> Scripted {
    Scripted::raw(|mut asked: ScriptedRequest<'_>| {
        let body: Value = serde_json::from_slice(&asked.body).unwrap_or_default();
        let metrics = &body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
        let is_metric = |one: &Value| {
            one["name"].is_string() && one["gauge"]["dataPoints"][0]["asDouble"].is_number()
        };
        let is_good =
            metrics.as_array().is_some_and(|all| !all.is_empty() && all.iter().all(is_metric));
        let status = if is_good { "200 OK" } else { "400 Bad Request" };
        asked.answer(status, "application/json", "{}");
        AfterResponse::Close
    })
}

/// What is wrong with the Python of these pages.
fn failures(pages: &[Page]) -> Vec<String> {
    let mut session = Session::new(&Page::new("", ""));
    session.attempt(PREPARED).unwrap_or_else(|why| panic!("{why}"));
    let collector = collector();
    let mut failures = Vec::new();
    for page in pages {
        for script in page.scripts() {
            let wrong = failure(&mut session, &script, &collector.url);
            failures.extend(wrong.map(|why| format!("{}:{}: {why}", page.name, script.line)));
        }
    }
    failures
}

fn failure(session: &mut Session, script: &Script, collector: &str) -> Option<String> {
    let write = |name: &str, text: &str| fs::write(session.folder().join(name), text).unwrap();
    write("runner.py", RUNNER);
    write("script.py", &script.code.replace(COLLECTOR, collector));
    write("packages.txt", "");
    // Python ends with 1, which is no failure of the program's own commands.
    if let Err(why) = session.attempt("python3 runner.py || exit 99") {
        return Some(why);
    }
    let packages = fs::read_to_string(session.folder().join("packages.txt")).unwrap();
    let remark = script.remark.strip_prefix('#').unwrap_or_default().to_ascii_lowercase();
    let unnamed: Vec<&str> = packages.lines().filter(|name| !remark.contains(*name)).collect();
    (!unnamed.is_empty()).then(|| format!("start the block with `# needs {}`", unnamed.join(", ")))
}

#[test]
fn python_in_the_pages_runs_with_a_run_folder() {
    let failures = failures(&super::all_pages());
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn python_that_cannot_work_is_found() {
    let cases = [
        ("# needs polars\nimport polars; polars.read(\"runs/RUN/requests.arrows\")", None),
        ("import numbers; open(\"demo/summary.json\")", None),
        ("import polars", Some("start the block with `# needs polars`")),
        (
            "# needs polars\nimport polars; polars.read(\"runs/RUN/rows.arrows\")",
            Some("there is no file"),
        ),
        (
            "# needs mlflow\nimport mlflow; mlflow.log_metrics({\"a\": None})",
            Some("AssertionError"),
        ),
        ("import json; json.load(open(\"demo/summary.json\"))[\"figures\"]", Some("KeyError")),
        ("import json;; json", Some("SyntaxError")),
        (
            "import urllib.request; urllib.request.urlopen(\"http://127.0.0.1:4318/v1/metrics\", b\"{}\")",
            Some("HTTP Error 400"),
        ),
    ];
    let page = |(number, (code, _)): (usize, &(&str, Option<&str>))| {
        Page::new(&format!("{number}.md"), &format!("```python\n{code}\n```\n"))
    };
    let failures = failures(&cases.iter().enumerate().map(page).collect::<Vec<_>>());
    for (number, (code, expected)) in cases.iter().enumerate() {
        let found = failures.iter().find(|why| why.starts_with(&format!("{number}.md:")));
        assert_eq!(found.is_some(), expected.is_some(), "{code}: {failures:?}");
        let is_named = found.zip(*expected).is_none_or(|(why, part)| why.contains(part));
        assert!(is_named, "{code}: {found:?}");
    }
}
