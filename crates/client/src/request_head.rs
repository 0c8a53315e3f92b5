//! The header of a request, for the measured route and for control requests.

use std::fmt::Display;

use crate::error::Error;
use crate::proxy::Proxy;
use crate::url::Url;

const USER_AGENT: &str = concat!("tokometer/", env!("CARGO_PKG_VERSION"));

pub(crate) const JSON: &str = "application/json";

/// The header of a request. Setting a field again replaces its value.
pub(crate) struct RequestHead {
    request_line: String,
    headers: Vec<(String, String)>,
}

impl RequestHead {
    pub(crate) fn new(method: &str, url: &Url, path: &str, forward: Option<&Proxy>) -> Self {
        let authority = url.authority();
        // A proxy needs the server's address, which the first line otherwise leaves out.
        let server = forward.map(|_| format!("http://{authority}")).unwrap_or_default();
        let request_line = format!("{method} {server}{path} HTTP/1.1\r\n");
        let mut head = Self { request_line, headers: Vec::new() };
        head.header("Host", authority);
        head.header("User-Agent", USER_AGENT);
        if let Some(value) = forward.and_then(Proxy::authorization) {
            head.header("Proxy-Authorization", value);
        }
        head
    }

    pub(crate) fn header(&mut self, name: &str, value: impl Display) {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.to_string()));
    }

    pub(crate) fn finish(mut self, body_len: Option<usize>) -> Result<Vec<u8>, Error> {
        if let Some(length) = body_len {
            self.header("Content-Length", length);
        }
        let mut bytes = self.request_line.into_bytes();
        for (name, value) in self.headers {
            let is_name = |byte: u8| byte.is_ascii_graphic() && byte != b':';
            let is_value = |byte: u8| byte == b'\t' || (byte >= b' ' && byte != 0x7f);
            if name.is_empty() || !name.bytes().all(is_name) || !value.bytes().all(is_value) {
                return Err(Error::Header(name));
            }
            bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        Ok(bytes)
    }
}
