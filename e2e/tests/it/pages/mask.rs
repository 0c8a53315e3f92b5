//! What differs between two runs of one command, and is therefore not compared.
//!
//! A measurement never prints the same numbers twice. Masked are: numbers with their sign and the
//! marks `?`, `~` and `!`; intervals, and the words instead of them; units of time and size; sparklines
//! and bars; verdicts of runs and of comparisons; the width of columns; of some lines all but the label.
//! Words, order of lines, labels and codes of notes are compared.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// The command prints the same every time.
    Exact,
    /// Only what does not depend on the machine and the moment.
    Masked,
}

impl Rule {
    pub(super) fn of(command: &str) -> Self {
        let mut words = command.split_whitespace().skip_while(|word| *word != "tokometer").skip(1);
        let is_exact = match words.next() {
            // `None` is not the program: `echo`, `cat` and the like show what the page can know.
            None | Some("dataset" | "predict" | "docs") => true,
            Some("doctor") => !command.contains("--load"),
            Some("report") => command.contains("report fixtures/"),
            Some("capacity") => command.contains("--engine"),
            Some(_) => command.contains("--print-plan"),
        };
        if is_exact { Self::Exact } else { Self::Masked }
    }

    /// A line as it is compared.
    pub(super) fn apply(self, line: &str) -> String {
        match self {
            Self::Exact => line.trim_end().to_owned(),
            Self::Masked => masked(line),
        }
    }
}

const SPARKS: &str = "▁▂▃▄▅▆▇█▮▏▎▍▌▋▊▉";

/// Ends of a line of `compare`.
const CALLS: [&str; 5] =
    ["better", "worse", "cannot tell", "no difference found", "differs, negligible"];

/// Lines whose parts depend on what this machine could measure.
const LABELS: [&str; 4] = ["verdict:", "TTFT split ", "engine steps ", "server "];

const VERDICTS: [&str; 3] = ["INVALID", "SUSPECT", "VALID"];

fn masked(line: &str) -> String {
    if let Some(label) = LABELS.iter().find(|label| line.starts_with(**label)) {
        return (*label).to_owned();
    }
    let line: String = line.chars().filter(|letter| !SPARKS.contains(*letter)).collect();
    let mut text = numbers_masked(&line.replace("too short", "0"));
    for verdict in VERDICTS {
        text = text.replace(verdict, "VERDICT");
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut kept: Vec<&str> = Vec::new();
    for word in words {
        let is_after_number = kept.last().is_some_and(|last| last.ends_with('0'));
        let bare = word.trim_end_matches([',', ';', ')', ':', '.']);
        kept.push(match bare {
            "–" => "0",
            "ns" | "µs" | "ms" | "s" | "min" | "h" if is_after_number => "TIME",
            "B" | "kB" | "MB" | "GB" | "KiB" | "MiB" | "GiB" if is_after_number => "SIZE",
            _ => word,
        });
    }
    let text = kept.join(" ");
    let call = CALLS.iter().find_map(|call| text.strip_suffix(call));
    call.map_or_else(|| text.clone(), |before| format!("{before}CALL"))
}

/// The same with `0` for every number and interval.
fn numbers_masked(line: &str) -> String {
    let letters: Vec<char> = line.chars().collect();
    let digit = |at: usize| letters.get(at).is_some_and(char::is_ascii_digit);
    let mut shown = String::new();
    let mut at = 0;
    while at < letters.len() {
        // A margin, where the run was long enough for one.
        if letters[at] == '±' && digit(at + 1) {
            at += 1;
            while digit(at) || (at < letters.len() && ".,".contains(letters[at]) && digit(at + 1)) {
                at += 1;
            }
            continue;
        }
        let is_sign =
            "+-−".contains(letters[at]) && digit(at + 1) && !shown.ends_with(char::is_alphanumeric);
        if is_sign {
            at += 1;
        }
        if !digit(at) {
            shown.push(letters[at]);
            at += 1;
            continue;
        }
        // A comma or a dot belongs to the number when a digit follows; so does an interval's dash.
        while digit(at) || (at < letters.len() && ".,–".contains(letters[at]) && digit(at + 1)) {
            at += 1;
        }
        while at < letters.len() && "?~!".contains(letters[at]) {
            at += 1;
        }
        shown.push('0');
    }
    shown
}

#[test]
fn two_runs_of_one_command_look_alike() {
    let check = |one: &str, other: &str| assert_eq!(masked(one), masked(other));
    check("TTFT            26.33      25.66?", "TTFT      1,126.3~    25.66");
    check("TTFT ms       25.75–26.90  too short", "TTFT ms  too short  25.7–3.1");
    check("verdict: VALID", "verdict: INVALID (stalls)");
    check("run is VALID", "run is SUSPECT");
    check("TTFT split   measured: connect 0.1", "TTFT split   inferred: rest in the server 3");
    check("requests 480 of 480 succeeded in 19.8 s", "requests 480 of 480 succeeded in 820 ms");
    check("in flight    ▁▅▆█▅", "in flight ▁▁▁▁▁▁▂");
    check("mean TTFT  1.2 ms  -3.1 %  better", "mean TTFT  1.2 ms  +3.1 %  no difference found");
    check("runs/20261116-070001-simulator", "runs/20261117-180001-simulator");
}

#[test]
fn words_are_compared() {
    let check = |one: &str, other: &str| assert_ne!(masked(one), masked(other));
    check("TTFT 26.33", "TPOT 26.33");
    check("note[late-sends]: 4 of 8", "note[slow-reads]: 4 of 8");
    check("p99 26.33", "p99 26.33 ms");
}

#[test]
fn only_commands_without_a_clock_are_compared_exactly() {
    let check = |command: &str, rule: Rule| assert_eq!(Rule::of(command), rule, "{command}");
    check("tokometer bench --num-prompts 4", Rule::Masked);
    check("tokometer bench --print-plan", Rule::Exact);
    check("tokometer predict --engine default", Rule::Exact);
    check("tokometer doctor fixtures/seeds/000.txt", Rule::Exact);
    check("tokometer doctor --load \"concurrency=8 itl=20ms\"", Rule::Masked);
    check("tokometer report runs/a", Rule::Masked);
    check("echo $?", Rule::Exact);
}
