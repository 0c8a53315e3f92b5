//! The fast path: walks over the bytes of a JSON object and stops only at known keys.

use memchr::memchr2;

use super::fields::{Fields, JsonValue};
use super::keys::{Field, Key, KeyUse, ObjectRole, meaning};
use super::parts::take_list;
use super::text::Text;

/// A construct that is left to the full parser.
#[derive(Debug)]
pub(super) struct Unusual;

type Result<T> = std::result::Result<T, Unusual>;

/// The fields of an object, or of the first object of a list; an error where it has an unusual construct.
pub(super) fn fields<'a>(root: &[Key], data: &'a [u8]) -> Result<Fields<'a>> {
    let mut cursor = Cursor { bytes: data, at: 0 };
    let mut fields = Fields::default();
    cursor.skip_blanks();
    cursor.enter(ObjectRole::Plain, root, &mut fields)?;
    cursor.skip_blanks();
    if cursor.at == data.len() { Ok(fields) } else { Err(Unusual) }
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    #[inline]
    fn peek(&self) -> Result<u8> {
        self.bytes.get(self.at).copied().ok_or(Unusual)
    }

    #[inline]
    fn skip_blanks(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Result<()> {
        if self.peek()? != byte {
            return Err(Unusual);
        }
        self.at += 1;
        Ok(())
    }

    /// After an element: true when another follows, false when `close` ended the list.
    #[inline]
    fn another(&mut self, close: u8) -> Result<bool> {
        self.skip_blanks();
        let byte = self.peek()?;
        self.at += 1;
        match byte {
            b',' => {
                self.skip_blanks();
                Ok(true)
            }
            byte if byte == close => Ok(false),
            _ => Err(Unusual),
        }
    }

    fn is_empty_list(&mut self, close: u8) -> Result<bool> {
        self.at += 1;
        self.skip_blanks();
        let is_empty = self.peek()? == close;
        self.at += usize::from(is_empty);
        Ok(is_empty)
    }

    fn object(&mut self, keys: &[Key], fields: &mut Fields<'a>) -> Result<()> {
        if self.is_empty_list(b'}')? {
            return Ok(());
        }
        loop {
            let name = self.string()?;
            self.skip_blanks();
            self.expect(b':')?;
            self.skip_blanks();
            let found = match &name {
                Text::Plain(name) => meaning(keys, name),
                escaped => meaning(keys, escaped.to_text().as_bytes()),
            };
            match found {
                None | Some(KeyUse::Quirks(_)) => self.skip_value()?,
                Some(KeyUse::Enter(role, inner)) => self.enter(role, inner, fields)?,
                Some(KeyUse::EnterOrTake(inner, _)) if self.peek()? == b'{' => {
                    ObjectRole::Finish.begin(fields);
                    self.object(inner, fields)?;
                }
                Some(KeyUse::Take(field @ (Field::Text | Field::Reasoning)))
                    if self.peek()? == b'[' =>
                {
                    let start = self.at;
                    self.skip_nested()?;
                    let list = serde_json::from_slice::<Vec<serde_json::Value>>(
                        &self.bytes[start..self.at],
                    );
                    take_list(fields, field, &list.map_err(|_| Unusual)?);
                }
                Some(KeyUse::Take(field) | KeyUse::EnterOrTake(_, field)) => {
                    let value = self.value()?;
                    fields.take(field, value);
                }
            }
            if !self.another(b'}')? {
                return Ok(());
            }
        }
    }

    /// Reads a value with fields inside: an object, the first object of an array, or all choices.
    fn enter(&mut self, role: ObjectRole, keys: &[Key], fields: &mut Fields<'a>) -> Result<()> {
        match self.peek()? {
            b'{' => {
                role.begin(fields);
                self.object(keys, fields)
            }
            b'[' => {
                if self.is_empty_list(b']')? {
                    return Ok(());
                }
                if self.peek()? == b'{' {
                    role.begin(fields);
                    self.object(keys, fields)?;
                } else {
                    self.skip_value()?;
                }
                while self.another(b']')? {
                    if role == ObjectRole::Choice && self.peek()? == b'{' {
                        let mut further = Fields::default();
                        role.begin(&mut further);
                        self.object(keys, &mut further)?;
                        fields.further.push(further);
                    } else {
                        self.skip_value()?;
                    }
                }
                Ok(())
            }
            // A known key with another kind of value.
            _ => self.skip_value(),
        }
    }

    /// Reads a string; the cursor is at its opening quote.
    #[inline]
    fn string(&mut self) -> Result<Text<'a>> {
        self.expect(b'"')?;
        let start = self.at;
        let mut has_escape = false;
        loop {
            let rest = self.bytes.get(self.at..).ok_or(Unusual)?;
            let length = memchr2(b'"', b'\\', rest).ok_or(Unusual)?;
            self.at += length;
            if rest[length] == b'"' {
                break;
            }
            has_escape = true;
            self.at += 2;
        }
        let content = &self.bytes[start..self.at];
        self.at += 1;
        Ok(if has_escape { Text::Escaped(content) } else { Text::Plain(content) })
    }

    fn literal(&mut self, word: &[u8]) -> Result<()> {
        let is_there = self.bytes.get(self.at..).is_some_and(|rest| rest.starts_with(word));
        self.at += word.len();
        if is_there { Ok(()) } else { Err(Unusual) }
    }

    fn value(&mut self) -> Result<JsonValue<'a>> {
        match self.peek()? {
            b'"' => self.string().map(JsonValue::Text),
            b'n' => self.literal(b"null").map(|()| JsonValue::Null),
            b't' => self.literal(b"true").map(|()| JsonValue::Bool(true)),
            b'f' => self.literal(b"false").map(|()| JsonValue::Bool(false)),
            b'{' => self.object_value(),
            b'[' => self.array(),
            _ => self.number().map(JsonValue::Number),
        }
    }

    fn object_value(&mut self) -> Result<JsonValue<'a>> {
        let start = self.at;
        let is_empty = self.is_empty_list(b'}')?;
        if !is_empty {
            self.at = start;
            self.skip_nested()?;
        }
        Ok(JsonValue::Object { is_empty })
    }

    fn array(&mut self) -> Result<JsonValue<'a>> {
        if self.is_empty_list(b']')? {
            return Ok(JsonValue::Array(0));
        }
        self.skip_value()?;
        let mut count = 1;
        while self.another(b']')? {
            self.skip_value()?;
            count += 1;
        }
        Ok(JsonValue::Array(count))
    }

    #[inline]
    fn skip_scalar(&mut self) -> Result<()> {
        let start = self.at;
        while !matches!(
            self.bytes.get(self.at),
            None | Some(b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t')
        ) {
            self.at += 1;
        }
        if self.at == start { Err(Unusual) } else { Ok(()) }
    }

    fn number(&mut self) -> Result<f64> {
        let start = self.at;
        self.skip_scalar()?;
        let digits = &self.bytes[start..self.at];
        // Counts have at most nine digits; everything else is left to the full parser.
        if digits.len() < 10 && digits.iter().all(u8::is_ascii_digit) {
            let value = digits.iter().fold(0_u32, |sum, digit| sum * 10 + u32::from(digit - b'0'));
            return Ok(f64::from(value));
        }
        let text = std::str::from_utf8(digits).map_err(|_| Unusual)?;
        let is_number = text.starts_with(|first: char| first.is_ascii_digit() || first == '-');
        text.parse().ok().filter(|_| is_number).ok_or(Unusual)
    }

    /// Skips a value of any kind. Brackets are counted but not matched: a document that mixes them is
    /// not JSON, and its meaning does not matter.
    #[inline]
    fn skip_value(&mut self) -> Result<()> {
        match self.peek()? {
            b'"' => self.string().map(|_| ()),
            b'{' | b'[' => self.skip_nested(),
            _ => self.skip_scalar(),
        }
    }

    fn skip_nested(&mut self) -> Result<()> {
        let mut depth = 0_u32;
        loop {
            match self.peek()? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Ok(());
            }
        }
    }
}
