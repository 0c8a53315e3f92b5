//! A shard that measures what shard 0 hands out, point by point.

use std::path::Path;
use std::sync::atomic::Ordering;

use tokometer_measure::Measurement;
use tokometer_record::RunReader;
use tokometer_record::folder::clear;
use tokometer_report::Style;
use tokometer_shards::{NextPoint, shard_folder};

use super::coordination::FollowingShard;
use super::order::{PointOrder, Varied};
use super::role::{Role, is_unused};
use crate::bench::{Destination, PointJob, measure_silently};
use crate::exit::{Exit, Refusal};
use crate::lower::PlannedPoint;
use crate::terminal::print_message;

/// What a shard may be asked to measure, and where it records it.
pub(crate) struct Following<'a> {
    /// The points of the command line.
    pub(crate) points: &'a [PlannedPoint],
    /// What shard 0 may change in them.
    pub(crate) varied: Varied,
    /// Folder of the measurement.
    pub(crate) destination: Destination<'a>,
    /// Of messages.
    pub(crate) style: Style,
}

impl Following<'_> {
    /// Measures until there are no more points, or no leader.
    pub(crate) fn follow(
        &self,
        measurement: &mut Measurement,
        role: &Role,
        shard: &FollowingShard,
    ) -> Exit {
        let mut exits = Vec::new();
        let mut last = None;
        loop {
            let is_stopped = || measurement.is_interrupted();
            let NextPoint { point: turn, order } =
                match shard.follower.await_next(last, &is_stopped) {
                    Ok(Some(next)) => next,
                    Ok(None) => break,
                    Err(why) => {
                        print_message(&format!("error: {why}"));
                        exits.push(Exit::Points);
                        break;
                    }
                };
            last = Some(turn);
            shard.turn_to(turn);
            match self.measure(measurement, role, shard, &order) {
                Ok(exit) => exits.push(exit),
                Err(refusal) => {
                    shard.follower.decline(turn, &refusal.message);
                    print_message(&format!("error: {refusal}"));
                    // As for a refusal before it joined.
                    let is_refused = shard.follower.is_refused();
                    exits.push(if is_refused { Exit::Usage } else { refusal.kind.into() });
                    if is_refused {
                        break;
                    }
                }
            }
        }
        if measurement.is_interrupted() { Exit::Interrupted } else { overall(&exits) }
    }

    fn measure(
        &self,
        measurement: &mut Measurement,
        role: &Role,
        shard: &FollowingShard,
        order: &str,
    ) -> Result<Exit, Refusal> {
        let order = PointOrder::read(order)?;
        let point = order.point(self.points, self.varied)?;
        shard.places.cap.store(point.plan.load.max_concurrency.unwrap_or(0), Ordering::Release);
        let folder = order.folder(self.destination.folder);
        let destination = Destination { folder: &folder, ..self.destination };
        let job = PointJob { point: &point, number: order.number, destination };
        let made = measure_silently(measurement, job, role, self.style);
        if made.is_err() {
            leave_if_unused(role, &folder);
        }
        made
    }
}

/// The exit code of all points.
fn overall(exits: &[Exit]) -> Exit {
    match exits {
        [only] => *only,
        _ if exits.iter().all(|exit| *exit == Exit::Done) => Exit::Done,
        // Shard 0 was interrupted: as for a run with one point.
        _ if exits.contains(&Exit::Interrupted) => Exit::Interrupted,
        _ => Exit::Points,
    }
}

/// Removes the record of a point that never began.
fn leave_if_unused(role: &Role, folder: &Path) {
    let Some(rank) = role.rank() else { return };
    let record = shard_folder(folder, rank);
    let Ok(reader) = RunReader::open(&record) else { return };
    if is_unused(&reader) && clear(&record).is_ok() {
        // Only empty folders can be removed this way.
        for empty in record.ancestors().take(3) {
            let _ = std::fs::remove_dir(empty);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An interrupt of shard 0 in a sweep was a failure of points in the others, without a message.
    #[test]
    fn an_interrupt_of_shard_0_is_one_in_a_sweep_too() {
        let check = |exits: &[Exit], expected| assert_eq!(overall(exits), expected, "{exits:?}");
        check(&[Exit::Interrupted], Exit::Interrupted);
        check(&[Exit::Done, Exit::Interrupted], Exit::Interrupted);
        check(&[Exit::Done, Exit::Done], Exit::Done);
        check(&[Exit::Done, Exit::Write], Exit::Points);
        check(&[], Exit::Done);
    }
}
