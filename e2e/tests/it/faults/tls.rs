//! TLS where plain HTTP is spoken, and the other way round.

use std::path::Path;

use super::case::Case;
use crate::scripted::AfterResponse;

const TO_TLS: &str = "bench --base-url https://{host} --num-prompts 3 --max-concurrency 1 \
     --random-input-len 8 --random-output-len 4 --tokenizer cl100k --no-scrape --run-dir r";
const TO_PLAIN: &str = "bench --base-url http://{host} --num-prompts 3 --max-concurrency 1 \
     --random-input-len 8 --random-output-len 4 --tokenizer cl100k --no-scrape --run-dir r";

/// A file that holds no certificate.
fn empty_file(folder: &Path) {
    std::fs::write(folder.join("empty.pem"), "nothing\n").unwrap();
}

pub(super) const CASES: &[Case] = &[
    Case::sim("https:// to a port that speaks plain HTTP", &[])
        .line(TO_TLS)
        .exit(3)
        .says(&["does not speak TLS on this port; use http://"]),
    Case::sim("http:// to a port that speaks TLS", &["--tls"])
        .line(TO_PLAIN)
        .exit(3)
        .says(&["cannot reach", "https://"]),
    Case::raw("https:// to a server that speaks no HTTP", |mut asked| {
        asked.send("220 mail.example ESMTP\r\n");
        AfterResponse::Close
    })
    .line(TO_TLS)
    .says(&["cannot reach"]),
    Case::sim("a certificate that the server signed itself", &["--tls"])
        .exit(3)
        .says(&["certificate", "--ca-cert"]),
    Case::sim("the same certificate with `--insecure`", &["--tls"])
        .flags("--insecure")
        .counts(3, 0)
        .says(&["3 of 3 succeeded"]),
    Case::sim("a file of certificates that does not exist", &["--tls"])
        .flags("--ca-cert missing.pem")
        .exit(2)
        .says(&["missing.pem"]),
    Case::sim("a file of certificates that holds none", &["--tls"])
        .prepare(empty_file)
        .flags("--ca-cert empty.pem")
        .exit(2)
        .says(&["empty.pem"]),
    Case::sim("a client certificate that does not exist", &["--tls"])
        .flags("--insecure --client-cert missing.pem")
        .exit(2)
        .says(&["cannot use the client certificate `missing.pem`"]),
    Case::sim("a client certificate file that holds none", &["--tls"])
        .prepare(empty_file)
        .flags("--insecure --client-cert empty.pem")
        .exit(2)
        .says(&["cannot use the client certificate `empty.pem`"]),
    Case::sim("a client certificate that does not exist, and a server without TLS", &[])
        .flags("--client-cert missing.pem")
        .exit(2)
        .says(&["cannot use the client certificate `missing.pem`"]),
    Case::command(
        "a client certificate that does not exist, and the embedded simulator",
        "bench --sim --no-run-dir --num-prompts 3 --client-cert missing.pem",
    )
    .says(&["cannot use the client certificate `missing.pem`"]),
];
