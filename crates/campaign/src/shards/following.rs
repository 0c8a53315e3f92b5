//! A shard that measures what shard 0 hands out, point by point.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokometer_base::refusal::{Refusal, RefusalKind};
use tokometer_record::RunReader;
use tokometer_record::folder::clear;
use tokometer_shards::{NextPoint, shard_folder};

use super::coordination::{FollowingShard, Interrupted};
use super::order::{PointOrder, Varied};
use super::sharded::{Role, is_unused, remove_empty};
use crate::driver::{Procedure, Step};
use crate::event::{Observer, problem};
use crate::outcome::{Fate, Outcome, PlannedRun};
use crate::sweep::SweepFindings;

/// The procedure of a shard whose points another process decides.
pub struct Following {
    shard: Arc<FollowingShard>,
    /// The runs of the command line, from which the points follow.
    runs: Vec<PlannedRun>,
    /// What shard 0 may change in them.
    varied: Varied,
    /// Folder of the measurement.
    folder: PathBuf,
    is_interrupted: Interrupted,
    /// The point that was handed out last.
    turn: Option<u32>,
    /// How the points came out, those among them that could not be begun.
    fates: Vec<Fate>,
    taken: usize,
}

impl Following {
    /// `None` for a process that follows nobody.
    pub fn new(
        role: &Role,
        runs: &[PlannedRun],
        varied: Varied,
        folder: &Path,
        is_interrupted: &Interrupted,
    ) -> Option<Self> {
        let Role::Follower(shard) = role else { return None };
        Some(Self {
            shard: Arc::clone(shard),
            runs: runs.to_vec(),
            varied,
            folder: folder.to_owned(),
            is_interrupted: Arc::clone(is_interrupted),
            turn: None,
            fates: Vec::new(),
            taken: 0,
        })
    }

    /// Tells shard 0 and the user that a point cannot be measured. True where shard 0 refuses this shard.
    fn decline(&mut self, refusal: &Refusal, observer: &mut dyn Observer) -> bool {
        if let Some(turn) = self.turn {
            self.shard.follower.decline(turn, &refusal.message);
        }
        problem(observer, format!("error: {refusal}"));
        // As for a refusal before it joined.
        let is_refused = self.shard.follower.is_refused();
        let kind = if is_refused { RefusalKind::Usage } else { refusal.kind };
        self.fates.push(Fate::Refused(kind));
        is_refused
    }

    fn ordered(&self, order: &str) -> Result<PlannedRun, Refusal> {
        let run = PointOrder::read(order)?.run(&self.runs, self.varied, &self.folder)?;
        let cap = run.plan.load.max_concurrency.unwrap_or(0);
        self.shard.slots.cap.store(cap, Ordering::Release);
        Ok(run)
    }

    fn finished(&mut self) -> Step<SweepFindings> {
        if (self.is_interrupted)() {
            self.fates.push(Fate::Interrupted);
        }
        Step::Finished(SweepFindings { fates: std::mem::take(&mut self.fates) })
    }

    /// Removes the record of a point that never began.
    fn leave_if_unused(&self, folder: &Path) {
        let record = shard_folder(folder, self.shard.identity.share.rank());
        let Ok(reader) = RunReader::open(&record) else { return };
        if is_unused(&reader) && clear(&record).is_ok() {
            remove_empty(&record);
        }
    }
}

impl Procedure for Following {
    type Findings = SweepFindings;

    /// Measures until there are no more points, or no leader.
    fn next(
        &mut self,
        done: &[Outcome],
        observer: &mut dyn Observer,
    ) -> Result<Step<SweepFindings>, Refusal> {
        if let Some(last) = done.get(self.taken) {
            self.taken += 1;
            match &last.reading {
                Ok(reading) => self.fates.push(reading.fate),
                Err(refusal) => {
                    self.leave_if_unused(&last.run.folder);
                    if self.decline(refusal, observer) {
                        return Ok(self.finished());
                    }
                }
            }
        }
        loop {
            let next = self.shard.follower.await_next(self.turn, &*self.is_interrupted);
            let NextPoint { point: turn, order } = match next {
                Ok(Some(next)) => next,
                Ok(None) => return Ok(self.finished()),
                Err(why) => {
                    problem(observer, format!("error: {why}"));
                    self.fates.push(Fate::Refused(RefusalKind::Points));
                    return Ok(self.finished());
                }
            };
            self.turn = Some(turn);
            self.shard.turn_to(turn);
            match self.ordered(&order) {
                Ok(run) => return Ok(Step::Run(Box::new(run))),
                Err(refusal) if self.decline(&refusal, observer) => return Ok(self.finished()),
                Err(_) => {}
            }
        }
    }
}
