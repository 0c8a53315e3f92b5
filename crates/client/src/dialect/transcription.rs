//! OpenAI's `/v1/audio/transcriptions` and `/v1/audio/translations`.
//!
//! The request is a form with an audio file. vLLM and SGLang stream chunks with `choices`, as chat does;
//! OpenAI streams typed events. An answer in one piece has the text, and as its usage only the length of the
//! sound. No server has a field that ignores the end token.

use tokometer_base::{Conventions, IgnoreEos, PromptContent, Sound};
use tokometer_record::Event;

use super::chat::CHOICE;
use super::completions::DETAILS;
use super::rules::{BodyContext, Rules, WholeAnswer};
use crate::Error;
use crate::dialect::StreamState;
use crate::json_body::JsonBody;
use crate::multipart::FormFile;
use crate::scan::{Field, Fields, Key, Marks, choices, enter, take, usage};
use crate::settings::UsageReports;

pub(super) static RULES: Rules = Rules {
    whole: WholeAnswer::Transcript(EVENT),
    is_typed: true,
    settle,
    ..Rules::new(write_body, EVENT)
};

const EVENT: &[Key] = &[
    take("type", Field::EventType),
    choices("choices", CHOICE),
    take("delta", Field::Text),
    take("text", Field::WholeText),
    usage("usage", USAGE),
    take("error", Field::Error),
    take("object", Field::Object),
];

/// In the words of chat (vLLM, SGLang) or of the Responses API (OpenAI).
const USAGE: &[Key] = &[
    take("prompt_tokens", Field::PromptTokens),
    take("completion_tokens", Field::CompletionTokens),
    enter("prompt_tokens_details", DETAILS),
    take("input_tokens", Field::PromptTokens),
    take("output_tokens", Field::CompletionTokens),
];

/// The event that ends OpenAI's stream repeats the whole text. Chunks with `choices` have no type.
fn settle(fields: &mut Fields<'_>, _: &mut StreamState, _: &[Event]) {
    let Some(kind) = &fields.event_type else { return };
    if kind.is("error") {
        fields.marks.set(Marks::ERROR);
    } else if kind.is("transcript.text.done") {
        fields.marks.set(Marks::FINISHED.and(Marks::LAST));
        fields.whole_text = None;
    }
}

/// The fields beside the file.
pub(super) fn write_body(body: &mut JsonBody<'_>, context: &BodyContext<'_>) -> Result<(), Error> {
    let PromptContent::Sound(_) = &context.prompt.content else {
        return Err(context.wrong_form("audio clips"));
    };
    body.field("model", context.model());
    if let Some(tokens) = context.prompt.output_tokens {
        body.field("max_completion_tokens", tokens);
    }
    body.field("stream", context.is_streamed());
    if context.is_streamed() && context.settings.usage != UsageReports::Off {
        body.optional("stream_include_usage", true);
        if context.settings.usage == UsageReports::Continuous {
            body.optional("stream_continuous_usage_stats", true);
        }
    }
    if context.conventions == Some(Conventions::Vllm) {
        body.optional("language", "en");
    }
    body.members(&context.settings.sampling);
    if context.settings.ignore_eos == IgnoreEos::Asked {
        body.field("ignore_eos", true);
    }
    Ok(())
}

/// The file of the form. Servers choose their decoder by its name.
pub(crate) fn file(sound: &Sound) -> FormFile<'_> {
    let name = match sound.media_type.as_str() {
        "audio/flac" => "audio.flac",
        "audio/ogg" => "audio.ogg",
        "audio/mp3" => "audio.mp3",
        _ => "audio.wav",
    };
    FormFile { name, media_type: &sound.media_type, bytes: &sound.bytes }
}

#[cfg(test)]
mod tests {
    use tokometer_base::{Nanos, Prompt, PromptContent, Sound};

    use crate::dialect::Dialect;
    use crate::prepare::RequestInput;
    use crate::prepare::tests::{refused, settings, text_prompt};
    use crate::settings::Delivery;

    fn sound() -> Prompt {
        let sound = Sound {
            media_type: "audio/flac".to_owned(),
            bytes: b"fLaC".to_vec().into(),
            length: Some(Nanos::from_millis(1_500)),
        };
        Prompt { content: PromptContent::Sound(sound), ..text_prompt() }
    }

    #[test]
    fn a_sound_is_sent_as_the_file_of_a_form() {
        let dialect = Dialect::named("openai-audio").unwrap();
        let mut settings = settings();
        let made = dialect.prepare(&settings, &RequestInput::new(&sound(), 0)).unwrap();
        let text = String::from_utf8(made.bytes.clone()).unwrap();
        for part in [
            "POST /v1/audio/transcriptions HTTP/1.1\r\n",
            "\r\nContent-Type: multipart/form-data; boundary=tokometer-form-00000000\r\n",
            "name=\"model\"\r\n\r\ntiny\r\n",
            "name=\"max_completion_tokens\"\r\n\r\n7\r\n",
            "name=\"stream\"\r\n\r\ntrue\r\n",
            "name=\"stream_include_usage\"\r\n\r\ntrue\r\n",
            "name=\"language\"\r\n\r\nen\r\n",
            "filename=\"audio.flac\"\r\nContent-Type: audio/flac\r\n\r\nfLaC\r\n--",
        ] {
            assert!(text.contains(part), "{part:?} in {text}");
        }
        assert!(text.contains(&format!("\r\nContent-Length: {}\r\n", made.body().len())));
        assert_eq!(made.requested.audio, Some(Nanos::from_millis(1_500)));
        assert_eq!(made.requested.body_bytes, made.body().len() as u64);
        let less = String::from_utf8(made.without("language").unwrap().bytes).unwrap();
        assert!(!less.contains("language"), "{less}");
        let length = less.split_once("\r\n\r\n").unwrap().1.len();
        assert!(less.contains(&format!("\r\nContent-Length: {length}\r\n")), "{less}");
        settings.delivery = Delivery::Whole;
        let made = dialect.prepare(&settings, &RequestInput::new(&sound(), 0)).unwrap();
        let text = String::from_utf8(made.bytes).unwrap();
        assert!(text.contains("name=\"stream\"\r\n\r\nfalse\r\n"), "{text}");
        assert!(!text.contains("stream_include_usage"), "{text}");
    }

    #[test]
    fn texts_are_not_transcribed_and_sounds_are_not_completed() {
        assert_eq!(
            refused("openai-audio", &settings(), &text_prompt()),
            "cannot send plain text with the backend `openai-audio`\n  it accepts audio clips"
        );
        let why = refused("openai-chat", &settings(), &sound());
        assert!(
            why.starts_with("cannot send an audio clip with the backend `openai-chat`"),
            "{why}"
        );
    }
}
