//! Files of models and datasets from the hub, through its cache.
//!
//! The address, the key and the cache folder come from the caller. A file that is in the cache is
//! used without any traffic; without a network the rest fails with a clear reason, so that the
//! caller can try its next choice.

use std::path::PathBuf;

use hf_hub::api::sync::{ApiBuilder, ApiError};
use hf_hub::{Cache, Repo, RepoType};

use crate::{Error, Result};

#[derive(Clone, PartialEq, Eq, Default)]
pub struct HubAccess {
    /// Another address than the hub's own (`HF_ENDPOINT`).
    pub endpoint: Option<String>,
    /// The key for gated models (`HF_TOKEN`). Without one the cache's own key file is used.
    pub token: Option<String>,
    /// The cache folder (`HF_HUB_CACHE`, or `hub` below `HF_HOME`). `None` is the usual one.
    pub cache: Option<PathBuf>,
    pub traffic: NetworkUse,
}

impl std::fmt::Debug for HubAccess {
    /// Leaves the key out: it must not reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access")
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

    fn cache(&self) -> Cache {
        self.cache.clone().map_or_else(Cache::default, Cache::new)
    }
}

impl Repository<'_> {
    fn repo(&self) -> Repo {
        let kind = match self.kind {
            RepoKind::Model => RepoType::Model,
            RepoKind::Dataset => RepoType::Dataset,
        };
        Repo::new(self.id.to_owned(), kind)
    }

    fn failed(&self, file: &str, reason: String) -> Error {
        Error::Hub { id: self.id.to_owned(), file: file.to_owned(), reason }
    }

    fn api(&self) -> std::result::Result<hf_hub::api::sync::ApiRepo, ApiError> {
        let cache = self.access.cache();
        let token = self.access.token.clone().or_else(|| cache.token());
        let mut builder = ApiBuilder::from_cache(cache).with_token(token).with_progress(false);
        if let Some(endpoint) = &self.access.endpoint {
            builder = builder.with_endpoint(endpoint.trim_end_matches('/').to_owned());
        }
        Ok(builder.build()?.repo(self.repo()))
    }

    /// The local path of a file, fetched if the cache lacks it.
    pub fn file(&self, name: &str) -> Result<PathBuf> {
        if let Some(path) = self.access.cache().repo(self.repo()).get(name) {
            return Ok(path);
        }
        if self.access.traffic == NetworkUse::CacheOnly {
            return Err(self.failed(name, "it is not in the cache and the hub is offline".into()));
        }
        self.api()
            .and_then(|api| api.download(name))
            .map_err(|error| self.failed(name, reason(&error)))
    }

    /// The names of all files; without the hub those of the cache's current snapshot.
    pub fn files(&self) -> Result<Vec<String>> {
        let unlisted = |reason| self.failed("the list of files", reason);
        if self.access.traffic == NetworkUse::CacheOnly {
            let reason = "it is not in the cache and the hub is offline";
            return self.cached_files().ok_or_else(|| unlisted(reason.to_owned()));
        }
        match self.api().and_then(|api| api.info()) {
            Ok(info) => Ok(info.siblings.into_iter().map(|sibling| sibling.rfilename).collect()),
            Err(error) => self.cached_files().ok_or_else(|| unlisted(reason(&error))),
        }
    }

    /// The names of the files in the cache's current snapshot; `None` when there are none.
    fn cached_files(&self) -> Option<Vec<String>> {
        let repo = self.repo();
        let folder = self.access.cache().path().join(repo.folder_name());
        let commit = std::fs::read_to_string(folder.join("refs").join(repo.revision())).ok()?;
        let snapshot = folder.join("snapshots").join(commit.trim());
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
}

/// The hub client's error on one line, without keys that an address may carry.
fn reason(error: &ApiError) -> String {
    tokometer_base::redact::redact(&error.to_string().replace('\n', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        access.endpoint = Some("http://127.0.0.1:1".into());
        assert_eq!(files(&access, "org/name").unwrap(), ["tokenizer.json"]);
        drop(folder);
    }

    #[test]
    fn an_unreachable_hub_is_an_error_and_keys_stay_out_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let access = HubAccess {
            // Port 1 of the loopback refuses at once.
            endpoint: Some("http://127.0.0.1:1".into()),
            token: Some("hf_secret".into()),
            cache: Some(folder.path().to_owned()),
            traffic: NetworkUse::Fetch,
        };
        let error =
            access.repository("org/name", RepoKind::Model).file("tokenizer.json").unwrap_err();
        let text = format!("{error} {access:?}");
        assert!(matches!(error, Error::Hub { .. }), "{text}");
        assert!(!text.contains("hf_secret"), "{text}");
    }
}
