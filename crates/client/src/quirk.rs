//! What single servers do differently in every dialect: finish reasons that are none, and errors without `error`.
//!
//! Each row says who differs, in what, and what shows it. Rows of one dialect are in `dialect/quirks.rs`.

use serde_json::Value;

#[derive(Debug)]
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "the first three fields are for people, and for the test below")
)]
pub(crate) struct Quirk<T> {
    pub(crate) server: &'static str,
    pub(crate) does: &'static str,
    pub(crate) proof: &'static str,
    pub(crate) rule: T,
}

type FindError = fn(&Value) -> Option<&Value>;

pub(crate) const GOES_ON: &[Quirk<&str>] = &[
    Quirk {
        server: "TGI",
        does: "leaves the finish reason empty in every event except the last",
        proof: "tgi-completions",
        rule: "",
    },
    Quirk {
        server: "gateways in JavaScript",
        does: "write their null as a text",
        proof: "a_finish_reason_of_null_in_the_form_of_a_text_ends_nothing",
        rule: "null",
    },
    Quirk {
        server: "gateways in Python",
        does: "write their null as a text",
        proof: "a_finish_reason_of_null_in_the_form_of_a_text_ends_nothing",
        rule: "None",
    },
];

/// Documents that are an error and have no `error`: the object with the message, or `None` where the document is
/// no such error.
pub(crate) const ERROR_FORMS: &[Quirk<FindError>] = &[
    Quirk {
        server: "FastAPI",
        does: "has only `detail`",
        proof: "an_error_without_its_key_fails_the_answer_that_it_interrupts",
        rule: |document| says_error(document.get("detail")?).then_some(document),
    },
    Quirk {
        server: "Cloudflare",
        does: "has a list `errors`",
        proof: "errors_in_the_forms_of_gateways_fail_the_answer_that_they_interrupt",
        rule: |document| {
            let errors = document.get("errors").filter(|errors| says_error(errors))?;
            Some(errors.get(0).unwrap_or(errors))
        },
    },
    Quirk {
        server: "AWS",
        does: "has an object under the name of its exception",
        proof: "errors_in_the_forms_of_gateways_fail_the_answer_that_they_interrupt",
        rule: |document| {
            let mut fields = document.as_object()?.iter();
            let named =
                fields.find(|(name, value)| name.ends_with("Exception") && value.is_object());
            named.map(|(_, value)| value)
        },
    },
    Quirk {
        server: "gateways",
        does: "have a message with a status of failure",
        proof: "an_error_without_its_key_fails_the_answer_that_it_interrupts",
        rule: |document| {
            let _message = words_of(document)?;
            let keys = ["code", "status", "status_code", "statusCode"];
            let mut statuses = keys.iter().filter_map(|key| document.get(key)?.as_u64());
            statuses.any(|status| (400..600).contains(&status)).then_some(document)
        },
    },
    Quirk {
        server: "gateways",
        does: "have `success: false`",
        proof: "an_error_code_fails_the_answer_in_the_servers_words",
        rule: |document| (document.get("success") == Some(&Value::Bool(false))).then_some(document),
    },
    Quirk {
        server: "FastChat, Baidu",
        does: "have an `error_code`, which is 0 in answers of success",
        proof: "an_error_code_fails_the_answer_in_the_servers_words",
        rule: |document| is_failure_code(document.get("error_code")?).then_some(document),
    },
    Quirk {
        server: "MiniMax",
        does: "has `base_resp` in every answer, with a code of 0 in those of success",
        proof: "an_error_code_fails_the_answer_in_the_servers_words",
        rule: |document| {
            let status = document.get("base_resp")?;
            is_failure_code(status.get("status_code")?).then_some(status)
        },
    },
];

/// Whether a code is another than that of success. What it means differs between servers.
fn is_failure_code(code: &Value) -> bool {
    match code {
        Value::Number(code) => {
            code.as_f64().is_none_or(|code| code != 0.0 && !(200.0..300.0).contains(&code))
        }
        Value::String(code) => {
            let success = ["", "0", "200", "ok", "success"];
            !success.iter().any(|word| code.eq_ignore_ascii_case(word))
        }
        _ => false,
    }
}

/// Whether the value of `error` reports one: some servers have the field always and leave it empty.
pub(crate) fn says_error(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(said) => !said.is_empty(),
        Value::Array(said) => !said.is_empty(),
        Value::Object(said) => !said.is_empty(),
        Value::Number(code) => code.as_f64() != Some(0.0),
        Value::Bool(true) => true,
    }
}

/// The text of an error or a state, under whichever name it has.
pub(crate) fn words_of(document: &Value) -> Option<&str> {
    let names = ["message", "Message", "msg", "error_msg", "status_msg"];
    names.iter().find_map(|name| document.get(name)?.as_str()).filter(|said| !said.is_empty())
}
