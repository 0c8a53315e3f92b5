//! Tokenizers behind one small trait, and the tables of words that are one token each.
//!
//! In: a choice of tokenizers (a file, the server's own, the hub, a built-in encoding). Out: the
//! first that opens, with notes about those that did not. Vocabularies load when first used: a
//! random prompt of the built-in tokenizer comes from an embedded word table and loads nothing.
//! Refuses to read the environment: addresses, keys and cache folders are passed in.
//!
//! `tokenizer` is the trait. It is implemented by [`encoding`] (built in), [`model`] (a
//! `tokenizer.json`, with its [`config`]) and [`server`] (requests to the server under test). [`choice`]
//! opens the first that works, [`hub`] fetches files for it. `words` are the tables, and `proof` tries them.

pub mod choice;
pub mod config;
pub mod encoding;
mod error;
pub mod hub;
pub mod model;
mod proof;
pub mod server;
mod tokenizer;
mod words;

pub use choice::{Choice, OpenedTokenizer, TokenizerSources, open};
pub use config::TokenizerConfig;
pub use encoding::{BuiltIn, Encoding};
pub use error::{Error, Result};
pub use model::ModelTokenizer;
pub use server::{ServerCalls, ServerTokenizer};
pub use tokenizer::{Reach, Specials, Tokenizer};
pub use words::SafeWords;
