//! Images, audio and videos of the user's files, recognised by their first bytes.

use std::path::Path;

use super::Attachment;

/// Bytes of the formats that servers read, at this offset.
const FORMATS: [(&str, usize, &[u8]); 17] = [
    ("image/jpeg", 0, b"\xff\xd8\xff"),
    ("image/png", 0, b"\x89PNG\r\n\x1a\n"),
    ("image/gif", 0, b"GIF8"),
    ("image/bmp", 0, b"BM"),
    ("image/tiff", 0, b"II*\0"),
    ("image/webp", 8, b"WEBP"),
    ("audio/wav", 8, b"WAVE"),
    ("audio/flac", 0, b"fLaC"),
    ("audio/ogg", 0, b"OggS"),
    ("audio/mp3", 0, b"ID3"),
    ("audio/mp3", 0, b"\xff\xfb"),
    ("audio/mp3", 0, b"\xff\xfa"),
    ("audio/mp3", 0, b"\xff\xf3"),
    ("audio/mp3", 0, b"\xff\xf2"),
    ("video/mp4", 4, b"ftyp"),
    ("video/webm", 0, b"\x1a\x45\xdf\xa3"),
    ("video/avi", 8, b"AVI "),
];

pub(crate) fn image_file(path: &Path) -> Result<Attachment, String> {
    attachment(path, "image/", "an image (JPEG, PNG, WebP, GIF, BMP or TIFF)")
}

pub(crate) fn audio_file(path: &Path) -> Result<Attachment, String> {
    attachment(path, "audio/", "an audio file (WAV, FLAC, Ogg or MP3)")
}

pub(crate) fn video_file(path: &Path) -> Result<Attachment, String> {
    attachment(path, "video/", "a video (MP4, WebM or AVI)")
}

fn attachment(path: &Path, wanted: &str, what: &str) -> Result<Attachment, String> {
    let shown = path.display();
    let bytes = std::fs::read(path).map_err(|why| format!("cannot read `{shown}`: {why}"))?;
    let is_it = |(kind, at, mark): &&(&'static str, usize, &[u8])| {
        kind.starts_with(wanted) && bytes.get(*at..).is_some_and(|rest| rest.starts_with(mark))
    };
    let found = FORMATS.iter().find(is_it).map(|(kind, ..)| *kind);
    let kind = found.ok_or_else(|| format!("`{shown}` is not {what}"))?;
    Ok(Attachment { kind, bytes })
}
