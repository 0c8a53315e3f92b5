//! Consecutive slices of one long text, each of exactly the asked number of tokens.
//!
//! The text is cut at words, whose tokens do not depend on what stands before or behind; a slice is
//! as many words as fit, and the token or two that may then be missing are filled by single-token
//! words. At its end the text is repeated from a shifted position, so that no slice is sent twice.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;
use tokometer_base::{Prompt, PromptContent};
use tokometer_tokenize::{Reach, Specials, Tokenizer};

use crate::compose::{Composed, Composer};
use crate::{DatasetContext, DatasetNote, Error, PlannedPrompt, Result, Source, input};

/// The part of a text on which its ruler is tried.
const TRIED_BYTES: usize = 20_000;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Options {
    pub path: PathBuf,
    /// Tokens of a slice, special tokens of the server included.
    pub input_len: u32,
    pub output_len: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { path: PathBuf::new(), input_len: 1_024, output_len: 150 }
    }
}

pub(crate) struct Book {
    options: Options,
    context: DatasetContext,
    composer: Composer,
    specials: u32,
    text: String,
    ruler: Ruler,
}

pub(crate) fn open(options: &Options, context: &DatasetContext) -> Result<Book> {
    let path = &options.path;
    let text = input::read_text(path).map_err(Error::read(path))?.trim().to_owned();
    if text.is_empty() {
        return Err(Error::Empty(path.clone()));
    }
    let composer = Composer::new(std::sync::Arc::clone(&context.tokenizer));
    let ruler = Ruler::open(&*context.tokenizer, &text)?;
    let specials = context.specials()?;
    let book = Book {
        options: options.clone(),
        context: context.clone(),
        composer,
        specials,
        text,
        ruler,
    };
    if book.ruler.tokens() < book.slice_tokens() {
        let (has, wanted) = (book.ruler.tokens(), book.slice_tokens());
        let reason = format!("it has {has} tokens, but one slice needs {wanted}");
        return Err(Error::TooShort { path: path.clone(), reason });
    }
    Ok(book)
}

/// Where a text can be cut, and how many tokens lie before each cut.
enum Ruler {
    /// At words: the byte and the token at which each begins, and at last the text's end.
    Words(Vec<Mark>),
    /// Between any two tokens: for tokenizers whose words are not independent, or far away.
    Ids(Vec<u32>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    byte: usize,
    token: usize,
}

impl Ruler {
    fn open(tokenizer: &dyn Tokenizer, text: &str) -> Result<Self> {
        let ids = |text: &str| tokenizer.encode(text, Specials::Skip);
        if tokenizer.reach() == Reach::Remote {
            return Ok(Self::Ids(ids(text)?));
        }
        // Whether words are independent shows on the beginning of the text.
        let starts = pieces(text).map(|(byte, _)| byte);
        let tried = if text.len() <= TRIED_BYTES {
            text.len()
        } else {
            starts.take_while(|byte| *byte <= TRIED_BYTES).last().unwrap_or(0)
        };
        let last = marks(tokenizer, &text[..tried])?.last().map(|mark| mark.token);
        if last == Some(tokenizer.count(&text[..tried])?) {
            return Ok(Self::Words(marks(tokenizer, text)?));
        }
        Ok(Self::Ids(ids(text)?))
    }

    fn tokens(&self) -> usize {
        match self {
            Self::Words(marks) => marks.last().map_or(0, |mark| mark.token),
            Self::Ids(ids) => ids.len(),
        }
    }
}

/// The pieces of a text: each but the first begins with the blank before a letter.
fn pieces(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let bytes = text.as_bytes();
    let mut start = 0;
    std::iter::from_fn(move || {
        if start >= text.len() {
            return None;
        }
        let is_cut = |at: &usize| {
            bytes[*at] == b' '
                && !bytes[*at - 1].is_ascii_whitespace()
                && bytes.get(*at + 1).is_some_and(u8::is_ascii_alphabetic)
        };
        let end = (start + 1..text.len()).find(is_cut).unwrap_or(text.len());
        let piece = (start, &text[start..end]);
        start = end;
        Some(piece)
    })
}

fn marks(tokenizer: &dyn Tokenizer, text: &str) -> Result<Vec<Mark>> {
    // A book has a hundred times as many words as different words.
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut marks, mut token) = (Vec::new(), 0);
    for (byte, piece) in pieces(text) {
        marks.push(Mark { byte, token });
        token += if let Some(count) = known.get(piece) {
            *count
        } else {
            let count = tokenizer.count(piece)?;
            known.insert(piece, count);
            count
        };
    }
    marks.push(Mark { byte: text.len(), token });
    Ok(marks)
}

/// A shift below `most` for each pass, never the same twice in a row. The step is a prime, so that
/// all shifts are visited before one comes again.
fn shift(pass: u64, most: u64) -> u64 {
    (pass + 1) * 7_919 % most.max(1)
}

impl Book {
    fn slice_tokens(&self) -> usize {
        self.options.input_len.saturating_sub(self.specials).max(1) as usize
    }

    fn slices(&self) -> u64 {
        (self.ruler.tokens() / self.slice_tokens()).max(1) as u64
    }

    /// The token at which a slice begins. Later passes are shifted by less than a slice, and so
    /// have one slice fewer than the first.
    fn start(&self, index: u64) -> usize {
        let wanted = self.slice_tokens() as u64;
        let start = match index.checked_sub(self.slices()) {
            None => index * wanted,
            Some(later) if self.slices() > 1 => {
                let (pass, slice) = (later / (self.slices() - 1), later % (self.slices() - 1));
                slice * wanted + shift(pass, wanted)
            }
            Some(later) => shift(later, self.ruler.tokens() as u64 - wanted + 1),
        };
        usize::try_from(start).unwrap_or(0)
    }

    fn slice(&self, index: u64) -> Result<Composed> {
        let (start, wanted) = (self.start(index), self.slice_tokens());
        match &self.ruler {
            Ruler::Ids(ids) => {
                let tokens = u32::try_from(wanted).unwrap_or(u32::MAX);
                self.composer.fitted(ids[start..start + wanted].to_vec(), tokens)
            }
            Ruler::Words(marks) => self.words(marks, start, wanted),
        }
    }

    fn words(&self, marks: &[Mark], start: usize, wanted: usize) -> Result<Composed> {
        let first = marks.partition_point(|mark| mark.token < start).min(marks.len() - 2);
        // The blank before the first word is left out: some servers trim it.
        let next = marks[first + 1];
        let front = self.text[marks[first].byte..next.byte].trim_start();
        let front_tokens = self.context.tokenizer.count(front)?;
        let room = wanted.saturating_sub(front_tokens);
        let after = marks.partition_point(|mark| mark.token <= next.token + room) - 1;
        let last = marks[after.max(first + 1)];
        let mut text = format!("{front}{}", &self.text[next.byte..last.byte]);
        let has = front_tokens + last.token - next.token;
        if has > wanted {
            let ids = self.context.tokenizer.encode(&text, Specials::Skip)?;
            let tokens = u32::try_from(wanted).unwrap_or(u32::MAX);
            return self.composer.fitted(ids.into_iter().take(wanted).collect(), tokens);
        }
        let missing = u32::try_from(wanted - has).unwrap_or(0);
        let mut generator = self.context.seed.stream("filling").at(start as u64);
        let trimmed = text.trim_end().len();
        let is_trimmed = trimmed < text.len();
        if missing > 0 && is_trimmed {
            // Blanks at the end would join with the filling: count what is left without them.
            text.truncate(trimmed);
            let ids = self.context.tokenizer.encode(&text, Specials::Skip)?;
            return self.composer.fitted(ids, u32::try_from(wanted).unwrap_or(u32::MAX));
        }
        let filling = self.composer.continuation(missing, &mut generator)?;
        let tokens = u32::try_from(has).unwrap_or(u32::MAX).saturating_add(filling.tokens);
        Ok(Composed { text: text + &filling.text, tokens })
    }
}

impl Source for Book {
    fn len(&self) -> u64 {
        if self.context.count == 0 { self.slices() } else { self.context.count }
    }

    fn prompt(&self, index: u64) -> Result<PlannedPrompt> {
        let Composed { text, tokens } = self.slice(index)?;
        let asked = u32::try_from(self.slice_tokens()).unwrap_or(u32::MAX);
        let prompt = Prompt {
            content: PromptContent::Text(text),
            prompt_tokens: Some(tokens + self.specials),
            output_tokens: Some(self.options.output_len),
            ..Prompt::text("")
        };
        Ok(PlannedPrompt::given(prompt, Some(asked + self.specials)))
    }

    fn asks_tokenizer(&self) -> bool {
        true
    }

    fn notes(&self) -> Vec<DatasetNote> {
        let (slices, wanted) = (self.slices(), self.len());
        if wanted <= slices {
            return Vec::new();
        }
        let length = self.options.input_len;
        let has = match slices {
            1 => format!("1 slice of {length} tokens"),
            _ => format!("{slices} slices of {length} tokens"),
        };
        let text = format!(
            "`{}` has {has} for {wanted} prompts: the text is repeated from a shifted position",
            self.options.path.display()
        );
        vec![DatasetNote::new("book-restarts", text)]
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Spec, Workload, open};
    use tokometer_base::Seed;
    use tokometer_tokenize::{BuiltIn, Encoding, ServerCalls, ServerTokenizer};

    /// Prose with what makes cutting hard: long words, marks, line ends, double blanks, accents.
    fn prose() -> String {
        let sentence = "Incomprehensibly, the antediluvian mariner's \u{e9}tude (unfinished)  went on --\n\
                        and on; \"so what?\" he said, in 1851.\n\n";
        sentence.repeat(60)
    }

    fn workload(text: &str, tokenizer: Arc<dyn Tokenizer>, input_len: u32) -> Result<Workload> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("book.txt");
        std::fs::write(&path, text).unwrap();
        let context = DatasetContext::new(tokenizer, Seed(1), 40);
        open(&Spec::Book(Options { path, input_len, ..Options::default() }), &context)
    }

    #[test]
    fn every_slice_has_exactly_the_asked_tokens_also_after_a_restart() {
        for encoding in Encoding::ALL {
            for input_len in [1, 2, 7, 80, 500] {
                let tokenizer = Arc::new(BuiltIn::new(encoding));
                let workload = workload(&prose(), tokenizer, input_len).unwrap();
                let check = workload.check_lengths().unwrap();
                assert_eq!((check.checked, check.missed), (40, 0), "{encoding} {input_len}");
            }
        }
    }

    #[test]
    fn slices_follow_each_other_and_a_restart_is_shifted_and_noted() {
        let text = (0..400).map(|n| format!("w{n}")).collect::<Vec<_>>().join(" and so ");
        let workload = workload(&text, Arc::new(BuiltIn::new(Encoding::R50k)), 100).unwrap();
        let slice = |index| match workload.item(index).unwrap().prompt.content {
            PromptContent::Text(text) => text,
            other => panic!("{other:?}"),
        };
        assert!(text.starts_with(&slice(0)[..200]));
        let all: std::collections::BTreeSet<_> = (0..40).map(slice).collect();
        assert_eq!(all.len(), 40, "a slice was sent twice");
        assert_eq!(workload.notes()[0].code, "book-restarts");
    }

    #[test]
    fn a_servers_tokenizer_cuts_between_tokens_and_adjusts() {
        let inner = BuiltIn::new(Encoding::R50k);
        let calls = ServerCalls {
            name: "server".into(),
            tokenize: Box::new(move |text, specials| {
                inner.encode(text, specials).map_err(|error| error.to_string())
            }),
            detokenize: Box::new(move |ids| inner.decode(ids).map_err(|error| error.to_string())),
        };
        let tokenizer = Arc::new(ServerTokenizer::open(calls).unwrap());
        let check = workload(&prose(), tokenizer, 80).unwrap().check_lengths().unwrap();
        assert_eq!(check.missed, 0);
    }

    #[test]
    fn a_text_shorter_than_one_slice_is_refused() {
        let error =
            workload("too short", Arc::new(BuiltIn::new(Encoding::R50k)), 80).err().unwrap();
        assert!(error.to_string().ends_with("it has 2 tokens, but one slice needs 80"), "{error}");
    }
}
