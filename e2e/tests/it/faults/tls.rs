//! TLS where plain HTTP is spoken, and the other way round.

use super::case::Case;

pub(super) const CASES: &[Case] = &[
    Case::sim("the same certificate with `--insecure`", &["--tls"])
        .flags("--insecure")
        .counts(3, 0)
        .says(&["3 of 3 succeeded"]),
    Case::sim("a file of certificates that does not exist", &["--tls"])
        .flags("--ca-cert missing.pem")
        .exit(2)
        .says(&["missing.pem"]),
    Case::sim("a file of certificates that holds none", &["--tls"])
        .prepare(|folder| std::fs::write(folder.join("empty.pem"), "nothing\n").unwrap())
        .flags("--ca-cert empty.pem")
        .exit(2)
        .says(&["empty.pem"]),
];
