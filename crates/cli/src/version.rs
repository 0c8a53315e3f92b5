//! Which program this is: version, build profile and target, for `--version` and every record.

/// `0.1.0 (release, x86_64-linux)`. A debug build says so, because its figures must not be quoted.
pub(crate) fn long() -> String {
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    let (arch, system) = (std::env::consts::ARCH, std::env::consts::OS);
    format!("{} ({profile}, {arch}-{system})", env!("CARGO_PKG_VERSION"))
}
