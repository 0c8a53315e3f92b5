//! The documentation as a book: every page is listed, every listed page exists, every link leads somewhere.
//!
//! `docs/SUMMARY.md` is the table of contents of the site, `docs/index.md` the same as questions. A
//! page that is in neither is never found by a reader.

use std::collections::BTreeMap;

/// Lists of pages, and what to add to them.
const LISTS: [(&str, &str); 2] = [
    ("docs/SUMMARY.md", "add `- [Title](PAGE)` to the part that it belongs to"),
    ("docs/index.md", "add a line with the question that it answers"),
];

struct Link<'a> {
    line: usize,
    /// The file, from the project's folder. Empty for a heading of the same page.
    file: String,
    anchor: Option<&'a str>,
}

/// Pages outside the lists, and links that lead nowhere. `exists` answers for files that are no pages.
pub(super) fn findings(pages: &[(String, String)], exists: impl Fn(&str) -> bool) -> Vec<String> {
    let texts: BTreeMap<&str, &str> =
        pages.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let mut findings = unlisted(&texts);
    for (name, text) in &texts {
        for link in links(name, text) {
            let file = if link.file.is_empty() { *name } else { link.file.as_str() };
            let Link { line, anchor, .. } = link;
            match (texts.get(file), anchor) {
                (None, _) if !exists(file) => {
                    findings.push(format!("{name}:{line}: links to {file}, which does not exist"));
                }
                (Some(target), Some(anchor)) if !anchors(target).any(|has| has == anchor) => {
                    findings.push(format!("{name}:{line}: {file} has no heading `#{anchor}`"));
                }
                _ => {}
            }
        }
    }
    findings
}

/// Pages of `docs` that a list does not have exactly once.
fn unlisted(texts: &BTreeMap<&str, &str>) -> Vec<String> {
    let is_listed = |name: &str| LISTS.iter().all(|(list, _)| *list != name);
    let pages: Vec<&str> =
        texts.keys().copied().filter(|name| name.starts_with("docs/") && is_listed(name)).collect();
    let mut findings = Vec::new();
    for (list, advice) in LISTS {
        let Some(text) = texts.get(list) else {
            findings.push(format!("{list}: does not exist"));
            continue;
        };
        let listed: Vec<String> = links(list, text).into_iter().map(|link| link.file).collect();
        for page in &pages {
            match listed.iter().filter(|file| file == page).count() {
                1 => {}
                0 => findings.push(format!("{page}: is not in {list}; {advice}")),
                count => findings.push(format!("{page}: is in {list} {count} times")),
            }
        }
    }
    findings
}

/// The links of a page, without those to other sites and those inside code.
fn links<'a>(name: &str, text: &'a str) -> Vec<Link<'a>> {
    let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut found = Vec::new();
    let mut is_code = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code || line.starts_with("    ") {
            continue;
        }
        for part in line.split("](").skip(1) {
            let Some((target, _)) = part.split_once(')') else { continue };
            if target.contains("://") || target.starts_with("mailto:") || target.contains(' ') {
                continue;
            }
            let (file, anchor) = match target.split_once('#') {
                Some((file, anchor)) => (file, Some(anchor)),
                None => (target, None),
            };
            let file = if file.is_empty() { String::new() } else { resolved(folder, file) };
            found.push(Link { line: number, file, anchor });
        }
    }
    found
}

/// A path relative to a folder, from the project's folder.
fn resolved(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The anchors of a page's headings, as hosting pages and mdBook make them.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept =
            title.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
        kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pages: &[(&str, &str)]) -> Vec<String> {
        let own = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
        findings(&pages.iter().map(own).collect::<Vec<_>>(), |file| file == "docs/page.png")
    }

    const SUMMARY: (&str, &str) = ("docs/SUMMARY.md", "# Summary\n\n- [A](a.md)\n");
    const INDEX: (&str, &str) = ("docs/index.md", "- [What is A?](a.md)\n");

    #[test]
    fn a_page_outside_the_lists_is_found() {
        let page = ("docs/a.md", "# A\n");
        assert!(found(&[SUMMARY, INDEX, page]).is_empty());
        let other = found(&[SUMMARY, INDEX, page, ("docs/b.md", "# B\n")]);
        assert_eq!(other.len(), 2, "{other:?}");
        assert!(other[0].starts_with("docs/b.md: is not in docs/SUMMARY.md; add"), "{other:?}");
        let twice = ("docs/SUMMARY.md", "- [A](a.md)\n- [A](a.md)\n");
        assert_eq!(found(&[twice, INDEX, page]), ["docs/a.md: is in docs/SUMMARY.md 2 times"]);
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found_with_its_line() {
        let check = |text: &str, expected: usize| {
            let text = format!("# A title, here\n\n{text}\n");
            let found = found(&[SUMMARY, INDEX, ("docs/a.md", &text), ("README.md", "# R\n")]);
            assert_eq!(found.len(), expected, "{text}: {found:?}");
        };
        check("[r](../README.md), [p](page.png), ![p](page.png), [s](https://a.b/c)", 0);
        check("[here](#a-title-here) and [`code`](a.md#a-title-here)", 0);
        check("[gone](gone.md)", 1);
        check("[up](README.md)", 1);
        check("[gone](#another-title)", 1);
        check("[r](../README.md#another)", 1);
        check("```\n[gone](gone.md)\n```", 0);
        let lines = found(&[SUMMARY, INDEX, ("docs/a.md", "# A\n\n[x](x.md)\n")]);
        assert_eq!(lines, ["docs/a.md:3: links to docs/x.md, which does not exist"]);
    }

    #[test]
    fn a_listed_page_must_exist() {
        let found = found(&[SUMMARY, INDEX]);
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
