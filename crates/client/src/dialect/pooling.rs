//! Routes that answer with vectors, scores or classes: embeddings, pooling, classify, score, rerank.
//!
//! The answer is one JSON document with one result per input, and the server's count of the prompt.
//! Nothing is generated, so there is no length, no sampling and no stream. The body depends on the
//! route: each server has its own words for the inputs.

use serde_json::json;
use tokometer_base::backend::PoolingRoute;
use tokometer_base::{Conventions, Message, PromptContent};

use super::rules::{BodyContext, EndRule, Rules, WholeAnswer};
use crate::Error;
use crate::framing::EventFraming;
use crate::json_body::JsonBody;

const fn rules(whole: WholeAnswer) -> Rules {
    Rules {
        framing: EventFraming::WholeJson,
        whole,
        end: EndRule::Body,
        ..Rules::new(write_body, &[])
    }
}

static RESULTS: Rules = rules(WholeAnswer::Results);
static RANKING: Rules = rules(WholeAnswer::Ranking);

pub(super) fn rules_of(route: PoolingRoute) -> &'static Rules {
    match route {
        // A rerank may be limited to the best documents; a score has one entry per document.
        PoolingRoute::Rerank | PoolingRoute::TeiRerank => &RANKING,
        _ => &RESULTS,
    }
}

fn write_body(body: &mut JsonBody<'_>, context: &BodyContext<'_>) -> Result<(), Error> {
    let Some(route) = context.backend.pooling() else { return Ok(()) };
    let is_tei = matches!(route, PoolingRoute::TeiEmbed | PoolingRoute::TeiRerank);
    if !is_tei {
        body.field("model", context.model());
    }
    match route {
        PoolingRoute::TeiEmbed => write_texts(body, context, "inputs")?,
        PoolingRoute::CohereEmbed => {
            write_texts(body, context, "texts")?;
            body.optional("input_type", "search_document");
            body.optional("embedding_types", json!(["float"]));
        }
        PoolingRoute::EmbeddingsChat => write_conversation(body, context)?,
        PoolingRoute::Score => write_ranking(body, context, ["text_1", "text_2"])?,
        PoolingRoute::Rerank => write_ranking(body, context, ["query", "documents"])?,
        PoolingRoute::TeiRerank => write_ranking(body, context, ["query", "texts"])?,
        PoolingRoute::Embeddings
        | PoolingRoute::Pooling
        | PoolingRoute::Classify
        | PoolingRoute::Infinity => write_texts(body, context, "input")?,
    }
    // vLLM's client asks its server to cut prompts at the context length; Infinity has no such field.
    if context.conventions == Some(Conventions::Vllm) && route != PoolingRoute::Infinity {
        body.optional("truncate_prompt_tokens", -1);
    }
    Ok(())
}

/// One text, or several.
fn write_texts(
    body: &mut JsonBody<'_>,
    context: &BodyContext<'_>,
    name: &str,
) -> Result<(), Error> {
    let has_ids = context.backend.takes_token_ids();
    match &context.prompt.content {
        PromptContent::TokenIds(ids) if has_ids => body.field(name, ids),
        PromptContent::Text(text) if name == "texts" => body.field(name, [text]),
        PromptContent::Text(text) => body.field(name, text),
        PromptContent::Inputs(texts) => body.field(name, texts),
        _ if has_ids => return Err(context.wrong_form("plain texts or token ids")),
        _ => return Err(context.wrong_form("plain texts")),
    }
    Ok(())
}

fn write_conversation(body: &mut JsonBody<'_>, context: &BodyContext<'_>) -> Result<(), Error> {
    match &context.prompt.content {
        PromptContent::Text(text) => {
            let parts = json!([{"type": "text", "text": text}]);
            body.field("messages", json!([{"role": "user", "content": parts}]));
        }
        PromptContent::Messages(messages) => body.messages("messages", messages.iter()),
        _ => return Err(context.wrong_form("plain text or a conversation")),
    }
    Ok(())
}

fn write_ranking(
    body: &mut JsonBody<'_>,
    context: &BodyContext<'_>,
    [query_name, documents_name]: [&str; 2],
) -> Result<(), Error> {
    let PromptContent::Ranking { query, documents } = &context.prompt.content else {
        return Err(context.wrong_form("a query with documents"));
    };
    body.field(query_name, query);
    body.field(documents_name, documents);
    Ok(())
}

/// The smallest prompt that a route accepts.
pub(crate) fn smallest(route: PoolingRoute) -> PromptContent {
    let text = "Hi".to_owned();
    if route.is_ranking() {
        PromptContent::Ranking { query: text.clone(), documents: vec![text] }
    } else if route == PoolingRoute::EmbeddingsChat {
        PromptContent::Messages(vec![Message::new("user", text)])
    } else {
        PromptContent::Text(text)
    }
}

#[cfg(test)]
mod tests {
    use tokometer_base::{Prompt, PromptContent};

    use crate::prepare::tests::{body_of, refused, settings, text_prompt};

    fn prompt(content: PromptContent) -> Prompt {
        Prompt { content, ..text_prompt() }
    }

    #[test]
    fn each_route_has_its_own_words_for_the_inputs() {
        let two = || prompt(PromptContent::Inputs(vec!["a".to_owned(), "b".to_owned()]));
        let check = |name: &str, prompt: &Prompt, expected: &str| {
            assert_eq!(body_of(name, &settings(), prompt), expected, "{name}");
        };
        check(
            "openai-embeddings",
            &text_prompt(),
            r#"{"model":"tiny","input":"Say \"hi\"","truncate_prompt_tokens":-1}"#,
        );
        check(
            "vllm-pooling",
            &two(),
            r#"{"model":"tiny","input":["a","b"],"truncate_prompt_tokens":-1}"#,
        );
        check("sglang-embedding", &two(), r#"{"model":"tiny","input":["a","b"]}"#);
        check("infinity-embeddings", &two(), r#"{"model":"tiny","input":["a","b"]}"#);
        check("tei-embed", &two(), r#"{"inputs":["a","b"]}"#);
        check(
            "cohere-embed",
            &text_prompt(),
            r#"{"model":"tiny","texts":["Say \"hi\""],"input_type":"search_document","embedding_types":["float"]}"#,
        );
        check(
            "vllm-classify",
            &prompt(PromptContent::TokenIds(vec![1, 2])),
            r#"{"model":"tiny","input":[1,2]}"#,
        );
        check(
            "openai-embeddings-chat",
            &text_prompt(),
            r#"{"model":"tiny","messages":[{"content":[{"text":"Say \"hi\"","type":"text"}],"role":"user"}],"truncate_prompt_tokens":-1}"#,
        );
    }

    #[test]
    fn a_query_and_its_documents_are_sent_in_the_words_of_the_server() {
        let ranking = prompt(PromptContent::Ranking {
            query: "q".to_owned(),
            documents: vec!["a".to_owned(), "b".to_owned()],
        });
        let check = |name: &str, expected: &str| {
            assert_eq!(body_of(name, &settings(), &ranking), expected, "{name}");
        };
        check(
            "vllm-rerank",
            r#"{"model":"tiny","query":"q","documents":["a","b"],"truncate_prompt_tokens":-1}"#,
        );
        check("jina-rerank", r#"{"model":"tiny","query":"q","documents":["a","b"]}"#);
        check("vllm-score", r#"{"model":"tiny","text_1":"q","text_2":["a","b"]}"#);
        check("tei-rerank", r#"{"query":"q","texts":["a","b"]}"#);
        assert_eq!(
            refused("vllm-rerank", &settings(), &text_prompt()),
            "cannot send plain text with the backend `vllm-rerank`\n  it accepts a query with documents"
        );
        assert_eq!(
            refused("vllm-pooling", &settings(), &ranking),
            "cannot send a query with documents with the backend `vllm-pooling`\n  it accepts plain texts or token ids"
        );
    }
}
