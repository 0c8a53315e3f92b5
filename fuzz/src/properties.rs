//! What must hold for any bytes: no panic, no endless work, and the same result for the same bytes in
//! other pieces.
//!
//! The fuzzer searches for bytes that break a property; `e2e/tests/it/properties.rs` includes this
//! file and checks the same properties with mutated fixtures and saved regressions.

use std::cell::RefCell;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use tokometer_base::{Nanos, Partial, Seed};
use tokometer_client::{Dialect, Exchange, KeepText, ReadStamp, ResponseProgress, Settings, Url};
use tokometer_plan::PartialPlan;
use tokometer_record::{AttemptId, Outcome, Phase, RequestedLengths, RunReader, Timeline};
use tokometer_sim::Profile;
use tokometer_tokenize::{Choice, Specials, Tokenizer, TokenizerSources};
use tokometer_workload::{DatasetContext, PartialSpec, Templating};

/// Panics for bytes that break it.
pub(crate) type Property = fn(&[u8]);

/// Every property by the name of its target.
pub(crate) const PROPERTIES: [(&str, Property); 17] = [
    ("exchange", exchange),
    ("doctor", doctor),
    ("prometheus", prometheus),
    ("plan", plan),
    ("folder", folder),
    ("dataset-custom", |data| dataset("custom", "jsonl", data)),
    ("dataset-sharegpt", |data| dataset("sharegpt", "json", data)),
    ("dataset-burstgpt", |data| dataset("burstgpt", "csv", data)),
    ("dataset-openai", |data| dataset("openai", "jsonl", data)),
    ("dataset-book", |data| dataset("book", "txt", data)),
    ("dataset-sonnet", |data| dataset("sonnet", "txt", data)),
    ("dataset-hf", |data| dataset("hf", "parquet", data)),
    ("trace-timed", |data| dataset("timed_trace", "jsonl", data)),
    ("trace-mooncake", |data| dataset("mooncake", "jsonl", data)),
    ("tokenizer", tokenizer_file),
    ("template", template),
    ("profile", profile),
];

/// The bytes in pieces whose lengths the bytes themselves decide.
fn pieces(data: &[u8]) -> Vec<&[u8]> {
    let mut rest = data;
    let mut pieces = Vec::new();
    while let Some(first) = rest.first() {
        let (piece, after) = rest.split_at(usize::from(first % 23).clamp(1, rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// Protocols whose answers are read; the first byte of the input chooses.
const BACKENDS: [&str; 6] = ["openai", "openai-chat", "sglang", "tgi", "llamacpp", "tensorrt-llm"];

fn exchange(data: &[u8]) {
    let Some((first, stream)) = data.split_first() else { return };
    let backend = BACKENDS[usize::from(*first) % BACKENDS.len()];
    let settings = Settings::new(Url::http("127.0.0.1", 8000), "m");
    let dialect = Dialect::named(backend).expect("a backend of the table");
    let mut exchange = Exchange::new(&dialect, &settings, KeepText::Yes);
    let mut read = |pieces: &[&[u8]]| {
        exchange.reset();
        let identity = AttemptId::new(0, Phase::Measure);
        let mut timeline = Timeline::new(identity, RequestedLengths::default(), Nanos::ZERO);
        let stamp = ReadStamp::exact(Nanos::from_millis(1));
        for piece in pieces {
            if exchange.on_read(piece, stamp, &mut timeline) != ResponseProgress::More {
                return timeline;
            }
        }
        exchange.on_eof(Nanos::from_millis(2), &mut timeline);
        timeline
    };
    let (whole, parted) = (read(&[stream]), read(&pieces(stream)));
    assert_eq!(kind(&whole.outcome), kind(&parted.outcome), "{backend}: outcomes differ");
    assert_eq!(whole.events.len(), parted.events.len(), "{backend}: events differ");
    assert_eq!(whole.text, parted.text, "{backend}: texts differ");
}

/// An outcome without its message, which may quote more or less of the answer. Without a header the
/// kind depends on whether a broken one was seen before the connection closed.
fn kind(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Failed(failure) if failure.status.is_none() => "no response".to_owned(),
        Outcome::Failed(failure) => format!("{:?} {:?}", failure.kind, failure.status),
        other => format!("{other:?}"),
    }
}

fn doctor(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let read = tokometer_compat::files::read(text).unwrap_or_default();
    for reports in [tokometer_compat::parse(text), read] {
        let examination = tokometer_doctor::examine(&reports);
        let (name, reports, examination) = ("input", reports.as_slice(), &examination);
        let file = tokometer_doctor::ExaminedFile { name, reports, examination };
        let _ = tokometer_doctor::doctor_text(file);
        let _ = tokometer_doctor::doctor_comment(&[file]);
        let _ = tokometer_doctor::doctor_html(&[file]);
    }
}

fn prometheus(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = tokometer_figures::server::parse(text, tokometer_figures::server::KeptSeries::Buckets);
}

/// A plan that can be read is the same when it is written and read again.
fn plan(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let read = serde_json::from_str::<PartialPlan>(text).ok();
    let Some(part) = read.or_else(|| toml::from_str::<PartialPlan>(text).ok()) else { return };
    let Ok(plan) = part.complete() else { return };
    let Ok(written) = serde_json::to_string(&plan) else { return };
    let again: PartialPlan = serde_json::from_str(&written).expect("a written plan can be read");
    let again = again.complete().expect("a written plan is complete");
    assert_eq!(serde_json::to_string(&again).ok().as_deref(), Some(written.as_str()));
}

thread_local! {
    /// A folder for files that a property reads, kept for all inputs.
    static SCRATCH: RefCell<Option<tempfile::TempDir>> = const { RefCell::new(None) };
}

fn in_scratch(work: impl FnOnce(&Path)) {
    SCRATCH.with_borrow_mut(|scratch| {
        // In memory where the machine has such a folder: a fuzzer writes millions of files.
        let memory = Path::new("/dev/shm");
        let create =
            || if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let folder = scratch.get_or_insert_with(|| create().expect("a scratch folder"));
        work(folder.path());
    });
}

fn write(path: &Path, data: &[u8]) {
    let mut file = std::fs::File::create(path).expect("a file in the scratch folder");
    file.write_all(data).expect("a file in the scratch folder");
}

/// The record of a run whose `requests.arrows` is the input, and the same as `starts.arrows`.
fn folder(data: &[u8]) {
    const INFO: &[u8] =
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/run/info.json"));
    in_scratch(|scratch| {
        write(&scratch.join("plan.json"), INFO);
        for name in ["requests.arrows", "starts.arrows", "server.jsonl", "end.json"] {
            let _ = std::fs::remove_file(scratch.join(name));
        }
        write(&scratch.join("requests.arrows"), data);
        read_run(scratch);
        let _ = std::fs::remove_file(scratch.join("requests.arrows"));
        write(&scratch.join("starts.arrows"), data);
        read_run(scratch);
    });
}

fn read_run(folder: &Path) {
    let Ok(reader) = RunReader::open(folder) else { return };
    let _ = reader.state();
    if let Ok(timelines) = reader.timelines() {
        let _ = timelines.count();
    }
    let _ = reader.take_damages();
    let _ = reader.scrapes();
}

fn tokenizer() -> Arc<dyn Tokenizer> {
    static TOKENIZER: OnceLock<Arc<dyn Tokenizer>> = OnceLock::new();
    Arc::clone(TOKENIZER.get_or_init(|| {
        let given = Some(Choice::BuiltIn("cl100k".parse().expect("a built-in encoding")));
        let sources = TokenizerSources { given, ..TokenizerSources::default() };
        tokometer_tokenize::open(sources).expect("a built-in encoding").tokenizer
    }))
}

/// A dataset that can be opened gives its first prompts, the same each time.
fn dataset(name: &str, extension: &str, data: &[u8]) {
    in_scratch(|scratch| {
        let path = scratch.join("data").with_extension(extension);
        write(&path, data);
        let spec = serde_json::json!({"dataset": name, "path": path});
        let part: PartialSpec = serde_json::from_value(spec).expect("a dataset with a file");
        let spec = part.complete().expect("a dataset with a file");
        let context = DatasetContext::new(tokenizer(), Seed(1), 3);
        let Ok(workload) = tokometer_workload::open(&spec, &context) else { return };
        for index in 0..workload.len().min(3) {
            let _ = workload.item(index);
        }
    });
}

/// A tokenizer file that can be read encodes a text; one that cannot is named.
fn tokenizer_file(data: &[u8]) {
    in_scratch(|scratch| {
        let path = scratch.join("tokenizer.json");
        write(&path, data);
        let _ = std::fs::remove_file(scratch.join("tokenizer_config.json"));
        match open_tokenizer(&path) {
            Ok(tokenizer) => {
                let _ = tokenizer.encode("How far is the sea?", Specials::Add);
                let _ = tokenizer.words();
            }
            Err(why) => assert!(why.contains("tokenizer.json"), "the file is not named: {why}"),
        }
    });
}

fn open_tokenizer(path: &Path) -> Result<Arc<dyn Tokenizer>, String> {
    let wish = TokenizerSources {
        given: Some(Choice::File(path.to_owned())),
        ..TokenizerSources::default()
    };
    tokometer_tokenize::open(wish).map(|opened| opened.tokenizer).map_err(|why| why.to_string())
}

/// A chat template gives a prompt or is refused, in bounded time.
fn template(data: &[u8]) {
    const TOKENIZER: &[u8] = include_bytes!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../fixtures/tokenizer/tokenizer.json"
    ));
    let Ok(text) = std::str::from_utf8(data) else { return };
    in_scratch(|scratch| {
        let path = scratch.join("tokenizer.json");
        write(&path, TOKENIZER);
        let config = serde_json::json!({"chat_template": text, "bos_token": "<s>"});
        write(&scratch.join("tokenizer_config.json"), config.to_string().as_bytes());
        let rows = scratch.join("data.jsonl");
        write(&rows, b"{\"prompt\": \"How far is the sea?\"}\n");
        let spec = serde_json::json!({"dataset": "custom", "path": rows});
        let part: PartialSpec = serde_json::from_value(spec).expect("a dataset with a file");
        let spec = part.complete().expect("a dataset with a file");
        let tokenizer = open_tokenizer(&path).expect("a tokenizer of the project");
        let mut context = DatasetContext::new(tokenizer, Seed(1), 1);
        context.templating = Templating::Apply;
        if let Err(why) = tokometer_workload::open(&spec, &context).and_then(|open| open.item(0)) {
            assert!(why.to_string().contains("tokenizer.json"), "the file is not named: {why}");
        }
    });
}

/// An engine profile is read, or its file is named.
fn profile(data: &[u8]) {
    in_scratch(|scratch| {
        let path = scratch.join("profile.toml");
        write(&path, data);
        if let Err(why) = Profile::open(&path.display().to_string()) {
            assert!(why.to_string().contains("profile.toml"), "the file is not named: {why}");
        }
    });
}
