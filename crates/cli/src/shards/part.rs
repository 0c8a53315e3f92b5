//! This process's part of a measurement, from its flags to its end.

use tokometer_measure::Measurement;
use tokometer_report::Style;
use tokometer_shards::Membership;

use super::following::Following;
use super::order::Varied;
use super::role::Role;
use super::setup::join;
use crate::args::BenchArgs;
use crate::bench::{Bar, Destination, Earlier, RunFolder, measurement};
use crate::commands::Given;
use crate::exit::{Exit, Refusal};
use crate::lower::{Lowered, PlannedPoint};

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
        let given = self.given;
        let (role, place) = if let Some(found) = found {
            join(found, self, lowered)?
        } else {
            let (output, name) = (&lowered.plan.output, &lowered.plan.name);
            let place = RunFolder::open(output, name, given.clock.wall(), self.earlier)?;
            (Role::Whole, place)
        };
        place.announce(&given.signals);
        let bar = if role.is_first() { self.bar } else { Bar::Hidden };
        let measurement = measurement(&lowered.secrets, role.coordination(), bar, given);
        Ok(RunPart { role, place, earlier: self.earlier, varied: self.varied, measurement })
    }
}

/// This process's part of a measurement.
pub(crate) struct RunPart {
    pub(crate) role: Role,
    pub(crate) place: RunFolder,
    pub(crate) earlier: Earlier,
    varied: Varied,
    pub(crate) measurement: Measurement,
}

impl RunPart {
    /// Measures what shard 0 hands out, until there is no more. `None` in a process that follows nobody.
    pub(crate) fn follow(&mut self, points: &[PlannedPoint], style: Style) -> Option<Exit> {
        let Self { role, place, earlier, varied, measurement } = self;
        let Role::Follower(shard) = &*role else { return None };
        let destination = Destination { folder: place.path(), earlier: *earlier };
        let following = Following { points, varied: *varied, destination, style };
        Some(following.follow(measurement, role, shard))
    }

    /// Ends the part: after a success shard 0 dismisses the others. Returns the folder, without the mark that
    /// shard 0 had in it.
    pub(crate) fn close<T>(self, outcome: &Result<T, Refusal>) -> RunFolder {
        let Self { role, place, measurement, .. } = self;
        if outcome.is_ok() {
            role.dismiss();
        }
        // Both hold the leader, whose mark is a file in the folder.
        drop((measurement, role));
        place
    }
}
