//! Chat templates: messages to one prompt, as the model was trained on.

use minijinja::{Environment, ErrorKind, Value};
use tokometer_base::{Conventions, Message};

use crate::{DatasetContext, Error, Result, Templating, WireForm};

/// The name under which the one template of an environment is kept.
const NAME: &str = "chat";

/// Instructions of one rendering. Templates in use need a few dozen per message.
const FUEL: u64 = 10_000_000;

pub(crate) struct ChatTemplate {
    environment: Environment<'static>,
    values: serde_json::Map<String, serde_json::Value>,
    tokenizer: String,
    /// The beginning to remove: SGLang takes BOS off, because the server adds it.
    bos: Option<String>,
}

/// Whether a dataset's own tool applies the template when prompts are sent as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Habit {
    /// Both tools leave the texts as they are unless asked.
    Raw,
    /// vLLM applies the template; SGLang only when asked.
    VllmApplies,
}

impl ChatTemplate {
    /// The template to apply to a dataset, if one is wanted and the tokenizer has one. A chat
    /// route's server applies its own, and token ids have no template.
    pub(crate) fn open(context: &DatasetContext, habit: Habit) -> Result<Option<Self>> {
        let is_wanted = match (&context.templating, habit) {
            (Templating::Apply, _) => true,
            (Templating::Skip, _) | (Templating::ByTool, Habit::Raw) => false,
            (Templating::ByTool, Habit::VllmApplies) => context.conventions == Conventions::Vllm,
        };
        let config = context.tokenizer.config();
        let text = config.and_then(|config| config.chat_template.clone());
        let (true, WireForm::Text, Some(config), Some(text)) =
            (is_wanted, context.form, config, text)
        else {
            return Ok(None);
        };
        let mut values = context.template_values.clone().unwrap_or_default();
        for (name, token) in [("bos_token", &config.bos_token), ("eos_token", &config.eos_token)] {
            values.insert(name.into(), token.clone().into());
        }
        let bos = config.bos_token.clone().filter(|_| context.conventions == Conventions::Sglang);
        let tokenizer = context.tokenizer.name().to_owned();
        Self::compile(text, tokenizer, values).map(|template| Some(Self { bos, ..template }))
    }

    fn compile(
        text: String,
        tokenizer: String,
        values: serde_json::Map<String, serde_json::Value>,
    ) -> Result<Self> {
        let mut environment = Environment::new();
        environment.set_fuel(Some(FUEL));
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", refuse);
        environment.add_template_owned(NAME, text).map_err(|error| Error::Template {
            tokenizer: tokenizer.clone(),
            reason: error.to_string(),
        })?;
        Ok(Self { environment, values, tokenizer, bos: None })
    }

    /// The text in the template, where there is one; why it cannot be applied, for the row that holds it.
    pub(crate) fn applied(
        template: Option<&Self>,
        text: String,
    ) -> std::result::Result<String, String> {
        match template {
            Some(template) => template.apply_to_text(&text).map_err(|error| error.to_string()),
            None => Ok(text),
        }
    }

    /// The prompt for messages, with the beginning of the answer.
    pub(crate) fn apply(&self, messages: &[Message]) -> Result<String> {
        let failed = |error: minijinja::Error| Error::Template {
            tokenizer: self.tokenizer.clone(),
            reason: match error.kind() {
                ErrorKind::OutOfFuel => format!("it needs more than {FUEL} steps for one prompt"),
                _ => format!("{error:#}").replace('\n', " "),
            },
        };
        let template = self.environment.get_template(NAME).map_err(failed)?;
        let own = minijinja::context! { messages, add_generation_prompt => true };
        let values = Value::from_serialize(&self.values);
        let text = template.render(minijinja::context! { ..own, ..values }).map_err(failed)?;
        let stripped = self.bos.as_deref().and_then(|bos| text.strip_prefix(bos));
        Ok(stripped.map(str::to_owned).unwrap_or(text))
    }

    pub(crate) fn apply_to_text(&self, content: &str) -> Result<String> {
        self.apply(&[Message::new("user", content)])
    }
}

/// What a template calls to refuse messages that its model does not know.
fn refuse(reason: String) -> std::result::Result<String, minijinja::Error> {
    Err(minijinja::Error::new(ErrorKind::InvalidOperation, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What templates in use need: loops, `trim`, Python's methods, whitespace control, a refusal.
    const TEMPLATE: &str = "{{- bos_token }}\n{%- for message in messages %}\n    {%- if message['role'].startswith('bad') %}{{ raise_exception('no such role') }}{% endif %}\n<|{{ message.role }}|>{{ message['content'] | trim }}<|end|>\n{% endfor %}\n{% if add_generation_prompt %}<|assistant|>{% endif %}";

    #[test]
    fn templates_use_pythons_methods_and_refuse_what_they_want() {
        let mut values = serde_json::Map::new();
        values.insert("bos_token".into(), "<s>".into());
        let template = ChatTemplate::compile(TEMPLATE.into(), "tiny".into(), values).unwrap();
        assert_eq!(
            template.apply_to_text(" hello ").unwrap(),
            "<s><|user|>hello<|end|>\n<|assistant|>"
        );
        let bad = [Message::new("badger", "")];
        let error = template.apply(&bad).unwrap_err().to_string();
        assert!(error.contains("tiny") && error.contains("no such role"), "{error}");
        let stripping = ChatTemplate { bos: Some("<s>".into()), ..template };
        assert!(stripping.apply_to_text("x").unwrap().starts_with("<|user|>"));
    }

    /// A loop in a template kept the program busy for ever.
    #[test]
    fn a_template_that_does_not_end_is_refused() {
        let check = |text: &str, expected: &str| {
            let template =
                ChatTemplate::compile(text.into(), "tiny".into(), serde_json::Map::new());
            let error = template.unwrap().apply_to_text("x").unwrap_err().to_string();
            assert!(error.contains("tiny") && error.contains(expected), "{error}");
        };
        let nested = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}";
        check(nested, "steps for one prompt");
        check("{% for a in range(999999999) %}{% endfor %}", "range");
        check("{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}", "recursion");
        check("{{ 'x' * 99999999999 }}", "");
    }
}
