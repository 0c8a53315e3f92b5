//! JSON objects that keep the order of their keys and look as Python writes them.

use std::io;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::Value;
use serde_json::ser::Formatter;

/// Keys and values in the order in which they were set.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Object(Vec<(String, Value)>);

impl Object {
    /// Sets a key. An existing key keeps its position.
    pub fn set(&mut self, key: impl Into<String>, value: impl Serialize) {
        let key = key.into();
        // Figures that are not finite become null: the file must stay valid JSON.
        let value = serde_json::to_value(value).unwrap_or(Value::Null);
        match self.0.iter_mut().find(|(known, _)| *known == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key, value)),
        }
    }

    /// The object on one line, with Python's separators and ASCII only.
    pub fn to_line(&self) -> String {
        let mut bytes = Vec::new();
        let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, PythonLook);
        self.serialize(&mut serializer).expect("writing to memory cannot fail");
        String::from_utf8(bytes).expect("the formatter writes ASCII")
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// `", "` and `": "` as separators; characters beyond ASCII as escapes.
struct PythonLook;

/// Writes the separator before every element but the first.
fn separate<W: ?Sized + io::Write>(writer: &mut W, position: KeyPosition) -> io::Result<()> {
    match position {
        KeyPosition::First => Ok(()),
        KeyPosition::Later => writer.write_all(b", "),
    }
}

#[derive(Clone, Copy)]
enum KeyPosition {
    First,
    Later,
}

impl From<bool> for KeyPosition {
    fn from(is_first: bool) -> Self {
        if is_first { Self::First } else { Self::Later }
    }
}

impl Formatter for PythonLook {
    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        separate(writer, first.into())
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        separate(writer, first.into())
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        for character in fragment.chars() {
            if character.is_ascii() {
                writer.write_all(&[u8::try_from(character).unwrap_or(b'?')])?;
            } else {
                let mut units = [0; 2];
                for unit in character.encode_utf16(&mut units) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_keeps_its_order_and_looks_like_python_s() {
        let mut object = Object::default();
        object.set("z", 1);
        object.set("a", vec![1.5, 2.0]);
        object.set("z", "é😀\"\n");
        object.set("none", f64::INFINITY);
        assert_eq!(
            object.to_line(),
            r#"{"z": "\u00e9\ud83d\ude00\"\n", "a": [1.5, 2.0], "none": null}"#
        );
    }
}
