//! Which part of a run this process makes, from flags and from what started it.
//!
//! A launcher's variables make a process a shard by themselves only where they prove that several
//! processes were started together: Open MPI, PMI (MPICH, Intel MPI) and a Slurm step of several tasks.
//! Variables that other programs export as well (`RANK`, `JOB_COMPLETION_INDEX`) and array jobs, whose
//! tasks are usually separate experiments, count only with `--shards` or `--leader`. A single task in a
//! batch job, and the script of a batch job itself, are never shards. `--shards 1` ignores everything.

use std::fmt;

use tokometer_schedule::Share;

use crate::SHARDS_MAX;

pub const VARIABLES: [&str; 22] = [
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "PMIX_NAMESPACE",
    "PMI_RANK",
    "PMI_SIZE",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_STEP_NODELIST",
    "SLURM_JOB_NODELIST",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_ARRAY_TASK_ID",
    "SLURM_ARRAY_TASK_MIN",
    "SLURM_ARRAY_TASK_STEP",
    "SLURM_ARRAY_TASK_COUNT",
    "JOB_COMPLETION_INDEX",
    "RANK",
    "WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
];

/// What the command line says of shards.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShardFlags {
    /// `--shard K/N`, as typed.
    pub shard: Option<String>,
    /// `--shards N`.
    pub shards: Option<u32>,
    /// `--leader HOST:PORT`.
    pub leader: Option<String>,
}

/// A process among those that make a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    pub share: Share,
    /// Where part 0 listens. `None` where nobody leads: the shards are merged by hand.
    pub leader: Option<String>,
    /// What said so, for messages.
    pub source: RankSource,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RankSource {
    Flag,
    /// Open MPI's `mpirun`.
    OpenMpi,
    /// A launcher with the process management interface: MPICH, Intel MPI.
    Pmi,
    /// Slurm's `srun`.
    SlurmStep,
    /// An array job of Slurm.
    SlurmArray,
    /// An indexed job of Kubernetes.
    Kubernetes,
    /// `torchrun` and its like.
    Torch,
}

impl fmt::Display for RankSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flag => "--shard",
            Self::OpenMpi => "OMPI_COMM_WORLD_RANK",
            Self::Pmi => "PMI_RANK",
            Self::SlurmStep => "SLURM_PROCID",
            Self::SlurmArray => "SLURM_ARRAY_TASK_ID",
            Self::Kubernetes => "JOB_COMPLETION_INDEX",
            Self::Torch => "RANK",
        })
    }
}

/// What a launcher's variables say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Launched {
    source: RankSource,
    rank: u32,
    /// `None` where the launcher does not say.
    count: Option<u32>,
}

/// Which variables count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VariableTrust {
    /// Those that prove that several processes were started together.
    Proof,
    /// Any: shards were asked for.
    All,
}

/// The variables of a process.
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Which part this process makes; `None` where it makes all of the run. An error says what to do.
pub fn discover(
    flags: &ShardFlags,
    variables: Variables<'_>,
) -> Result<Option<Membership>, String> {
    if let Some(typed) = &flags.shard {
        let share = parse(typed).ok_or_else(|| {
            format!(
                "cannot use `--shard {typed}`: it must be K/N with K from 0 to N-1, such as 2/4"
            )
        })?;
        check_count(share.count())?;
        let leader = flags.leader.clone();
        return Ok((!share.is_whole()).then_some(Membership {
            share,
            leader,
            source: RankSource::Flag,
        }));
    }
    if flags.shards.is_some_and(|count| count <= 1) {
        return Ok(None);
    }
    let is_asked = flags.shards.is_some() || flags.leader.is_some();
    let trust = if is_asked { VariableTrust::All } else { VariableTrust::Proof };
    let found = launched(variables, trust);
    let Some(found) = found else {
        return match (flags.shards, &flags.leader) {
            (Some(count), _) => Err(no_rank(count, variables)),
            (None, Some(_)) => Err(NO_COUNT.to_owned()),
            (None, None) => Ok(None),
        };
    };
    let count = match (flags.shards, found.count) {
        (Some(flag), Some(launcher)) if flag != launcher => {
            return Err(format!(
                "cannot use `--shards {flag}`: {} says that there are {launcher}",
                found.source
            ));
        }
        (flag, launcher) => flag.or(launcher).ok_or(NO_COUNT)?,
    };
    check_count(count)?;
    if count <= 1 {
        return Ok(None);
    }
    let Launched { source, rank, .. } = found;
    let share = Share::new(rank, count).ok_or_else(|| {
        format!(
            "cannot be shard {rank} of {count} ({source}): ranks begin at 0\n  use `--shard K/N`, as for array jobs with a list of ids"
        )
    })?;
    let leader = flags.leader.clone().or_else(|| leader_of(source, count, variables));
    let leader = leader.ok_or_else(|| {
        format!(
            "cannot find shard 0: {source} does not say on which machine it runs\n  add `--leader HOST:PORT` with the address of shard 0"
        )
    })?;
    Ok(Some(Membership { share, leader: Some(leader), source }))
}

const NO_COUNT: &str =
    "cannot use `--leader`: the number of shards is unknown\n  add `--shard K/N` or `--shards N`";

fn check_count(count: u32) -> Result<(), String> {
    if count > SHARDS_MAX {
        return Err(format!(
            "cannot divide a run into {count} shards: there can be at most {SHARDS_MAX}"
        ));
    }
    Ok(())
}

const RANKS: [&str; 6] = [
    "OMPI_COMM_WORLD_RANK",
    "PMI_RANK",
    "SLURM_PROCID",
    "SLURM_ARRAY_TASK_ID",
    "JOB_COMPLETION_INDEX",
    "RANK",
];

/// Why no launcher says which part this is.
fn no_rank(count: u32, variables: Variables<'_>) -> String {
    let unusable = RANKS.into_iter().find_map(|name| {
        let value = variables(name).filter(|_| number(variables, name).is_none())?;
        Some(format!(
            "`{name}={value}` is not a rank (0 or more)\n  correct the variable, or use `--shard K/N`"
        ))
    });
    let why = unusable.unwrap_or_else(|| {
        "no launcher has set its variables\n  use `--shard K/N`, or start it with `srun`, `mpirun`, an indexed Job or `torchrun`".to_owned()
    });
    format!("cannot tell which of {count} shards this process is: {why}")
}

/// `2/4`.
fn parse(typed: &str) -> Option<Share> {
    let (rank, count) = typed.split_once('/')?;
    Share::new(rank.trim().parse().ok()?, count.trim().parse().ok()?)
}

fn number(variables: Variables<'_>, name: &str) -> Option<u32> {
    variables(name)?.trim().parse().ok()
}

/// The first launcher that has set its variables, the innermost first: `mpirun` inside a batch job sets
/// its own beside those of Slurm.
fn launched(variables: Variables<'_>, trust: VariableTrust) -> Option<Launched> {
    let number = |name: &str| number(variables, name);
    let several = |source, rank: Option<u32>, count: Option<u32>| {
        let is_proved = count.is_some_and(|count| count > 1);
        rank.filter(|_| is_proved).map(|rank| Launched { source, rank, count })
    };
    let open_mpi = || {
        several(RankSource::OpenMpi, number("OMPI_COMM_WORLD_RANK"), number("OMPI_COMM_WORLD_SIZE"))
    };
    let pmi = || several(RankSource::Pmi, number("PMI_RANK"), number("PMI_SIZE"));
    // In the script of a batch job SLURM_NTASKS is that of the job, and there is one process.
    let step = || {
        let tasks = number("SLURM_STEP_NUM_TASKS");
        let tasks =
            tasks.or_else(|| number("SLURM_NTASKS").filter(|_| trust == VariableTrust::All));
        several(RankSource::SlurmStep, number("SLURM_PROCID"), tasks)
    };
    let proved = open_mpi().or_else(pmi).or_else(step);
    if proved.is_some() || trust == VariableTrust::Proof {
        return proved;
    }
    let array = || {
        let least = number("SLURM_ARRAY_TASK_MIN").unwrap_or(0);
        let by = number("SLURM_ARRAY_TASK_STEP").unwrap_or(1).max(1);
        let rank = number("SLURM_ARRAY_TASK_ID")?.checked_sub(least)? / by;
        let count = number("SLURM_ARRAY_TASK_COUNT");
        Some(Launched { source: RankSource::SlurmArray, rank, count })
    };
    let kubernetes = || {
        let rank = number("JOB_COMPLETION_INDEX")?;
        Some(Launched { source: RankSource::Kubernetes, rank, count: None })
    };
    let torch = || {
        let rank = number("RANK")?;
        Some(Launched { source: RankSource::Torch, rank, count: number("WORLD_SIZE") })
    };
    array().or_else(kubernetes).or_else(torch)
}

/// Ports that are derived from a job's name lie above this one.
const FIRST_PORT: u32 = 20_000;
const PORTS: u32 = 10_000;

/// Where shard 0 listens, where the launcher's variables say it.
fn leader_of(source: RankSource, count: u32, variables: Variables<'_>) -> Option<String> {
    match source {
        RankSource::SlurmStep => {
            let nodes =
                variables("SLURM_STEP_NODELIST").or_else(|| variables("SLURM_JOB_NODELIST"))?;
            let job = variables("SLURM_JOB_ID").unwrap_or_default();
            let step = variables("SLURM_STEP_ID").unwrap_or_default();
            Some(format!("{}:{}", first_node(&nodes)?, port_of(&format!("{job}.{step}"))))
        }
        RankSource::OpenMpi if number(variables, "OMPI_COMM_WORLD_LOCAL_SIZE") == Some(count) => {
            let job = variables("PMIX_NAMESPACE").unwrap_or_default();
            Some(format!("127.0.0.1:{}", port_of(&job)))
        }
        RankSource::Torch => {
            // The port itself belongs to the launcher's own store.
            let port: u16 = variables("MASTER_PORT")?.trim().parse().ok()?;
            Some(format!("{}:{}", variables("MASTER_ADDR")?, port.checked_add(1)?))
        }
        _ => None,
    }
}

/// A port that all processes of a job agree on without talking to each other.
fn port_of(job: &str) -> u32 {
    let hash = job
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    FIRST_PORT + hash % PORTS
}

/// The first machine of Slurm's list, such as `gpu03` of `gpu[03-07,12],login1`.
fn first_node(list: &str) -> Option<String> {
    let bracket = list.find('[');
    let comma = list.find(',').unwrap_or(list.len());
    let Some(open) = bracket.filter(|open| *open < comma) else {
        return Some(list[..comma].trim().to_owned()).filter(|name| !name.is_empty());
    };
    let close = open + list[open..].find(']')?;
    let first = list[open + 1..close].split([',', '-']).next()?;
    let rest = list[close + 1..].split(',').next().unwrap_or_default();
    Some(format!("{}{first}{rest}", &list[..open]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rank, count, source and leader.
    type Found = (u32, u32, RankSource, Option<String>);

    fn found(flags: &ShardFlags, set: &[(&str, &str)]) -> Result<Option<Found>, String> {
        let variables = |name: &str| {
            assert!(VARIABLES.contains(&name), "{name} is not in the list of variables");
            set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let found = discover(flags, &variables)?;
        Ok(found.map(|found| (found.share.rank(), found.share.count(), found.source, found.leader)))
    }

    fn shards(count: u32) -> ShardFlags {
        ShardFlags { shards: Some(count), ..ShardFlags::default() }
    }

    fn led() -> ShardFlags {
        ShardFlags { leader: Some("a:1".to_owned()), ..ShardFlags::default() }
    }

    const STEP: [(&str, &str); 6] = [
        ("SLURM_PROCID", "2"),
        ("SLURM_NTASKS", "4"),
        ("SLURM_STEP_NUM_TASKS", "4"),
        ("SLURM_STEP_NODELIST", "gpu[03-07,12],login1"),
        ("SLURM_JOB_ID", "77"),
        ("SLURM_STEP_ID", "0"),
    ];

    #[test]
    fn a_flag_names_the_shard_and_its_leader() {
        let flags = ShardFlags { shard: Some("1/3".to_owned()), ..led() };
        let leader = Some("a:1".to_owned());
        assert_eq!(found(&flags, &STEP).unwrap(), Some((1, 3, RankSource::Flag, leader)));
        for wrong in ["3/3", "1", "a/b", "-1/2", "1/0"] {
            let flags = ShardFlags { shard: Some(wrong.to_owned()), ..ShardFlags::default() };
            assert!(found(&flags, &[]).unwrap_err().contains(wrong), "{wrong}");
        }
        let alone = ShardFlags { shard: Some("0/1".to_owned()), ..ShardFlags::default() };
        assert_eq!(found(&alone, &[]).unwrap(), None);
    }

    /// `--shard 0/100000` printed a line for each of the missing shards, twice.
    #[test]
    fn more_shards_than_a_run_can_have_are_refused() {
        let flag = |typed: &str| ShardFlags { shard: Some(typed.to_owned()), ..led() };
        assert!(found(&flag("0/100000"), &[]).unwrap_err().contains("at most 10000"));
        assert!(found(&flag("0/1000"), &[]).is_ok());
        let set = [("RANK", "1"), ("MASTER_ADDR", "a"), ("MASTER_PORT", "1")];
        assert!(found(&shards(20_000), &set).unwrap_err().contains("at most 10000"));
    }

    /// The message was that no launcher had set its variables.
    #[test]
    fn a_variable_that_is_no_rank_is_named() {
        for value in ["x", "-1"] {
            let why = found(&shards(4), &[("RANK", value)]).unwrap_err();
            assert!(why.contains(&format!("`RANK={value}` is not a rank")), "{why}");
        }
        // A list of ids: 1, 5 and 9.
        let set = [
            ("SLURM_ARRAY_TASK_ID", "9"),
            ("SLURM_ARRAY_TASK_MIN", "1"),
            ("SLURM_ARRAY_TASK_COUNT", "3"),
        ];
        let why = found(&led(), &set).unwrap_err();
        assert!(why.contains("shard 8 of 3") && why.contains("use `--shard K/N`"), "{why}");
    }

    #[test]
    fn tasks_of_a_slurm_step_find_each_other() {
        let port = port_of("77.0");
        let leader = Some(format!("gpu03:{port}"));
        let step = found(&ShardFlags::default(), &STEP).unwrap();
        assert_eq!(step, Some((2, 4, RankSource::SlurmStep, leader)));
        assert_eq!(found(&shards(1), &STEP).unwrap(), None, "`--shards 1` ignores the launcher");
        let why = found(&shards(8), &STEP).unwrap_err();
        assert!(why.contains("--shards 8") && why.contains("SLURM_PROCID says that there are 4"));
    }

    /// A measurement in a batch script is not one of as many shards as the job has tasks.
    #[test]
    fn a_single_process_of_a_batch_job_is_no_shard() {
        let batch = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4"), ("SLURM_JOB_ID", "77")];
        assert_eq!(found(&ShardFlags::default(), &batch).unwrap(), None);
        let single = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "1"), ("SLURM_STEP_NUM_TASKS", "1")];
        assert_eq!(found(&ShardFlags::default(), &single).unwrap(), None);
        let array = [("SLURM_ARRAY_TASK_ID", "3"), ("SLURM_ARRAY_TASK_COUNT", "8")];
        assert_eq!(found(&ShardFlags::default(), &array).unwrap(), None);
        let training = [("RANK", "1"), ("WORLD_SIZE", "8"), ("JOB_COMPLETION_INDEX", "1")];
        assert_eq!(found(&ShardFlags::default(), &training).unwrap(), None);
    }

    #[test]
    fn mpi_launchers_state_rank_and_size() {
        let local = [
            ("OMPI_COMM_WORLD_RANK", "1"),
            ("OMPI_COMM_WORLD_SIZE", "3"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "3"),
            ("PMIX_NAMESPACE", "prterun-a-5@1"),
            ("SLURM_PROCID", "0"),
            ("SLURM_STEP_NUM_TASKS", "2"),
        ];
        let leader = Some(format!("127.0.0.1:{}", port_of("prterun-a-5@1")));
        let found_local = found(&ShardFlags::default(), &local).unwrap();
        assert_eq!(found_local, Some((1, 3, RankSource::OpenMpi, leader)), "mpirun inside srun");
        let apart = [("PMI_RANK", "1"), ("PMI_SIZE", "3")];
        let why = found(&ShardFlags::default(), &apart).unwrap_err();
        assert!(why.contains("`--leader HOST:PORT`"), "{why}");
        let of_flag = found(&led(), &apart).unwrap();
        assert_eq!(of_flag, Some((1, 3, RankSource::Pmi, Some("a:1".to_owned()))));
        let single = [("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "1")];
        assert_eq!(found(&ShardFlags::default(), &single).unwrap(), None);
    }

    #[test]
    fn ambiguous_launchers_count_when_shards_are_asked_for() {
        let array = [
            ("SLURM_ARRAY_TASK_ID", "7"),
            ("SLURM_ARRAY_TASK_MIN", "1"),
            ("SLURM_ARRAY_TASK_STEP", "2"),
            ("SLURM_ARRAY_TASK_COUNT", "4"),
        ];
        let leader = || Some("a:1".to_owned());
        assert_eq!(found(&led(), &array).unwrap(), Some((3, 4, RankSource::SlurmArray, leader())));
        let pod = [("JOB_COMPLETION_INDEX", "3")];
        let four = ShardFlags { shards: Some(4), ..led() };
        assert_eq!(found(&four, &pod).unwrap(), Some((3, 4, RankSource::Kubernetes, leader())));
        assert!(found(&led(), &pod).unwrap_err().contains("number of shards is unknown"));
        let three = ShardFlags { shards: Some(3), ..led() };
        assert!(found(&three, &pod).unwrap_err().contains("shard 3 of 3"));
        let torch = [
            ("RANK", "1"),
            ("WORLD_SIZE", "2"),
            ("MASTER_ADDR", "node0"),
            ("MASTER_PORT", "29500"),
        ];
        let own = Some("node0:29501".to_owned());
        assert_eq!(found(&shards(2), &torch).unwrap(), Some((1, 2, RankSource::Torch, own)));
        assert!(found(&shards(2), &[]).unwrap_err().contains("which of 2 shards"));
        assert!(found(&led(), &[]).unwrap_err().contains("number of shards is unknown"));
    }

    #[test]
    fn the_first_node_of_a_list_is_written_out() {
        let check = |list, expected: Option<&str>| {
            assert_eq!(first_node(list).as_deref(), expected, "{list}");
        };
        check("localhost", Some("localhost"));
        check("a1,b[2-3]", Some("a1"));
        check("gpu[03-07,12]", Some("gpu03"));
        check("rack[1-2]-n,x", Some("rack1-n"));
        check("gpu[03", None);
        check("", None);
    }
}
