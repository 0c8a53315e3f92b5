//! The JSON body of a request, written field by field in the order in which clients of the server send it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokometer_base::Message;

/// Fields that take precedence over all others, each as JSON text: what a dataset holds is sent in the
/// order in which it is written there.
pub(crate) type ExtraFields = BTreeMap<String, Box<RawValue>>;

pub(crate) struct JsonBody<'a> {
    bytes: Vec<u8>,
    extra: &'a ExtraFields,
    optional: Vec<&'static str>,
}

impl<'a> JsonBody<'a> {
    pub(crate) fn new(extra: &'a ExtraFields) -> Self {
        Self { bytes: vec![b'{'], extra, optional: Vec::new() }
    }

    fn write(&mut self, name: &str, value: impl Serialize) {
        self.name(name);
        self.value(&value);
    }

    fn name(&mut self, name: &str) {
        if self.bytes.len() > 1 {
            self.bytes.push(b',');
        }
        self.value(name);
        self.bytes.push(b':');
    }

    fn value<T: Serialize + ?Sized>(&mut self, value: &T) {
        serde_json::to_writer(&mut self.bytes, value)
            .expect("body values have string keys and memory is writable");
    }

    /// Adds a field that the request needs or the user set. Fields of the extra body take precedence.
    pub(crate) fn field(&mut self, name: &str, value: impl Serialize) {
        if !self.extra.contains_key(name) {
            self.write(name, value);
        }
    }

    pub(crate) fn raw(&mut self, name: &str, json: &str) {
        if !self.extra.contains_key(name) {
            self.name(name);
            self.bytes.extend_from_slice(json.as_bytes());
        }
    }

    /// Adds a conversation. A message that holds more than a text is written as it is.
    pub(crate) fn messages<'m>(&mut self, name: &str, messages: impl Iterator<Item = &'m Message>) {
        self.messages_as(name, messages, |_| None);
    }

    /// The same with such messages in the words of another API, where `translated` knows them.
    pub(crate) fn messages_as<'m>(
        &mut self,
        name: &str,
        messages: impl Iterator<Item = &'m Message>,
        translated: fn(&str) -> Option<String>,
    ) {
        if self.extra.contains_key(name) {
            return;
        }
        self.name(name);
        self.bytes.push(b'[');
        for (index, message) in messages.enumerate() {
            if index > 0 {
                self.bytes.push(b',');
            }
            match &message.verbatim {
                Some(json) => {
                    let json = translated(json).map_or(Cow::Borrowed(json), Cow::Owned);
                    self.bytes.extend_from_slice(json.as_bytes());
                }
                None => self.value(message),
            }
        }
        self.bytes.push(b']');
    }

    /// Adds a field that the client chooses. If the server refuses it, the request is sent without it
    /// or with its other name.
    pub(crate) fn optional(&mut self, name: &'static str, value: impl Serialize) {
        if !self.extra.contains_key(name) {
            self.write(name, value);
            self.optional.push(name);
        }
    }

    pub(crate) fn members(&mut self, fields: &impl Serialize) {
        for (name, value) in object_of(fields) {
            self.field(&name, value);
        }
    }

    /// The bytes, and the names of the optional fields among them.
    pub(crate) fn finish(mut self) -> (Vec<u8>, Vec<&'static str>) {
        for (name, value) in self.extra {
            self.write(name, value);
        }
        self.bytes.push(b'}');
        (self.bytes, self.optional)
    }
}

/// Serializes a struct to a JSON object; empty when it is not an object.
pub(crate) fn object_of(fields: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(fields) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}
