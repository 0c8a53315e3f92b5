//! This process's part of a measurement, from its flags and the launcher's variables to its end.

use std::sync::Arc;

use tokometer_base::Nanos;
use tokometer_base::units::parse_span;
use tokometer_campaign::shards::{
    Following, Interrupted, JoinSetting, LeaderSetting, Role, Sharded, Varied,
};
use tokometer_campaign::{Earlier, Executor, Live, PlannedRun, RunFolder, Stored, run};
use tokometer_measure::CapRule;
use tokometer_plan::{Address, Content, Plan, Shown};
use tokometer_record::Stop;
use tokometer_report::Style;
use tokometer_shards::{self as shards, Membership, ShardFlags, ShardTls, SharedSecret, TlsFiles};

use crate::args::{BenchArgs, ShardArgs};
use crate::bench::{Look, Say, Screen, followed, measurement};
use crate::exit::{Exit, Refusal};
use crate::lower::{Bar, Lowered};
use crate::session::Given;
use crate::terminal::print_note;
use crate::version;

/// How long shards may take to become ready, unless the user says otherwise.
const WAIT: Nanos = Nanos::from_secs(300);

/// Refuses shards for a command that one process makes.
pub(crate) fn refuse(args: &ShardArgs, command: &str) -> Result<(), Refusal> {
    if !args.is_given() {
        return Ok(());
    }
    Err(Refusal::usage(
        format!("cannot divide `tokometer {command}` into shards"),
        "shards are parts of a `tokometer bench` or `tokometer capacity`",
    ))
}

/// Which part of the run this process makes; `None` where it makes all of it.
pub(crate) fn membership(
    args: &BenchArgs,
    lowered: &Lowered,
    given: &Given,
) -> Result<Option<Membership>, Refusal> {
    let ShardArgs { shard, shards: count, leader, .. } = args.shards.clone();
    let flags = ShardFlags { shard, shards: count, leader };
    let variables = |name: &str| given.environment.launcher.get(name).cloned();
    let found = shards::discover(&flags, &variables).map_err(|why| Refusal::usage(why, ""))?;
    let Some(found) = found else {
        for flag in args.shards.for_several() {
            print_note(&format!("note: `{flag}` has no effect: one process makes the whole run"));
        }
        return Ok(None);
    };
    let targets = lowered.points.iter().flat_map(|point| &point.plan.targets);
    if targets.into_iter().any(|target| matches!(target.address, Address::Simulator(_))) {
        return Err(Refusal::usage(
            "cannot divide a run against the embedded simulated server: every shard would start its own",
            "start one with `tokometer sim` and pass its address with `--base-url`",
        ));
    }
    let any = |is_it: fn(&Plan) -> bool| lowered.points.iter().any(|point| is_it(&point.plan));
    let without = match () {
        () if found.leader.is_some() => None,
        () if any(|plan| plan.targets.len() > 1) => Some((
            "cannot make a shard of an A/B measurement without a leader: its blocks wait for each other",
            "add `--leader HOST:PORT` to all shards",
        )),
        () if args.shards.global_cap => Some((
            "cannot use `--global-cap` without a leader: shard 0 lends the slots",
            "add `--leader HOST:PORT` to all shards",
        )),
        () if any(|plan| plan.content == Content::Fresh) => Some((
            "cannot make a shard without a leader: the content of prompts would differ between shards",
            "add `--seed N` to all shards, or `--leader HOST:PORT`",
        )),
        () => None,
    };
    if let Some((message, hint)) = without {
        return Err(Refusal::usage(message, hint));
    }
    Ok(Some(found))
}

fn secret(args: &ShardArgs, given: &Given) -> Result<SharedSecret, Refusal> {
    let text = match &args.shard_secret_file {
        Some(path) => std::fs::read_to_string(path).map_err(|why| {
            Refusal::usage(format!("cannot read `{}`: {why}", path.display()), "")
        })?,
        None => given.environment.shard_secret.clone().ok_or_else(|| {
            Refusal::usage(
                "cannot make one run with other shards: there is no shared secret",
                "set the same TOKOMETER_SHARD_SECRET for all shards, or use `--shard-secret-file`",
            )
        })?,
    };
    SharedSecret::new(&text)
        .map_err(|why| Refusal::usage(why.to_string(), "make one with `openssl rand -hex 16`"))
}

/// TLS between the shards, where it is asked for.
fn tls(args: &ShardArgs) -> Result<Option<ShardTls>, Refusal> {
    let files = args.shard_tls_cert.clone().zip(args.shard_tls_key.clone());
    let Some(((certificate, key), authorities)) = files.zip(args.shard_tls_ca.clone()) else {
        return Ok(None);
    };
    let read = ShardTls::read(&TlsFiles { certificate, key, authorities });
    read.map(Some).map_err(|why| Refusal::usage(why.to_string(), ""))
}

fn wait(args: &ShardArgs) -> Result<Nanos, Refusal> {
    let Some(text) = &args.shard_wait else { return Ok(WAIT) };
    parse_span(text, Nanos::from_secs(1))
        .map_err(|why| Refusal::usage(format!("cannot use `--shard-wait {text}`: {why}"), ""))
}

/// Says where `--global-cap` has no effect, and where a closed loop is split unevenly: its load falls before its
/// end.
pub(crate) fn note_cap(found: &Membership, args: &ShardArgs, lowered: &Lowered) {
    if !found.share.is_first() {
        return;
    }
    let mut caps = lowered.points.iter().filter_map(|point| point.plan.load.max_concurrency);
    if args.global_cap {
        if caps.next().is_none() {
            print_note("note: `--global-cap` has no effect: there is no `--max-concurrency`");
        }
    } else if lowered.plan.output.shown != Shown::Nothing
        && let Some(note) = caps.find_map(|cap| uneven_cap(cap, found.share.count()))
    {
        print_note(&note);
    }
}

/// `None` where every shard has as many slots. Fewer slots than shards are refused elsewhere.
fn uneven_cap(cap: u32, count: u32) -> Option<String> {
    let (least, most) = (cap / count, cap.div_ceil(count));
    (least > 0 && least < most).then(|| {
        format!(
            "note: `--max-concurrency {cap}` is split unevenly: {count} shards have {least} or {most} slots, and those with {most} end first\n  add `--global-cap`, or use a multiple of {count}"
        )
    })
}

/// What a command says about the part that this process makes.
pub(crate) struct PartRequest<'a> {
    pub(crate) args: &'a BenchArgs,
    /// What shard 0 may change in the points of the command line.
    pub(crate) varied: Varied,
    pub(crate) earlier: Earlier,
    /// Of a process that makes all of the run, and of shard 0. Other shards show none.
    pub(crate) bar: Bar,
    pub(crate) given: &'a Given,
}

impl PartRequest<'_> {
    /// Opens the folder, and finds the other processes where there are any: `found` is `None` in a process
    /// that makes all of the run.
    pub(crate) fn take(
        &self,
        found: Option<&Membership>,
        lowered: &mut Lowered,
    ) -> Result<RunPart, Refusal> {
        let (given, earlier) = (self.given, self.earlier);
        let signals = given.signals.clone();
        let is_interrupted: Interrupted = Arc::new(move || signals.is_interrupted());
        let (role, mut folder) = if let Some(found) = found {
            let joined = self.joining(found, lowered, &is_interrupted)?.join(&mut Say)?;
            (Some(Arc::new(joined.0)), joined.1)
        } else {
            let (output, name) = (&lowered.plan.output, &lowered.plan.name);
            (None, RunFolder::open(output, name, given.clock.wall(), earlier)?)
        };
        if folder.is_removable() {
            given.signals.use_folder(folder.path());
        }
        let is_follower = role.as_ref().is_some_and(|role| role.is_follower());
        if is_follower {
            leave_reports(lowered);
        }
        let is_first = role.as_ref().is_none_or(|role| role.is_first());
        let bar = if is_first { self.bar } else { Bar::Hidden };
        let coordination = role.as_ref().map(|role| role.coordination());
        let mut measurement = measurement(&lowered.secrets, coordination, bar, given);
        measurement.set_points(lowered.points.len());
        measurement.replace_earlier(folder.take_earlier());
        let live = Live { measurement, clock: Arc::clone(&given.clock) };
        let mut executor: Box<dyn Executor> = match &role {
            None => Box::new(live),
            Some(role) => Box::new(Sharded { inner: live, role: Arc::clone(role), earlier }),
        };
        if earlier == Earlier::Resumed && !is_follower {
            let finished: &[Stop] = match self.varied {
                Varied::Nothing => &[Stop::Complete],
                // A point that ended because of overload is complete.
                Varied::Load => &[Stop::Complete, Stop::Overloaded],
            };
            executor = Box::new(Stored { inner: executor, finished });
        }
        Ok(RunPart { role, folder, executor, varied: self.varied, is_interrupted })
    }

    fn joining<'a>(
        &self,
        found: &Membership,
        lowered: &'a Lowered,
        is_interrupted: &Interrupted,
    ) -> Result<JoinSetting<'a>, Refusal> {
        let PartRequest { args, varied, earlier, given, .. } = *self;
        let args = &args.shards;
        let leader = match &found.leader {
            None => None,
            Some(address) => Some(LeaderSetting {
                address: address.clone(),
                secret: secret(args, given)?,
                tls: tls(args)?,
                wait: wait(args)?,
            }),
        };
        Ok(JoinSetting {
            share: found.share,
            leader,
            cap: if args.global_cap { CapRule::Shared } else { CapRule::Split },
            varied,
            earlier,
            plan: &lowered.plan,
            points: lowered.points.iter().map(|point| &point.plan).collect(),
            shows_latencies: lowered.bar == Bar::Live,
            version: version::long(),
            clock: Arc::clone(&given.clock),
            is_interrupted: Arc::clone(is_interrupted),
        })
    }
}

/// Leaves reports to shard 0, which also serves the counters of all shards: on one machine its port would be
/// taken.
fn leave_reports(lowered: &mut Lowered) {
    let points = lowered.points.iter_mut().map(|point| &mut point.plan.output);
    for output in std::iter::once(&mut lowered.plan.output).chain(points) {
        (output.shown, output.vllm_result, output.sglang_result) = (Shown::Nothing, None, None);
        output.prometheus_port = None;
    }
}

pub(crate) struct RunPart {
    /// `None` where it makes all of the run.
    role: Option<Arc<Role>>,
    pub(crate) folder: RunFolder,
    pub(crate) executor: Box<dyn Executor>,
    varied: Varied,
    is_interrupted: Interrupted,
}

impl RunPart {
    /// Measures what shard 0 hands out, until there is no more. `None` in a process that follows nobody.
    pub(crate) fn follow(&mut self, runs: &[PlannedRun]) -> Option<Result<Exit, Refusal>> {
        let (role, folder) = (self.role.as_ref()?, self.folder.path());
        let mut following = Following::new(role, runs, self.varied, folder, &self.is_interrupted)?;
        let mut screen = Screen::new(&[], Style::default(), Look::Silent);
        let found = run(&mut following, &mut *self.executor, &mut screen);
        Some(found.map(|found| followed(&found)))
    }

    /// Whether this process reports on the whole run: one that makes all of it, or the one that merges.
    pub(crate) fn is_reporting(&self) -> bool {
        self.role.as_ref().is_none_or(|role| role.is_leader())
    }

    /// Ends the part: after a success shard 0 dismisses the others. Returns the folder, without the mark that
    /// shard 0 had in it.
    pub(crate) fn close<T>(self, outcome: &Result<T, Refusal>) -> RunFolder {
        let Self { role, folder, executor, .. } = self;
        if let Some(role) = role.as_ref().filter(|_| outcome.is_ok()) {
            role.dismiss();
        }
        // Both hold the leader, whose mark is a file in the folder.
        drop((executor, role));
        folder
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_uneven_split_of_the_slots_is_named() {
        let said = uneven_cap(7, 4).unwrap();
        assert!(said.contains("1 or 2 slots") && said.contains("`--global-cap`"), "{said}");
        for (cap, count) in [(8, 4), (4, 4), (3, 4)] {
            assert_eq!(uneven_cap(cap, count), None, "{cap} slots, {count} shards");
        }
    }
}
