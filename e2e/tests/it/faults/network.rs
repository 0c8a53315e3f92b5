//! Connections that cannot be opened or do not last.

use std::os::unix::net::UnixListener;

use super::case::Case;
use super::scripts::{answer, reset};
use crate::scripted::AfterResponse;

const BEHIND_PROXY: &str = "bench --base-url http://s.test --model m --num-prompts 3 \
     --max-concurrency 1 --random-input-len 8 --random-output-len 4 --tokenizer cl100k --no-scrape \
     --run-dir r";

pub(super) const CASES: &[Case] = &[
    Case::closed("nothing listens on the port").says(&[
        "cannot reach",
        "refused",
        "no server listens there",
        "tokometer sim",
    ]),
    Case::closed("nothing listens on the port and the model is named")
        .flags("--model m")
        .says(&["cannot reach"]),
    Case::raw("the server closes every connection at once", |_| AfterResponse::Close).says(&[
        "/v1/models",
        "closed the connection without a response",
        "needs https://",
    ]),
    Case::raw("the server resets every connection", reset).says(&["/v1/models"]),
    Case::sim(
        "the server dies in the middle of the run",
        &["--faults", r#"{"die_after_requests":6}"#],
    )
    .flags("--num-prompts 400")
    .exit(3)
    .one_more(50)
    .says(&["the server became unreachable"]),
    Case::sim(
        "idle connections are closed by the server",
        &["--faults", r#"{"idle_close":30000000}"#],
    )
    .flags("--request-rate 10")
    .counts(3, 0)
    .says(&["3 of 3 succeeded"]),
    Case::sim(
        "connections are reset after two tokens",
        &["--faults", r#"{"reset_after_tokens":2}"#],
    )
    .counts(0, 3)
    .exit(7)
    .says(&["no request succeeded"]),
    Case::raw("a proxy that wants a password", |asked| {
        answer(asked, "407 Proxy Authentication Required", "text/plain", "no")
    })
    .shell("export http_proxy={url}")
    .line(BEHIND_PROXY)
    .says(&["status 407", "user and password", "--no-proxy"]),
    Case::raw("a proxy that cannot reach the server", |asked| {
        answer(asked, "502 Bad Gateway", "text/plain", "no route to s.test")
    })
    .shell("export http_proxy={url}")
    .line(BEHIND_PROXY)
    .counts(0, 3)
    .exit(7)
    .says(&["status 502", "note[proxy]"]),
    Case::closed("a proxy where nothing listens")
        .shell("export http_proxy={url}")
        .line(BEHIND_PROXY)
        .says(&["through the proxy http://127.0.0.1:1", "refused"]),
    Case::closed("a proxy of another protocol")
        .shell("export all_proxy=socks5://127.0.0.1:1")
        .line(BEHIND_PROXY)
        .exit(2)
        .says(&["only proxies with http:// URLs"]),
    Case::sim("a proxy where nothing listens, for this machine itself", &[])
        .shell("export http_proxy=http://127.0.0.1:1")
        .counts(3, 0)
        .says(&["3 of 3 succeeded"]),
    Case::closed("a host name that has no address")
        .line("bench --base-url http://no.such.host.invalid --model m --no-run-dir --num-prompts 3")
        .says(&["`no.such.host.invalid` cannot be resolved"]),
    Case::closed("a Unix-domain socket that does not exist")
        .line("bench --base-url unix:missing.sock --model m --no-run-dir --num-prompts 3")
        .says(&["missing.sock"]),
    Case::closed("a Unix-domain socket that is an ordinary file")
        .prepare(|folder| std::fs::write(folder.join("file.sock"), "x").unwrap())
        .line("bench --base-url unix:file.sock --model m --no-run-dir --num-prompts 3")
        .says(&["file.sock"]),
    Case::closed("a Unix-domain socket whose server is gone")
        .prepare(|folder| drop(UnixListener::bind(folder.join("old.sock")).unwrap()))
        .line("bench --base-url unix:old.sock --model m --no-run-dir --num-prompts 3")
        .says(&["old.sock", "refused"]),
];
