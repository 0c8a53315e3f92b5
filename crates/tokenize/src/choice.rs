//! Which tokenizer to use: the one given, else the server's, else the hub's, else a built-in one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::hub::{HubAccess, RepoKind};
use crate::{
    BuiltIn, Encoding, Error, ModelTokenizer, Result, ServerCalls, ServerTokenizer, Specials,
    Tokenizer, TokenizerConfig, config, model,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// A `tokenizer.json` or a model folder.
    File(PathBuf),
    Hub(String),
    BuiltIn(Encoding),
}

impl Choice {
    /// Reads a name: what exists is a file, `cl100k` and its like are built in, `org/name` is on
    /// the hub. A path that does not exist stays a path, so that the error names it.
    pub fn parse(text: &str) -> Result<Self> {
        let path = Path::new(text);
        let is_json = path.extension().is_some_and(|extension| extension == "json");
        if path.exists() || is_json || text.starts_with(['.', '/', '~']) {
            return Ok(Self::File(path.to_owned()));
        }
        if let Ok(encoding) = text.parse() {
            return Ok(Self::BuiltIn(encoding));
        }
        if is_hub_id(text) {
            return Ok(Self::Hub(text.to_owned()));
        }
        Err(Error::Unknown(text.to_owned()))
    }
}

/// Words, figures, signs and letters of several scripts: two vocabularies that agree on this count
/// as the same.
const PROBE: &str = "Twelve tokens, 1,024 of 65536: na\u{ef}ve \u{65e5}\u{672c}\u{8a9e} \u{2014} {\"x\": []}\n\tdone";

/// `org/name`, of the characters that the hub allows. A bare `name` is more often a slip than a model.
fn is_hub_id(text: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let parts: Vec<&str> = text.split('/').collect();
    parts.len() == 2 && parts.iter().all(|part| !part.is_empty() && part.chars().all(is_allowed))
}

/// Everything that is known about the tokenizer before a run, in order of preference.
#[derive(Default)]
pub struct TokenizerSources {
    /// The tokenizer that the user named. A file or encoding that fails is an error; a hub id that
    /// fails gives way to the next choice, because gated and offline hubs are common.
    pub given: Option<Choice>,
    pub server: Option<ServerCalls>,
    /// The model's root as the server reports it: a folder on this machine or a hub id.
    pub model_root: Option<String>,
    pub built_in: Encoding,
    pub hub: HubAccess,
}

/// An opened tokenizer, with notes about the choices that failed.
pub struct OpenedTokenizer {
    pub tokenizer: Arc<dyn Tokenizer>,
    /// Choices that failed before it, one sentence each; empty if the first choice opened.
    pub notes: Vec<String>,
}

impl std::fmt::Debug for OpenedTokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.tokenizer.name();
        f.debug_struct("Opened").field("tokenizer", &name).field("notes", &self.notes).finish()
    }
}

pub fn open(sources: TokenizerSources) -> Result<OpenedTokenizer> {
    let TokenizerSources { given, server, model_root, built_in, hub } = sources;
    let mut notes = Vec::new();
    match given {
        Some(Choice::File(path)) => return opened(ModelTokenizer::open(&path)?, notes),
        Some(Choice::BuiltIn(encoding)) => return opened(BuiltIn::new(encoding), notes),
        Some(Choice::Hub(id)) => match fetch(&id, &hub) {
            Ok(tokenizer) => return opened(tokenizer, notes),
            Err(error) => notes.push(error.to_string()),
        },
        None => {}
    }
    if let Some(calls) = server {
        match ServerTokenizer::open(calls) {
            Ok(tokenizer) => {
                return match same_on_this_machine(&tokenizer, model_root.as_deref()) {
                    Some(own) => opened(own, notes),
                    None => opened(tokenizer, notes),
                };
            }
            Err(error) => notes.push(error.to_string()),
        }
    }
    if let Some(root) = model_root {
        match open_root(&root, &hub) {
            Ok(tokenizer) => {
                if !notes.is_empty() {
                    notes
                        .push(format!("prompt lengths are counted with the tokenizer of `{root}`"));
                }
                return opened(tokenizer, notes);
            }
            Err(error) => notes.push(error.to_string()),
        }
    }
    if !notes.is_empty() {
        notes.push(format!("prompt lengths are counted with the built-in encoding `{built_in}`"));
    }
    opened(BuiltIn::new(built_in), notes)
}

#[expect(clippy::unnecessary_wraps, reason = "every caller returns a result")]
fn opened(tokenizer: impl Tokenizer + 'static, notes: Vec<String>) -> Result<OpenedTokenizer> {
    Ok(OpenedTokenizer { tokenizer: Arc::new(tokenizer), notes })
}

/// The server's tokenizer, if it lies in a folder of this machine too: it needs no round trips. That
/// it is the same is tested, not assumed.
fn same_on_this_machine(server: &ServerTokenizer, root: Option<&str>) -> Option<ModelTokenizer> {
    let Ok(Choice::File(path)) = Choice::parse(root?) else { return None };
    let own = ModelTokenizer::open(&path).ok()?;
    let encodings = |tokenizer: &dyn Tokenizer| tokenizer.encode(PROBE, Specials::Add).ok();
    let ours = encodings(&own)?;
    (encodings(server)? == ours).then_some(own)
}

fn open_root(root: &str, hub: &HubAccess) -> Result<ModelTokenizer> {
    match Choice::parse(root)? {
        Choice::File(path) => ModelTokenizer::open(&path),
        Choice::Hub(id) => fetch(&id, hub),
        Choice::BuiltIn(_) => Err(Error::Unknown(root.to_owned())),
    }
}

/// Fetches a model's tokenizer. Its configuration is fetched with it, but a model without one
/// still has a tokenizer.
fn fetch(id: &str, hub: &HubAccess) -> Result<ModelTokenizer> {
    let repository = hub.repository(id, RepoKind::Model);
    let file = repository.file(model::FILE_NAME)?;
    let has_template = repository
        .file(config::FILE_NAME)
        .ok()
        .and_then(|_path| TokenizerConfig::beside(&file).ok().flatten())
        .is_some_and(|config| config.chat_template.is_some());
    if !has_template {
        // Newer models keep the template in its own file; most have none at all.
        let _template = repository.file(config::TEMPLATE_NAME);
    }
    ModelTokenizer::open_as(id.to_owned(), &file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::NetworkUse;

    fn offline() -> HubAccess {
        let cache = Some(PathBuf::from("no-such-folder"));
        HubAccess { cache, traffic: NetworkUse::CacheOnly, ..HubAccess::default() }
    }

    #[test]
    fn names_are_told_apart() {
        let check = |text: &str, expected: Option<Choice>| {
            assert_eq!(Choice::parse(text).ok(), expected, "{text}");
        };
        check("cl100k", Some(Choice::BuiltIn(Encoding::Cl100k)));
        check("org/Name-1.5", Some(Choice::Hub("org/Name-1.5".into())));
        check("./tokenizer.json", Some(Choice::File("./tokenizer.json".into())));
        check("missing/tokenizer.json", Some(Choice::File("missing/tokenizer.json".into())));
        check("what is this", None);
    }

    #[test]
    fn a_given_file_that_fails_is_an_error() {
        let given = Some(Choice::File("missing/tokenizer.json".into()));
        let error = open(TokenizerSources { given, ..TokenizerSources::default() }).unwrap_err();
        assert!(error.to_string().contains("missing/tokenizer.json"), "{error}");
    }

    #[test]
    fn a_hub_id_that_fails_gives_way_to_the_next_choice_with_notes() {
        let refusing = ServerCalls {
            name: "http://h:1/tokenize".into(),
            tokenize: Box::new(|_, _| Err("404".into())),
            detokenize: Box::new(|_| Err("404".into())),
        };
        let sources = TokenizerSources {
            given: Some(Choice::Hub("org/gated".into())),
            server: Some(refusing),
            model_root: Some("org/root".into()),
            hub: offline(),
            ..TokenizerSources::default()
        };
        let OpenedTokenizer { tokenizer, notes } = open(sources).unwrap();
        assert_eq!(tokenizer.name(), "cl100k");
        assert_eq!(notes.len(), 4, "{notes:?}");
        assert!(notes[0].contains("org/gated") && notes[2].contains("org/root"), "{notes:?}");
    }

    #[test]
    fn without_any_source_the_built_in_encoding_is_used_without_a_note() {
        let OpenedTokenizer { tokenizer, notes } = open(TokenizerSources::default()).unwrap();
        assert_eq!((tokenizer.name(), notes.len()), ("cl100k", 0));
    }
}
