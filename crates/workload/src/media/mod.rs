//! Images, audio and videos for prompts: generated noise and files of the user.
//!
//! Out: the bytes of an image, and the JSON parts of a message that carry it. An image of noise is made
//! once per size; each request gets its rows in another order, which is another image at the cost of
//! a copy. So bodies of megabytes can be prepared ahead of their time.

mod files;
mod images;
mod jpeg;
mod png;
mod sound;

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokometer_base::{Nanos, Sound};

pub(crate) use files::{audio_file, image_file, video_file};
pub use images::{Filling, Format};
pub(crate) use images::{ImageGenerator, ImageSide, ImageSize, SIDE_MAX};
pub(crate) use sound::noise;

/// An image, audio clip or video, ready to be put into a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attachment {
    /// Such as `image/jpeg`.
    pub(crate) kind: &'static str,
    pub(crate) bytes: Vec<u8>,
}

impl Attachment {
    fn data_url(&self) -> String {
        let mut url = format!("data:{};base64,", self.kind);
        STANDARD.encode_string(&self.bytes, &mut url);
        url
    }

    pub(crate) fn part(&self) -> String {
        match self.kind.split_once('/') {
            Some(("audio", format)) => {
                let data = STANDARD.encode(&self.bytes);
                format!(
                    r#"{{"type":"input_audio","input_audio":{{"data":"{data}","format":"{format}"}}}}"#
                )
            }
            Some(("video", _)) => {
                let url = self.data_url();
                format!(r#"{{"type":"video_url","video_url":{{"url":"{url}"}}}}"#)
            }
            _ => url_part(&self.data_url()),
        }
    }

    /// The audio of a transcription. Its length is the stated one, else what the file says.
    pub(crate) fn into_sound(self, stated: Option<Nanos>) -> Sound {
        let length = stated.or_else(|| sound::length(&self));
        Sound { media_type: self.kind.to_owned(), bytes: self.bytes.into(), length }
    }
}

/// The part of a chat message with an image at a URL that needs no escape.
pub(crate) fn url_part(url: &str) -> String {
    format!(r#"{{"type":"image_url","image_url":{{"url":"{url}"}}}}"#)
}

pub(crate) fn text_part(text: &str) -> String {
    let text = serde_json::to_string(text).unwrap_or_default();
    format!(r#"{{"type":"text","text":{text}}}"#)
}

/// A message of the user with these parts, in this order.
pub(crate) fn user_message(text: &str, parts: &[String]) -> tokometer_base::Message {
    let mut verbatim = String::from(r#"{"role":"user","content":["#);
    for (index, part) in parts.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        // Writing to a string cannot fail.
        let _ = write!(verbatim, "{comma}{part}");
    }
    verbatim.push_str("]}");
    tokometer_base::Message {
        verbatim: Some(verbatim),
        ..tokometer_base::Message::new("user", text)
    }
}
