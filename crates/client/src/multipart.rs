//! A request body as a form with a file, for routes that take no JSON.
//!
//! In: the fields of a JSON body and a file. Out: `multipart/form-data`, with the file as the last part. The
//! separator is chosen so that it does not occur in the file.

use memchr::memmem;
use serde_json::{Map, Value};

use crate::error::Error;

const FIELD_NAME: &str = "Content-Disposition: form-data; name=";

#[derive(Debug, Clone, Copy)]
pub(crate) struct FormFile<'a> {
    pub(crate) name: &'a str,
    pub(crate) media_type: &'a str,
    pub(crate) bytes: &'a [u8],
}

pub(crate) struct FormBody {
    pub(crate) content_type: String,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) fn encode(json: &[u8], file: FormFile<'_>) -> Result<FormBody, Error> {
    let fields: Map<String, Value> =
        serde_json::from_slice(json).map_err(|why| Error::ExtraBody(why.to_string()))?;
    let separator = separator(file.bytes);
    let mut bytes = Vec::with_capacity(file.bytes.len() + 2_048);
    for (name, value) in &fields {
        for text in texts(value) {
            let name = quoted(name);
            let part = format!("--{separator}\r\n{FIELD_NAME}{name}\r\n\r\n{text}\r\n");
            bytes.extend_from_slice(part.as_bytes());
        }
    }
    let FormFile { name, media_type, bytes: content } = file;
    let head = format!(
        "--{separator}\r\n{FIELD_NAME}\"file\"; filename={}\r\nContent-Type: {media_type}\r\n\r\n",
        quoted(name)
    );
    bytes.extend_from_slice(head.as_bytes());
    bytes.extend_from_slice(content);
    bytes.extend_from_slice(format!("\r\n--{separator}--\r\n").as_bytes());
    Ok(FormBody { content_type: format!("multipart/form-data; boundary={separator}"), bytes })
}

/// The form without a field; `None` when it has no such field.
pub(crate) fn without(form: &[u8], field: &str) -> Option<Vec<u8>> {
    let line_end = memmem::find(form, b"\r\n")?;
    let separator = &form[..line_end];
    let head = format!("\r\n{FIELD_NAME}{}\r\n\r\n", quoted(field));
    let part = [separator, head.as_bytes()].concat();
    let from = memmem::find(form, &part)?;
    let next = [b"\r\n", separator].concat();
    let length = memmem::find(&form[from + part.len()..], &next)?;
    let until = from + part.len() + length + 2;
    Some([&form[..from], &form[until..]].concat())
}

fn separator(content: &[u8]) -> String {
    let name = |number: u32| format!("tokometer-form-{number:08x}");
    let is_free = |name: &String| memmem::find(content, name.as_bytes()).is_none();
    // A file has fewer positions than there are numbers.
    (0..=u32::MAX).map(name).find(is_free).unwrap_or_else(|| name(0))
}

/// A name between quotes, with what would end it replaced as browsers do.
fn quoted(name: &str) -> String {
    let name = name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A");
    format!("\"{name}\"")
}

/// The values of a field as texts: one for each element of a list, none for null.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Null => Vec::new(),
        Value::String(text) => vec![text.clone()],
        Value::Array(values) => values.iter().flat_map(texts).collect(),
        other => vec![other.to_string()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(json: &str, content: &[u8]) -> FormBody {
        let file = FormFile { name: "audio.wav", media_type: "audio/wav", bytes: content };
        encode(json.as_bytes(), file).unwrap()
    }

    #[test]
    fn every_field_is_a_part_and_the_file_is_the_last() {
        let made = form(r#"{"model":"m","stream":true,"none":null,"g[]":["a","b"]}"#, b"RIFF\0");
        assert_eq!(made.content_type, "multipart/form-data; boundary=tokometer-form-00000000");
        assert_eq!(
            String::from_utf8(made.bytes).unwrap().replace("tokometer-form-00000000", "B"),
            "--B\r\nContent-Disposition: form-data; name=\"g[]\"\r\n\r\na\r\n\
             --B\r\nContent-Disposition: form-data; name=\"g[]\"\r\n\r\nb\r\n\
             --B\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n\
             --B\r\nContent-Disposition: form-data; name=\"stream\"\r\n\r\ntrue\r\n\
             --B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"audio.wav\"\r\nContent-Type: audio/wav\r\n\r\nRIFF\0\r\n--B--\r\n"
        );
    }

    #[test]
    fn a_file_that_holds_the_separator_gets_another() {
        let made = form("{}", b"x tokometer-form-00000000 y");
        assert!(made.content_type.ends_with("=tokometer-form-00000001"), "{}", made.content_type);
    }

    #[test]
    fn a_field_is_taken_out_and_nothing_else() {
        let all = form(r#"{"language":"en","model":"m"}"#, b"data");
        let less = form(r#"{"model":"m"}"#, b"data");
        assert_eq!(without(&all.bytes, "language").unwrap(), less.bytes);
        assert_eq!(without(&all.bytes, "stream"), None);
    }
}
