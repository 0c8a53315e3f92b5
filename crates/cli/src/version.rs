//! Which program this is: version, commit, build profile and target, for `--version` and every record.

/// `0.1.0 (1a2b3c4d5e6f, release, x86_64-linux)`. A debug build says so, because its figures must not
/// be quoted; it has no commit, like a build outside a git checkout (`build.rs`).
pub(crate) fn long() -> String {
    described(env!("CARGO_PKG_VERSION"), env!("BUILD_COMMIT"), env!("BUILD_PROFILE"))
}

fn described(version: &str, commit: &str, profile: &str) -> String {
    let target = format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS);
    let parts = [commit, profile, &target];
    let known: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    format!("{version} ({})", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_a_commit_says_the_rest() {
        let target = format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS);
        let check = |commit: &str, profile: &str, expected: &str| {
            assert_eq!(described("1.2.3", commit, profile), format!("1.2.3 ({expected}{target})"));
        };
        check("0123456789ab", "dist", "0123456789ab, dist, ");
        check("0123456789ab-modified", "release", "0123456789ab-modified, release, ");
        check("", "debug", "debug, ");
        check("", "", "");
    }
}
