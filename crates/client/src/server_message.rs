//! What a server's body says, fit to be shown in one line.
//!
//! In: bytes of a body that is not an answer. Out: the server's own error message where there is one,
//! a description of a web page, else the first bytes; always without secrets, without control
//! characters and cut to a sane length.

use serde_json::Value;
use tokometer_base::redact::Secrets;

use crate::quirk::{ERROR_FORMS, says_error, words_of};
use crate::scan::is_abort;

const MESSAGE_BYTES: usize = 300;

const TITLE_BYTES: usize = 80;

/// Bodies with which servers refuse plain HTTP on a port for TLS: nginx's, Go's and Apache's.
const PLAIN_ON_TLS: [&str; 3] = [
    "plain HTTP request was sent to HTTPS port",
    "Client sent an HTTP request to an HTTPS server",
    "speaking plain HTTP to an SSL-enabled server port",
];

pub(crate) fn message(body: &[u8], secrets: &Secrets) -> String {
    let text = String::from_utf8_lossy(body);
    if PLAIN_ON_TLS.iter().any(|words| text.contains(words)) {
        return "the server speaks TLS on this port; use https:// in `--base-url`".to_owned();
    }
    if let Some(page) = html_page(body) {
        return describe_page(&page, secrets);
    }
    fit(&error_message(body).unwrap_or_else(|| text.into_owned()), secrets)
}

/// A server's words without secrets, in one line, cut.
pub(crate) fn fit(said: &str, secrets: &Secrets) -> String {
    // A key that is cut in the middle would not be recognised, so the cut comes last.
    let line = one_line(&secrets.redact(said));
    line[..line.floor_char_boundary(MESSAGE_BYTES)].trim().to_owned()
}

/// Words between single blanks. A server must not be able to move the cursor or to begin a line.
fn one_line(text: &str) -> String {
    let is_gap = |character: char| character.is_whitespace() || character.is_control();
    text.split(is_gap).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HtmlPage {
    title: Option<String>,
}

pub(crate) fn html_page(body: &[u8]) -> Option<HtmlPage> {
    let text = String::from_utf8_lossy(body);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let starts = ["<!doctype html", "<html", "<head", "<body", "<title", "<h1", "<center"];
    let lower = text.to_ascii_lowercase();
    // XHTML pages begin with a declaration.
    let is_page = starts.iter().any(|start| lower.starts_with(start))
        || (lower.starts_with("<?xml") && lower.contains("<html"))
        || (lower.starts_with("<!--") && lower.contains("<html"));
    let title = || inside("title", text, &lower).or_else(|| inside("h1", text, &lower));
    is_page.then(|| HtmlPage { title: title() })
}

fn inside(name: &str, text: &str, lower: &str) -> Option<String> {
    let open = lower.find(&format!("<{name}"))?;
    let start = open + lower[open..].find('>')? + 1;
    let end = lower[start..].find(&format!("</{name}")).map_or(text.len(), |at| start + at);
    let title = one_line(&text[start..end]);
    (!title.is_empty()).then_some(title)
}

fn describe_page(page: &HtmlPage, secrets: &Secrets) -> String {
    let title = page.title.as_ref().map(|title| {
        let title = secrets.redact(title);
        format!(" (title: {})", &title[..title.floor_char_boundary(TITLE_BYTES)])
    });
    format!(
        "the server answered with an HTML page{}, not an API response; check `--base-url` and `--endpoint`",
        title.unwrap_or_default()
    )
}

/// The finish reason of an event, with the message beside it where there is one.
pub(crate) fn abort_reason(data: &[u8], secrets: &Secrets) -> String {
    let document: Value = serde_json::from_slice(data).unwrap_or_default();
    let pointers = ["/meta_info", "/details", "/0/details"];
    let others = pointers.iter().filter_map(|pointer| document.pointer(pointer));
    let reasons = choices(&document)
        .chain(others)
        .filter_map(|object| object.get("finish_reason"))
        .filter(|reason| !reason.is_null());
    // Of several choices only one may have failed.
    let is_failure = |reason: &&Value| reason.as_str().is_some_and(|it| is_abort(it.as_bytes()));
    let reason = reasons.clone().find(is_failure).or_else(|| reasons.clone().next());
    // Protocols without a finish reason have a state.
    let states = ["/response/status", "/status"];
    let reason = reason.or_else(|| states.iter().find_map(|state| document.pointer(state)));
    let Some(reason) = reason else { return fit(&String::from_utf8_lossy(data), secrets) };
    let text = |key: &str| reason.get(key).and_then(Value::as_str);
    let name = reason.as_str().or(text("type")).unwrap_or("unknown");
    let said = match text("message") {
        Some(message) => format!("finish reason `{name}`: {message}"),
        None => format!("finish reason `{name}`"),
    };
    fit(&said, secrets)
}

/// Whether a document is an error: by `error`, by its name, inside a choice, or in the form of a server without
/// `error`. An answer that goes on behind it is incomplete.
pub(crate) fn is_error_document(data: &[u8]) -> bool {
    let document: Value = serde_json::from_slice(data).unwrap_or_default();
    let document = document.get(0).unwrap_or(&document);
    ["object", "type"].iter().any(|key| document[key] == "error")
        || errors_in(document).any(says_error)
        || ERROR_FORMS.iter().any(|form| (form.rule)(document).is_some())
}

fn errors_in(document: &Value) -> impl Iterator<Item = &Value> {
    std::iter::once(document).chain(choices(document)).filter_map(|object| object.get("error"))
}

fn choices(document: &Value) -> impl Iterator<Item = &Value> + Clone {
    document.get("choices").and_then(Value::as_array).into_iter().flatten()
}

/// The message inside an error document, with the name of the field it is about: servers are asked
/// again without a field they refuse, and some name it only there.
pub(crate) fn error_message(body: &[u8]) -> Option<String> {
    let document: Value = serde_json::from_slice(body).ok()?;
    // Some servers wrap the document in a list.
    let document = document.get(0).unwrap_or(&document);
    let stated = errors_in(document).chain(document.pointer("/response/error"));
    let other = ERROR_FORMS.iter().filter_map(|form| (form.rule)(document));
    let error = stated.chain(other).find(|it| !it.is_null()).unwrap_or(document);
    let text = |key: &str| error.get(key).and_then(Value::as_str);
    // The message may stand where the answer would.
    let answered = text("text").filter(|_| error.get("error_code").is_some());
    let said = error.as_str().or(words_of(error)).or(text("detail")).or(answered)?;
    Some(match text("param").filter(|param| !said.contains(param)) {
        Some(param) => format!("{said} ({param})"),
        None => said.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets() -> Secrets {
        let mut secrets = Secrets::new();
        secrets.add("hunter22");
        secrets
    }

    fn check(body: &str, expected: &str) {
        assert_eq!(message(body.as_bytes(), &secrets()), expected, "{body}");
    }

    #[test]
    fn a_refusal_is_told_in_the_servers_own_words() {
        check(r#"{"error":{"message":"too long","code":400}}"#, "too long");
        check(r#"{"error":{"message":"unknown field","param":"min_p"}}"#, "unknown field (min_p)");
        check(r#"{"object":"error","message":"no model"}"#, "no model");
        check(r#"{"error":"overloaded"}"#, "overloaded");
        check(r#"{"type":"error","error":{"type":"api_error","message":"no"}}"#, "no");
        let failed =
            r#"{"type":"response.failed","response":{"error":{"message":"out of memory"}}}"#;
        check(failed, "out of memory");
        check(r#"{"detail":[{"loc":["body"]}]}"#, r#"{"detail":[{"loc":["body"]}]}"#);
        check(r#"[{"error":{"code":503,"message":"overloaded"}}]"#, "overloaded");
        check(r#"{"choices":[{"error":{"code":502,"message":"gone"}}]}"#, "gone");
        check(r#"{"errors":[{"code":7,"message":"no quota"}]}"#, "no quota");
        check(r#"{"throttlingException":{"message":"too fast"}}"#, "too fast");
        check(r#"{"Message":"no key"}"#, "no key");
        check("plain words", "plain words");
        check("a key: hunter22", "a key: [redacted]");
        check("two\r\nlines\u{1b}[2J", "two lines [2J");
    }

    #[test]
    fn a_web_page_is_named_by_its_title_and_never_quoted() {
        let named = |title: &str| {
            format!(
                "the server answered with an HTML page{title}, not an API response; \
                 check `--base-url` and `--endpoint`"
            )
        };
        check("<!DOCTYPE html><html><title>Sign in</title>", &named(" (title: Sign in)"));
        check(
            "\n <HTML><head><TITLE id=x>\n 502 Bad\n Gateway </TITLE></head>",
            &named(" (title: 502 Bad Gateway)"),
        );
        check("<html><body>It works!</body></html>", &named(""));
        check("<?xml version='1.0'?><html><title>X</title></html>", &named(" (title: X)"));
        check("<html><h1>502 Bad</h1></html>", &named(" (title: 502 Bad)"));
        check("<html><title>hunter22</title>", &named(" (title: [redacted])"));
        let long = format!("<html><title>{}</title>", "é".repeat(500));
        check(&long, &named(&format!(" (title: {})", "é".repeat(40))));
        assert_eq!(html_page(b"{\"a\": \"<html>\"}"), None);
        assert_eq!(html_page(b"<s> tokens"), None);
    }

    #[test]
    fn a_port_for_tls_is_recognised_by_its_refusal_of_plain_http() {
        let tls = "the server speaks TLS on this port; use https:// in `--base-url`";
        check("<html><title>400 The plain HTTP request was sent to HTTPS port</title>", tls);
        check("Client sent an HTTP request to an HTTPS server.\n", tls);
    }
}
