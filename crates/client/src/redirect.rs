//! Where a server sends its clients, and what that means for `--base-url`.
//!
//! Control requests follow redirects; measured requests never do, because their times would be those
//! of two requests. Either way the user is told the address to give.

use crate::Error;
use crate::url::Url;

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
    change: RedirectChange,
}

/// What differs between the address that was asked and the new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RedirectChange {
    /// The base address; the path below it stayed the same.
    Base,
    /// The path, and perhaps the base address.
    Path,
    /// Only the slash at the end of the path.
    Slash,
    Nothing,
}

/// The address that a `Location` means, as an answer to a request for `asked`.
fn resolved(origin: &str, asked: &str, location: &str) -> String {
    if location.contains("://") {
        return location.to_owned();
    }
    let joined = url::Url::parse(&format!("{origin}{asked}"))
        .and_then(|base| base.join(location))
        .map(|url| url[url::Position::BeforePath..].to_owned());
    match joined {
        // The parser writes some hosts in another way, so only the path is taken from it.
        Ok(path) if !location.starts_with("//") => format!("{origin}{path}"),
        _ => {
            let scheme = origin.split(':').next().unwrap_or_default();
            format!("{scheme}:{location}")
        }
    }
}

impl Redirect {
    /// Reads a `Location`. `path` is what was asked for below `base`, without a query.
    pub(crate) fn parse(base: &Url, path: &str, location: &str) -> Result<Self, Error> {
        let asked = format!("{}{path}", base.root_prefix());
        let origin = format!("{}://{}", base.scheme.name(), base.authority());
        let absolute = resolved(&origin, &asked, location.trim());
        let absolute = absolute.split('#').next().unwrap_or_default();
        let mut url = Url::parse(absolute)?;
        // A base address has no slash at its end; a route may need one.
        let has_slash = absolute.split('?').next().unwrap_or_default().ends_with('/');
        let whole = std::mem::take(&mut url.path_prefix) + if has_slash { "/" } else { "" };
        let same_path =
            whole.strip_suffix(path).map(|prefix| prefix.trim_end_matches('/').to_owned());
        let is_slash_alone =
            whole != asked && whole.trim_end_matches('/') == asked.trim_end_matches('/');
        let change = match &same_path {
            _ if is_slash_alone => RedirectChange::Slash,
            Some(prefix) if *prefix == base.root_prefix() && url.is_same_server(base) => {
                RedirectChange::Nothing
            }
            Some(_) => RedirectChange::Base,
            None => RedirectChange::Path,
        };
        let path = match same_path {
            Some(prefix) => {
                url.path_prefix = prefix;
                path.to_owned()
            }
            None => whole,
        };
        Ok(Self { base: url, path, change })
    }

    /// Whether the new address is the same server: only then it may be sent the key.
    pub(crate) fn stays_at(&self, base: &Url) -> bool {
        self.base.is_same_server(base)
    }

    pub(crate) fn describe(&self, from: &Url) -> String {
        let to = self.base.at(&self.path);
        let base = self.base.at("");
        let advice = match self.change {
            RedirectChange::Base => format!("; use `--base-url {base}`"),
            RedirectChange::Path if self.stays_at(from) => {
                "; check `--base-url` and `--endpoint`".to_owned()
            }
            RedirectChange::Path => format!("; use `--base-url {base}` and check `--endpoint`"),
            RedirectChange::Slash if !self.stays_at(from) => format!("; use `--base-url {base}`"),
            RedirectChange::Slash => String::new(),
            RedirectChange::Nothing => ", the address that was asked".to_owned(),
        };
        format!("the server redirects to {to}{advice}")
    }

    /// The same for a measured request, whose route is `--endpoint`.
    pub(crate) fn describe_route(&self, from: &Url) -> String {
        let said = self.describe(from);
        if self.change != RedirectChange::Slash {
            return said;
        }
        let route = self.path.strip_prefix(from.root_prefix()).unwrap_or(&self.path);
        format!("{said}; use `--endpoint {route}`")
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

    /// The slash was lost, so that the same address was asked until the limit, and advised to the user.
    #[test]
    fn a_slash_at_the_end_of_a_route_is_kept_and_advised() {
        let check = |base: &str, path: &str, location: &str, expected: &str| {
            let base = Url::parse(base).unwrap();
            let redirect = Redirect::parse(&base, path, location).unwrap();
            assert_eq!(
                redirect.describe_route(&base),
                format!("the server redirects to {expected}")
            );
            redirect.path
        };
        let route = "http://h/v1/completions/; use `--endpoint /v1/completions/`";
        let path = check("http://h", "/v1/completions", "/v1/completions/", route);
        assert_eq!(path, "/v1/completions/");
        check("http://h", "/v1/completions", "http://h/v1/completions/", route);
        check("http://h/v1", "/v1/completions", "/v1/completions/", route);
        let below = "http://h/api/v1/completions/; use `--endpoint /v1/completions/`";
        check("http://h/api", "/v1/completions", "/api/v1/completions/", below);
        let shorter = "http://h/v1/completions; use `--endpoint /v1/completions`";
        check("http://h", "/v1/completions/", "/v1/completions", shorter);
        let same = "http://h/v1/completions, the address that was asked";
        check("http://h", "/v1/completions", "/v1/completions", same);
    }

    #[test]
    fn a_relative_address_is_below_the_one_that_was_asked() {
        let check = |location: &str, expected: &str| {
            let base = Url::parse("http://h:8000/api").unwrap();
            let redirect = Redirect::parse(&base, "/v1/models", location).unwrap();
            assert_eq!(redirect.base.at(&redirect.path), expected, "{location}");
        };
        check("list", "http://h:8000/api/v1/list");
        check("models/", "http://h:8000/api/v1/models/");
        check("../v2/models?a=1", "http://h:8000/api/v2/models");
        check("/x", "http://h:8000/x");
        check("https://other/x/", "https://other/x/");
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
