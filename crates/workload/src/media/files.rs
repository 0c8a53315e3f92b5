//! Images, audio and videos of the user's files, recognised by their first bytes.

use std::path::Path;

use super::Attachment;

/// First bytes of the formats that servers read.
const IMAGES: [(&[u8], &str); 5] = [
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"GIF8", "image/gif"),
    (b"BM", "image/bmp"),
    (b"II*\0", "image/tiff"),
];

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|why| format!("cannot read `{}`: {why}", path.display()))
}

/// The image in a file, or why it is none.
pub(crate) fn image_file(path: &Path) -> Result<Attachment, String> {
    let bytes = read(path)?;
    let is_webp = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP");
    let known = IMAGES.iter().find(|(start, _)| bytes.starts_with(start)).map(|(_, kind)| *kind);
    let kind = known.or(is_webp.then_some("image/webp"));
    let kind = kind.ok_or_else(|| {
        format!("`{}` is not an image (JPEG, PNG, WebP, GIF, BMP or TIFF)", path.display())
    })?;
    Ok(Attachment { kind, bytes })
}

/// The audio in a file, or why it is none.
pub(crate) fn audio_file(path: &Path) -> Result<Attachment, String> {
    let bytes = read(path)?;
    let is_wave = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WAVE");
    let is_mp3 =
        bytes.starts_with(b"ID3") || (bytes.len() > 2 && bytes[0] == 0xff && bytes[1] >= 0xe0);
    let kind = match () {
        () if is_wave => "audio/wav",
        () if bytes.starts_with(b"fLaC") => "audio/flac",
        () if bytes.starts_with(b"OggS") => "audio/ogg",
        () if is_mp3 => "audio/mp3",
        () => {
            return Err(format!(
                "`{}` is not an audio file (WAV, FLAC, Ogg or MP3)",
                path.display()
            ));
        }
    };
    Ok(Attachment { kind, bytes })
}

/// The video in a file, or why it is none.
pub(crate) fn video_file(path: &Path) -> Result<Attachment, String> {
    let bytes = read(path)?;
    let is_avi = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"AVI ");
    let kind = match () {
        () if bytes.get(4..8) == Some(b"ftyp") => "video/mp4",
        () if bytes.starts_with(b"\x1a\x45\xdf\xa3") => "video/webm",
        () if is_avi => "video/avi",
        () => return Err(format!("`{}` is not a video (MP4, WebM or AVI)", path.display())),
    };
    Ok(Attachment { kind, bytes })
}
