//! The experiment as data: which runs calibrate, which are predicted, and under which setting of the server.
//!
//! `lab/data/evidence-plan.md` says the same in words. A rate is a share of what the server managed in the
//! closed loop of the most streams, first repeat, so that no speed is assumed; everything else is fixed.

use std::fmt::Write as _;

/// Prompt and answer tokens, and the share by which both vary.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Lengths {
    pub(super) name: &'static str,
    pub(super) prompt: u32,
    pub(super) answer: u32,
    pub(super) spread: f64,
}

/// When requests are sent, and how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoadLevel {
    /// A closed loop.
    Streams {
        /// Requests in flight.
        streams: u32,
        /// Requests in all.
        requests: u32,
    },
    /// Poisson arrivals.
    Share {
        /// Percent of the closed loop's request throughput.
        percent: u32,
        /// How long requests arrive.
        seconds: u32,
    },
}

/// What is different about a run that is predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Another number of streams.
    Streams,
    /// Another rate.
    Rate,
    /// Lengths that vary.
    Mix,
    /// Another limit of the server's batches.
    Limit,
}

impl Kind {
    pub(super) const ALL: [Self; 4] = [Self::Streams, Self::Rate, Self::Mix, Self::Limit];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Streams => "streams",
            Self::Rate => "rate",
            Self::Mix => "mix of lengths",
            Self::Limit => "batch limit",
        }
    }
}

/// What a run is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Calibrating,
    HeldOut(Kind),
}

/// One setting of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Setting {
    /// In the names of its runs; empty for the calibrated one.
    pub(super) name: &'static str,
    /// For readers.
    pub(super) title: &'static str,
    /// Flags of the server.
    pub(super) flags: &'static str,
    /// `--set` of the prediction.
    pub(super) changes: &'static [&'static str],
}

/// One run of the list.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Run {
    pub(super) setting: Setting,
    pub(super) lengths: Lengths,
    pub(super) load: LoadLevel,
    pub(super) role: Role,
}

impl Run {
    /// The name of its folder, without the repeat.
    pub(super) fn name(&self) -> String {
        let load = match self.load {
            LoadLevel::Streams { streams, .. } => format!("c{streams}"),
            LoadLevel::Share { percent, .. } => format!("rate{percent}"),
        };
        let setting = self.setting.name;
        let dash = if setting.is_empty() { "" } else { "-" };
        format!("{setting}{dash}{load}-{}", self.lengths.name)
    }

    /// The run for readers.
    pub(super) fn title(&self) -> String {
        let load = match self.load {
            LoadLevel::Streams { streams: 1, .. } => "1 stream".to_owned(),
            LoadLevel::Streams { streams, .. } => format!("{streams} streams"),
            LoadLevel::Share { percent, .. } => format!("Poisson at {percent} %"),
        };
        let setting = if self.setting.name.is_empty() { "" } else { self.setting.title };
        let comma = if setting.is_empty() { "" } else { ", " };
        format!("{load}, {}{comma}{setting}", self.lengths.title())
    }
}

impl Lengths {
    /// The lengths for readers.
    pub(super) fn title(&self) -> String {
        if self.spread > 0.0 {
            let span = |around: u32| {
                let (low, high) = (1.0 - self.spread, 1.0 + self.spread);
                format!("{:.0}–{:.0}", f64::from(around) * low, f64::from(around) * high)
            };
            return format!("{}/{}", span(self.prompt), span(self.answer));
        }
        format!("{}/{}", self.prompt, self.answer)
    }
}

/// The experiment with one server.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) server: &'static str,
    pub(super) title: &'static str,
    pub(super) runs: &'static [Run],
    /// What the scheduler of the calibrated setting is told to be.
    pub(super) token_budget: u32,
    pub(super) max_seqs: u32,
    /// Flags of `bench` besides the load.
    pub(super) bench: &'static str,
    /// Requests per second that count as capacity should the closed loop fail.
    pub(super) fallback_rate: f64,
}

impl Plan {
    /// The plan of a server.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        ALL.into_iter().find(|plan| plan.server == name)
    }

    /// The run whose request throughput counts as capacity: the first lengths, the most streams.
    pub(super) fn capacity(&self) -> Option<&Run> {
        let calibrating = self.runs.iter().filter(|run| run.role == Role::Calibrating);
        let of_first = calibrating.filter(|run| run.lengths.name == "a");
        of_first.max_by_key(|run| match run.load {
            LoadLevel::Streams { streams, .. } => streams,
            LoadLevel::Share { .. } => 0,
        })
    }

    /// The settings in the order of their first runs.
    pub(super) fn settings(&self) -> Vec<Setting> {
        let mut found: Vec<Setting> = Vec::new();
        for run in self.runs {
            if !found.contains(&run.setting) {
                found.push(run.setting);
            }
        }
        found
    }
}

const fn fixed(name: &'static str, prompt: u32, answer: u32) -> Lengths {
    Lengths { name, prompt, answer, spread: 0.0 }
}

const fn half(prompt: u32, answer: u32) -> Lengths {
    Lengths { name: "mix", prompt, answer, spread: 0.5 }
}

const fn streams(streams: u32, requests: u32) -> LoadLevel {
    LoadLevel::Streams { streams, requests }
}

const fn share(percent: u32, seconds: u32) -> LoadLevel {
    LoadLevel::Share { percent, seconds }
}

const fn known(setting: Setting, lengths: Lengths, load: LoadLevel) -> Run {
    Run { setting, lengths, load, role: Role::Calibrating }
}

const fn held(kind: Kind, setting: Setting, lengths: Lengths, load: LoadLevel) -> Run {
    Run { setting, lengths, load, role: Role::HeldOut(kind) }
}

const LA: Lengths = fixed("a", 64, 32);
const LB: Lengths = fixed("b", 192, 32);
const LM: Lengths = half(128, 32);
const SLOTS32: Setting =
    Setting { name: "", title: "32 slots", flags: "32 --batch 2048", changes: &[] };
const SLOTS8: Setting = Setting {
    name: "slots8",
    title: "8 slots",
    flags: "8 --batch 2048",
    changes: &["scheduler.max_seqs=8"],
};
const BATCH256: Setting = Setting {
    name: "batch256",
    title: "batches of 256",
    flags: "32 --batch 256",
    changes: &["scheduler.policy.token_budget=256"],
};

/// llama.cpp's server, on 8 threads.
pub(super) const LLAMACPP: Plan = Plan {
    server: "llamacpp",
    title: "llama.cpp's server, on the CPU",
    runs: &[
        known(SLOTS32, LA, streams(32, 192)),
        known(SLOTS32, LA, streams(1, 70)),
        held(Kind::Streams, SLOTS32, LA, streams(2, 90)),
        known(SLOTS32, LA, streams(4, 110)),
        held(Kind::Streams, SLOTS32, LA, streams(8, 130)),
        known(SLOTS32, LA, streams(16, 150)),
        held(Kind::Streams, SLOTS32, LA, streams(24, 168)),
        known(SLOTS32, LB, streams(1, 48)),
        known(SLOTS32, LB, streams(4, 60)),
        held(Kind::Streams, SLOTS32, LB, streams(8, 64)),
        known(SLOTS32, LB, streams(16, 80)),
        held(Kind::Streams, SLOTS32, LB, streams(24, 96)),
        known(SLOTS32, LB, streams(32, 96)),
        known(SLOTS32, LA, share(50, 6)),
        held(Kind::Rate, SLOTS32, LA, share(25, 7)),
        held(Kind::Rate, SLOTS32, LA, share(80, 7)),
        held(Kind::Mix, SLOTS32, LM, streams(8, 90)),
        held(Kind::Mix, SLOTS32, LM, share(40, 7)),
        held(Kind::Limit, SLOTS8, LA, streams(24, 150)),
        held(Kind::Limit, SLOTS8, LA, share(50, 6)),
        held(Kind::Limit, BATCH256, LA, streams(24, 150)),
        held(Kind::Limit, BATCH256, LB, streams(24, 84)),
    ],
    token_budget: 2048,
    max_seqs: 32,
    bench: "--backend llamacpp-oai --ignore-eos --temperature 0 --connections per-request",
    fallback_rate: 25.0,
};

const GA: Lengths = fixed("a", 256, 32);
const GB: Lengths = fixed("b", 768, 16);
const GM: Lengths = half(512, 24);
const BATCH8192: Setting = Setting {
    name: "",
    title: "batches of 8192",
    flags: "--cb-max-batch-tokens 8192",
    changes: &[],
};
const BATCH512: Setting = Setting {
    name: "batch512",
    title: "batches of 512",
    flags: "--cb-max-batch-tokens 512",
    changes: &["scheduler.policy.token_budget=512"],
};

/// `transformers serve` with continuous batching, on a GPU.
pub(super) const TRANSFORMERS: Plan = Plan {
    server: "transformers",
    title: "transformers serve, a model of 7B size on the GPU",
    runs: &[
        known(BATCH8192, GA, streams(64, 256)),
        known(BATCH8192, GA, streams(1, 6)),
        known(BATCH8192, GA, streams(4, 24)),
        held(Kind::Streams, BATCH8192, GA, streams(8, 48)),
        known(BATCH8192, GA, streams(16, 80)),
        held(Kind::Streams, BATCH8192, GA, streams(32, 160)),
        known(BATCH8192, GB, streams(1, 10)),
        known(BATCH8192, GB, streams(4, 32)),
        held(Kind::Streams, BATCH8192, GB, streams(8, 48)),
        known(BATCH8192, GB, streams(16, 80)),
        held(Kind::Streams, BATCH8192, GB, streams(32, 128)),
        known(BATCH8192, GB, streams(64, 192)),
        known(BATCH8192, GA, share(50, 8)),
        held(Kind::Rate, BATCH8192, GA, share(25, 10)),
        held(Kind::Rate, BATCH8192, GA, share(80, 10)),
        held(Kind::Mix, BATCH8192, GM, streams(16, 96)),
        held(Kind::Mix, BATCH8192, GM, share(40, 9)),
        held(Kind::Limit, BATCH512, GA, streams(64, 192)),
        held(Kind::Limit, BATCH512, GB, streams(16, 64)),
        held(Kind::Limit, BATCH512, GA, share(50, 8)),
    ],
    token_budget: 8192,
    max_seqs: 1024,
    bench: "--backend openai --temperature 0",
    fallback_rate: 20.0,
};

/// Every plan.
pub(super) const ALL: [&Plan; 2] = [&LLAMACPP, &TRANSFORMERS];

/// The list of runs as a table.
pub(super) fn markdown(plan: &Plan) -> String {
    let mut text =
        format!("| {} | setting | requests | used for |\n|---|---|---:|---|\n", plan.server);
    for run in plan.runs {
        let amount = match run.load {
            LoadLevel::Streams { requests, .. } => requests.to_string(),
            LoadLevel::Share { seconds, .. } => format!("those of {seconds} s"),
        };
        let role = match run.role {
            Role::Calibrating => "calibrating".to_owned(),
            Role::HeldOut(kind) => format!("held out: {}", kind.name()),
        };
        let load = Run { setting: Setting { name: "", ..run.setting }, ..*run }.title();
        let _ = writeln!(text, "| {load} | {} | {amount} | {role} |", run.setting.title);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn split(plan: &Plan) -> (Vec<&Run>, Vec<&Run>) {
        plan.runs.iter().partition(|run| run.role == Role::Calibrating)
    }

    #[test]
    fn no_run_that_is_predicted_is_among_those_that_calibrate() {
        for plan in ALL {
            let (known, held) = split(plan);
            let load = |run: &Run| match run.load {
                LoadLevel::Streams { streams, .. } => (0, streams),
                LoadLevel::Share { percent, .. } => (1, percent),
            };
            for one in &held {
                let is_like = |other: &&&Run| {
                    other.setting == one.setting
                        && other.lengths == one.lengths
                        && load(other) == load(one)
                };
                assert!(!known.iter().any(|other| is_like(&other)), "{}", one.title());
            }
            let names: BTreeSet<String> = plan.runs.iter().map(Run::name).collect();
            assert_eq!(names.len(), plan.runs.len(), "{}", plan.server);
        }
    }

    #[test]
    fn calibration_sees_one_setting_and_predictions_every_kind_of_change() {
        for plan in ALL {
            let (known, held) = split(plan);
            assert!(known.iter().all(|run| run.setting.changes.is_empty()));
            let kinds: BTreeSet<Kind> = held
                .iter()
                .filter_map(|run| match run.role {
                    Role::HeldOut(kind) => Some(kind),
                    Role::Calibrating => None,
                })
                .collect();
            assert_eq!(kinds, BTreeSet::from(Kind::ALL));
            for run in &held {
                let is_limit = run.role == Role::HeldOut(Kind::Limit);
                assert_eq!(is_limit, !run.setting.changes.is_empty(), "{}", run.title());
            }
            // Rates are shares of what this run managed, so it comes first.
            assert_eq!(plan.capacity(), plan.runs.first());
            assert_eq!(plan.settings()[0].name, "");
        }
    }

    #[test]
    fn the_page_of_the_plan_holds_the_lists_of_the_code() {
        let page = include_str!("../../data/evidence-plan.md");
        for plan in ALL {
            assert!(page.contains(&markdown(plan)), "cargo lab evidence plan\n{}", markdown(plan));
        }
    }

    #[test]
    fn a_run_is_told_in_words() {
        let last = LLAMACPP.runs.last().unwrap();
        assert_eq!(last.name(), "batch256-c24-b");
        assert_eq!(last.title(), "24 streams, 192/32, batches of 256");
        let mix = LLAMACPP.runs.iter().find(|run| run.name() == "rate40-mix").unwrap();
        assert_eq!(mix.title(), "Poisson at 40 %, 64–192/16–48");
    }
}
