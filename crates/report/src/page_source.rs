//! What was given on the command line: runs, and folders of runs such as a sweep.

use std::path::{Path, PathBuf};

use tokometer_base::{Refusal, printable};

use crate::reading::expanded;

#[derive(Debug, Clone)]
pub struct PageSource {
    pub path: PathBuf,
    /// The label, or the name of a folder of several runs; `None` for a run without a label.
    pub name: Option<String>,
    pub runs: Vec<PathBuf>,
}

impl PageSource {
    /// The sources of these paths. Labels belong to the first paths, in their order.
    pub fn of(paths: &[PathBuf], labels: &[String]) -> Result<Vec<Self>, Refusal> {
        if labels.len() > paths.len() {
            return Err(Refusal::usage(
                format!("cannot use {} labels for {} sources", labels.len(), paths.len()),
                "give `--label` once per source, in the order of the sources",
            ));
        }
        let source = |(at, path): (usize, &PathBuf)| {
            let runs = expanded(path)?;
            let is_folder = runs.first().is_some_and(|first| first != path);
            let name = labels.get(at).cloned().or_else(|| is_folder.then(|| last(path)));
            Ok(Self { path: path.clone(), name, runs })
        };
        paths.iter().enumerate().map(source).collect()
    }
}

/// The last part of a path, fit to be shown.
pub(crate) fn last(path: &Path) -> String {
    // `.` and `..` have no name of their own.
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = whole.file_name().unwrap_or(whole.as_os_str());
    printable::short(&name.to_string_lossy())
}

/// The name of a run's folder, without the number that orders the points of a sweep, and with what
/// distinguishes it from the others in the words of the field.
pub fn point_name(folder: &Path) -> String {
    let name = last(folder);
    let is_number = |text: &str| {
        (3..=6).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    match name.split_once('-') {
        Some((number, label)) if is_number(number) && !label.is_empty() => in_words(label),
        _ => name,
    }
}

/// `max_concurrency=8,num_prompts=40` for people.
fn in_words(label: &str) -> String {
    let part = |part: &str| match part.split_once('=') {
        Some(("max_concurrency", value)) => format!("concurrency {value}"),
        Some(("request_rate", value)) => format!("rate {value}"),
        Some(("num_prompts", value)) => format!("{value} requests"),
        Some(("input_len", value)) => format!("input {value}"),
        Some(("output_len", value)) => format!("output {value}"),
        _ => part.to_owned(),
    };
    label.split(',').map(part).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_named_without_their_number() {
        let check = |path: &str, expected: &str| {
            assert_eq!(point_name(Path::new(path)), expected);
        };
        check("sweep/003-max_concurrency=8", "concurrency 8");
        check(
            "sweep/003-request_rate=2.5,input_len=64,num_prompts=40",
            "rate 2.5, input 64, 40 requests",
        );
        check("sweep/004-seed=3", "seed=3");
        check("runs/20260131-094501-nightly", "20260131-094501-nightly");
        check("run", "run");
    }

    #[test]
    fn a_label_names_its_source_and_there_are_no_more_labels_than_sources() {
        let paths = [PathBuf::from("a"), PathBuf::from("b")];
        let sources = PageSource::of(&paths, &["base".to_owned()]).unwrap();
        let names: Vec<Option<&str>> = sources.iter().map(|one| one.name.as_deref()).collect();
        assert_eq!(names, [Some("base"), None]);
        let labels = ["a", "b", "c"].map(str::to_owned);
        assert!(PageSource::of(&paths, &labels).unwrap_err().to_string().contains("3 labels"));
    }
}
