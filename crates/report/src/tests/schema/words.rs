//! What the sources say of the fields of a struct: the comments above them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// By the name of the struct and of the field. `None` where structs of one name disagree.
type Texts = BTreeMap<(String, String), Option<String>>;

pub(super) struct FieldComments(Texts);

impl FieldComments {
    /// Reads all sources of the project.
    pub(super) fn read() -> Self {
        let mut files = Vec::new();
        below(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &mut files);
        let mut texts = Texts::new();
        for file in files {
            collect(&fs::read_to_string(file).unwrap(), &mut texts);
        }
        Self(texts)
    }

    /// A partial twin has the comments of its whole struct.
    pub(super) fn of(&self, name: &str, field: &str) -> Option<String> {
        let name = name.strip_prefix("Partial").unwrap_or(name);
        self.0.get(&(name.to_owned(), field.to_owned()))?.clone()
    }
}

fn below(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            below(&path, files);
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
}

fn collect(source: &str, texts: &mut Texts) {
    let (mut name, mut comment) = (None, Vec::new());
    for line in source.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("///") {
            comment.push(text.trim());
            continue;
        }
        if line.starts_with("#[") {
            continue;
        }
        let plain = line.strip_prefix("pub ").unwrap_or(line);
        if let Some(rest) = plain.strip_prefix("struct ") {
            name = rest.split(|letter: char| !letter.is_alphanumeric()).next();
        } else if line == "}" {
            name = None;
        } else if let (Some(name), Some((field, _))) = (name, plain.split_once(": ")) {
            let text = comment.join(" ").replace("[`", "`").replace("`]", "`");
            let text = text.replace("`None`", "null");
            let key = (name.to_owned(), field.to_owned());
            let text = Some(text).filter(|text| !text.is_empty());
            let known = texts.entry(key).or_insert_with(|| text.clone());
            if *known != text {
                *known = None;
            }
        }
        comment.clear();
    }
}
