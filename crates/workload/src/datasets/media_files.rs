//! Prompts with images, audio or videos of the user's files: vLLM's `custom_image` and `custom_audio`.
//!
//! A row has a `prompt` with `image_files`, an `audio` or a `video`, or a `content` whose parts are sent as they
//! are. A transcription route gets the `audio` alone.
//! Files are read and checked before the run, and put into the request. Addresses are passed on.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokometer_base::{Nanos, Prompt, PromptContent};

use crate::conversation_rows::messages;
use crate::media::{audio_file, image_file, text_part, url_part, user_message, video_file};
use crate::rows::FileRows;
use crate::selection::{ChosenRows, RowReader, RowReading};
use crate::{DatasetContext, Error, Result, WireForm};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Options {
    /// The file of rows. Files in it are named relative to its folder.
    pub path: PathBuf,
    /// The answer length. `None` takes `output_tokens` of each row.
    pub output_len: Option<u32>,
}

impl Default for Options {
    fn default() -> Self {
        Self { path: PathBuf::new(), output_len: Some(256) }
    }
}

pub(crate) struct MediaRows {
    options: Options,
}

#[derive(Deserialize)]
struct MediaRow<'a> {
    prompt: Option<String>,
    #[serde(default)]
    image_files: Vec<String>,
    audio: Option<String>,
    /// How long the audio plays, for formats whose head does not say.
    seconds: Option<f64>,
    video: Option<String>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    output_tokens: Option<u32>,
}

pub(crate) fn open(options: &Options, context: &DatasetContext) -> Result<ChosenRows> {
    if !matches!(context.form, WireForm::Chat | WireForm::Sound) {
        let reason =
            "images and audio need a route that accepts them; use `--backend openai-chat`, or `openai-audio` for audio".to_owned();
        return Err(Error::Options { dataset: "custom_image", reason });
    }
    let reader = MediaRows { options: options.clone() };
    ChosenRows::open(FileRows::open(&options.path)?, reader, context)
}

fn is_address(name: &str) -> bool {
    ["http://", "https://", "data:"].iter().any(|start| name.starts_with(start))
}

impl MediaRows {
    fn file(&self, name: &str) -> PathBuf {
        let name = name.strip_prefix("file://").unwrap_or(name);
        let folder = self.options.path.parent().unwrap_or(Path::new(""));
        folder.join(name)
    }

    fn image(&self, name: &str) -> std::result::Result<String, String> {
        if is_address(name) {
            return Ok(url_part(name));
        }
        Ok(image_file(&self.file(name))?.part())
    }

    fn prompt(&self, row: &str, form: WireForm) -> std::result::Result<Prompt, String> {
        let row: MediaRow<'_> = serde_json::from_str(row).map_err(|why| why.to_string())?;
        let output = self.options.output_len.or(row.output_tokens);
        let output = output.ok_or("it has no `output_tokens`, and no answer length was given")?;
        let prompt = |content| Prompt { content, output_tokens: Some(output), ..Prompt::text("") };
        if form == WireForm::Sound {
            let name = row.audio.ok_or("it has no `audio`")?;
            let seconds = row.seconds.filter(|seconds| seconds.is_finite() && *seconds > 0.0);
            let sound = audio_file(&self.file(&name))?;
            let sound = sound.into_sound(seconds.map(Nanos::from_secs_f64));
            return Ok(prompt(PromptContent::Sound(sound)));
        }
        let content = if let Some(content) = row.content {
            let message = format!(r#"[{{"role":"user","content":{content}}}]"#);
            messages(&RawValue::from_string(message).map_err(|why| why.to_string())?)?
        } else {
            let text = row.prompt.ok_or("it has neither a `prompt` nor a `content`")?;
            let mut parts = vec![text_part(&text)];
            for name in &row.image_files {
                parts.push(self.image(name)?);
            }
            if let Some(name) = &row.audio {
                parts.push(audio_file(&self.file(name))?.part());
            }
            if let Some(name) = &row.video {
                parts.push(video_file(&self.file(name))?.part());
            }
            vec![user_message(&text, &parts)]
        };
        Ok(prompt(PromptContent::Messages(content)))
    }
}

impl RowReader for MediaRows {
    fn read(&self, row: &str, context: &DatasetContext) -> RowReading {
        self.prompt(row, context.form).map(|prompt| Some(prompt.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BadRows, RowOrder, Spec, open};

    #[test]
    fn images_are_put_into_the_request_and_bad_ones_named_with_their_row() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.png"), b"\x89PNG\r\n\x1a\nrest").unwrap();
        std::fs::write(folder.path().join("b.png"), b"hello").unwrap();
        let path = folder.path().join("rows.jsonl");
        let rows = [
            r#"{"prompt":"what","image_files":["a.png","https://example.com/c.jpg"]}"#,
            r#"{"prompt":"what","image_files":["b.png"]}"#,
            r#"{"prompt":"what","image_files":["none.png"]}"#,
        ];
        std::fs::write(&path, rows.join("\n")).unwrap();
        let context = DatasetContext {
            form: WireForm::Chat,
            row_order: RowOrder::AsInFile,
            ..DatasetContext::for_test(7, 0)
        };
        let spec = Spec::CustomImage(Options { path, ..Options::default() });
        let error = open(&spec, &context).err().unwrap().to_string();
        assert!(error.contains("line 2: `") && error.contains("b.png` is not an image"), "{error}");
        let context = DatasetContext { bad_rows: BadRows::Skip, ..context };
        let workload = open(&spec, &context).unwrap();
        assert_eq!(workload.len(), 1);
        let PromptContent::Messages(messages) = workload.item(0).unwrap().prompt.content else {
            panic!("no chat");
        };
        let sent = messages[0].verbatim.as_ref().unwrap();
        assert!(sent.contains("data:image/png;base64,iVBORw0KGgpyZXN0"), "{sent}");
        assert!(sent.contains("https://example.com/c.jpg"), "{sent}");
    }
}
