use proptest::prelude::*;

use super::*;

fn secrets(all: &[&str]) -> Secrets {
    let mut secrets = Secrets::new();
    for secret in all {
        secrets.add(secret);
    }
    secrets
}

#[test]
fn what_looks_like_a_secret_disappears_and_other_text_stays() {
    let check = |text: &str, expected: &str| {
        assert_eq!(secrets(&["hunter2!"]).redact(text), expected);
        assert_eq!(redact(expected), expected, "twice");
    };
    check("plain text, a token count of 12", "plain text, a token count of 12");
    check("Authorization: Bearer abc.def-1", "Authorization: Bearer [redacted]");
    check("authorization: Basic dXNlOmh1bnQ=", "authorization: Basic [redacted]");
    check("http://h/v1?api_key=123&x=1", "http://h/v1?api_key=[redacted]&x=[redacted]");
    check("proxy http://me:pw@h:3128 refused", "proxy http://[redacted]@h:3128 refused");
    check("see `https://h/a?api-version=1`, please", "see `https://h/a?api-version=1`, please");
    check("Incorrect API key provided: sk-abcdefghijkl.", "Incorrect API key provided: [redacted]");
    check("the password hunter2! leaked", "the password [redacted] leaked");
    check(r#"{"x-api-key": "abc", "n": 3}"#, r#"{"x-api-key": "[redacted]", "n": 3}"#);
    check(r#"{\"client_secret\":\"abc\"}"#, r#"{\"client_secret\":\"[redacted]\"}"#);
    check("task-oriented risk-free", "task-oriented risk-free");
    check("a basic test, a bearer of news", "a basic test, a bearer [redacted] news");
    check("unexpected token: }", "unexpected token: }");
    check("naïve töken=ü bearer ", "naïve töken=ü bearer ");
}

#[test]
fn a_secret_is_found_in_every_encoding() {
    let mut known = Secrets::new();
    known.add_header("X-Tenant", "blue \"tenant\"/7");
    known.add_header("Authorization", "Basic dXNlcjpodW50ZXIyMg==");
    known.add_url("http://me:s3cr%2Ft@h/?code=c%20d/e%26&api-version=2024-06-01");
    for echoed in [
        "blue%20%22tenant%22%2F7",
        "blue \\\"tenant\\\"/7",
        "Ymx1ZSAidGVuYW50Ii83",
        "Basic dXNlcjpodW50ZXIyMg==",
        "user:hunter22",
        "only hunter22",
        "me:s3cr%2Ft",
        "s3cr/t",
        "c%20d/e%26",
        "c d/e&",
        "c+d%2Fe%26",
    ] {
        let clean = known.redact(&format!("got <{echoed}>"));
        assert!(clean.contains(HIDDEN) && !clean.contains(echoed), "{echoed}: {clean}");
    }
    assert_eq!(known.redact("2024-06-01"), "2024-06-01");
    assert_eq!(format!("{known:?}").matches("hunter22").count(), 0);
}

#[test]
fn short_and_public_texts_are_no_secrets() {
    let mut known = Secrets::new();
    known.add("abc");
    known.add_value("true");
    known.add("redacted");
    known.add_header("accept", "text/plain");
    assert!(known.is_empty(), "{known:?}");
    known.add_header("x-model", "llama-8b");
    known.remove_public("llama-8b");
    assert!(known.is_empty(), "{known:?}");
}

/// A key such as `EMPTY` is usual, and must not make holes into our own report.
#[test]
fn our_own_output_loses_only_what_cannot_stand_there_by_chance() {
    let mut known = secrets(&["EMPTY", "hunter22"]);
    known.add_value("requests");
    assert_eq!(known.redact_output("EMPTY requests hunter22"), "EMPTY requests [redacted]");
    assert_eq!(known.redact_exact("EMPTY requests"), "[redacted] [redacted]");
}

proptest! {
    #[test]
    fn no_secret_is_left_in_any_encoding(
        secret in "[^\\[\\]\\p{Cc} ]{4,24}",
        before in "\\PC{0,40}",
        after in "\\PC{0,40}",
    ) {
        prop_assume!(!HIDDEN.contains(&secret));
        let known = secrets(&[&secret]);
        for form in forms::of(&secret) {
            let clean = known.redact(&format!("{before}{form}{after}"));
            prop_assert!(!clean.contains(&form), "{form:?} in {clean:?}");
            prop_assert!(!known.are_in(&clean), "{clean:?}");
        }
    }

    #[test]
    fn redacting_twice_changes_nothing_and_nothing_panics(
        text in proptest::collection::vec(any::<char>(), 0..60).prop_map(String::from_iter),
        all in proptest::collection::vec(any::<String>(), 0..4),
    ) {
        let mut known = Secrets::new();
        for secret in &all {
            known.add(secret);
            known.add_value(secret);
            known.add_header("x", secret);
            known.add_url(secret);
        }
        let clean = known.redact(&text);
        prop_assert_eq!(known.redact(&clean), clean.clone());
        let _shown = hide_in_url(&text);
    }

    #[test]
    fn guesses_are_stable_for_texts_made_of_their_own_words(
        words in proptest::collection::vec(
            proptest::sample::select(vec![
                "bearer ", "key=", "://", "http", "?", "@", "sk-", "abcdefghijklmn", "=", "&", " ",
                "authorization", ":", "\"", "basic ", "[redacted]", "é", "/", "#", "api_key",
            ]),
            0..12,
        ),
    ) {
        let text = words.concat();
        let clean = redact(&text);
        prop_assert_eq!(redact(&clean), clean.clone(), "{:?}", text);
    }
}
