//! Reads `multipart/form-data` bodies.

/// A form: its text fields, and its file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FormFields<'a> {
    pub(super) fields: Vec<(String, String)>,
    pub(super) file: Option<&'a [u8]>,
}

impl FormFields<'_> {
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Whether a field says yes in one of the ways that clients write it.
    pub(super) fn is_set(&self, name: &str) -> bool {
        self.text(name).is_some_and(|value| matches!(value, "true" | "True" | "1"))
    }
}

/// Reads a body; `None` when the type names no form or the body is cut.
pub(super) fn read<'a>(content_type: &str, body: &'a [u8]) -> Option<FormFields<'a>> {
    let (kind, parameters) = content_type.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let is_boundary = |text: &str| text.trim().to_ascii_lowercase().starts_with("boundary=");
    let boundary = parameters.split(';').find(|text| is_boundary(text))?;
    let boundary = boundary.split_once('=')?.1.trim().trim_matches('"');
    let mark = format!("\r\n--{boundary}");
    let mut form = FormFields::default();
    let mut rest = body.strip_prefix(&mark.as_bytes()[2..])?;
    loop {
        if rest.starts_with(b"--") {
            return Some(form);
        }
        let part = rest.strip_prefix(b"\r\n")?;
        let head_end = find(part, b"\r\n\r\n")?;
        let content = &part[head_end + 4..];
        let length = find(content, mark.as_bytes())?;
        let head = String::from_utf8_lossy(&part[..head_end]).into_owned();
        let name = parameter(&head, "name").unwrap_or_default();
        if parameter(&head, "filename").is_some() {
            form.file = Some(&content[..length]);
        } else {
            let value = String::from_utf8_lossy(&content[..length]).into_owned();
            form.fields.push((name, value));
        }
        rest = &content[length + mark.len()..];
    }
}

/// A quoted parameter of a part's head.
fn parameter(head: &str, name: &str) -> Option<String> {
    let value =
        head.split(';').find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('='))?;
    let value = value.lines().next().unwrap_or_default();
    Some(value.trim().trim_matches('"').to_owned())
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_the_file_are_read_and_a_cut_form_is_refused() {
        let body = b"--B\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav\r\n\r\n\r\n\0-\r\n--B--\r\n";
        let form = read("multipart/form-data; boundary=\"B\"", body).unwrap();
        assert_eq!(form.text("model"), Some("m"));
        assert_eq!(form.file, Some(&b"\r\n\0-"[..]));
        assert!(!form.is_set("stream"));
        for end in 0..body.len() - 4 {
            assert_eq!(read("multipart/form-data; boundary=B", &body[..end]), None, "{end}");
        }
        assert_eq!(read("application/json", body), None);
    }
}
