//! Audio clips: generated ones, and how long a file plays.

use rand::RngCore;
use tokometer_base::{Nanos, Seed};

use super::Attachment;

/// Samples per second of generated clips: what speech models are trained with.
pub(crate) const SAMPLE_RATE: u32 = 16_000;

const HEAD_BYTES: u32 = 44;

/// Bursts of noise and pauses alternate about as fast as syllables.
const BURST_SAMPLES: u32 = SAMPLE_RATE / 4;

/// A clip of bursts of noise, always the same for a seed and a number. It is not speech: what a model
/// writes about it, and how long that is, says nothing about speech.
pub(crate) fn noise(salt: Seed, number: u64, length: Nanos) -> Attachment {
    let mut generator = salt.stream("sounds").at(number);
    let samples = u64::from(SAMPLE_RATE) * length.0 / Nanos::from_secs(1).0;
    let samples = u32::try_from(samples).unwrap_or(u32::MAX / 4).min(u32::MAX / 4);
    let mut bytes = head(samples * 2);
    for sample in 0..samples {
        let is_burst = (sample / BURST_SAMPLES).is_multiple_of(2);
        let [low, high, ..] = generator.next_u32().to_le_bytes();
        let sample = i16::from_le_bytes([low, high]) / if is_burst { 4 } else { 64 };
        bytes.extend_from_slice(&sample.to_le_bytes());
    }
    Attachment { kind: "audio/wav", bytes }
}

fn head(data_bytes: u32) -> Vec<u8> {
    let mut head = Vec::with_capacity((HEAD_BYTES + data_bytes) as usize);
    head.extend_from_slice(b"RIFF");
    head.extend_from_slice(&(HEAD_BYTES - 8 + data_bytes).to_le_bytes());
    head.extend_from_slice(b"WAVEfmt ");
    head.extend_from_slice(&16_u32.to_le_bytes());
    head.extend_from_slice(&1_u16.to_le_bytes());
    head.extend_from_slice(&1_u16.to_le_bytes());
    head.extend_from_slice(&SAMPLE_RATE.to_le_bytes());
    head.extend_from_slice(&(SAMPLE_RATE * 2).to_le_bytes());
    head.extend_from_slice(&2_u16.to_le_bytes());
    head.extend_from_slice(&16_u16.to_le_bytes());
    head.extend_from_slice(b"data");
    head.extend_from_slice(&data_bytes.to_le_bytes());
    head
}

/// How long a clip plays. `None` for formats that say so only frame by frame, and for a damaged head.
pub(crate) fn length(sound: &Attachment) -> Option<Nanos> {
    let seconds = match sound.kind {
        "audio/wav" => wav_seconds(&sound.bytes),
        "audio/flac" => flac_seconds(&sound.bytes),
        _ => None,
    };
    seconds.filter(|seconds| seconds.is_finite() && *seconds > 0.0).map(Nanos::from_secs_f64)
}

fn number_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Bytes of the samples over bytes per second.
fn wav_seconds(bytes: &[u8]) -> Option<f64> {
    let (mut at, mut rate) = (12, None);
    loop {
        let (name, size) = (bytes.get(at..at + 4)?, number_at(bytes, at + 4)?);
        let content = at + 8;
        match name {
            b"fmt " => rate = number_at(bytes, content + 8),
            b"data" => {
                // A file that was written to a pipe does not know its length.
                let there = u32::try_from(bytes.len() - content).unwrap_or(u32::MAX);
                let rate = rate.filter(|rate| *rate > 0)?;
                return Some(f64::from(size.min(there)) / f64::from(rate));
            }
            _ => {}
        }
        // Chunks begin at even offsets.
        at = content.checked_add(size as usize)?.checked_add(size as usize % 2)?;
    }
}

/// Samples over samples per second, from the stream information that every file begins with.
fn flac_seconds(bytes: &[u8]) -> Option<f64> {
    let packed = u64::from_be_bytes(bytes.get(18..26)?.try_into().ok()?);
    let (rate, samples) = (packed >> 44, packed & 0xf_ffff_ffff);
    (rate > 0 && samples > 0).then(|| samples as f64 / rate as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_sound_is_a_wav_file_of_the_asked_length() {
        let sound = noise(Seed(7), 3, Nanos::from_millis(1_250));
        assert_eq!(sound, noise(Seed(7), 3, Nanos::from_millis(1_250)));
        assert_ne!(sound, noise(Seed(7), 4, Nanos::from_millis(1_250)));
        assert_eq!(sound.bytes.len(), 44 + 2 * 20_000);
        assert_eq!(number_at(&sound.bytes, 4), Some(36 + 40_000));
        assert_eq!(length(&sound), Some(Nanos::from_millis(1_250)));
    }

    #[test]
    fn the_length_of_a_file_is_read_from_its_head() {
        let of = |kind, bytes: &[u8]| length(&Attachment { kind, bytes: bytes.to_vec() });
        let mut other_chunks = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x02\0".to_vec();
        other_chunks.extend_from_slice(&44_100_u32.to_le_bytes());
        other_chunks.extend_from_slice(&176_400_u32.to_le_bytes());
        other_chunks.extend_from_slice(b"\x04\0\x10\0LIST\x03\0\0\0abc\0data");
        other_chunks.extend_from_slice(&u32::MAX.to_le_bytes());
        other_chunks.extend_from_slice(&vec![0; 88_200]);
        assert_eq!(of("audio/wav", &other_chunks), Some(Nanos::from_millis(500)));
        let mut flac = b"fLaC\0\0\0\x22".to_vec();
        flac.extend_from_slice(&[0; 10]);
        flac.extend_from_slice(&((48_000_u64 << 44) + (15 << 36) + 72_000).to_be_bytes());
        assert_eq!(of("audio/flac", &flac), Some(Nanos::from_millis(1_500)));
        for damaged in [&b"RIFF"[..], b"RIFF\0\0\0\0WAVEdata\x01\0\0\0a", b""] {
            assert_eq!(of("audio/wav", damaged), None);
        }
        assert_eq!(of("audio/mp3", b"ID3"), None);
    }
}
