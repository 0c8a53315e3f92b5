//! The keys of a plan file, as its page lists them.

use std::fmt::Write as _;

use super::{OptionRow, rows};

/// A table of all keys with the flags that set them.
pub fn keys_markdown() -> String {
    let mut keyed: Vec<&OptionRow> = rows().filter(|row| !row.key.is_empty()).collect();
    keyed.sort_by_key(|row| row.key);
    let mut page = "| key | flags | meaning |\n|---|---|---|\n".to_owned();
    for rows in keyed.chunk_by(|a, b| a.key == b.key) {
        let flags: Vec<String> = rows.iter().map(|row| format!("`--{}`", row.flag)).collect();
        let meaning = rows[0].described().replace('|', "\\|");
        let _ = writeln!(page, "| `{}` | {} | {meaning} |", rows[0].key, flags.join(", "));
    }
    page
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_of_plan_files_lists_all_keys() {
        let page = include_str!("../../../../docs/plan-file.md");
        let advice = "docs/plan-file.md does not end with what `tokometer docs plan-file` prints";
        assert!(page.ends_with(&super::keys_markdown()), "{advice}");
    }
}
