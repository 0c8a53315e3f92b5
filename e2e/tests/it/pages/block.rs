//! A page of the documentation, and the commands in its blocks.

use std::fs;
use std::ops::Range;

use crate::program::root;

pub(super) struct Page {
    /// Its path below the project's folder.
    pub(super) name: String,
    lines: Vec<String>,
}

/// A command that is run, with the output that the page shows.
pub(super) struct Example {
    /// The number of the command's first line, from 1.
    pub(super) line: usize,
    pub(super) command: String,
    pub(super) shown: Vec<String>,
    /// Where the output is in the page.
    pub(super) range: Range<usize>,
    /// Whether the page shows another command, which takes too long, and this one is run instead.
    pub(super) is_shorter: bool,
}

/// A program in Python.
pub(super) struct Script {
    /// The number of its first line, from 1.
    pub(super) line: usize,
    /// The first line of its block, which says what it needs.
    pub(super) remark: String,
    pub(super) code: String,
}

/// The remark before a block with the command that is run instead of the shown one. Several are run
/// one after the other, and the last is compared.
const SHORTER: &str = "<!-- shorter: ";
/// The remark before an output that no test can make, with the reason.
const NOT_COMPARED: &str = "<!-- not compared: ";

/// A block of code: the word after its fence, and where its content is. Indented blocks have no word.
struct Block {
    word: String,
    content: Range<usize>,
}

impl Page {
    pub(super) fn open(name: &str) -> Self {
        let text = fs::read_to_string(root().join(name));
        let text = text.unwrap_or_else(|why| panic!("cannot read {name}: {why}"));
        Self::new(name, &text)
    }

    pub(super) fn new(name: &str, text: &str) -> Self {
        Self { name: name.to_owned(), lines: text.lines().map(str::to_owned).collect() }
    }

    pub(super) fn save(&self) {
        fs::write(root().join(&self.name), self.text()).unwrap();
    }

    fn text(&self) -> String {
        self.lines.join("\n") + "\n"
    }

    pub(super) fn replace(&mut self, range: Range<usize>, lines: Vec<String>) {
        let _ = self.lines.splice(range, lines).count();
    }

    fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut open: Option<(String, usize)> = None;
        for (index, line) in self.lines.iter().enumerate() {
            let fence = line.trim_start().strip_prefix("```");
            match (fence, open.take()) {
                (Some(_), Some((word, start))) => {
                    blocks.push(Block { word, content: start..index });
                }
                (Some(word), None) => open = Some((word.trim().to_owned(), index + 1)),
                (None, Some(still)) => open = Some(still),
                (None, None) if line.starts_with("    ") => {
                    blocks.push(Block { word: String::new(), content: index..index + 1 });
                }
                (None, None) => {}
            }
        }
        assert!(open.is_none(), "{}: a block is not closed", self.name);
        blocks
    }

    /// The commands of all `console` blocks, and those that are run instead of longer ones, in order.
    pub(super) fn examples(&self) -> Vec<Example> {
        let examples = |block: Block| match block.word.as_str() {
            "console" => self.examples_of(block.content),
            "text" => self.shorter_examples(&block.content),
            _ => Vec::new(),
        };
        self.blocks().into_iter().flat_map(examples).collect()
    }

    /// The commands of the remarks before a block. The last has the block's output.
    fn shorter_examples(&self, content: &Range<usize>) -> Vec<Example> {
        let first = content.start - 1;
        let is_remark = |index: &usize| self.lines[*index].starts_with(SHORTER);
        let remarks = (0..first).rev().take_while(is_remark).count();
        let command = |index: usize| {
            let text = self.lines[index].trim_start_matches(SHORTER);
            text.trim_end_matches("-->").trim().to_owned()
        };
        let mut examples: Vec<Example> = (first - remarks..first)
            .map(|index| Example {
                line: index + 1,
                command: command(index),
                shown: Vec::new(),
                range: index..index,
                is_shorter: true,
            })
            .collect();
        if let Some(last) = examples.last_mut() {
            last.range = self.output_of(content);
            last.shown = self.lines[last.range.clone()].to_vec();
        }
        examples
    }

    /// A block's lines after its reason and its command.
    fn output_of(&self, content: &Range<usize>) -> Range<usize> {
        let mut start = content.start;
        while start < content.end && self.lines[start].starts_with("# ") {
            start += 1;
        }
        if let Some(command) = self.lines[start].strip_prefix("$ ") {
            start = self.joined(command, start, content.end).1;
        }
        start..content.end
    }

    pub(super) fn outputs_without_command(&self) -> Vec<String> {
        let is_open = |block: &Block| {
            let before = block.content.start.checked_sub(2).map_or("", |index| &self.lines[index]);
            block.word == "text"
                && ![SHORTER, NOT_COMPARED].iter().any(|one| before.starts_with(one))
        };
        let blocks = self.blocks().into_iter().filter(is_open);
        let advice =
            "put `<!-- shorter: COMMAND -->` or `<!-- not compared: WHY -->` before the block";
        blocks.map(|block| format!("{}:{}: {advice}", self.name, block.content.start)).collect()
    }

    fn examples_of(&self, content: Range<usize>) -> Vec<Example> {
        let mut examples: Vec<Example> = Vec::new();
        let mut index = content.start;
        while index < content.end {
            let Some(first) = self.lines[index].strip_prefix("$ ") else {
                let example = examples.last_mut();
                let example = example.unwrap_or_else(|| {
                    panic!("{}:{}: a `console` block starts with `$ `", self.name, index + 1)
                });
                example.shown.push(self.lines[index].clone());
                example.range.end = index + 1;
                index += 1;
                continue;
            };
            let (command, after) = self.joined(first, index, content.end);
            examples.push(Example {
                line: index + 1,
                command,
                shown: Vec::new(),
                range: after..after,
                is_shorter: false,
            });
            index = after;
        }
        examples
    }

    /// A command with the lines that continue it, after a backslash or with the prompt `> `, and the
    /// line after it.
    fn joined(&self, first: &str, index: usize, end: usize) -> (String, usize) {
        let mut command = first.trim().to_owned();
        let mut next = index + 1;
        while next < end {
            let line = &self.lines[next];
            let more = line.strip_prefix("> ").or_else(|| (line == ">").then_some(""));
            if let Some(more) = more {
                command = format!("{command}\n{more}");
            } else if command.ends_with('\\') {
                let _ = command.pop();
                command = format!("{} {}", command.trim_end(), line.trim());
            } else {
                break;
            }
            next += 1;
        }
        (command, next)
    }

    /// Commands of the program outside `console` blocks, with their line numbers.
    pub(super) fn other_commands(&self) -> Vec<(usize, String)> {
        let mut commands = Vec::new();
        let blocks = self.blocks();
        let is_code = |word: &str| ["", "sh", "yaml", "toml", "text"].contains(&word);
        for block in blocks.iter().filter(|block| is_code(&block.word)) {
            for index in block.content.clone() {
                let first = bare(&self.lines[index]);
                if is_of_program(first) {
                    commands.push((index + 1, self.joined(first, index, self.lines.len()).0));
                }
            }
        }
        commands
    }

    /// Commands of the program between backticks in the text and the tables, with their line numbers.
    pub(super) fn commands_in_text(&self) -> Vec<(usize, String)> {
        let blocks = self.blocks();
        let is_text = |index: &usize| blocks.iter().all(|block| !block.content.contains(index));
        let mut commands = Vec::new();
        for index in (0..self.lines.len()).filter(is_text) {
            // A fence has no command.
            let line = self.lines[index].strip_prefix("```").unwrap_or(&self.lines[index]);
            let code = line.split('`').skip(1).step_by(2).filter(|code| is_of_program(code));
            commands.extend(code.map(|code| (index + 1, code.to_owned())));
        }
        commands
    }

    /// Programs in Python: blocks of it, and what `python3 - <<END` reads in a block of a shell.
    pub(super) fn scripts(&self) -> Vec<Script> {
        let mut scripts = Vec::new();
        for block in self.blocks() {
            let lines = &self.lines[block.content.clone()];
            let inner = match block.word.as_str() {
                "python" => Some(0..lines.len()),
                "sh" => here_document(lines),
                _ => None,
            };
            scripts.extend(inner.map(|inner| Script {
                line: block.content.start + inner.start + 1,
                remark: lines[0].clone(),
                code: lines[inner].join("\n") + "\n",
            }));
        }
        scripts
    }

    /// Blocks with commands that are not run, and that do not start with a remark.
    pub(super) fn blocks_without_reason(&self) -> Vec<String> {
        let mut found = Vec::new();
        let is_shell = |block: &&Block| ["sh", "text"].contains(&block.word.as_str());
        for block in self.blocks().iter().filter(is_shell) {
            let lines = &self.lines[block.content.clone()];
            // A block of text without a prompt is an output, which may name commands.
            let is_typed = |line: &String| block.word == "sh" || line.starts_with("$ ");
            let has_command = lines.iter().any(|line| is_typed(line) && is_of_program(bare(line)));
            let has_reason = lines.first().is_some_and(|line| line.starts_with("# "));
            if has_command && !has_reason {
                let line = block.content.start;
                found.push(format!("{}:{line}: start the block with `# why`", self.name));
            }
        }
        found
    }
}

/// The lines that `python3` reads from the shell.
fn here_document(lines: &[String]) -> Option<Range<usize>> {
    let start = lines.iter().position(|line| line == "python3 - <<END")? + 1;
    let length = lines[start..].iter().position(|line| line == "END")?;
    Some(start..start + length)
}

/// A line without what a prompt, a list or a key of YAML puts before its command, and without a remark.
fn bare(line: &str) -> &str {
    let mut line = line.trim();
    for prefix in ["- ", "run: ", "$ "] {
        line = line.strip_prefix(prefix).unwrap_or(line).trim_start();
    }
    line.split("  #").next().unwrap_or(line).trim_end()
}

/// Whether a command starts the program, possibly after variables for it.
fn is_of_program(command: &str) -> bool {
    let is_variable = |word: &&str| {
        word.split_once('=')
            .is_some_and(|(name, _)| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
    };
    command.split_whitespace().find(|word| !is_variable(word)) == Some("tokometer")
}

#[test]
fn examples_have_their_commands_joined_and_their_output() {
    let page = Page::new(
        "x.md",
        "# Title\n```console\n$ tokometer a \\\n    b\none\ntwo\n$ cat <<E\n> x\n>\n> E\nx\n```\n",
    );
    let examples = page.examples();
    let found: Vec<_> = examples
        .iter()
        .map(|one| (one.line, one.command.as_str(), one.shown.join("|"), one.range.clone()))
        .collect();
    let first = (3, "tokometer a b", "one|two".to_owned(), 4..6);
    assert_eq!(found, [first, (7, "cat <<E\nx\n\nE", "x".to_owned(), 10..11)]);
}

#[test]
fn a_shorter_command_has_the_output_of_the_block_below_it() {
    let page = Page::new(
        "x.md",
        "<!-- shorter: tokometer sim & -->\n<!-- shorter: tokometer a -->\n```text\n# why\n$ tokometer b \\\n  c\none\n```\n\
         ```text\ntwo\n```\n\n<!-- not compared: needs a GPU -->\n```text\nthree\n```\n",
    );
    let examples = page.examples();
    let found: Vec<_> =
        examples.iter().map(|one| (one.line, one.command.as_str(), one.shown.join("|"))).collect();
    let server = (1, "tokometer sim &", String::new());
    assert_eq!(found, [server, (2, "tokometer a", "one".to_owned())]);
    let open = page.outputs_without_command();
    assert!(open.len() == 1 && open[0].starts_with("x.md:9: "), "{open:?}");
}

#[test]
fn commands_outside_console_blocks_are_found_in_code_only() {
    let text = "tokometer in prose\n\n    tokometer sim --port 8000   # remark\n\n```sh\n# needs a server\n\
                KEY=x tokometer bench \\\n  --format json\nls\n```\n```yaml\n  - run: tokometer compare ab\n```\n";
    let page = Page::new("x.md", text);
    let commands: Vec<String> =
        page.other_commands().into_iter().map(|(_, command)| command).collect();
    let expected = [
        "tokometer sim --port 8000",
        "KEY=x tokometer bench --format json",
        "tokometer compare ab",
    ];
    assert_eq!(commands, expected);
    assert!(page.blocks_without_reason().is_empty());
    let page = Page::new("x.md", "```sh\ntokometer bench\n```\n");
    assert_eq!(page.blocks_without_reason().len(), 1);
    let page =
        Page::new("x.md", "```text\n$ tokometer bench\nout\n```\n```text\ntokometer x\n```\n");
    assert_eq!(page.blocks_without_reason().len(), 1);
}

#[test]
fn commands_in_a_text_are_found_between_backticks() {
    let text = "Use `tokometer report RUN`, or `ls`.\n\n    tokometer sim\n\n| `x` | `tokometer bench -n 4` |\n\
                ```text\n`tokometer no`\n```\n";
    let found = Page::new("x.md", text).commands_in_text();
    assert_eq!(
        found,
        [(1, "tokometer report RUN".to_owned()), (5, "tokometer bench -n 4".to_owned())]
    );
}

#[test]
fn python_is_found_in_its_own_blocks_and_in_those_of_a_shell() {
    let text = "```python\n# needs a\nimport a\n```\n```sh\n# needs b\npython3 - <<END\nimport b\nEND\nls\n```\n\
                ```text\nimport c\n```\n";
    let scripts = Page::new("x.md", text).scripts();
    let found: Vec<_> = scripts
        .iter()
        .map(|script| (script.line, script.remark.as_str(), script.code.as_str()))
        .collect();
    assert_eq!(found, [(2, "# needs a", "# needs a\nimport a\n"), (8, "# needs b", "import b\n")]);
}
