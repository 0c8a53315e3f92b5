//! Tokenizers of the tiny models, in the format of the `tokenizers` library.
//!
//! A byte-level BPE can write every text; it knows a few words whole, so that tokens differ in length. The
//! cross-encoder has word pieces, as its architecture expects.

use serde_json::{Map, Value, json};

/// Words that are one token behind a blank.
const WORDS: &str = "a about after all and another any are as at be because been but by call came can \
    come cost could count day did do does down each engine find first for from get go good had has \
    have he her him his how if in into is it its just keep know lamp like line little long look made \
    make many map may measure mill more most much must new no not nobody now of on one only or other \
    our out over part people point promise rain right road rule said same see she so some than that \
    the their them then there these they this three through time to tower two up use very village was \
    water way we were what when where which who will with word work would write you your";

/// Special tokens of the text models, in the order of their ids.
pub(super) const SPECIALS: [&str; 8] = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
];
/// Further tokens of the text models that a server's parsers know.
const MARKS: [&str; 4] = ["</think>", "<think>", "<tool_call>", "</tool_call>"];
/// The id of the token that ends reasoning: the first one behind the special ones.
pub(super) const END_OF_REASONING: usize = SPECIALS.len();

/// Languages of a Whisper model, in the order of their tokens.
const LANGUAGES: &str = "en zh de es ru ko fr ja pt tr pl ca nl ar sv it id hi fi vi he uk el ms cs ro \
    da hu ta no th ur hr bg lt la mi ml cy sk te fa lv bn sr az sl kn et mk br eu is hy ne mn bs kk sq sw \
    gl mr pa si km sn yo so af oc ka be tg sd gu am yi lo uz fo ht ps tk nn mt sa lb my bo tl mg as tt \
    haw ln ha ba jw su yue jv";
/// Time stamps of a Whisper model: 0.00 to 30.00 in steps of 0.02 seconds.
const STAMPS: usize = 1_501;

/// A vocabulary and what was added to it.
pub(super) struct Vocabulary {
    pub(super) ids: Map<String, Value>,
    /// Pairs that are merged, the first ones first.
    pub(super) merges: Vec<(String, String)>,
    added: Vec<Value>,
}

impl Vocabulary {
    pub(super) fn len(&self) -> usize {
        let ids = self.added.iter().filter_map(|token| token["id"].as_u64());
        let last = ids.chain(self.ids.values().filter_map(Value::as_u64)).max();
        last.map_or(0, |last| usize::try_from(last).unwrap_or_default() + 1)
    }

    fn add(&mut self, token: &str) {
        let id = self.ids.len();
        self.ids.entry(token.to_owned()).or_insert_with(|| id.into());
    }

    fn announce(&mut self, token: &str, id: usize, is_special: bool) {
        self.added.push(added(token, id, is_special));
    }

    /// The content of `tokenizer.json` of a byte-level BPE.
    pub(super) fn byte_level(&self) -> Value {
        json!({
            "version": "1.0", "truncation": null, "padding": null, "normalizer": null,
            "added_tokens": self.added,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
            "post_processor": null,
            "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
            "model": {
                "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
                "vocab": self.ids, "merges": self.merges,
            },
        })
    }
}

/// A row of `added_tokens`. A special token is left out of texts.
fn added(token: &str, id: usize, is_special: bool) -> Value {
    json!({
        "id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": false, "special": is_special,
    })
}

pub(super) fn text() -> Vocabulary {
    let mut vocabulary = bytes_and_words(SPECIALS.iter().chain(&MARKS).copied());
    for (id, token) in SPECIALS.iter().enumerate() {
        vocabulary.announce(token, id, true);
    }
    for (id, token) in (SPECIALS.len()..).zip(MARKS) {
        vocabulary.announce(token, id, false);
    }
    vocabulary
}

pub(super) fn whisper() -> Vocabulary {
    let languages = LANGUAGES.split_whitespace();
    let tasks =
        ["translate", "transcribe", "startoflm", "startofprev", "prev", "nospeech", "notimestamps"];
    let names = ["endoftext", "startoftranscript"].into_iter().chain(languages).chain(tasks);
    let specials: Vec<String> = names.map(|name| format!("<|{name}|>")).collect();
    let mut vocabulary = bytes_and_words(specials.iter().map(String::as_str));
    for (id, token) in specials.iter().enumerate() {
        vocabulary.announce(token, id, true);
    }
    let first = vocabulary.len();
    for stamp in 0..STAMPS {
        let hundredths = 2 * stamp;
        let token = format!("<|{}.{:02}|>", hundredths / 100, hundredths % 100);
        vocabulary.announce(&token, first + stamp, false);
    }
    vocabulary
}

fn bytes_and_words<'t>(first: impl Iterator<Item = &'t str>) -> Vocabulary {
    let mut vocabulary = Vocabulary { ids: Map::new(), merges: Vec::new(), added: Vec::new() };
    for token in first {
        vocabulary.add(token);
    }
    for byte in 0..=u8::MAX {
        vocabulary.add(&letter(byte).to_string());
    }
    for word in WORDS.split_whitespace() {
        let mut known = letter(b' ').to_string();
        for byte in word.bytes() {
            let next = letter(byte).to_string();
            let longer = format!("{known}{next}");
            // Words that begin alike share their first merges.
            if !vocabulary.ids.contains_key(&longer) {
                vocabulary.add(&longer);
                vocabulary.merges.push((known, next));
            }
            known = longer;
        }
    }
    vocabulary
}

/// The character that stands for a byte in a byte-level vocabulary: itself where it is visible,
/// otherwise the next one from U+0100 on.
fn letter(byte: u8) -> char {
    let is_visible = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    if is_visible(byte) {
        return char::from(byte);
    }
    let hidden = (0..byte).filter(|other| !is_visible(*other)).count();
    u32::try_from(hidden)
        .ok()
        .and_then(|hidden| char::from_u32(0x100 + hidden))
        .unwrap_or('\u{FFFD}')
}

/// Special tokens of the cross-encoder, in the order of their ids.
const PIECE_SPECIALS: [&str; 5] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];

/// Word pieces of the cross-encoder, in the order of their ids.
pub(super) fn pieces() -> Vec<String> {
    let letters: Vec<char> = ('a'..='z').chain('0'..='9').collect();
    let mut pieces: Vec<String> = PIECE_SPECIALS.map(str::to_owned).into();
    pieces.extend([",", ".", ":", ";"].map(str::to_owned));
    pieces.extend(letters.iter().map(char::to_string));
    pieces.extend(letters.iter().map(|letter| format!("##{letter}")));
    pieces.extend(WORDS.split_whitespace().filter(|word| word.len() > 1).map(str::to_owned));
    pieces
}

/// The content of `tokenizer.json` of the cross-encoder.
pub(super) fn word_pieces() -> Value {
    let ids: Map<String, Value> =
        pieces().into_iter().enumerate().map(|(id, piece)| (piece, id.into())).collect();
    let specials = PIECE_SPECIALS.iter().enumerate();
    let added: Vec<Value> = specials.map(|(id, token)| added(token, id, true)).collect();
    let special =
        |name: &str, type_id: u32| json!({"SpecialToken": {"id": name, "type_id": type_id}});
    let sequence = |name: &str, type_id: u32| json!({"Sequence": {"id": name, "type_id": type_id}});
    let single = [special("[CLS]", 0), sequence("A", 0), special("[SEP]", 0)];
    let pair: Vec<Value> =
        single.iter().cloned().chain([sequence("B", 1), special("[SEP]", 1)]).collect();
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing", "single": single, "pair": pair,
            "special_tokens": {
                "[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
                "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]},
            },
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": ids},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_a_letter_of_its_own_and_every_merge_exists() {
        let letters: std::collections::BTreeSet<char> = (0..=u8::MAX).map(letter).collect();
        assert_eq!(letters.len(), 256);
        assert_eq!((letter(b' '), letter(b'a'), letter(0)), ('Ġ', 'a', 'Ā'));
        for vocabulary in [text(), whisper()] {
            for (left, right) in &vocabulary.merges {
                for token in [left.clone(), right.clone(), format!("{left}{right}")] {
                    assert!(vocabulary.ids.contains_key(&token), "{token}");
                }
            }
        }
        assert_eq!(text().ids["</think>"], END_OF_REASONING);
        assert_eq!(whisper().len(), whisper().ids.len() + STAMPS);
    }
}
