//! What the help of a command lists.
//!
//! `-h` lists the flags that most people use, with examples; `--help` lists all of them in groups.
//! `dataset` and `predict` accept every flag of `bench`, so that a command line can be reused, and
//! list only those that have an effect on them.

use std::collections::BTreeSet;

/// The help of one command that takes the flags of `bench`.
struct HelpShape {
    command: &'static str,
    /// Flags of `bench` that `-h` lists, separated by blanks. The command's own flags are always listed.
    short: &'static str,
    long: ListedFlags,
    /// Arguments of `bench` that mean something else here, by their ids, and what they mean.
    meanings: &'static [(&'static str, &'static str)],
    examples: &'static str,
}

/// Which flags of `bench` a help lists.
enum ListedFlags {
    All,
    /// Flags under a heading that begins with one of these, and flags by name.
    Some {
        headings: &'static [&'static str],
        flags: &'static str,
    },
}

const SHAPES: [HelpShape; 4] = [
    HelpShape {
        command: "bench",
        short: "budget html backend base-url model dataset-name input-len output-len seed \
            num-prompts max-concurrency request-rate duration run-dir format",
        long: ListedFlags::All,
        meanings: &[],
        examples: "\
One server, three experiments:
  tokometer URL                   # a staircase: 1, 2, 4, … in flight, 2 minutes
  tokometer bench --base-url URL  # vLLM's defaults: 1000 requests at once
  tokometer bench                 # the embedded simulator (demo), 20 seconds

A list, such as `-c 1,2,...,64`, makes a sweep. Flags of `vllm bench serve` and
`sglang.bench_serving` work. Most have a variable, such as TOKOMETER_BASE_URL.",
    },
    HelpShape {
        command: "dataset",
        short: "model tokenizer dataset-name dataset-path input-len output-len num-prompts \
            seed",
        long: ListedFlags::Some {
            headings: &["Workload"],
            flags: "plan backend model conventions tokenizer skip-tokenizer-init num-prompts seed",
        },
        meanings: &[],
        examples: "\
Examples:
  tokometer dataset --dataset-name sharegpt --dataset-path sharegpt.json
  tokometer dataset --input-len 512 --output-len 64 -n 100 --export prompts.jsonl
  tokometer dataset --trace trace.jsonl --check

Other flags of `bench` are accepted and have no effect.",
    },
    HelpShape {
        command: "capacity",
        short: "slo budget html base-url model input-len output-len run-dir format",
        long: ListedFlags::All,
        meanings: &[
            ("url", "Address of the server, such as `http://127.0.0.1:8000`"),
            ("budget", "Time for the whole search [default for a URL: 5m]"),
            ("html", "Write an HTML page of the results to this file"),
            (
                "keep-events",
                "Keep the events of each point in plain columns; otherwise they are packed, which loses nothing",
            ),
        ],
        examples: "\
Examples:
  tokometer capacity http://127.0.0.1:8000 --slo \"p99 ttft < 2s\" --budget 5m --html page.html
  tokometer capacity --engine default --slo \"p99 ttft < 2s, p99 tpot < 50ms\"",
    },
    HelpShape {
        command: "predict",
        short: "input-len output-len num-prompts max-concurrency request-rate duration \
            run-dir format",
        long: ListedFlags::Some {
            headings: &["Workload", "Metrics"],
            flags: "plan print-plan backend model conventions tokenizer skip-tokenizer-init \
                lora-modules lora-assignment lora-request-distribution lora-zipf-alpha \
                request-rate burstiness max-concurrency ramp-up-strategy ramp-up-start-rps \
                ramp-up-end-rps seed num-prompts duration name run-dir overwrite format quiet \
                save-result save-detailed append-result result-dir result-filename metadata \
                label output-file output-details tag",
        },
        meanings: &[],
        examples: "\
Examples:
  tokometer predict --engine default -r 4 -n 1000
  tokometer predict --engine default -c 1,2,...,64 --explain

Other flags of `bench` are accepted and have no effect.",
    },
];

/// The same command line, with helps that list what people need.
pub(super) fn shaped(mut cli: clap::Command) -> clap::Command {
    let of_bench: BTreeSet<String> = cli
        .find_subcommand("bench")
        .into_iter()
        .flat_map(clap::Command::get_arguments)
        .map(|arg| arg.get_id().to_string())
        .collect();
    for shape in &SHAPES {
        cli = cli.mut_subcommand(shape.command, |command| {
            let is_bench = shape.command == "bench";
            command.after_help(shape.examples).mut_args(|arg| {
                let arg = shape.explained(arg);
                let is_own = !is_bench && !of_bench.contains(arg.get_id().as_str());
                if is_own || arg.is_positional() { arg } else { shape.listed(arg) }
            })
        });
    }
    cli
}

impl HelpShape {
    /// The argument with what it means for this command.
    fn explained(&self, arg: clap::Arg) -> clap::Arg {
        match self.meanings.iter().find(|(id, _)| *id == arg.get_id().as_str()) {
            Some((_, meaning)) => arg.help(*meaning),
            None => arg,
        }
    }

    fn listed(&self, arg: clap::Arg) -> clap::Arg {
        let name = arg.get_long().unwrap_or_default().to_owned();
        let has = |flags: &str| flags.split_whitespace().any(|flag| flag == name);
        let is_short = has(self.short);
        let is_long = match &self.long {
            ListedFlags::All => true,
            ListedFlags::Some { headings, flags } => {
                let heading = arg.get_help_heading().unwrap_or_default();
                has(flags) || headings.iter().any(|one| heading.starts_with(one))
            }
        };
        let is_hidden = arg.is_hide_set() || !is_long;
        arg.hide(is_hidden).hide_short_help(!is_short)
    }
}

#[cfg(test)]
mod tests {
    use super::super::command::flags_of;
    use super::*;

    #[test]
    fn every_flag_that_a_help_names_exists() {
        let own = flags_of("bench");
        for shape in &SHAPES {
            let flags = match &shape.long {
                ListedFlags::All => "",
                ListedFlags::Some { flags, .. } => flags,
            };
            for name in shape.short.split_whitespace().chain(flags.split_whitespace()) {
                assert!(own.contains(&format!("--{name}")), "{}: {name}", shape.command);
            }
        }
    }
}
