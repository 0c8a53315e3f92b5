//! The disturbances and their levels.

use super::path::Route;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    Open,
    Closed,
    Burst,
}

impl Load {
    /// Flags of `bench` and `predict`. 400 requests are enough for the interval of a P99.
    pub(super) fn flags(self) -> String {
        let own = match self {
            Self::Open => "--request-rate 100 --random-output-len 12",
            Self::Closed => "--max-concurrency 16 --random-output-len 12",
            Self::Burst => "--random-output-len 24",
        };
        format!("{own} --num-prompts 400 --random-input-len 32 --metric-percentiles 50,90,99")
    }
}

/// What disturbs a run. Times are in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Disturbance {
    /// Nothing, with a client that no other program may interrupt: shows what the simulator's own front
    /// adds to virtual time.
    Calibration,
    None,
    /// The client is stopped once, for this time.
    Stop(u64),
    /// The client is stopped again and again: for the first time, every second time.
    Stutter(u64, u64),
    /// This many busy programs on the client's core.
    Busy(u32),
    /// A control group with this share of a core, in percent.
    Quota(u32),
    /// Timers of the client fire up to this much later, in microseconds.
    TimerSlack(u64),
    /// A proxy that passes events on only every so often.
    Join(u64),
    /// A path that stands still once.
    PathStall(u64),
    /// Lost packets in percent, and delay of each packet.
    Packets {
        loss: f64,
        delay: u64,
    },
    /// The client's wall clock is set forward by this, and back.
    ClockStep(u64),
    /// A second client with this many requests per second.
    SecondClient(u32),
}

impl Disturbance {
    /// Its kind and its level, as the tables show them: `Stop` and `(300)`.
    pub(super) fn words(self) -> (String, String) {
        let shown = format!("{self:?}");
        let end = shown.find(|letter: char| !letter.is_alphanumeric()).unwrap_or(shown.len());
        (shown[..end].to_owned(), shown[end..].trim().to_owned())
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Case {
    pub(super) disturbance: Disturbance,
    pub(super) load: Load,
    pub(super) route: Route,
    pub(super) seed: u64,
}

impl Case {
    pub(super) fn name(&self) -> String {
        let Self { disturbance, load, route, seed } = self;
        format!("{disturbance:?}-{load:?}-{route:?}-{seed}").replace(['{', '}', ' ', ','], "")
    }
}

/// Cases of the study; without `all`, one of each kind.
pub(super) fn all(is_all: bool) -> Vec<Case> {
    use Disturbance::{
        Busy, Calibration, Join, None, Packets, PathStall, Quota, SecondClient, Stop, Stutter,
        TimerSlack,
    };
    let mut cases = Vec::new();
    let mut seed = 100;
    let mut add = |disturbance, route, loads: &[Load], repeats: u64| {
        for load in loads {
            for _ in 0..repeats {
                seed += 1;
                cases.push(Case { disturbance, load: *load, route, seed });
            }
        }
    };
    let both = [Load::Open, Load::Closed];
    let every = [Load::Open, Load::Closed, Load::Burst];
    let open = [Load::Open];
    if !is_all {
        for route in [Route::Remote, Route::Relayed, Route::Tunnel] {
            add(Calibration, route, &open, 2);
        }
        add(None, Route::Remote, &open, 1);
        add(Stop(300), Route::Remote, &open, 1);
        add(Quota(20), Route::Remote, &open, 1);
        add(Join(50), Route::Relayed, &open, 1);
        add(Packets { loss: 2.0, delay: 0 }, Route::Tunnel, &open, 1);
        add(SecondClient(50), Route::Remote, &open, 1);
        return cases;
    }
    add(Calibration, Route::Remote, &every, 3);
    add(Calibration, Route::Relayed, &open, 3);
    add(Calibration, Route::Tunnel, &open, 3);
    add(None, Route::Remote, &every, 4);
    add(None, Route::SameHost, &both, 4);
    for millis in [10, 30, 100, 300, 1_000, 3_000] {
        add(Stop(millis), Route::Remote, &both, 2);
    }
    for millis in [100, 1_000] {
        add(Stop(millis), Route::Remote, &[Load::Burst], 1);
        add(Stop(millis), Route::SameHost, &open, 1);
    }
    for (stopped, every) in [(2, 100), (5, 100), (20, 200), (50, 200)] {
        add(Stutter(stopped, every), Route::Remote, &both, 2);
    }
    for programs in [1, 4] {
        add(Busy(programs), Route::Remote, &both, 2);
        add(Busy(programs), Route::SameHost, &open, 2);
    }
    for percent in [5, 10, 20, 40, 80] {
        add(Quota(percent), Route::Remote, &both, 2);
    }
    for micros in [500, 5_000, 50_000] {
        add(TimerSlack(micros), Route::Remote, &open, 2);
    }
    for millis in [2, 10, 50, 150] {
        add(Join(millis), Route::Relayed, &open, 2);
    }
    for millis in [20, 100, 500] {
        add(PathStall(millis), Route::Relayed, &open, 2);
    }
    for (loss, delay) in [(0.1, 0), (0.5, 0), (1.0, 0), (2.0, 0), (5.0, 0)] {
        add(Packets { loss, delay }, Route::Tunnel, &open, 2);
    }
    for rate in [1, 10, 40, 100] {
        add(SecondClient(rate), Route::Remote, &open, 2);
    }
    // A study that is cut short has seen some of every kind.
    cases.sort_by_key(|case: &Case| (case.disturbance != Calibration, case.seed * 7_919 % 149));
    cases
}

pub(super) fn clock_steps() -> Vec<Case> {
    let case = |(seed, millis): (u64, u64)| Case {
        disturbance: Disturbance::ClockStep(millis),
        load: Load::Open,
        route: Route::Remote,
        seed,
    };
    let steps = [(901, 1), (902, 10), (903, 100), (904, 500), (905, 3_000), (906, 30_000)];
    steps.map(case).into()
}
