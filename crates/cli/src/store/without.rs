//! A build without the feature `s3`.

use std::path::Path;

use super::StoreAddress;
use crate::exit::Refusal;

fn refusal(address: &StoreAddress) -> Refusal {
    Refusal::usage(
        format!("cannot use `{address}`: this build has no support for S3"),
        "build it with `cargo build --release --features s3`, or use a folder",
    )
}

pub(super) fn has_run(address: &StoreAddress) -> Result<bool, Refusal> {
    Err(refusal(address))
}

pub(super) fn put(_folder: &Path, address: &StoreAddress) -> Result<usize, Refusal> {
    Err(refusal(address))
}

pub(super) fn fetch_shards(address: &StoreAddress, _to: &Path) -> Result<usize, Refusal> {
    Err(refusal(address))
}
