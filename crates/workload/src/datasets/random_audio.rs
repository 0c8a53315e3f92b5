//! Generated audio clips, for transcription and for chat routes of models with audio input.

use serde::Serialize;
use tokometer_base::seed::normal;
use tokometer_base::{Nanos, Prompt, PromptContent};

use crate::media::{self, text_part, user_message};
use crate::{DatasetContext, Error, PlannedPrompt, Result, Source, WireForm};

/// What a chat route is asked about a clip.
const QUESTION: &str = "What is said in this recording?";

const SHORTEST: f64 = 0.1;
const LONGEST: f64 = 3_600.0;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Options {
    pub audio_seconds: f64,
    pub audio_seconds_stddev: f64,
    pub output_len: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { audio_seconds: 10.0, audio_seconds_stddev: 0.0, output_len: 128 }
    }
}

pub(crate) struct RandomAudio {
    options: Options,
    context: DatasetContext,
}

pub(crate) fn open(options: &Options, context: &DatasetContext) -> Result<RandomAudio> {
    let refused = |reason: String| Error::Options { dataset: "random-audio", reason };
    if !matches!(context.form, WireForm::Sound | WireForm::Chat) {
        let reason =
            "audio needs a route that accepts it; use `--backend openai-audio` or `openai-chat`";
        return Err(refused(reason.to_owned()));
    }
    let Options { audio_seconds: mean, audio_seconds_stddev: spread, .. } = *options;
    if !(SHORTEST..=LONGEST).contains(&mean) {
        return Err(refused(format!(
            "a length of {mean} s is not between {SHORTEST} and {LONGEST}"
        )));
    }
    if !(0.0..=LONGEST).contains(&spread) {
        return Err(refused(format!("a spread of {spread} s is not between 0 and {LONGEST}")));
    }
    Ok(RandomAudio { options: options.clone(), context: context.clone() })
}

impl RandomAudio {
    fn length(&self, index: u64) -> Nanos {
        let mut generator = self.context.seed.stream("sounds").at(index);
        let Options { audio_seconds: mean, audio_seconds_stddev: spread, .. } = self.options;
        Nanos::from_secs_f64((mean + spread * normal(&mut generator)).clamp(SHORTEST, LONGEST))
    }
}

impl Source for RandomAudio {
    fn len(&self) -> u64 {
        self.context.count
    }

    fn prompt(&self, index: u64) -> Result<PlannedPrompt> {
        let sound = media::noise(self.context.salt, index, self.length(index));
        let content = if self.context.form == WireForm::Sound {
            PromptContent::Sound(sound.into_sound(None))
        } else {
            let parts = [text_part(QUESTION), sound.part()];
            PromptContent::Messages(vec![user_message(QUESTION, &parts)])
        };
        let output_tokens = Some(self.options.output_len);
        let prompt = Prompt { content, output_tokens, ..Prompt::text("") };
        Ok(PlannedPrompt::given(prompt, None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Spec, open};

    fn context(form: WireForm) -> DatasetContext {
        DatasetContext { form, ..DatasetContext::for_test(7, 20) }
    }

    #[test]
    fn clips_have_the_asked_lengths_and_differ() {
        let options = Options { audio_seconds: 0.5, audio_seconds_stddev: 0.1, output_len: 9 };
        let workload = open(&Spec::RandomAudio(options), &context(WireForm::Sound)).unwrap();
        let sound = |index| match workload.item(index).unwrap().prompt.content {
            PromptContent::Sound(sound) => sound,
            other => panic!("{other:?}"),
        };
        let total: f64 = (0..20).map(|index| sound(index).length.unwrap().as_secs_f64()).sum();
        assert!((8.0..12.0).contains(&total), "{total}");
        assert_ne!(sound(0).bytes, sound(1).bytes);
        assert_eq!(sound(3), sound(3));
    }

    #[test]
    fn a_chat_route_gets_a_question_and_the_clip_and_others_are_refused() {
        let spec = Spec::RandomAudio(Options { audio_seconds: 0.1, ..Options::default() });
        let workload = open(&spec, &context(WireForm::Chat)).unwrap();
        let PromptContent::Messages(messages) = workload.item(0).unwrap().prompt.content else {
            panic!("no chat");
        };
        let sent = messages[0].verbatim.as_ref().unwrap();
        assert!(sent.contains(r#""input_audio":{"data":"UklGR"#), "{sent}");
        let why = |options: Options, form| {
            open(&Spec::RandomAudio(options), &context(form)).err().unwrap().to_string()
        };
        assert!(why(Options::default(), WireForm::Text).contains("use `--backend openai-audio`"));
        let endless = Options { audio_seconds: f64::INFINITY, ..Options::default() };
        assert!(why(endless, WireForm::Sound).contains("not between 0.1 and 3600"));
    }
}
