//! The models of the cases: configurations and tokenizers, without weights.
//!
//! A server with `--load-format dummy` makes the weights itself, so a model costs milliseconds and 400 kB.
//! Two layers with heads of 128, the size that every kernel supports.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::case::ServedModel;
use super::tokenizers::{self, SPECIALS, Vocabulary};

const CHAT: &str = "{% for message in messages %}<|im_start|>{{ message['role'] }}\n\
    {% if message['content'] is string %}{{ message['content'] }}{% elif message['content'] %}\
    {% for part in message['content'] %}{% if part['type'] in ('image','image_url') %}\
    <|vision_start|><|image_pad|><|vision_end|>{% elif 'text' in part %}{{ part['text'] }}{% endif %}\
    {% endfor %}{% endif %}<|im_end|>\n{% endfor %}<|im_start|>assistant\n";

const HIDDEN: u32 = 256;
const FEED_FORWARD: u32 = 512;
const LAYERS: u32 = 2;
const HEADS: u32 = 2;

/// Writes all models, the schema and the tool of the cases. What is there is replaced.
pub(super) fn write_all(folder: &Path) -> Result<()> {
    let text = tokenizers::text();
    write_text(&folder.join(ServedModel::Text.folder()), &text, &text_config(&text))?;
    write_text(&folder.join(ServedModel::Classifier.folder()), &text, &classifier_config(&text))?;
    write_vision(&folder.join(ServedModel::Vision.folder()), &text)?;
    write_cross_encoder(&folder.join(ServedModel::CrossEncoder.folder()))?;
    write_audio(&folder.join(ServedModel::Audio.folder()))?;
    write(folder, "tools.json", &tools())?;
    write(folder, "schema.json", &schema())
}

fn write(folder: &Path, name: &str, content: &Value) -> Result<()> {
    write_plain(folder, name, &content.to_string())
}

fn write_plain(folder: &Path, name: &str, content: &str) -> Result<()> {
    let file = folder.join(name);
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&file, content));
    written.with_context(|| format!("cannot write {}", file.display()))
}

fn merged(base: Value, more: Value) -> Value {
    let (Value::Object(mut base), Value::Object(more)) = (base, more) else { return Value::Null };
    base.extend(more);
    Value::Object(base)
}

/// What the configurations of all decoders share.
fn decoder(vocabulary: &Vocabulary) -> Value {
    json!({
        "vocab_size": vocabulary.len(), "hidden_size": HIDDEN, "intermediate_size": FEED_FORWARD,
        "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": 1,
        "hidden_act": "silu", "max_position_embeddings": 8192, "rms_norm_eps": 1e-6,
        "rope_theta": 1_000_000.0, "initializer_range": 0.02, "tie_word_embeddings": false,
        "torch_dtype": "bfloat16", "use_cache": true, "attention_dropout": 0.0,
        "eos_token_id": 2, "bos_token_id": 0, "pad_token_id": 0,
    })
}

fn text_config(vocabulary: &Vocabulary) -> Value {
    let own = json!({
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "head_dim": HIDDEN / HEADS,
        "attention_bias": false,
    });
    merged(decoder(vocabulary), own)
}

fn classifier_config(vocabulary: &Vocabulary) -> Value {
    let labels = json!({
        "num_labels": 3,
        "id2label": {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"},
        "label2id": {"LABEL_0": 0, "LABEL_1": 1, "LABEL_2": 2},
    });
    merged(text_config(vocabulary), labels)
}

fn tokenizer_config(class: &str) -> Value {
    json!({
        "tokenizer_class": class, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
        "model_max_length": 4096, "clean_up_tokenization_spaces": false, "chat_template": CHAT,
        "additional_special_tokens": SPECIALS[3..],
    })
}

fn write_text(folder: &Path, vocabulary: &Vocabulary, config: &Value) -> Result<()> {
    write(folder, "config.json", config)?;
    write(folder, "tokenizer.json", &vocabulary.byte_level())?;
    write(folder, "tokenizer_config.json", &tokenizer_config("PreTrainedTokenizerFast"))
}

fn write_vision(folder: &Path, vocabulary: &Vocabulary) -> Result<()> {
    let own = json!({
        "architectures": ["Qwen2VLForConditionalGeneration"], "model_type": "qwen2_vl",
        "sliding_window": null, "use_sliding_window": false, "max_window_layers": LAYERS,
        "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
        "vision_start_token_id": 3, "vision_end_token_id": 4, "vision_token_id": 5,
        "image_token_id": 6, "video_token_id": 7,
        "vision_config": {
            "model_type": "qwen2_vl", "depth": LAYERS, "embed_dim": HIDDEN, "hidden_size": HIDDEN,
            "hidden_act": "quick_gelu", "mlp_ratio": 2, "num_heads": HEADS, "in_channels": 3,
            "in_chans": 3, "patch_size": 14, "spatial_patch_size": 14, "spatial_merge_size": 2,
            "temporal_patch_size": 2,
        },
    });
    write(folder, "config.json", &merged(decoder(vocabulary), own))?;
    write(folder, "tokenizer.json", &vocabulary.byte_level())?;
    let class = json!({"processor_class": "Qwen2VLProcessor"});
    write(folder, "tokenizer_config.json", &merged(tokenizer_config("Qwen2Tokenizer"), class))?;
    write(folder, "chat_template.json", &json!({"chat_template": CHAT}))?;
    let images = json!({
        "image_processor_type": "Qwen2VLImageProcessor", "processor_class": "Qwen2VLProcessor",
        "min_pixels": 3136, "max_pixels": 1_003_520, "patch_size": 14, "temporal_patch_size": 2,
        "merge_size": 2, "do_resize": true, "do_rescale": true, "rescale_factor": 1.0 / 255.0,
        "do_normalize": true, "do_convert_rgb": true, "resample": 3,
        "image_mean": [0.5, 0.5, 0.5], "image_std": [0.25, 0.25, 0.25],
    });
    write(folder, "preprocessor_config.json", &images)
}

fn write_cross_encoder(folder: &Path) -> Result<()> {
    let pieces = tokenizers::pieces();
    let config = json!({
        "architectures": ["BertForSequenceClassification"], "model_type": "bert",
        "vocab_size": pieces.len(), "hidden_size": HIDDEN, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "intermediate_size": FEED_FORWARD, "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1,
        "max_position_embeddings": 512, "type_vocab_size": 2, "initializer_range": 0.02,
        "layer_norm_eps": 1e-12, "pad_token_id": 0, "position_embedding_type": "absolute",
        "use_cache": true, "classifier_dropout": null, "torch_dtype": "bfloat16",
        "num_labels": 1, "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0},
    });
    write(folder, "config.json", &config)?;
    write(folder, "tokenizer.json", &tokenizers::word_pieces())?;
    let class = json!({
        "tokenizer_class": "BertTokenizerFast", "do_lower_case": true, "unk_token": "[UNK]",
        "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]", "mask_token": "[MASK]",
        "model_max_length": 512,
    });
    write(folder, "tokenizer_config.json", &class)?;
    write_plain(folder, "vocab.txt", &pieces.join("\n"))
}

fn write_audio(folder: &Path) -> Result<()> {
    let vocabulary = tokenizers::whisper();
    let config = json!({
        "architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper",
        "vocab_size": vocabulary.len(), "num_mel_bins": 80, "d_model": HIDDEN,
        "encoder_layers": LAYERS, "decoder_layers": LAYERS, "num_hidden_layers": LAYERS,
        "encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS,
        "encoder_ffn_dim": FEED_FORWARD, "decoder_ffn_dim": FEED_FORWARD,
        "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0, "activation_function": "gelu",
        "dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0, "init_std": 0.02,
        "scale_embedding": false, "use_cache": true, "is_encoder_decoder": true,
        "max_source_positions": 1500, "max_target_positions": 448, "max_length": 448,
        "pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0, "decoder_start_token_id": 1,
        "suppress_tokens": [], "begin_suppress_tokens": [], "torch_dtype": "bfloat16",
    });
    write(folder, "config.json", &config)?;
    write(folder, "tokenizer.json", &vocabulary.byte_level())?;
    let class = json!({
        "tokenizer_class": "WhisperTokenizer", "processor_class": "WhisperProcessor",
        "bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>",
        "pad_token": "<|endoftext|>", "model_max_length": 448, "add_prefix_space": false,
        "errors": "replace",
    });
    write(folder, "tokenizer_config.json", &class)?;
    write(folder, "vocab.json", &Value::Object(vocabulary.ids.clone()))?;
    let merges: Vec<String> =
        vocabulary.merges.iter().map(|(left, right)| format!("{left} {right}")).collect();
    write_plain(folder, "merges.txt", &format!("#version: 0.2\n{}\n", merges.join("\n")))?;
    write(folder, "normalizer.json", &json!({}))?;
    let sound = json!({
        "feature_extractor_type": "WhisperFeatureExtractor", "processor_class": "WhisperProcessor",
        "feature_size": 80, "sampling_rate": 16_000, "hop_length": 160, "chunk_length": 30,
        "n_fft": 400, "n_samples": 480_000, "nb_max_frames": 3000, "padding_side": "right",
        "padding_value": 0.0, "return_attention_mask": false,
    });
    write(folder, "preprocessor_config.json", &sound)
}

/// One tool whose arguments have few values: a model of random weights reaches their end.
fn tools() -> Value {
    let parameters = json!({
        "type": "object", "required": ["city", "days"], "additionalProperties": false,
        "properties": {
            "city": {"type": "string", "enum": ["Oslo", "Rome", "Lima"]},
            "days": {"type": "integer", "enum": [1, 2, 3]},
        },
    });
    json!([{"type": "function", "function": {
        "name": "get_weather", "description": "Weather of a city", "strict": true,
        "parameters": parameters,
    }}])
}

/// A schema with few values, for the same reason.
fn schema() -> Value {
    json!({
        "type": "object", "required": ["name", "ok", "size"], "additionalProperties": false,
        "properties": {
            "name": {"type": "string", "enum": ["left", "right"]},
            "ok": {"type": "boolean"},
            "size": {"type": "integer", "enum": [1, 2, 30]},
        },
    })
}
