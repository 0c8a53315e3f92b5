//! Structs of which only some fields are set, merged layer by layer.
//!
//! [`partial!`](crate::partial!) declares a struct together with its partial twin, whose fields are
//! `Option`s or partial structs themselves. Layers of one plan (defaults, file, section, flags) are
//! such twins: they are merged field by field, and the result is completed to the whole struct.
//!
//! Laws: a later layer wins; a field that it does not set stays; merging is associative; the twin of
//! a whole struct completes to the same struct.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::neighbours::suggestion;

/// A value of which only some fields may be set.
pub trait Partial: Default {
    type Whole;

    /// Takes over what `over` sets.
    fn merge(&mut self, over: Self);

    fn is_unset(&self) -> bool;

    /// The whole value. A field that is not set takes its default, where it has one.
    fn complete(self) -> Result<Self::Whole, Incomplete>;

    /// The twin of a whole value, every field set.
    fn of(whole: Self::Whole) -> Self;

    /// Passes every field of these values to `visitor`: one call per field with its value in each
    /// of them. `path` is where the values stand, empty for the outermost struct.
    fn visit<V: FieldVisitor>(all: &[&Self], path: &str, visitor: &mut V);
}

/// Sees one field of several partial values at a time, in the field's own type.
pub trait FieldVisitor {
    /// The field at `path`, such as `load.until.min_s`; `None` for a value that does not set it.
    fn field<T: PartialEq + Serialize>(&mut self, path: &str, values: &[Option<&T>]);
}

pub fn field_path(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

/// Visits the `keys` of maps as the fields of a struct at `path`, each once; `lookup` finds the value of a
/// key in one map.
pub fn visit_keys<'a, M, T: PartialEq + Serialize + 'a, V: FieldVisitor>(
    all: &[&'a M],
    path: &str,
    keys: impl Iterator<Item = &'a String>,
    lookup: impl Fn(&'a M, &str) -> Option<&'a T>,
    visitor: &mut V,
) {
    for key in keys.collect::<BTreeSet<_>>() {
        let values: Vec<Option<&T>> = all.iter().map(|one| lookup(one, key)).collect();
        visitor.field(&field_path(path, key), &values);
    }
}

/// Why a partial value does not make a whole one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{path}` {why}")]
pub struct Incomplete {
    path: String,
    why: String,
}

impl Incomplete {
    /// The field `path` stands in the way.
    pub fn new(path: &str, why: impl Into<String>) -> Self {
        Self { path: path.to_owned(), why: why.into() }
    }

    pub fn missing(path: &str) -> Self {
        Self::new(path, "is missing")
    }

    /// The same, seen from the value that holds it as `field`.
    #[must_use]
    pub fn below(self, field: &str) -> Self {
        Self { path: format!("{field}.{}", self.path), why: self.why }
    }
}

/// What is said of a key that a struct does not have.
pub fn unknown_key(key: &str, keys: &[&str]) -> String {
    format!("unknown key `{key}`; {}", suggestion(key, keys))
}

impl<P: Partial> Partial for Option<P> {
    type Whole = Option<P::Whole>;

    fn merge(&mut self, over: Self) {
        match (self.as_mut(), over) {
            (Some(under), Some(over)) => under.merge(over),
            (None, over) => *self = over,
            (Some(_), None) => {}
        }
    }

    fn is_unset(&self) -> bool {
        self.is_none()
    }

    fn complete(self) -> Result<Self::Whole, Incomplete> {
        self.map(P::complete).transpose()
    }

    fn of(whole: Self::Whole) -> Self {
        whole.map(P::of)
    }

    fn visit<V: FieldVisitor>(all: &[&Self], path: &str, visitor: &mut V) {
        if all.iter().any(|one| one.is_some()) {
            let unset = P::default();
            let values: Vec<&P> = all.iter().map(|one| one.as_ref().unwrap_or(&unset)).collect();
            P::visit(&values, path, visitor);
        }
    }
}

/// Lists of structs are merged position by position.
impl<P: Partial> Partial for Vec<P> {
    type Whole = Vec<P::Whole>;

    fn merge(&mut self, over: Self) {
        for (at, value) in over.into_iter().enumerate() {
            match self.get_mut(at) {
                Some(under) => under.merge(value),
                None => self.push(value),
            }
        }
    }

    fn is_unset(&self) -> bool {
        self.is_empty()
    }

    fn complete(self) -> Result<Self::Whole, Incomplete> {
        let whole =
            |(at, part): (usize, P)| part.complete().map_err(|why| why.below(&at.to_string()));
        self.into_iter().enumerate().map(whole).collect()
    }

    fn of(whole: Self::Whole) -> Self {
        whole.into_iter().map(P::of).collect()
    }

    fn visit<V: FieldVisitor>(all: &[&Self], path: &str, visitor: &mut V) {
        let unset = P::default();
        for at in 0..all.iter().map(|list| list.len()).max().unwrap_or(0) {
            let values: Vec<&P> = all.iter().map(|list| list.get(at).unwrap_or(&unset)).collect();
            P::visit(&values, &field_path(path, &at.to_string()), visitor);
        }
    }
}

/// Maps are merged key by key.
impl<T: PartialEq + Serialize> Partial for BTreeMap<String, T> {
    type Whole = Self;

    fn merge(&mut self, over: Self) {
        self.extend(over);
    }

    fn is_unset(&self) -> bool {
        self.is_empty()
    }

    fn complete(self) -> Result<Self, Incomplete> {
        Ok(self)
    }

    fn of(whole: Self) -> Self {
        whole
    }

    fn visit<V: FieldVisitor>(all: &[&Self], path: &str, visitor: &mut V) {
        let keys = all.iter().flat_map(|map| map.keys());
        visit_keys(all, path, keys, |map, key| map.get(key), visitor);
    }
}

/// Declares a struct and its partial twin.
///
/// A field is written `name: Type` (it must be set by some layer), `name: Type = default`, or
/// `name: Type as Twin` where the field has a twin of its own. The twin reads and writes itself with
/// serde as a map of the fields that are set; an unknown key is an error that names its neighbours.
#[macro_export]
macro_rules! partial {
    (
        $(#[$attribute:meta])*
        pub struct $Whole:ident / $Part:ident {
            $(
                $(#[$of_field:meta])*
                pub $field:ident : $type:ty $(as $twin:ty)? $(= $default:expr)?
            ),* $(,)?
        }
    ) => {
        $(#[$attribute])*
        pub struct $Whole {
            $( $(#[$of_field])* pub $field: $type, )*
        }

        $crate::part! {
            #[doc = concat!("Those fields of [`", stringify!($Whole), "`] that are set.")]
            pub struct $Part {
                $( pub $field: $type $(as $twin)?, )*
            }
        }

        impl $crate::partial::Partial for $Part {
            type Whole = $Whole;

            fn merge(&mut self, over: Self) {
                self.take_over(over);
            }

            fn is_unset(&self) -> bool {
                self.keys_set().is_empty()
            }

            fn complete(self) -> ::std::result::Result<$Whole, $crate::partial::Incomplete> {
                Ok($Whole {
                    $( $field: $crate::part!(
                        @complete self.$field, stringify!($field) $(, as $twin)? $(, = $default)?
                    ), )*
                })
            }

            fn of(whole: $Whole) -> Self {
                Self { $( $field: $crate::part!(@of whole.$field $(, as $twin)?), )* }
            }

            fn visit<V: $crate::partial::FieldVisitor>(all: &[&Self], path: &str, visitor: &mut V) {
                Self::visit_fields(all, path, visitor);
            }
        }
    };
}

/// Declares a partial twin alone; see [`partial!`](crate::partial!).
#[macro_export]
macro_rules! part {
    (@type $type:ty) => { Option<$type> };
    (@type $type:ty, as $twin:ty) => { $twin };
    (@merge $under:expr, $over:expr) => { if $over.is_some() { $under = $over; } };
    (@merge $under:expr, $over:expr, as $twin:ty) => {
        $crate::partial::Partial::merge(&mut $under, $over)
    };
    (@is_set $value:expr) => { $value.is_some() };
    (@is_set $value:expr, as $twin:ty) => { !$crate::partial::Partial::is_unset(&$value) };
    (@read $map:expr) => { Some($map.next_value()?) };
    (@read $map:expr, as $twin:ty) => { $map.next_value::<$twin>()? };
    (@complete $value:expr, $name:expr) => {
        $value.ok_or_else(|| $crate::partial::Incomplete::missing($name))?
    };
    (@complete $value:expr, $name:expr, = $default:expr) => { $value.unwrap_or($default) };
    (@complete $value:expr, $name:expr, as $twin:ty) => {
        $crate::partial::Partial::complete($value).map_err(|why| why.below($name))?
    };
    (@of $value:expr) => { Some($value) };
    (@of $value:expr, as $twin:ty) => { $crate::partial::Partial::of($value) };
    (@visit $all:expr, $path:expr, $field:ident, $visitor:expr) => {
        let values: Vec<_> = $all.iter().map(|one| one.$field.as_ref()).collect();
        $visitor.field(&$crate::partial::field_path($path, stringify!($field)), &values);
    };
    (@visit $all:expr, $path:expr, $field:ident, $visitor:expr, as $twin:ty) => {
        let values: Vec<&$twin> = $all.iter().map(|one| &one.$field).collect();
        let path = $crate::partial::field_path($path, stringify!($field));
        $crate::partial::Partial::visit(&values, &path, $visitor);
    };
    (
        $(#[$attribute:meta])*
        pub struct $Part:ident {
            $( $(#[$of_field:meta])* pub $field:ident : $type:ty $(as $twin:ty)? ),* $(,)?
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct $Part {
            $( $(#[$of_field])* pub $field: $crate::part!(@type $type $(, as $twin)?), )*
        }

        impl $Part {
            pub const KEYS: &'static [&'static str] = &[$(stringify!($field)),*];

            fn take_over(&mut self, over: Self) {
                $( $crate::part!(@merge self.$field, over.$field $(, as $twin)?); )*
            }

            fn visit_fields<V: $crate::partial::FieldVisitor>(
                all: &[&Self],
                path: &str,
                visitor: &mut V,
            ) {
                $( $crate::part!(@visit all, path, $field, visitor $(, as $twin)?); )*
            }

            /// Reads the value of the field `key` from `map`. False for a key that is not a field's.
            pub fn read_field<'de, A: ::serde::de::MapAccess<'de>>(
                &mut self,
                key: &str,
                map: &mut A,
            ) -> ::std::result::Result<bool, A::Error> {
                match key {
                    $( stringify!($field) => {
                        self.$field = $crate::part!(@read map $(, as $twin)?);
                    } )*
                    _ => return Ok(false),
                }
                Ok(true)
            }

            pub fn keys_set(&self) -> Vec<&'static str> {
                let mut keys = Vec::new();
                $( if $crate::part!(@is_set self.$field $(, as $twin)?) {
                    keys.push(stringify!($field));
                } )*
                keys
            }
        }

        impl ::serde::Serialize for $Part {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> ::std::result::Result<S::Ok, S::Error> {
                use ::serde::ser::SerializeMap;
                let mut map = serializer.serialize_map(None)?;
                $( if $crate::part!(@is_set self.$field $(, as $twin)?) {
                    map.serialize_entry(stringify!($field), &self.$field)?;
                } )*
                map.end()
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $Part {
            fn deserialize<D: ::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> ::std::result::Result<Self, D::Error> {
                struct PartialVisitor;

                impl<'de> ::serde::de::Visitor<'de> for PartialVisitor {
                    type Value = $Part;

                    fn expecting(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                        write!(f, "a table of {}", $Part::KEYS.join(", "))
                    }

                    fn visit_map<A: ::serde::de::MapAccess<'de>>(
                        self,
                        mut map: A,
                    ) -> ::std::result::Result<$Part, A::Error> {
                        let mut part = $Part::default();
                        while let Some(key) = map.next_key::<String>()? {
                            if !part.read_field(&key, &mut map)? {
                                let why = $crate::partial::unknown_key(&key, $Part::KEYS);
                                return Err(::serde::de::Error::custom(why));
                            }
                        }
                        Ok(part)
                    }
                }

                deserializer.deserialize_struct(stringify!($Part), $Part::KEYS, PartialVisitor)
            }
        }
    };
}
