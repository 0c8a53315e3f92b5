//! Which names have secret values.

/// Headers whose values are no secrets. Every other header is treated as one: gateways invent names.
const PUBLIC_HEADERS: [&str; 14] = [
    "accept",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "connection",
    "content-length",
    "content-type",
    "host",
    "traceparent",
    "user-agent",
    "x-correlation-id",
    "x-request-id",
    "openai-beta",
    "anthropic-version",
];

/// Parameters of a URL whose values are no secrets.
const PUBLIC_PARAMETERS: [&str; 6] =
    ["api-version", "api_version", "model", "stream", "timeout", "version"];

/// Parts of a name that only secrets have, in lower case and without separators.
const SECRET_PARTS: [&str; 17] = [
    "apikey",
    "accesskey",
    "privatekey",
    "subscriptionkey",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "authorization",
    "authentication",
    "credential",
    "cookie",
    "bearer",
    "signature",
    "accesstoken",
    "authtoken",
];

/// Ends of a name that secrets have.
const SECRET_ENDS: [&str; 7] = ["key", "token", "auth", "pwd", "sig", "jwt", "pass"];

/// Names that end like those of secrets and have other values.
const PUBLIC_NAMES: [&str; 9] = [
    "bostoken",
    "eostoken",
    "padtoken",
    "unktoken",
    "stoptoken",
    "maxtoken",
    "mintoken",
    "routingkey",
    "promptcachekey",
];

pub fn is_public_header(name: &str) -> bool {
    PUBLIC_HEADERS.iter().any(|public| public.eq_ignore_ascii_case(name.trim()))
}

pub fn is_public_parameter(name: &str) -> bool {
    PUBLIC_PARAMETERS.iter().any(|public| public.eq_ignore_ascii_case(name.trim()))
}

/// A name in lower case, without separators and without the `s` of a plural.
fn plain(name: &str) -> String {
    let letters = name.chars().filter(|letter| letter.is_alphanumeric());
    let mut plain: String = letters.flat_map(char::to_lowercase).collect();
    if plain.ends_with('s') && !plain.ends_with("ss") {
        plain.pop();
    }
    plain
}

/// Whether a field of this name holds a secret, in any spelling: `apiKey`, `X-API-Key`, `api_keys`.
pub fn is_secret_name(name: &str) -> bool {
    let name = plain(name);
    is_only_of_secrets(&name)
        || (SECRET_ENDS.iter().any(|end| name.ends_with(end))
            && !PUBLIC_NAMES.contains(&name.as_str()))
}

/// Whether a name in free text is one that only secrets have. `key` and `token` are ordinary words.
pub(super) fn is_surely_secret_name(name: &str) -> bool {
    is_only_of_secrets(&plain(name))
}

fn is_only_of_secrets(plain: &str) -> bool {
    SECRET_PARTS.iter().any(|part| plain.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_known_in_any_spelling() {
        for name in [
            "key",
            "api_key",
            "apiKey",
            "API-KEY",
            "x-api-key",
            "api_keys",
            "Authorization",
            "token",
            "hf_token",
            "accessToken",
            "client_secret",
            "Password",
            "db_passwd",
            "sig",
            "cookie",
            "Set-Cookie",
            "aws_credentials",
            "jwt",
            "x-amz-signature",
            "X-Auth",
            "Ocp-Apim-Subscription-Key",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "max_tokens",
            "min_tokens",
            "stop_token_ids",
            "eos_token",
            "ignore_eos",
            "temperature",
            "tokenizer",
            "keyword",
            "x-tenant",
            "gpu",
            "author",
            "prompt_cache_key",
            "monkeys_n",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn few_headers_and_parameters_are_public() {
        assert!(is_public_header("Content-Type") && !is_public_header("x-tenant"));
        assert!(is_public_parameter("api-version") && !is_public_parameter("code"));
    }
}
