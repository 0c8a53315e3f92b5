//! Records on storage that speaks S3: `--run-dir s3://BUCKET/PREFIX`, and `merge` of such an address.
//!
//! A run is recorded in a folder of this machine and stored when it has ended: a store that is slow or
//! away cannot disturb a measurement. The cargo feature `s3` brings the client; without it an address is
//! refused.

#[cfg(feature = "s3")]
mod s3;
#[cfg(not(feature = "s3"))]
mod without;

use std::path::{Path, PathBuf};

#[cfg(feature = "s3")]
use s3 as store;
#[cfg(not(feature = "s3"))]
use without as store;

use crate::args::OutputArgs;
use crate::exit::{Exit, Refusal, RefusalKind};
use crate::terminal::print_message;

const SCHEME: &str = "s3://";

/// A place on such a storage.
#[derive(Debug, Clone, PartialEq, Eq)]
struct StoreAddress {
    bucket: String,
    /// Without a slash at either end; may be empty.
    prefix: String,
}

impl StoreAddress {
    /// `None` for an ordinary path.
    fn parse(path: &Path) -> Result<Option<Self>, Refusal> {
        let Some(rest) = path.to_str().and_then(|text| text.strip_prefix(SCHEME)) else {
            return Ok(None);
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_matches('/').to_owned();
        let is_sound = |part: &str| !part.is_empty() && part != "." && part != "..";
        if bucket.is_empty() || !(prefix.is_empty() || prefix.split('/').all(is_sound)) {
            return Err(Refusal::usage(
                format!("cannot use `{}`: it names no bucket or no plain prefix", path.display()),
                "write it as `s3://BUCKET/PREFIX`",
            ));
        }
        Ok(Some(Self { bucket: bucket.to_owned(), prefix }))
    }
}

impl std::fmt::Display for StoreAddress {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{SCHEME}{}/{}", self.bucket, self.prefix)
    }
}

/// Does `work`, which records in the folder of `output`. Where that is an address, the folder is one of
/// this machine, and what it holds is stored afterwards.
pub(crate) fn recorded(
    output: &mut OutputArgs,
    work: impl FnOnce(&OutputArgs) -> anyhow::Result<Exit>,
) -> anyhow::Result<Exit> {
    let address = output.run_dir.as_deref().map(StoreAddress::parse).transpose()?.flatten();
    let Some(address) = address else { return work(output) };
    if output.resume || output.overwrite {
        return Err(Refusal::usage(
            format!("cannot use `--resume` or `--overwrite` with `{address}`"),
            "choose another prefix, or a folder of this machine",
        )
        .into());
    }
    if store::has_run(&address)? {
        let message = format!("cannot write `{address}`: it already holds a run");
        return Err(Refusal::new(RefusalKind::Write, message).hint("choose another prefix").into());
    }
    let staging = staging()?;
    output.run_dir = Some(staging.path().to_owned());
    let exit = work(output)?;
    match store::put(staging.path(), &address) {
        // Shards that share the leader's folder leave nothing of their own.
        Ok(0) => {}
        Ok(files) => print_message(&format!("stored: {files} files in {address}")),
        Err(refusal) => {
            let kept = staging.keep();
            let hint = format!("the record is kept in {}", kept.display());
            return Err(refusal.hint(hint).into());
        }
    }
    Ok(exit)
}

/// A folder that is removed once it is stored.
fn staging() -> Result<tempfile::TempDir, Refusal> {
    let made = std::fs::create_dir_all("runs")
        .and_then(|()| tempfile::Builder::new().prefix("s3-").tempdir_in("runs"));
    made.map_err(|why| {
        Refusal::new(RefusalKind::Write, format!("cannot write a folder in `runs`: {why}"))
    })
}

/// The given folders; in place of addresses, folders with the shards that were stored there. They are
/// removed with the second value.
pub(crate) fn fetched(
    folders: &[PathBuf],
) -> Result<(Vec<PathBuf>, Vec<tempfile::TempDir>), Refusal> {
    let (mut found, mut fetched) = (Vec::new(), Vec::new());
    for folder in folders {
        let Some(address) = StoreAddress::parse(folder)? else {
            found.push(folder.clone());
            continue;
        };
        let place = staging()?;
        let files = store::fetch_shards(&address, place.path())?;
        print_message(&format!("fetched: {files} files from {address}"));
        found.push(place.path().to_owned());
        fetched.push(place);
    }
    Ok((found, fetched))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_from_paths() {
        let check = |text: &str, expected: Option<(&str, &str)>| {
            let found = StoreAddress::parse(Path::new(text)).unwrap();
            let expected = expected.map(|(bucket, prefix)| StoreAddress {
                bucket: bucket.to_owned(),
                prefix: prefix.to_owned(),
            });
            assert_eq!(found, expected, "{text}");
        };
        check("runs/s3", None);
        check("./s3:/x", None);
        check("s3://bucket", Some(("bucket", "")));
        check("s3://bucket/a/b/", Some(("bucket", "a/b")));
        for bad in ["s3://", "s3:///a", "s3://b/a//c", "s3://b/../c"] {
            assert!(StoreAddress::parse(Path::new(bad)).is_err(), "{bad}");
        }
        let address = StoreAddress::parse(Path::new("s3://b/a/")).unwrap().unwrap();
        assert_eq!(address.to_string(), "s3://b/a");
    }
}
