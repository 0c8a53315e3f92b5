//! Files of models and datasets from the hub, through its cache.
//!
//! The address, the key, the cache folder and the way to fetch come from the caller. The cache is laid out
//! as Python's `huggingface_hub` does, so both share it. A file that is in the cache is used without any
//! traffic; without a network the rest fails with a clear reason, so that the caller can try its next choice.

use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Error, Result};

/// The hub's own address.
const HUB: &str = "https://huggingface.co";

/// What is asked of the hub.
#[derive(Clone, Copy)]
pub struct HubRequest<'a> {
    /// The hub's address, without a slash at its end.
    pub endpoint: &'a str,
    /// Below it, with its slash.
    pub path: &'a str,
    pub token: Option<&'a str>,
}

/// What the hub, or the server that it sent us to, answered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HubAnswer {
    pub status: u16,
    /// Those of redirects first: the hub describes a file and sends us to another server for it.
    pub headers: Vec<(String, String)>,
    /// The beginning of a body that is not a file, such as a refusal.
    pub refusal: String,
}

pub trait HubClient: Send + Sync {
    /// `GET` of a path, redirects followed. The token goes to the hub alone. The body of a success is written
    /// to `sink`; a failure is a reason.
    fn get(
        &self,
        request: HubRequest<'_>,
        sink: &mut dyn io::Write,
    ) -> std::result::Result<HubAnswer, String>;
}

#[derive(Clone, Default)]
pub struct HubAccess {
    /// Another address than the hub's own (`HF_ENDPOINT`).
    pub endpoint: Option<String>,
    /// The key for gated models (`HF_TOKEN`).
    pub token: Option<String>,
    /// Where `hf auth login` leaves the key; read if no other is given.
    pub token_file: Option<PathBuf>,
    /// The cache folder (`HF_HUB_CACHE`, or `hub` below `HF_HOME`).
    pub cache: Option<PathBuf>,
    pub traffic: NetworkUse,
    /// `None` fetches nothing.
    pub client: Option<Arc<dyn HubClient>>,
}

impl std::fmt::Debug for HubAccess {
    /// Leaves the key out: it must not reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HubAccess")
            .field("endpoint", &self.endpoint)
            .field("cache", &self.cache)
            .field("traffic", &self.traffic)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NetworkUse {
    /// Fetch what the cache lacks.
    #[default]
    Fetch,
    /// The cache alone (`HF_HUB_OFFLINE`).
    CacheOnly,
}

/// Models and datasets have separate names on the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepoKind {
    Model,
    Dataset,
}

pub struct Repository<'a> {
    access: &'a HubAccess,
    id: &'a str,
    kind: RepoKind,
}

impl HubAccess {
    /// The model or dataset of this id. No request is sent yet.
    pub fn repository<'a>(&'a self, id: &'a str, kind: RepoKind) -> Repository<'a> {
        Repository { access: self, id, kind }
    }

    fn token(&self) -> Option<String> {
        let file = || std::fs::read_to_string(self.token_file.as_ref()?).ok();
        let token = self.token.clone().or_else(file)?;
        Some(token.trim().to_owned()).filter(|token| !token.is_empty())
    }
}

impl RepoKind {
    /// The hub's word for the kind, as in its cache and its API.
    fn name(self) -> &'static str {
        match self {
            Self::Model => "models",
            Self::Dataset => "datasets",
        }
    }
}

impl Repository<'_> {
    fn failed(&self, file: &str, reason: &str) -> Error {
        // An address may carry keys.
        let reason = tokometer_base::redact::redact(&reason.replace('\n', " "));
        Error::Hub { id: self.id.to_owned(), file: file.to_owned(), reason }
    }

    /// The repository's folder in the cache.
    fn folder(&self) -> Option<PathBuf> {
        let name = format!("{}--{}", self.kind.name(), self.id.replace('/', "--"));
        Some(self.access.cache.as_ref()?.join(name))
    }

    /// The folder of the files as of the last fetch.
    fn snapshot(&self) -> Option<PathBuf> {
        let folder = self.folder()?;
        let commit = std::fs::read_to_string(folder.join("refs").join(REVISION)).ok()?;
        Some(folder.join("snapshots").join(commit.trim()))
    }

    /// The local path of a file, fetched if the cache lacks it.
    pub fn file(&self, name: &str) -> Result<PathBuf> {
        let cached = self.snapshot().map(|folder| folder.join(name)).filter(|path| path.exists());
        if let Some(path) = cached {
            return Ok(path);
        }
        self.fetch(name).map_err(|reason| self.failed(name, &reason))
    }

    /// The names of all files; without the hub those of the cache's current snapshot.
    pub fn files(&self) -> Result<Vec<String>> {
        self.listed()
            .or_else(|reason| self.cached_files().ok_or(reason))
            .map_err(|reason| self.failed("the list of files", &reason))
    }

    fn listed(&self) -> std::result::Result<Vec<String>, String> {
        let mut body = Vec::new();
        let path = format!("/api/{}/{}/revision/{REVISION}", self.kind.name(), encoded(self.id));
        let _answer = self.get(&path, &mut body)?;
        let unreadable = |why: serde_json::Error| format!("the hub's answer is not JSON: {why}");
        let document: serde_json::Value = serde_json::from_slice(&body).map_err(unreadable)?;
        let files = document["siblings"].as_array().ok_or("the hub's answer lists no files")?;
        let name = |file: &serde_json::Value| Some(file["rfilename"].as_str()?.to_owned());
        Ok(files.iter().filter_map(name).collect())
    }

    /// The names of the files in the cache's current snapshot; `None` when there are none.
    fn cached_files(&self) -> Option<Vec<String>> {
        let snapshot = self.snapshot()?;
        let mut names = Vec::new();
        let mut folders = vec![snapshot.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).ok()?.flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else if let Ok(name) = path.strip_prefix(&snapshot) {
                    names.push(name.to_string_lossy().into_owned());
                }
            }
        }
        Some(names).filter(|names| !names.is_empty())
    }

    /// An answer of success, its body in `sink`.
    fn get(&self, path: &str, sink: &mut dyn io::Write) -> std::result::Result<HubAnswer, String> {
        let is_offline = self.access.traffic == NetworkUse::CacheOnly;
        let client = self.access.client.as_ref().filter(|_| !is_offline);
        let client = client.ok_or("it is not in the cache and the hub is offline")?;
        let endpoint = self.access.endpoint.as_deref().unwrap_or(HUB).trim_end_matches('/');
        let token = self.access.token();
        let answer = client.get(HubRequest { endpoint, path, token: token.as_deref() }, sink)?;
        match (answer.status, answer.refusal.trim()) {
            (200, _) => Ok(answer),
            (status, "") => Err(format!("the hub answered with status {status}")),
            (status, said) => Err(format!("the hub answered with status {status}: {said}")),
        }
    }

    fn fetch(&self, name: &str) -> std::result::Result<PathBuf, String> {
        let is_inside =
            Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
        if !is_inside || name.is_empty() {
            return Err("its name leads out of the cache".to_owned());
        }
        let folder = self.folder().ok_or("there is no folder for its cache; set HF_HOME")?;
        let blobs = folder.join("blobs");
        let unwritten = |why: io::Error| format!("cannot write the cache: {why}");
        std::fs::create_dir_all(&blobs).map_err(unwritten)?;
        let number = FETCHES.fetch_add(1, Ordering::Relaxed);
        let partial = blobs.join(format!("{}-{number}.incomplete", std::process::id()));
        let mut file = File::create(&partial).map_err(unwritten)?;
        let kind = if self.kind == RepoKind::Model { "" } else { "/datasets" };
        let path = format!("{kind}/{}/resolve/{REVISION}/{}", encoded(self.id), encoded(name));
        let stored = self.get(&path, &mut file).and_then(|answer| {
            let entry = CacheEntry::of(&answer)?;
            entry.store(&folder, name, &partial).map_err(unwritten)
        });
        if stored.is_err() {
            let _absent = std::fs::remove_file(&partial);
        }
        stored
    }
}

/// The branch that is read.
const REVISION: &str = "main";

/// Fetches so far, so that no two of them write one file.
static FETCHES: AtomicU64 = AtomicU64::new(0);

/// Where a file lies in the cache: its content by its tag, a link to that by commit and name.
struct CacheEntry {
    commit: String,
    tag: String,
}

impl CacheEntry {
    fn of(answer: &HubAnswer) -> std::result::Result<Self, String> {
        let header = |wanted: &str| {
            let mut headers = answer.headers.iter();
            headers.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| &**value)
        };
        let word = |value: &str| {
            let value = value.trim().trim_start_matches("W/").trim_matches('"');
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            let is_name = value.bytes().all(is_plain) && value.bytes().any(|byte| byte != b'.');
            Some(value.to_owned()).filter(|_| is_name)
        };
        // A large file has a tag of its own, which the server that holds it does not know.
        let tag = header("x-linked-etag").or_else(|| header("etag")).and_then(word);
        let commit = header("x-repo-commit").and_then(word);
        let (Some(commit), Some(tag)) = (commit, tag) else {
            return Err("the answer has no `x-repo-commit` and `etag`, as a hub's has".to_owned());
        };
        Ok(Self { commit, tag })
    }

    /// Takes a whole file into the cache. Returns its path there.
    fn store(&self, folder: &Path, name: &str, partial: &Path) -> io::Result<PathBuf> {
        std::fs::rename(partial, folder.join("blobs").join(&self.tag))?;
        let path = folder.join("snapshots").join(&self.commit).join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let up = "../".repeat(Path::new(name).components().count() + 1);
        match std::os::unix::fs::symlink(format!("{up}blobs/{}", self.tag), &path) {
            Err(why) if why.kind() != io::ErrorKind::AlreadyExists => return Err(why),
            _ => {}
        }
        std::fs::create_dir_all(folder.join("refs"))?;
        std::fs::write(folder.join("refs").join(REVISION), &self.commit)?;
        Ok(path)
    }
}

/// An id or a name as part of a path.
fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _infallible = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hub that cannot be reached.
    struct Refusing;

    impl HubClient for Refusing {
        fn get(
            &self,
            request: HubRequest<'_>,
            _sink: &mut dyn io::Write,
        ) -> std::result::Result<HubAnswer, String> {
            Err(format!("cannot reach {}", request.endpoint))
        }
    }

    fn cached() -> (tempfile::TempDir, HubAccess) {
        let folder = tempfile::tempdir().unwrap();
        let repo = folder.path().join("models--org--name");
        std::fs::create_dir_all(repo.join("refs")).unwrap();
        std::fs::create_dir_all(repo.join("snapshots/abc")).unwrap();
        std::fs::write(repo.join("refs/main"), "abc").unwrap();
        std::fs::write(repo.join("snapshots/abc/tokenizer.json"), "{}").unwrap();
        let cache = Some(folder.path().to_owned());
        (folder, HubAccess { cache, traffic: NetworkUse::CacheOnly, ..HubAccess::default() })
    }

    #[test]
    fn a_cached_file_needs_no_network_and_a_missing_one_says_why() {
        let (_folder, access) = cached();
        let model = access.repository("org/name", RepoKind::Model);
        assert!(model.file("tokenizer.json").unwrap().ends_with("snapshots/abc/tokenizer.json"));
        assert_eq!(
            model.file("config.json").unwrap_err().to_string(),
            "cannot fetch `config.json` of `org/name` from the hub: it is not in the cache and the \
             hub is offline"
        );
    }

    #[test]
    fn without_the_hub_the_files_of_the_cache_are_listed() {
        let (folder, mut access) = cached();
        let files = |access: &HubAccess, id| access.repository(id, RepoKind::Model).files();
        assert_eq!(files(&access, "org/name").unwrap(), ["tokenizer.json"]);
        assert!(files(&access, "org/other").unwrap_err().to_string().contains("offline"));
        access.traffic = NetworkUse::Fetch;
        access.client = Some(Arc::new(Refusing));
        assert_eq!(files(&access, "org/name").unwrap(), ["tokenizer.json"]);
        drop(folder);
    }

    #[test]
    fn an_unreachable_hub_is_an_error_and_keys_stay_out_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let access = HubAccess {
            endpoint: Some("http://hub".into()),
            token: Some("hf_secret".into()),
            cache: Some(folder.path().to_owned()),
            client: Some(Arc::new(Refusing)),
            ..HubAccess::default()
        };
        let error =
            access.repository("org/name", RepoKind::Model).file("tokenizer.json").unwrap_err();
        let text = format!("{error} {access:?}");
        assert!(matches!(error, Error::Hub { .. }), "{text}");
        assert!(!text.contains("hf_secret"), "{text}");
    }
}
