//! The writing system of a text: Latin, Han, Cyrillic, …

/// Letters that a text must have before its script says anything.
const LETTERS_MIN: usize = 20;

/// Of ten letters, so many must be of one script.
const TENTHS: usize = 8;

/// Characters that are looked at: the end of a text, which of a prompt is the question.
const CHARS_MAX: usize = 4_000;

/// A writing system. Scripts that one language mixes are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Script {
    /// Also most program code.
    Latin,
    /// Russian, Ukrainian, Bulgarian, …
    Cyrillic,
    Greek,
    /// Arabic, Persian, Urdu.
    Arabic,
    Hebrew,
    /// Hindi, Marathi, Nepali.
    Devanagari,
    Thai,
    Hangul,
    Han,
}

impl Script {
    /// All of them, in order, with their names on disk.
    const ALL: [(Self, &'static str); 9] = [
        (Self::Latin, "latin"),
        (Self::Cyrillic, "cyrillic"),
        (Self::Greek, "greek"),
        (Self::Arabic, "arabic"),
        (Self::Hebrew, "hebrew"),
        (Self::Devanagari, "devanagari"),
        (Self::Thai, "thai"),
        (Self::Hangul, "hangul"),
        (Self::Han, "han"),
    ];

    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, known)| *known == name).map(|(script, _)| script)
    }

    /// The script of a letter; `None` for scripts that are not told apart here.
    fn of(letter: char) -> Option<Self> {
        Some(match u32::from(letter) {
            0x41..=0x5a | 0x61..=0x7a | 0xc0..=0x24f | 0x1e00..=0x1eff => Self::Latin,
            0x370..=0x3ff | 0x1f00..=0x1fff => Self::Greek,
            0x400..=0x52f => Self::Cyrillic,
            0x590..=0x5ff => Self::Hebrew,
            0x600..=0x6ff | 0x750..=0x77f => Self::Arabic,
            0x900..=0x97f => Self::Devanagari,
            0xe00..=0xe7f => Self::Thai,
            0x1100..=0x11ff | 0xac00..=0xd7af => Self::Hangul,
            0x3040..=0x30ff | 0x3400..=0x9fff | 0xf900..=0xfaff | 0x20000..=0x3ffff => Self::Han,
            _ => return None,
        })
    }

    /// The script of nearly all letters. `None` for a short or a mixed text.
    pub fn dominant(text: &str) -> Option<Self> {
        let mut counts = [0_usize; Self::ALL.len()];
        let mut letters = 0;
        let is_letter = |letter: &char| letter.is_alphabetic();
        for letter in text.chars().rev().take(CHARS_MAX).filter(is_letter) {
            letters += 1;
            if let Some(script) = Self::of(letter) {
                counts[script as usize] += 1;
            }
        }
        if letters < LETTERS_MIN {
            return None;
        }
        let mut of_all = Self::ALL.into_iter().zip(counts);
        of_all.find(|(_, count)| count * 10 >= letters * TENTHS).map(|((script, _), _)| script)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_the_script_of_nearly_all_its_letters() {
        let check = |text: &str, expected: Option<Script>| {
            assert_eq!(Script::dominant(text), expected, "{text}");
        };
        check("What is the capital of France, please?", Some(Script::Latin));
        check("Какая столица у Франции? Ответь коротко.", Some(Script::Cyrillic));
        check("法国的首都是哪里？请用一句话回答，并说明理由好吗谢谢", Some(Script::Han));
        check("東京はどこにありますか。ひとことでおしえてください。", Some(Script::Han));
        check("short", None);
        check("half Latin letters и половина кириллицы здесь", None);
        check("12345 67890 !!! ??? 12345 67890 12345", None);
        for (script, _) in Script::ALL {
            assert_eq!(Script::named(script.name()), Some(script));
        }
    }
}
