//! The shape of a type, found by what its reader asks for.
//!
//! A type is read again and again from values that are made while it asks: each pass takes another
//! variant of an enum, tries another sample, or leaves out one field, until nothing is left to learn.
//! Where a reader takes any value and looks at it later, samples decide; [`Samples`] has those that no
//! reader shows by itself.

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, Visitor};
use serde_json::{Error, Map, Value, json};

/// Samples for a spot, by its path: `None` where the reader shows what it takes.
pub(super) type Samples<'s> = &'s dyn Fn(&str) -> Option<Vec<Value>>;
/// The description of a field, by the name of its struct and its own.
pub(super) type Described<'s> = &'s dyn Fn(&str, &str) -> Option<String>;

/// Passes that no type needs.
const MOST_PASSES: usize = 20_000;

/// Texts for types that are read from a text; the first one that is taken is enough.
const WORDS: [&str; 11] = [
    "text",
    "1",
    "simulator",
    "vllm",
    "ttft_ms_p99",
    "seed",
    "256x256",
    "a=b",
    "h:1:127.0.0.1",
    "0",
    "{}",
];

#[derive(Debug, Default)]
enum Shape {
    #[default]
    New,
    Plain(Value),
    Optional(Box<Shape>),
    List(Box<Shape>),
    Keyed(Box<Shape>),
    Tuple(Vec<Shape>),
    Fields {
        of: &'static str,
        fields: Vec<Field>,
    },
    Variants(Vec<(&'static str, Shape)>),
    Probe(Probe),
}

#[derive(Debug)]
struct Field {
    name: &'static str,
    shape: Shape,
    presence: Presence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    Untried,
    /// Left out in this pass.
    Tried,
    Required,
    Optional,
}

/// Samples that are tried one after the other.
#[derive(Debug, Default)]
struct Probe {
    samples: Vec<Value>,
    next: usize,
    taken: Vec<Value>,
    /// When it was asked in this pass; `None` where it was not, or gave what is known to be taken.
    asked: Option<usize>,
    /// Why a sample was refused.
    refused: Vec<String>,
    /// Whether one sample is enough.
    is_text: bool,
}

impl Probe {
    fn is_open(&self) -> bool {
        self.next < self.samples.len() && (self.taken.is_empty() || !self.is_text)
    }
}

/// What passes look for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Aim {
    /// What there is.
    #[default]
    Shape,
    /// Which fields may be left out.
    Omission,
}

/// What a pass has done.
#[derive(Debug, Default)]
struct Pass {
    asked: usize,
    has_omitted: bool,
    aim: Aim,
    path: String,
}

impl Shape {
    /// Whether a further pass can learn something here.
    fn is_open(&self, aim: Aim) -> bool {
        let open = |shape: &Self| shape.is_open(aim);
        match self {
            Self::New => true,
            Self::Plain(_) => false,
            Self::Optional(inner) | Self::List(inner) | Self::Keyed(inner) => open(inner),
            Self::Tuple(all) => all.iter().any(open),
            Self::Fields { fields, .. } => fields.iter().any(|field| {
                (aim == Aim::Omission && field.presence == Presence::Untried) || open(&field.shape)
            }),
            Self::Variants(variants) => variants.iter().any(|(_, shape)| open(shape)),
            Self::Probe(probe) => probe.is_open(),
        }
    }

    fn each(&mut self, visit: &mut dyn FnMut(&mut Self)) {
        visit(self);
        match self {
            Self::Optional(inner) | Self::List(inner) | Self::Keyed(inner) => inner.each(visit),
            Self::Tuple(all) => all.iter_mut().for_each(|one| one.each(visit)),
            Self::Fields { fields, .. } => fields.iter_mut().for_each(|one| one.shape.each(visit)),
            Self::Variants(all) => all.iter_mut().for_each(|(_, shape)| shape.each(visit)),
            Self::New | Self::Plain(_) | Self::Probe(_) => {}
        }
    }

    /// Keeps what a pass has shown. Of a failed one the last sample, or the field left out, is to blame.
    fn settle(&mut self, pass: &Pass, why: Option<&str>) {
        let is_read = why.is_none();
        self.each(&mut |shape| match shape {
            Self::Probe(probe) => {
                if let Some(asked) = probe.asked.take()
                    && (is_read || asked == pass.asked)
                {
                    if is_read {
                        probe.taken.push(probe.samples[probe.next].clone());
                    }
                    probe.refused.extend(why.map(|why| format!("{}: {why}", pass.path)));
                    probe.next += 1;
                }
            }
            Self::Fields { fields, .. } => {
                for field in fields.iter_mut().filter(|one| one.presence == Presence::Tried) {
                    field.presence = if is_read { Presence::Optional } else { Presence::Required };
                }
            }
            _ => {}
        });
    }

    fn schema(&self, described: Described<'_>) -> Value {
        match self {
            Self::New => json!({}),
            Self::Plain(schema) => schema.clone(),
            Self::Optional(inner) => any_of(vec![inner.schema(described), json!({"type": "null"})]),
            Self::List(inner) => json!({"type": "array", "items": inner.schema(described)}),
            Self::Keyed(inner) => {
                json!({"type": "object", "additionalProperties": inner.schema(described)})
            }
            Self::Tuple(all) => {
                let all: Vec<Value> = all.iter().map(|one| one.schema(described)).collect();
                json!({"type": "array", "minItems": all.len(), "prefixItems": all})
            }
            Self::Fields { of, fields } => {
                let mut properties = Map::new();
                for field in fields {
                    let mut schema = field.shape.schema(described);
                    if let Some(text) = described(of, field.name) {
                        schema["description"] = json!(text);
                    }
                    let _ = properties.insert(field.name.to_owned(), schema);
                }
                let is_required = |field: &&Field| field.presence == Presence::Required;
                let required: Vec<&str> =
                    fields.iter().filter(is_required).map(|one| one.name).collect();
                let mut schema = json!({"type": "object", "properties": properties});
                if !required.is_empty() {
                    schema["required"] = json!(required);
                }
                schema
            }
            Self::Variants(variants) => {
                let is_unit = |shape: &Self| matches!(shape, Self::Plain(Value::Null));
                let units = variants.iter().filter(|(_, shape)| is_unit(shape));
                let names: Vec<&str> = units.map(|(name, _)| *name).collect();
                let words = (!names.is_empty()).then(|| json!({"type": "string", "enum": names}));
                let others = variants.iter().filter(|(_, shape)| !is_unit(shape));
                let others = others.map(|(name, shape)| {
                    json!({"type": "object", "properties": {*name: shape.schema(described)}, "required": [name]})
                });
                any_of(words.into_iter().chain(others).collect())
            }
            Self::Probe(probe) => of_samples(&probe.taken),
        }
    }
}

/// One of these schemas; types alone are a list of types.
pub(super) fn any_of(all: Vec<Value>) -> Value {
    let mut different: Vec<Value> = Vec::new();
    for one in all {
        let inner = one.get("anyOf").and_then(Value::as_array).cloned();
        for one in inner.unwrap_or_else(|| vec![one]) {
            if !different.contains(&one) {
                different.push(one);
            }
        }
    }
    if different.contains(&json!({})) {
        return json!({});
    }
    let names: Option<Vec<Value>> = different
        .iter()
        .map(|one| one.get("type").filter(|_| one.as_object().is_some_and(|all| all.len() == 1)))
        .map(Option::<&Value>::cloned)
        .collect();
    match (different.len(), names) {
        (1, _) => different.remove(0),
        (_, Some(names)) if names.iter().all(Value::is_string) => json!({"type": names}),
        _ => json!({"anyOf": different}),
    }
}

/// The schema of samples of one spot: objects have the keys of all of them.
fn of_samples(samples: &[Value]) -> Value {
    let objects: Vec<&Map<String, Value>> = samples.iter().filter_map(Value::as_object).collect();
    let mut fields: Map<String, Value> = Map::new();
    for key in objects.iter().flat_map(|object| object.keys()) {
        let values = objects.iter().filter_map(|object| object.get(key)).cloned();
        let schema = of_samples(&values.collect::<Vec<_>>());
        let _ = fields.insert(key.clone(), schema);
    }
    let object = match (objects.is_empty(), fields.is_empty()) {
        (true, _) => None,
        (_, true) => Some(json!({"type": "object"})),
        _ => Some(json!({"type": "object", "properties": fields})),
    };
    let plain = samples.iter().filter_map(|sample| match sample {
        Value::Null => Some(json!({"type": "null"})),
        Value::Bool(_) => Some(json!({"type": "boolean"})),
        Value::Number(number) if number.is_f64() => Some(json!({"type": "number"})),
        Value::Number(_) => Some(json!({"type": "integer"})),
        Value::String(_) => Some(json!({"type": "string"})),
        Value::Array(items) if items.is_empty() => Some(json!({"type": "array"})),
        Value::Array(items) => Some(json!({"type": "array", "items": of_samples(items)})),
        Value::Object(_) => None,
    });
    any_of(plain.chain(object).collect())
}

pub(super) fn schema_of<'de, T: Deserialize<'de>>(
    samples: Samples<'_>,
    described: Described<'_>,
) -> Value {
    let mut root = Shape::New;
    for aim in [Aim::Shape, Aim::Omission] {
        for passes in 0.. {
            assert!(passes < MOST_PASSES, "the type has no end");
            if !root.is_open(aim) {
                break;
            }
            let mut pass = Pass { aim, ..Pass::default() };
            let spot = Spot { shape: &mut root, pass: &mut pass, path: String::new(), samples };
            let read = T::deserialize(spot);
            let is_explained = pass.asked > 0 || pass.has_omitted;
            let read = read.map(drop);
            assert!(read.is_ok() || is_explained, "{}: {read:?}", pass.path);
            root.settle(&pass, read.err().map(|why| why.to_string()).as_deref());
            root.each(&mut |shape| {
                if let Shape::Probe(Probe { samples, next, taken, refused, .. }) = shape {
                    let is_stuck = *next == samples.len() && taken.is_empty();
                    assert!(!is_stuck, "give samples that are taken: {refused:#?}");
                }
            });
        }
    }
    root.schema(described)
}

/// A spot in the type that is being read.
struct Spot<'a> {
    shape: &'a mut Shape,
    pass: &'a mut Pass,
    path: String,
    samples: Samples<'a>,
}

impl Spot<'_> {
    fn below<'b>(&'b mut self, step: &str, of: fn(&mut Shape) -> &mut Shape) -> Spot<'b> {
        let path = format!("{}{step}", self.path);
        Spot { shape: of(self.shape), pass: self.pass, path, samples: self.samples }
    }

    /// The value that this spot gives now, if it is a probe.
    fn probed(&mut self, usual: Option<(Vec<Value>, bool)>) -> Option<Value> {
        self.pass.path.clone_from(&self.path);
        if matches!(self.shape, Shape::New) {
            let own = (self.samples)(&self.path).map(|samples| (samples, false));
            if let Some((samples, is_text)) = own.or(usual) {
                *self.shape = Shape::Probe(Probe { samples, is_text, ..Probe::default() });
            }
        }
        let Shape::Probe(probe) = &mut *self.shape else { return None };
        if !probe.is_open() {
            return Some(probe.taken.first().cloned().unwrap_or(Value::Null));
        }
        self.pass.asked += 1;
        probe.asked = Some(self.pass.asked);
        Some(probe.samples[probe.next].clone())
    }
}

fn words() -> (Vec<Value>, bool) {
    (WORDS.iter().map(|word| json!(word)).collect(), true)
}

fn everything() -> (Vec<Value>, bool) {
    let more =
        [json!(null), json!(true), json!(1), json!(0.5), json!("none"), json!([]), json!({})];
    (more.into_iter().chain(WORDS.iter().map(|word| json!(word))).collect(), false)
}

macro_rules! plain {
    ($($read:ident $visit:ident $value:expr, $schema:expr;)*) => { $(
        fn $read<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
            if let Some(value) = self.probed(None) {
                return value.$read(visitor);
            }
            if matches!(self.shape, Shape::New) {
                *self.shape = Shape::Plain($schema);
            }
            visitor.$visit($value)
        }
    )* };
}

impl<'de> Deserializer<'de> for Spot<'_> {
    type Error = Error;

    plain! {
        deserialize_bool visit_bool true, json!({"type": "boolean"});
        deserialize_u8 visit_u8 1, json!({"type": "integer", "minimum": 0});
        deserialize_u16 visit_u16 1, json!({"type": "integer", "minimum": 0});
        deserialize_u32 visit_u32 1, json!({"type": "integer", "minimum": 0});
        deserialize_u64 visit_u64 1, json!({"type": "integer", "minimum": 0});
        deserialize_i8 visit_i8 1, json!({"type": "integer"});
        deserialize_i16 visit_i16 1, json!({"type": "integer"});
        deserialize_i32 visit_i32 1, json!({"type": "integer"});
        deserialize_i64 visit_i64 1, json!({"type": "integer"});
        deserialize_f32 visit_f32 0.5, json!({"type": "number"});
        deserialize_f64 visit_f64 0.5, json!({"type": "number"});
    }

    fn deserialize_any<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        let value = self.probed(Some(everything())).unwrap_or_default();
        value.deserialize_any(visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        let value = self.probed(Some(words())).unwrap_or_default();
        value.deserialize_str(visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        if let Some(value) = self.probed(None) {
            return value.deserialize_option(visitor);
        }
        if matches!(self.shape, Shape::New) {
            *self.shape = Shape::Optional(Box::default());
        }
        if !self.shape.is_open(self.pass.aim) {
            return visitor.visit_none();
        }
        visitor.visit_some(self.below("", inner))
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        *self.shape = Shape::Plain(Value::Null);
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        // A text of raw JSON has this name.
        if name.starts_with('$') || matches!(self.shape, Shape::Probe(_)) {
            let value = self.probed(Some((vec![json!({})], false))).unwrap_or_default();
            return value.deserialize_newtype_struct(name, visitor);
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        if let Some(value) = self.probed(None) {
            return value.deserialize_seq(visitor);
        }
        if matches!(self.shape, Shape::New) {
            *self.shape = Shape::List(Box::default());
        }
        let left = usize::from(self.shape.is_open(self.pass.aim));
        visitor.visit_seq(Items { spot: self, left, at: None })
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        mut self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        if let Some(value) = self.probed(None) {
            return value.deserialize_tuple(length, visitor);
        }
        if matches!(self.shape, Shape::New) {
            *self.shape = Shape::Tuple((0..length).map(|_| Shape::New).collect());
        }
        visitor.visit_seq(Items { spot: self, left: length, at: Some(0) })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_tuple(length, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        if let Some(value) = self.probed(None) {
            return value.deserialize_map(visitor);
        }
        if matches!(self.shape, Shape::New) {
            *self.shape = Shape::Keyed(Box::default());
        }
        let left = usize::from(self.shape.is_open(self.pass.aim));
        visitor.visit_map(Entries { spot: self, left })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if let Some(value) = self.probed(None) {
            return value.deserialize_struct(name, fields, visitor);
        }
        if matches!(self.shape, Shape::New) {
            let field = |name: &&'static str| Field {
                name,
                shape: Shape::New,
                presence: Presence::Untried,
            };
            let fields = fields.iter().map(field).collect();
            *self.shape = Shape::Fields { of: name, fields };
        }
        visitor.visit_map(Members { spot: self, at: 0 })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if let Some(value) = self.probed(None) {
            return value.deserialize_enum(name, variants, visitor);
        }
        if matches!(self.shape, Shape::New) {
            *self.shape =
                Shape::Variants(variants.iter().map(|name| (*name, Shape::New)).collect());
        }
        let Spot { shape, pass, path, samples } = self;
        let Shape::Variants(all) = shape else { return Err(de::Error::custom("no enum")) };
        let open = all.iter().position(|(_, shape)| shape.is_open(pass.aim));
        let (name, shape) = &mut all[open.unwrap_or(0)];
        let path = format!("{path}/{name}");
        visitor.visit_enum(Variant { name, spot: Spot { shape, pass, path, samples } })
    }

    serde::forward_to_deserialize_any! {
        i128 u128 char bytes byte_buf unit_struct identifier ignored_any
    }
}

fn inner(shape: &mut Shape) -> &mut Shape {
    match shape {
        Shape::Optional(inner) | Shape::List(inner) | Shape::Keyed(inner) => inner,
        other => other,
    }
}

struct Items<'a> {
    spot: Spot<'a>,
    left: usize,
    /// The next element of a tuple.
    at: Option<usize>,
}

impl<'de> de::SeqAccess<'de> for Items<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let Some(at) = self.at.as_mut() else {
            return seed.deserialize(self.spot.below("[]", inner)).map(Some);
        };
        let Spot { shape, pass, path, samples } = &mut self.spot;
        let Shape::Tuple(all) = shape else { return Err(de::Error::custom("no tuple")) };
        let path = format!("{path}[{at}]");
        let shape = &mut all[*at];
        *at += 1;
        seed.deserialize(Spot { shape, pass, path, samples: *samples }).map(Some)
    }
}

struct Entries<'a> {
    spot: Spot<'a>,
    left: usize,
}

impl<'de> de::MapAccess<'de> for Entries<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        seed.deserialize(Key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(self.spot.below("{}", inner))
    }
}

/// A key of a map: a text, or the first variant of an enum.
struct Key;

impl<'de> Deserializer<'de> for Key {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str("key")
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(BorrowedStrDeserializer::new(variants[0]))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

struct Members<'a> {
    spot: Spot<'a>,
    at: usize,
}

impl<'de> de::MapAccess<'de> for Members<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let Shape::Fields { fields, .. } = &mut *self.spot.shape else { return Ok(None) };
        let Some(field) = fields.get_mut(self.at) else { return Ok(None) };
        let pass = &mut *self.spot.pass;
        if pass.aim == Aim::Omission && !pass.has_omitted && field.presence == Presence::Untried {
            (pass.has_omitted, field.presence) = (true, Presence::Tried);
            self.at += 1;
            return self.next_key_seed(seed);
        }
        seed.deserialize(BorrowedStrDeserializer::new(field.name)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let Spot { shape, pass, path, samples } = &mut self.spot;
        let Shape::Fields { fields, .. } = shape else {
            return Err(de::Error::custom("no struct"));
        };
        let field = &mut fields[self.at];
        self.at += 1;
        let dot = if path.is_empty() { "" } else { "." };
        let path = format!("{path}{dot}{}", field.name);
        seed.deserialize(Spot { shape: &mut field.shape, pass, path, samples: *samples })
    }
}

struct Variant<'a> {
    name: &'static str,
    spot: Spot<'a>,
}

impl<'de, 'a> de::EnumAccess<'de> for Variant<'a> {
    type Error = Error;
    type Variant = Spot<'a>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Spot<'a>), Error> {
        let name = BorrowedStrDeserializer::<Error>::new(self.name);
        Ok((seed.deserialize(name)?, self.spot))
    }
}

impl<'de> de::VariantAccess<'de> for Spot<'_> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        *self.shape = Shape::Plain(Value::Null);
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_tuple(length, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_struct("", fields, visitor)
    }
}
