//! Secrets inside an address: a user name with a password, and the values of parameters.

use super::HIDDEN;
use super::names::is_public_parameter;

pub(super) struct UrlSecrets<'a> {
    pub(super) user_info: Option<&'a str>,
    /// Parameters that are not known to be public; a parameter without `=` is a value without a name.
    pub(super) parameters: Vec<(&'a str, &'a str)>,
}

/// An address in its parts, each with what ends it.
struct Parts<'a> {
    /// Up to `//`, with it.
    scheme: &'a str,
    /// Up to `@`, without it.
    user_info: Option<&'a str>,
    /// Host, port and path, without `?`.
    middle: &'a str,
    /// What follows `?` or `#`.
    query: Option<&'a str>,
}

fn parts(address: &str) -> Parts<'_> {
    let after_scheme = address.find("://").map_or(0, |at| at + 3);
    let (scheme, rest) = address.split_at(after_scheme);
    // A password may hold any character, so the last `@` counts that can still end a user name.
    let (before_query, query) = match rest.find(['?', '#']) {
        Some(at) => (&rest[..at], Some(&rest[at + 1..])),
        None => (rest, None),
    };
    let is_path = before_query.starts_with('/');
    let (user_info, middle) = match before_query.rfind('@') {
        Some(at) if !is_path => (Some(&before_query[..at]), &before_query[at + 1..]),
        _ => (None, before_query),
    };
    // `http://user:p?ss@host`: the query then holds the rest of the password.
    match (query.and_then(|query| query.rfind('@')), is_path || scheme.is_empty()) {
        (Some(at), false) => {
            let end = rest.len() - query.map_or(0, str::len) + at;
            let (user_info, after) = (&rest[..end], &rest[end + 1..]);
            let split = after.find(['?', '#']);
            let middle = split.map_or(after, |at| &after[..at]);
            Parts {
                scheme,
                user_info: Some(user_info),
                middle,
                query: split.map(|at| &after[at + 1..]),
            }
        }
        _ => Parts { scheme, user_info, middle, query },
    }
}

fn parameters(query: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    query.split(['&', '#', ';']).map(|pair| match pair.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (pair, None),
    })
}

/// What may be secret in an address or a path.
pub(super) fn secrets(address: &str) -> UrlSecrets<'_> {
    let parts = parts(address);
    let parameters = parameters(parts.query.unwrap_or_default())
        .filter(|(name, _)| !is_public_parameter(name))
        .map(|(name, value)| value.map_or(("", name), |value| (name, value)))
        .filter(|(_, value)| !value.is_empty())
        .collect();
    UrlSecrets { user_info: parts.user_info, parameters }
}

/// An address or a path without its user name, its password and the values of its parameters.
pub fn hide_in_url(address: &str) -> String {
    let parts = parts(address);
    let mut shown = parts.scheme.to_owned();
    if parts.user_info.is_some() {
        shown.push_str(HIDDEN);
        shown.push('@');
    }
    shown.push_str(parts.middle);
    let Some(query) = parts.query else { return shown };
    let pairs = parameters(query).map(|(name, value)| match value {
        Some(value) if is_public_parameter(name) || value.is_empty() => format!("{name}={value}"),
        Some(_) => format!("{name}={HIDDEN}"),
        None if name.is_empty() => String::new(),
        None => HIDDEN.to_owned(),
    });
    format!("{shown}?{}", pairs.collect::<Vec<_>>().join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_parameters_and_the_host_itself_are_shown() {
        let check = |address: &str, expected: &str| {
            assert_eq!(hide_in_url(address), expected, "{address}");
            assert_eq!(hide_in_url(expected), expected, "twice: {address}");
        };
        check("http://h:8000/v1", "http://h:8000/v1");
        check(
            "https://h/v1?api-version=2024&code=abc",
            "https://h/v1?api-version=2024&code=[redacted]",
        );
        check("http://me:pw@h/metrics?x=1", "http://[redacted]@h/metrics?x=[redacted]");
        check("me:pw@h:9", "[redacted]@h:9");
        check("http://me:p@w/x?@h/", "http://[redacted]@h/");
        check("/v1/completions?sig=abc", "/v1/completions?sig=[redacted]");
        check("/v1/a@b?abc", "/v1/a@b?[redacted]");
        check("h?a=&b", "h?a=&[redacted]");
        check("h?", "h?");
        check("http://h#frag", "http://h?[redacted]");
    }

    #[test]
    fn secrets_of_an_address_are_found_by_part() {
        let found = secrets("http://me:pw@h/p?api-version=1&code=abc&bare");
        assert_eq!(found.user_info, Some("me:pw"));
        assert_eq!(found.parameters, [("code", "abc"), ("", "bare")]);
    }
}
