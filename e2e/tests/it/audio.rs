//! Transcription: audio as files of forms, streamed and whole.

use std::path::Path;

use serde_json::Value;

use crate::program::{Server, command, ended, run};
use crate::scripted::{AfterResponse, Scripted};

/// The one name of transcription.
pub(crate) const BACKEND: &str = "openai-audio";

const CLIPS: &str = "--dataset-name random-audio --audio-length-mean 0.5 --random-output-len 12";

fn measured(folder: &Path, server: &Server, more: &str) -> Value {
    let line = format!(
        "bench --backend {BACKEND} --base-url {} --model simulated --num-prompts 6 \
         --tokenizer cl100k --format json {more}",
        server.url
    );
    run(folder, &line).succeeded().json()
}

#[test]
fn sounds_are_transcribed_in_streams_and_in_one_piece() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(&["--ttft", "5ms", "--itl", "1ms"]);
    let streamed = measured(folder.path(), &server, &format!("{CLIPS} --run-dir a"));
    let summary = &streamed["summary"];
    assert_eq!(summary["counts"]["succeeded"], 6, "{summary}");
    assert_eq!(summary["figures"]["total_audio_s"], 3.0);
    // 50 tokens per second of audio, by the server's usage.
    assert_eq!(summary["figures"]["total_prompt_tokens"], 150.0);
    assert_eq!(summary["count_sources"]["usage"], 6, "{summary}");
    let rtfx = 3.0 / summary["duration_s"].as_f64().unwrap();
    assert!((summary["figures"]["rtfx"].as_f64().unwrap() / rtfx - 1.0).abs() < 1e-6, "{summary}");
    assert!(summary["distributions"]["ttft_ms"]["mean"].as_f64() > Some(4.0));

    let block = run(folder.path(), "report a --layout v5").succeeded().stdout;
    let line = block.lines().find(|line| line.starts_with("RTFx")).unwrap_or_default();
    assert!(line.starts_with("RTFx (Inverse Real-Time Factor):         "), "{block}");
    let shown = run(folder.path(), "report a --details").succeeded().stdout;
    assert!(shown.contains(" x real time") && shown.contains("3.00 s of audio"), "{shown}");

    let whole = measured(folder.path(), &server, &format!("{CLIPS} --disable-stream --no-run-dir"));
    let summary = &whole["summary"];
    assert_eq!(summary["counts"]["succeeded"], 6, "{summary}");
    assert_eq!(summary["count_sources"]["retokenized"], 6, "{summary}");
    assert_eq!(summary["figures"]["total_audio_s"], 3.0);
    let plain = format!(
        "{CLIPS} --disable-stream --no-run-dir --endpoint /v1/audio/translations \
         --extra-body {{\"response_format\":\"text\"}}"
    );
    let plain = measured(folder.path(), &server, &plain);
    assert_eq!(plain["summary"]["counts"]["succeeded"], 6, "{plain}");
}

/// A clip of `bytes` samples at 8,000 bytes per second.
fn wav(bytes: usize) -> Vec<u8> {
    let mut file = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0".to_vec();
    file.extend_from_slice(&4_000_u32.to_le_bytes());
    file.extend_from_slice(&8_000_u32.to_le_bytes());
    file.extend_from_slice(b"\x02\0\x10\0data");
    file.extend_from_slice(&u32::try_from(bytes).unwrap().to_le_bytes());
    file.resize(file.len() + bytes, 7);
    file
}

#[test]
fn files_are_checked_before_the_run_and_their_lengths_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(&["--ttft", "5ms", "--itl", "1ms"]);
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("a.wav"), wav(2_000)).unwrap();
    std::fs::write(at("b.mp3"), b"ID3 and more").unwrap();
    std::fs::write(at("c.txt"), b"hello").unwrap();
    let rows = |names: &[&str]| {
        let row = |name: &&str| format!(r#"{{"prompt":"","audio":"{name}","seconds":0.25}}"#);
        std::fs::write(at("rows.jsonl"), names.iter().map(row).collect::<Vec<_>>().join("\n"))
            .unwrap();
    };
    let flags = "--dataset-name custom_audio --dataset-path rows.jsonl --no-run-dir";
    rows(&["a.wav", "b.mp3"]);
    let page = measured(folder.path(), &server, flags);
    assert_eq!(page["summary"]["counts"]["succeeded"], 6, "{page}");
    assert_eq!(page["summary"]["figures"]["total_audio_s"], 1.5);

    rows(&["a.wav", "c.txt", "none.wav"]);
    let line = format!("bench --backend openai-audio --base-url {} {flags}", server.url);
    let refused = run(folder.path(), &format!("{line} --disable-shuffle"));
    refused.says(2, &["line 2", "c.txt` is not an audio file"]);
    let rest = measured(folder.path(), &server, &format!("{flags} --skip-bad-rows"));
    assert_eq!(rest["summary"]["counts"]["succeeded"], 6, "{rest}");
}

#[test]
fn what_a_sound_cannot_be_used_for_is_refused_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let row = |line: &str, parts: &[&str], code: i32| {
        let ended = run(folder.path(), &format!("bench {line} --tokenizer cl100k --no-run-dir"));
        ended.says(code, parts);
    };
    row("--sim default --backend openai-audio", &["transcribes audio", "random-audio"], 2);
    row("--sim default --dataset-name random-audio", &["use `--backend openai-audio`"], 2);
    row(
        "--sim default --backend openai-chat --endpoint /v1/audio/transcriptions",
        &["does not support `/audio/transcriptions`", "use `--backend openai-audio`"],
        2,
    );
    let server = Server::new(&["--ttft", "5ms", "--itl", "1ms"]);
    let line =
        format!("--backend openai-audio {CLIPS} --endpoint /nowhere --base-url {}", server.url);
    row(&line, &["does not accept `POST /nowhere`", "speech model", "--endpoint"], 3);
}

/// An address had text prompts by default, which no transcription route takes.
#[test]
fn an_address_of_a_transcription_route_is_climbed_and_searched_with_sounds() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(&["--ttft", "20ms", "--itl", "2ms"]);
    let short = "--audio-length-mean 0.5 --output-len 4 --tokenizer cl100k --disable-tqdm";
    let line = format!("{}/v1/audio/transcriptions --budget 1s --run-dir s {short}", server.url);
    let out = run(folder.path(), &line).succeeded().stdout;
    // Where a line is broken depends on the digits of the port.
    let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("/v1/audio/transcriptions · audio clips of 0.5 s, up to 4 output tokens"),
        "{out}"
    );
    let head = out.lines().find(|line| line.starts_with("in flight")).unwrap_or_default();
    assert!(head.contains("TTFT p50") && head.contains("TPOT p50"), "{out}");
    let next = out.lines().find(|line| line.starts_with("next: ")).unwrap_or_default();
    let words = "--backend openai-audio --audio-length-mean 0.5 --output-len 4 --slo";
    assert!(next.contains(words), "{next}");

    let line = format!(
        "capacity {} --backend {BACKEND} --budget 3s --max 60 --run-dir c {short}",
        server.url
    );
    let found = ended(command(folder.path(), &line).args(["--slo", "p50 e2e < 5s"])).succeeded();
    assert!(found.stdout.contains("\ncapacity: "), "{}", found.stdout);

    for (name, more) in [("a", "--seed 1"), ("b", "--seed 2")] {
        measured(folder.path(), &server, &format!("{CLIPS} {more} --run-dir {name}"));
    }
    let compared = run(folder.path(), "compare --a a --b b --details").succeeded().stdout;
    assert!(compared.contains("TTFT") && compared.contains("E2E"), "{compared}");
}

/// The transcript of silence has no text: an answer of no tokens, without a first one.
#[test]
fn silence_is_an_answer_of_no_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let server = Scripted::new(|mut asked| {
        let is_streamed = String::from_utf8_lossy(&asked.body).contains("\r\n\r\ntrue\r\n");
        if is_streamed {
            asked.start_stream();
            asked.event(r#"{"choices":[{"delta":{"content":""},"finish_reason":"stop"}]}"#);
            asked.event(
                r#"{"choices":[],"usage":{"prompt_tokens":25,"completion_tokens":0,"total_tokens":25}}"#,
            );
            asked.event("[DONE]");
            return AfterResponse::Close;
        }
        asked.answer("200 OK", "application/json", r#"{"text":"","usage":{"seconds":1}}"#);
        AfterResponse::Stay
    });
    for delivery in ["", "--disable-stream"] {
        let line = format!(
            "bench --backend {BACKEND} --base-url {} --model m --num-prompts 3 {CLIPS} \
             --tokenizer cl100k --format json --no-run-dir {delivery}",
            server.url
        );
        let summary = &run(folder.path(), &line).succeeded().json()["summary"];
        assert_eq!(summary["counts"]["succeeded"], 3, "{delivery}: {summary}");
        assert_eq!(summary["figures"]["total_output_tokens"], 0.0, "{delivery}: {summary}");
        let ended = &summary["distributions"]["end_of_stream_ms"];
        assert_eq!(ended["count"], 3, "{delivery}: {summary}");
        for absent in ["ttft_ms", "tpot_ms", "e2e_ms"] {
            let count = &summary["distributions"][absent]["count"];
            assert!(count.is_null() || *count == 0, "{delivery}: {absent} of {count} answers");
        }
    }
}
