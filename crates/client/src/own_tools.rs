//! Tools that one request of a dataset offers, in the words of its row.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokometer_base::Prompt;

/// The fields of a row's body that say which tools may be called.
#[derive(Deserialize)]
struct Offer<'a> {
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_choice: Option<&'a RawValue>,
}

/// The tools of a prompt's own body as JSON text. `None` where it offers none.
pub(crate) fn of(prompt: &Prompt) -> Option<String> {
    let body = prompt.extra_body.as_deref()?;
    let Offer { tools, tool_choice } = serde_json::from_str(body).ok()?;
    let mut text = format!(r#"{{"tools":{}"#, tools?.get());
    if let Some(choice) = tool_choice {
        // Writing to a string cannot fail.
        let _ = write!(text, r#","tool_choice":{}"#, choice.get());
    }
    text.push('}');
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_said_of_tools_is_kept() {
        let check = |body: Option<&str>, expected: Option<&str>| {
            let prompt = Prompt { extra_body: body.map(str::to_owned), ..Prompt::text("x") };
            assert_eq!(of(&prompt).as_deref(), expected, "{body:?}");
        };
        check(None, None);
        check(Some(r#"{"temperature":0}"#), None);
        check(Some(r#"{"top_k":1,"tools":[{"b":1,"a":2}]}"#), Some(r#"{"tools":[{"b":1,"a":2}]}"#));
        check(
            Some(r#"{"tool_choice":"required","tools":[]}"#),
            Some(r#"{"tools":[],"tool_choice":"required"}"#),
        );
    }
}
