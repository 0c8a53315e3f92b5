//! Where a server sends its clients, and what that means for `--base-url`.
//!
//! Control requests follow redirects; measured requests never do, because their times would be those
//! of two requests. Either way the user is told the address to give.

use crate::Error;
use crate::url::Url;

/// Most redirects that are followed for one question.
pub(crate) const MOST_REDIRECTS: usize = 5;

/// Whether a status, with a `Location`, sends the client elsewhere.
pub(crate) fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// Where a request for `path` of `base` is sent to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Redirect {
    /// The new base address, with a path that is asked for below it.
    pub(crate) base: Url,
    pub(crate) path: String,
    /// Whether the path below the base address stayed the same.
    is_moved_whole: bool,
}

impl Redirect {
    /// Reads a `Location`. `path` is what was asked for below `base`, without a query.
    pub(crate) fn parse(base: &Url, path: &str, location: &str) -> Result<Self, Error> {
        let location = location.trim();
        let absolute = if location.starts_with("//") {
            format!("{}:{location}", base.scheme_name())
        } else if location.contains("://") {
            location.to_owned()
        } else {
            let slash = if location.starts_with('/') { "" } else { "/" };
            format!("{}://{}{slash}{location}", base.scheme_name(), base.authority())
        };
        let mut url = Url::parse(absolute.split('#').next().unwrap_or_default())?;
        let is_moved_whole = url.path_prefix.ends_with(path);
        let path = if is_moved_whole {
            url.path_prefix.truncate(url.path_prefix.len() - path.len());
            path.to_owned()
        } else {
            std::mem::take(&mut url.path_prefix)
        };
        Ok(Self { base: url, path, is_moved_whole })
    }

    /// Whether the new address is the same server: only then it may be sent the key.
    pub(crate) fn stays_at(&self, base: &Url) -> bool {
        self.base.is_encrypted() == base.is_encrypted()
            && self.base.host == base.host
            && self.base.port == base.port
    }

    /// Where to, and what to do about it.
    pub(crate) fn describe(&self, from: &Url) -> String {
        let to = self.base.at(&self.path);
        if self.is_moved_whole {
            let base = self.base.at("");
            return format!("the server redirects to {to}; use `--base-url {base}`");
        }
        if self.stays_at(from) {
            return format!("the server redirects to {to}; check `--base-url` and `--endpoint`");
        }
        let base = self.base.at("");
        format!("the server redirects to {to}; use `--base-url {base}` and check `--endpoint`")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_names_the_address_to_use() {
        let check = |base: &str, location: &str, to: &str, advice: &str| {
            let base = Url::parse(base).unwrap();
            let redirect = Redirect::parse(&base, "/v1/models", location).unwrap();
            let expected = format!("the server redirects to {to}; {advice}");
            assert_eq!(redirect.describe(&base), expected);
        };
        check(
            "http://h:8000",
            "https://h/v1/models",
            "https://h/v1/models",
            "use `--base-url https://h`",
        );
        check(
            "http://h/old",
            "/new/v1/models",
            "http://h/new/v1/models",
            "use `--base-url http://h/new`",
        );
        check(
            "http://h",
            "/login?next=%2Fv1",
            "http://h/login",
            "check `--base-url` and `--endpoint`",
        );
        check(
            "https://h",
            "//sso.example/login#top",
            "https://sso.example/login",
            "use `--base-url https://sso.example` and check `--endpoint`",
        );
    }

    #[test]
    fn only_the_same_server_is_the_same_server() {
        let check = |location: &str, expected| {
            let base = Url::parse("http://h:8000").unwrap();
            let redirect = Redirect::parse(&base, "/x", location).unwrap();
            assert_eq!(redirect.stays_at(&base), expected, "{location}");
        };
        check("/y", true);
        check("http://h:8000/y", true);
        check("https://h:8000/y", false);
        check("http://h:8001/y", false);
        check("http://other:8000/y", false);
    }
}
