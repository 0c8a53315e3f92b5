//! Where a fuzzer starts: the fixtures, and small examples where the project has no file of a kind.
//!
//! `cargo lab fuzz` writes them as the first corpus, `e2e/tests/it/properties.rs` mutates them.

use std::fs;
use std::path::Path;

use tokometer_base::Nanos;
use tokometer_record::{AttemptId, Phase, RequestedLengths, RunInfo, RunWriter, Timeline};

/// Seeds of a target. `scratch` is a folder that may be written to.
pub(crate) fn seeds(root: &Path, target: &str, scratch: &Path) -> Vec<Vec<u8>> {
    let text = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    match target {
        "exchange" => {
            let captures = files(&root.join("fixtures/captures"), "raw");
            // The first byte chooses the protocol.
            (0..).zip(captures).map(|(index, raw)| [&[index][..], &raw].concat()).collect()
        }
        "doctor" => files(&root.join("fixtures/seeds"), "txt"),
        "prometheus" => text(&[
            "vllm:num_requests_running{engine=\"0\"} 3.0\n# HELP x y\nvllm:time_to_first_token_seconds_bucket{le=\"0.1\"} 5\n",
        ]),
        "plan" => files(&root.join("experiments"), "toml"),
        "folder" => vec![record(root, scratch)],
        "dataset-custom" => text(&[
            "{\"prompt\": \"How far is the sea?\", \"output_tokens\": 4}\n{\"prompt\": \"And back?\"}\n",
        ]),
        "dataset-sharegpt" => text(&[
            r#"[{"conversations":[{"from":"human","value":"How are you on this day?"},{"from":"gpt","value":"Very well, thank you."}]}]"#,
        ]),
        "dataset-burstgpt" => text(&[
            "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n1,GPT-4,40,4,44,x\n",
        ]),
        "dataset-openai" => text(&[
            "{\"messages\":[{\"role\":\"user\",\"content\":\"How far is the sea?\"}],\"max_tokens\":4}\n",
        ]),
        "dataset-book" => vec!["It was a quiet night by the sea. ".repeat(200).into_bytes()],
        "dataset-sonnet" => {
            vec!["Shall I compare thee to a summer's day?\n".repeat(30).into_bytes()]
        }
        "dataset-hf" => text(&["{\"prompt\": \"How far is the sea?\"}\n", "PAR1\u{15}\u{4}PAR1"]),
        "trace-timed" | "trace-mooncake" => text(&[
            "{\"timestamp\":5,\"input_length\":16,\"output_length\":2,\"hash_ids\":[1]}\n{\"timestamp\":9,\"input_length\":32,\"output_length\":2,\"hash_ids\":[1,2]}\n",
        ]),
        "tokenizer" => files(&root.join("fixtures/tokenizer"), "json"),
        "template" => text(&[
            "{{ bos_token }}{% for message in messages %}<|{{ message['role'] }}|>{{ message.content | trim }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}",
            "{% set ns = namespace(n=0) %}{% for i in range(9) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}{{ messages[0]['content'].strip().split(' ') | join('-') }}",
        ]),
        "profile" => files(&root.join("crates/sim/profiles"), "toml"),
        _ => Vec::new(),
    }
}

fn files(folder: &Path, extension: &str) -> Vec<Vec<u8>> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|has| has == extension));
    paths.sort();
    paths.iter().filter_map(|path| fs::read(path).ok()).collect()
}

/// The bytes of a small record.
fn record(root: &Path, scratch: &Path) -> Vec<u8> {
    let info = fs::read(root.join("fixtures/run/info.json")).unwrap_or_default();
    let Ok(info) = serde_json::from_slice::<RunInfo>(&info) else { return Vec::new() };
    let folder = scratch.join("record");
    let Ok(mut writer) = RunWriter::create(&folder, &info) else { return Vec::new() };
    for index in 0..3 {
        let identity = AttemptId::new(index, Phase::Measure);
        let timeline = Timeline::new(identity, RequestedLengths::default(), Nanos(index));
        let _ = writer.push(timeline);
    }
    let _ = writer.flush();
    fs::read(folder.join("requests.arrows")).unwrap_or_default()
}
