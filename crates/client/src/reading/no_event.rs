//! Answers of success without any event: what they are instead.

use tokometer_record::{Failure, FailureKind};

use super::ResponseReading;
use crate::server_message::{error_message, html_page, is_error_document};
use crate::sse::begins_stream;

impl ResponseReading {
    /// Processes the first bytes of a body without events. A server or a proxy may send an error
    /// document under any content type.
    pub(crate) fn on_no_event(&mut self, body: &[u8], status: Option<u16>) {
        let body = body.trim_ascii();
        if body.is_empty() {
            self.failure.get_or_insert(Failure::new(FailureKind::Protocol, nothing_in(status)));
        } else if is_error_document(body) || error_message(body).is_some() {
            self.fail(FailureKind::InStream, "", body);
        } else if html_page(body).is_some() {
            self.fail(FailureKind::Protocol, "", body);
        } else if !begins_stream(body) {
            self.fail(FailureKind::Protocol, "the answer has no event: ", body);
        }
    }
}

/// Why an answer of success has no event in it.
fn nothing_in(status: Option<u16>) -> String {
    match status {
        Some(status @ (204 | 205)) => {
            format!(
                "the server responded with status {status}, which has no body, instead of an answer"
            )
        }
        _ => "the response body is empty".to_owned(),
    }
}
