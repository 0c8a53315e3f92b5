//! Certificates and private keys in PEM format.
//!
//! In: the bytes of a file. Out: what TLS needs, or why the file has none, as the end of a sentence that
//! names it.

use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// All certificates of a file; at least one.
pub fn certificates(bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    match found {
        Err(why) => Err(why.to_string()),
        Ok(found) if found.is_empty() => Err("it contains no certificate in PEM format".to_owned()),
        Ok(found) => Ok(found),
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    #[error("it contains no private key in PEM format")]
    Missing,
    #[error("its private key is encrypted; decrypt it first, such as with `openssl pkey`")]
    Encrypted,
    #[error("its private key cannot be read: {0}")]
    Unreadable(String),
}

pub fn private_key(bytes: &[u8]) -> Result<PrivateKeyDer<'static>, KeyFault> {
    PrivateKeyDer::from_pem_slice(bytes).map_err(|why| {
        // Both forms of an encrypted key say so in their first lines.
        let text = String::from_utf8_lossy(bytes);
        if text.contains("ENCRYPTED") {
            KeyFault::Encrypted
        } else if text.contains("PRIVATE KEY") {
            KeyFault::Unreadable(why.to_string())
        } else {
            KeyFault::Missing
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pem(label: &str, content: &str) -> String {
        format!("-----BEGIN {label}-----\n{content}\n-----END {label}-----\n")
    }

    #[test]
    fn all_certificates_of_a_file_are_read_and_other_content_is_passed_over() {
        let one = pem("CERTIFICATE", "AAAA");
        let both = format!("a comment\n{one}{}{one}", pem("PRIVATE KEY", "AAAA"));
        assert_eq!(certificates(both.as_bytes()).unwrap().len(), 2);
        let none = certificates(pem("PRIVATE KEY", "AAAA").as_bytes()).unwrap_err();
        assert_eq!(none, "it contains no certificate in PEM format");
        assert!(certificates(pem("CERTIFICATE", "§").as_bytes()).is_err());
    }

    #[test]
    fn a_file_without_a_usable_key_says_why() {
        let check = |text: &str, expected: &KeyFault| {
            assert_eq!(private_key(text.as_bytes()).as_ref(), Err(expected), "{text}");
        };
        assert!(private_key(pem("PRIVATE KEY", "AAAA").as_bytes()).is_ok());
        check("", &KeyFault::Missing);
        check(&pem("CERTIFICATE", "AAAA"), &KeyFault::Missing);
        check(&pem("ENCRYPTED PRIVATE KEY", "AAAA"), &KeyFault::Encrypted);
        let older = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA";
        check(&pem("RSA PRIVATE KEY", older), &KeyFault::Encrypted);
        let broken = private_key(b"-----BEGIN PRIVATE KEY-----\nAAAA\n").unwrap_err();
        assert!(matches!(broken, KeyFault::Unreadable(_)), "{broken}");
    }
}
