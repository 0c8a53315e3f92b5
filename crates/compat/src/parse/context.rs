//! What the text above a block says about it.

use tokometer_base::printable;

use super::text::TextLine;
use crate::model::Context;

/// Every block that follows carries these, so a text of another kind must not fill them.
const LONGEST: usize = 4_000;
const MOST_SETTINGS: usize = 64;

const PROGRAMS: [&str; 7] = [
    "benchmark_serving",
    "bench_serving",
    "sglang.benchmark.serving",
    "vllm bench serve",
    "vllm-bench",
    "tokometer bench",
    "tokometer sweep",
];

/// The context of a block with this text above it. What it does not say is inherited from the block
/// before, as the rows of a sweep inherit the command that made them.
pub(super) fn context(lead: &[TextLine<'_>], before: Option<&Context>) -> Context {
    let said = said(lead);
    let Some(before) = before else { return said };
    if said.heading.is_none() && said.command.is_none() && said.settings.is_empty() {
        return Context { ordinal: before.ordinal + 1, ..before.clone() };
    }
    // A new heading begins a new part, which the settings of the old one do not describe.
    let is_new_part = said.heading.is_some();
    Context {
        heading: said.heading.or_else(|| before.heading.clone()),
        command: said.command.or_else(|| before.command.clone().filter(|_| !is_new_part)),
        settings: said.settings,
        ordinal: 0,
    }
}

fn said(lead: &[TextLine<'_>]) -> Context {
    let mut context = Context::default();
    let mut lines = lead.iter().map(|line| line.text.trim()).filter(|text| !text.is_empty());
    while let Some(text) = lines.next() {
        if let Some(heading) = heading(text) {
            let heading = printable::line(heading, LONGEST);
            context = Context { heading: Some(heading), ..Context::default() };
        } else if PROGRAMS.iter().any(|program| text.contains(program)) {
            context.command = Some(command(text, &mut lines));
        } else if let Some((name, value)) = setting(text)
            && context.settings.len() < MOST_SETTINGS
        {
            context.settings.push((name.to_owned(), printable::line(value, LONGEST)));
        }
    }
    context
}

/// `# Prefill` is a heading; `#Input tokens: 7` is not.
fn heading(text: &str) -> Option<&str> {
    let words = text.trim_start_matches('#');
    (words.len() < text.len()).then_some(words)?.strip_prefix(' ').map(str::trim)
}

/// A command line without its prompt sign, joined with the lines that it continues on.
fn command<'a>(first: &'a str, rest: &mut impl Iterator<Item = &'a str>) -> String {
    let mut whole = first.trim_start_matches(['$', '>', ' ']).to_owned();
    while whole.ends_with('\\') && whole.len() < LONGEST {
        whole.truncate(whole.trim_end_matches('\\').trim_end().len());
        whole.push(' ');
        whole.push_str(rest.next().unwrap_or_default());
    }
    printable::line(whole.trim_end(), LONGEST)
}

/// `seq_length: 80`: one word or a counted thing, a colon, and something after it.
fn setting(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once(':')?;
    let name = name.trim_start_matches('#').trim();
    let is_name = !name.is_empty()
        && name.split(' ').count() <= 4
        && name.chars().all(|c| c.is_alphanumeric() || "_- ".contains(c));
    let value = value.trim();
    (is_name && !value.is_empty()).then_some((name, value))
}

#[cfg(test)]
mod tests {
    use super::super::text::lines;
    use super::*;

    fn of(text: &str, before: Option<&Context>) -> Context {
        context(&lines(text), before)
    }

    #[test]
    fn headings_commands_and_settings_are_told_apart() {
        let found = of(
            "noise\n## Rust\n$ python bench_serving.py \\\n  --num-prompts 5\n#Input tokens: 7\n\
             100%|███| 5/5 [00:01<00:00]\n",
            None,
        );
        assert_eq!(found.heading.as_deref(), Some("Rust"));
        assert_eq!(found.command.as_deref(), Some("python bench_serving.py --num-prompts 5"));
        assert_eq!(found.settings, [("Input tokens".to_owned(), "7".to_owned())]);
    }

    #[test]
    fn rows_of_a_sweep_share_their_context_and_are_counted() {
        let first = of("vllm\nnum_prompts: 1, 2\nseq_length: 80\n", None);
        let second = of("\n\n", Some(&first));
        assert_eq!((first.ordinal, second.ordinal), (0, 1));
        assert_eq!(second.settings, first.settings);
        let third = of("# Other\n", Some(&second));
        assert_eq!((third.ordinal, third.settings.len()), (0, 0));
    }
}
