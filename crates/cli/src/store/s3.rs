//! The client of the storage. Keys and endpoint come from the variables that every S3 client reads
//! (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT`, `AWS_ALLOW_HTTP`).

use std::io::{Read as _, Write as _};
use std::path::{Component, Path, PathBuf};

use futures_util::StreamExt as _;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::{ObjectStore as _, WriteMultipart};
use tokio::runtime::Runtime;
use tokometer_record::folder::{create_private, names};
use tokometer_shards::SHARDS;

use super::StoreAddress;
use crate::exit::{Refusal, RefusalKind};

/// Bytes that are read from a file at a time.
const PIECE_BYTES: usize = 1 << 20;
/// Parts of a file that are on their way at a time.
const PARTS_MAX: usize = 4;

struct StoreClient {
    store: AmazonS3,
    runtime: Runtime,
}

impl StoreClient {
    fn open(address: &StoreAddress) -> Result<Self, Refusal> {
        let unusable = |why: String| {
            Refusal::new(RefusalKind::Write, format!("cannot use `{address}`: {why}"))
                .hint("set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION, for other servers AWS_ENDPOINT")
        };
        let builder = AmazonS3Builder::from_env().with_bucket_name(&address.bucket);
        let store = builder.build().map_err(|why| unusable(why.to_string()))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Ok(Self { store, runtime: runtime.map_err(|why| unusable(why.to_string()))? })
    }

    /// Keys and sizes below a prefix.
    fn keys(&self, prefix: &str) -> object_store::Result<Vec<object_store::path::Path>> {
        let prefix = object_store::path::Path::from(prefix);
        self.runtime.block_on(async {
            let mut found = self.store.list(Some(&prefix));
            let mut keys = Vec::new();
            while let Some(object) = found.next().await {
                keys.push(object?.location);
            }
            Ok(keys)
        })
    }

    fn put(&self, file: &Path, key: &str) -> object_store::Result<()> {
        let unread = |why: std::io::Error| object_store::Error::Generic {
            store: "file",
            source: Box::new(why),
        };
        let mut file = std::fs::File::open(file).map_err(unread)?;
        let key = object_store::path::Path::from(key);
        self.runtime.block_on(async {
            let mut upload = WriteMultipart::new(self.store.put_multipart(&key).await?);
            let mut piece = vec![0; PIECE_BYTES];
            loop {
                let read = file.read(&mut piece).map_err(unread)?;
                if read == 0 {
                    break;
                }
                upload.wait_for_capacity(PARTS_MAX).await?;
                upload.write(&piece[..read]);
            }
            upload.finish().await.map(|_stored| ())
        })
    }

    fn get(&self, key: &object_store::path::Path, file: &Path) -> object_store::Result<()> {
        let unwritten = |why: std::io::Error| object_store::Error::Generic {
            store: "file",
            source: Box::new(why),
        };
        let mut file = std::fs::File::create(file).map_err(unwritten)?;
        self.runtime.block_on(async {
            let mut content = self.store.get(key).await?.into_stream();
            while let Some(piece) = content.next().await {
                file.write_all(&piece?).map_err(unwritten)?;
            }
            Ok(())
        })
    }
}

fn failed(what: &str, address: &StoreAddress) -> impl Fn(object_store::Error) -> Refusal {
    let message = format!("cannot {what} `{address}`");
    move |why| Refusal::new(RefusalKind::Write, format!("{message}: {why}"))
}

impl StoreAddress {
    /// The key of a file below the prefix.
    fn key(&self, below: &str) -> String {
        if self.prefix.is_empty() { below.to_owned() } else { format!("{}/{below}", self.prefix) }
    }
}

/// Whether a merged run, or one of a single process, is stored there.
pub(super) fn has_run(address: &StoreAddress) -> Result<bool, Refusal> {
    let client = StoreClient::open(address)?;
    let keys = client.keys(&address.prefix).map_err(failed("read", address))?;
    let plan = address.key(names::PLAN);
    Ok(keys.iter().any(|key| key.as_ref() == plan))
}

/// Stores every file below a folder, and returns their number. The ends of records come last: a record
/// without one is not complete.
pub(super) fn put(folder: &Path, address: &StoreAddress) -> Result<usize, Refusal> {
    let client = StoreClient::open(address)?;
    let mut files = files(folder);
    files.sort_by_key(|file| (file.ends_with(names::END), file.clone()));
    for file in &files {
        let below = file.strip_prefix(folder).unwrap_or(file);
        let words: Vec<&str> =
            below.components().filter_map(|part| part.as_os_str().to_str()).collect();
        client.put(file, &address.key(&words.join("/"))).map_err(failed("write", address))?;
    }
    Ok(files.len())
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let below = entries.flat_map(|entry| {
        let path = entry.path();
        if path.is_dir() { files(&path) } else { vec![path] }
    });
    below.filter(|file| file.extension().is_none_or(|ending| ending != "part")).collect()
}

/// Copies the shards that are stored there, and returns the number of files.
pub(super) fn fetch_shards(address: &StoreAddress, to: &Path) -> Result<usize, Refusal> {
    let client = StoreClient::open(address)?;
    let shards = address.key(SHARDS);
    let keys = client.keys(&shards).map_err(failed("read", address))?;
    for key in &keys {
        let below = key.as_ref().strip_prefix(shards.as_str()).unwrap_or_default();
        let below = Path::new(below.trim_start_matches('/'));
        // A key is somebody else's text.
        if !below.components().all(|part| matches!(part, Component::Normal(_))) {
            continue;
        }
        let file = to.join(SHARDS).join(below);
        let unwritable = |why: std::io::Error| {
            Refusal::new(RefusalKind::Write, format!("cannot write `{}`: {why}", file.display()))
        };
        create_private(file.parent().unwrap_or(to)).map_err(unwritable)?;
        client.get(key, &file).map_err(failed("read", address))?;
    }
    Ok(keys.len())
}
