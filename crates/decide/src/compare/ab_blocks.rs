//! A/B blocks of two targets: which target a request goes to, which blocks form a pair, and the
//! summary of each side.
//!
//! Two neighbouring pairs have opposite orders, so that a steady drift of the machine adds the same to
//! both sides of them. Which of both orders comes first is drawn for every two pairs, so that a load
//! that comes and goes in step with the blocks does not affect one side alone. Both blocks of a pair
//! request the same lengths at the same offsets. A block starts when the previous one has drained:
//! requests of both sides never share the machine, every block has the same ramp and tail, and no data
//! are discarded.

use std::collections::BTreeMap;

use tokometer_base::{Nanos, Refusal, Seed};
use tokometer_figures::figure::{Figure, Statistic};
use tokometer_figures::statistics;
use tokometer_figures::{Collector, Summary, SummaryOptions};
use tokometer_record::stored::{self, unreadable};
use tokometer_record::{Outcome, Phase, RunEnd, RunInfo, RunReader, RunState, Timeline};

use super::requests::{self, ComparedRequest};

/// Blocks of requests that go to two targets in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbBlocks {
    /// Requests per block.
    pub block: u64,
    pub order: BlockOrder,
    pub between: BlockChange,
}

/// Which side of a pair comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockOrder {
    /// A B B A, again and again: records of earlier versions.
    Abba,
    /// A B B A or B A A B, drawn for every two pairs.
    Drawn(Seed),
}

/// What happens between blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockChange {
    /// Two servers keep running.
    Nothing,
    /// One server is restarted or reconfigured before each change of side and before every two pairs,
    /// so that no two of them share a server process.
    Restart,
}

/// Pairs whose orders are opposite.
const COUPLE: u64 = 2;

/// Pairs, or groups of pairs, that are needed to estimate the scatter of a percentile.
const FEWEST_GROUPS: usize = 5;

impl AbBlocks {
    pub fn target(self, index: u64) -> u16 {
        let first = self.first(self.pair(index) / COUPLE);
        match (index / self.block) % (2 * COUPLE) {
            0 | 3 => first,
            _ => 1 - first,
        }
    }

    /// The side with which every two pairs begin and end.
    fn first(self, couple: u64) -> u16 {
        match self.order {
            BlockOrder::Abba => 0,
            BlockOrder::Drawn(seed) => u16::from(seed.stream("block order").draw(couple) % 2 == 1),
        }
    }

    /// Whether every two pairs begin with request `index`.
    pub fn begins_couple(self, index: u64) -> bool {
        self.is_first(index) && (index / self.block).is_multiple_of(2 * COUPLE)
    }

    pub fn pair(self, index: u64) -> u64 {
        index / self.block / 2
    }

    /// Index of the prompt among those of its side: the same for both blocks of a pair.
    pub fn prompt(self, index: u64) -> u64 {
        self.pair(index) * self.block + index % self.block
    }

    /// Whether a block begins with request `index`.
    pub fn is_first(self, index: u64) -> bool {
        index.is_multiple_of(self.block)
    }

    /// Requests in complete pairs among `count`.
    pub fn whole_pairs(self, count: u64) -> u64 {
        // A block of a plan file may be as large as a number can be.
        let pair = self.block.saturating_mul(2);
        count / pair * pair
    }

    /// Values of both sides per pair. A pair with a missing request is skipped. A percentile that a
    /// single block is too small for is computed over several neighbouring pairs.
    pub fn pairs(self, requests: &[ComparedRequest], figures: &[Figure]) -> Pairs {
        let mut pairs: BTreeMap<u64, [Vec<&ComparedRequest>; 2]> = BTreeMap::new();
        for request in requests {
            let sides = pairs.entry(self.pair(request.index)).or_default();
            sides[usize::from(self.target(request.index))].push(request);
        }
        let block = usize::try_from(self.block).unwrap_or(usize::MAX);
        let whole: Vec<[Vec<&ComparedRequest>; 2]> = pairs
            .into_values()
            .filter(|sides| sides.iter().all(|side| side.len() == block))
            .collect();
        // Two pairs with a restart between their blocks share no process with the next two.
        let least = match self.between {
            BlockChange::Nothing => 1,
            BlockChange::Restart => 2,
        };
        let sizes = PairSizes { block_requests: block, joined_min: least };
        let values =
            figures.iter().filter_map(|figure| Some((*figure, paired(*figure, &whole, sizes)?)));
        let values = values.collect();
        Pairs { values, count: whole.len(), restarted: self.restarted(whole.len() as u64) }
    }

    /// Server starts of A and of B in so many pairs. The side in the middle of two pairs starts once,
    /// the other one twice.
    fn restarted(self, pairs: u64) -> Option<(usize, usize)> {
        if self.between == BlockChange::Nothing {
            return None;
        }
        let starts = (0..pairs / COUPLE).fold((0, 0), |(a, b), couple| {
            if self.first(couple) == 0 { (a + 2, b + 1) } else { (a + 1, b + 2) }
        });
        Some(starts)
    }
}

/// Values of both sides per pair.
#[derive(Debug, Clone, PartialEq)]
pub struct Pairs {
    pub values: BTreeMap<Figure, PairedValues>,
    /// Number of complete pairs.
    pub count: usize,
    /// Server starts of A and of B, where the server was restarted between blocks; `None` where each
    /// side is one process.
    pub restarted: Option<(usize, usize)>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PairedValues {
    /// One (A, B) per pair or group of pairs.
    pub values: Vec<(f64, f64)>,
    pub pairs_each: usize,
}

/// What decides how many neighbouring pairs become one value.
#[derive(Debug, Clone, Copy)]
struct PairSizes {
    /// Requests of one side in a pair.
    block_requests: usize,
    /// Fewest pairs that share nothing with the next ones.
    joined_min: usize,
}

/// `None` for a percentile of which there are too few groups.
fn paired(
    figure: Figure,
    pairs: &[[Vec<&ComparedRequest>; 2]],
    sizes: PairSizes,
) -> Option<PairedValues> {
    let is_throughput = figure.statistic == Statistic::Whole;
    let needed = if is_throughput {
        1
    } else {
        requests::needed(figure.statistic).div_ceil(sizes.block_requests)
    };
    let joined = needed.next_multiple_of(sizes.joined_min);
    let groups: Vec<&[[Vec<&ComparedRequest>; 2]]> = pairs.chunks_exact(joined).collect();
    if needed > 1 && groups.len() < FEWEST_GROUPS {
        return None;
    }
    let side = |group: &[[Vec<&ComparedRequest>; 2]], at: usize| {
        if is_throughput {
            // Blocks of one side are apart in time: each has its own.
            let each = group.iter().map(|pair| requests::value(figure, &pair[at]));
            return statistics::mean(&each.collect::<Option<Vec<f64>>>()?);
        }
        let all: Vec<&ComparedRequest> =
            group.iter().flat_map(|pair| pair[at].iter().copied()).collect();
        requests::value(figure, &all)
    };
    let values = groups.into_iter().map(|group| side(group, 0).zip(side(group, 1)));
    Some(PairedValues { values: values.collect::<Option<_>>()?, pairs_each: joined })
}

/// One side of a run in A/B blocks, with its blocks moved together; or a run of one target.
#[derive(Debug)]
pub struct Half {
    /// With this side's target only.
    pub info: RunInfo,
    /// Of this side's requests only.
    pub summary: Summary,
}

impl Half {
    /// The sides of a recorded run: both where `blocks` says how two targets took turns, else one.
    pub fn all(
        reader: &RunReader,
        blocks: Option<AbBlocks>,
        options: &SummaryOptions,
    ) -> Result<Vec<Self>, Refusal> {
        Ok(match blocks {
            Some(ab) => Self::both(reader, ab, options)?.into(),
            None => vec![Self::whole(reader, options)?],
        })
    }

    /// A run of one target: requests, scrapes and how it ended.
    pub fn whole(reader: &RunReader, options: &SummaryOptions) -> Result<Self, Refusal> {
        let mut collector = Collector::new(reader.info(), options.clone());
        let timelines = stored::timelines(reader)?;
        // Before the rows take memory: for a killed run it lists all attempts.
        let state = reader.state().map_err(unreadable)?;
        timelines.for_each(|timeline| collector.push(&timeline));
        for scrape in reader.scrapes().map_err(unreadable)? {
            collector.push_scrape(&scrape);
        }
        let summary = tokometer_judge::judge(collector.finish(&state));
        Ok(Self { info: reader.info().clone(), summary })
    }

    /// Both sides of a run in A/B blocks, each with its own target alone.
    pub fn both(
        reader: &RunReader,
        ab: AbBlocks,
        options: &SummaryOptions,
    ) -> Result<[Self; 2], Refusal> {
        let timelines = || reader.timelines().map_err(unreadable);
        let spans = Spans::of(ab, timelines()?);
        let state = reader.state().map_err(unreadable)?;
        let run = RecordedRun { info: reader.info(), state: &state, options };
        Ok([spans.half(run, 0, timelines()?), spans.half(run, 1, timelines()?)])
    }
}

/// Start and end of each block.
#[derive(Debug)]
struct Spans {
    ab: AbBlocks,
    blocks: BTreeMap<u64, (Nanos, Nanos)>,
}

/// A run from its record, without its timelines.
#[derive(Debug, Clone, Copy)]
struct RecordedRun<'a> {
    /// Names both targets.
    info: &'a RunInfo,
    /// Of the whole run.
    state: &'a RunState,
    options: &'a SummaryOptions,
}

impl Spans {
    /// From timelines in any order.
    fn of(ab: AbBlocks, timelines: impl Iterator<Item = Timeline>) -> Self {
        let mut blocks: BTreeMap<u64, (Nanos, Nanos)> = BTreeMap::new();
        let measured = |timeline: &Timeline| timeline.identity.phase == Phase::Measure;
        for timeline in timelines.filter(measured) {
            let times = &timeline.times;
            let begin = times.intended.unwrap_or(times.admitted).min(times.admitted);
            let end = times.end.unwrap_or(times.admitted);
            let block = timeline.identity.index / ab.block;
            let span = blocks.entry(block).or_insert((begin, end));
            *span = (span.0.min(begin), span.1.max(end));
        }
        Self { ab, blocks }
    }

    /// How far each block of a side has to move to follow the previous one at once, and the end of
    /// the last.
    fn moves(&self, target: u16, begin: Nanos) -> (BTreeMap<u64, Nanos>, Nanos) {
        let mut end = begin;
        let mut moves = BTreeMap::new();
        let is_own = |block: &u64| self.ab.target(block * self.ab.block) == target;
        for (block, span) in self.blocks.iter().filter(|(block, _)| is_own(block)) {
            moves.insert(*block, span.0 - end);
            end += span.1 - span.0;
        }
        (moves, end)
    }

    fn half(
        &self,
        run: RecordedRun<'_>,
        target: u16,
        timelines: impl Iterator<Item = Timeline>,
    ) -> Half {
        let mut info = run.info.clone();
        info.targets = info.targets.get(usize::from(target)).cloned().into_iter().collect();
        info.load.planned_requests = info.load.planned_requests.map(|count| count / 2);
        let mut state = run.state.clone();
        let first = self.blocks.values().map(|span| span.0).min().unwrap_or(info.origin);
        let (moves, end_of_last) = self.moves(target, first);
        let mut sides = SideCounts::default();
        let mut collector = Collector::new(&info, run.options.clone());
        for mut timeline in timelines {
            sides.count(&timeline);
            if timeline.identity.target != target {
                continue;
            }
            timeline.identity.target = 0;
            if timeline.identity.phase == Phase::Measure {
                let block = timeline.identity.index / self.ab.block;
                let earlier_by = moves.get(&block).map_or(0, |by| by.0);
                timeline.shift(-i64::try_from(earlier_by).unwrap_or(i64::MAX));
            }
            collector.push(&timeline);
        }
        match &mut state {
            RunState::Ended(end) => {
                (end.measure_begin, end.measure_end) = (first, end_of_last);
                sides.divide(end, target, info.load.planned_requests);
            }
            RunState::Killed { in_flight, retrying } => {
                (*in_flight, *retrying) = (part(*in_flight, target), part(*retrying, target));
            }
        }
        Half { summary: tokometer_judge::judge(collector.finish(&state)), info }
    }
}

/// One side's part of a count that the record does not give for each side. Both parts add up to it.
fn part(count: u64, target: u16) -> u64 {
    if target == 0 { count.div_ceil(2) } else { count / 2 }
}

/// Measured requests of both sides.
#[derive(Debug, Default)]
struct SideCounts {
    sent: [u64; 2],
    abandoned: [u64; 2],
}

impl SideCounts {
    fn count(&mut self, timeline: &Timeline) {
        let side = usize::from(timeline.identity.target);
        if timeline.identity.phase != Phase::Measure || side > 1 {
            return;
        }
        self.sent[side] += u64::from(timeline.identity.attempt == 0);
        self.abandoned[side] += u64::from(timeline.outcome == Outcome::Abandoned);
    }

    /// Gives one side its part of what was abandoned or never sent. Rows say it where there are any;
    /// what has none is divided evenly.
    fn divide(&self, end: &mut RunEnd, target: u16, planned: Option<u64>) {
        let side = usize::from(target);
        let without_row = end.abandoned.saturating_sub(self.abandoned.iter().sum());
        end.abandoned = self.abandoned[side] + part(without_row, target);
        let unsent = |side: u16| {
            let sent = self.sent[usize::from(side)] + part(without_row, side);
            planned?.checked_sub(sent)
        };
        end.never_sent = match (unsent(0), unsent(1)) {
            (Some(a), Some(b)) if a + b == end.never_sent => [a, b][side],
            _ => part(end.never_sent, target),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::compared;
    use super::super::requests::tests::request;
    use super::*;

    const ABBA: AbBlocks =
        AbBlocks { block: 2, order: BlockOrder::Abba, between: BlockChange::Nothing };

    /// Nothing that comes and goes in step with the blocks may meet one side alone, and a steady drift
    /// must cancel.
    #[test]
    fn the_order_of_two_pairs_is_drawn_and_opposite() {
        let ab = AbBlocks { order: BlockOrder::Drawn(Seed(7)), block: 1, ..ABBA };
        let couples: Vec<Vec<u16>> =
            (0..200).map(|at| (0..4).map(|index| ab.target(at * 4 + index)).collect()).collect();
        assert!(couples.iter().all(|couple| *couple == [0, 1, 1, 0] || *couple == [1, 0, 0, 1]));
        let first = couples.iter().filter(|couple| couple[0] == 0).count();
        assert!((75..=125).contains(&first), "{first} of 200 begin with a");
        let again = AbBlocks { order: BlockOrder::Drawn(Seed(7)), block: 1, ..ABBA };
        assert!((0..800).all(|index| ab.target(index) == again.target(index)));
        assert!(ab.begins_couple(4) && !ab.begins_couple(2));
    }

    #[test]
    fn a_restarted_server_counts_by_two_pairs() {
        let ab = AbBlocks { between: BlockChange::Restart, ..ABBA };
        let requests: Vec<ComparedRequest> = (0..16)
            .map(|index| {
                let target = ab.target(index);
                request(index, target, index * 300, 10.0 + f64::from(target))
            })
            .collect();
        let found = ab.pairs(&requests, &compared([]));
        assert_eq!((found.count, found.restarted), (4, Some((4, 2))));
        let values = |words: &str| &found.values[&Figure::parse(words).unwrap()].values;
        assert_eq!(values("ttft mean"), &[(10.0, 11.0), (10.0, 11.0)]);
        assert_eq!(values("requests").len(), 2);
        // Two requests, the second 0.3 s after the first, half a second each; the time between the
        // blocks of a side is not theirs.
        assert!((values("requests")[0].0 - 2.0 / 0.8).abs() < 1e-9, "{:?}", values("requests"));
    }

    #[test]
    fn blocks_alternate_and_both_blocks_of_a_pair_ask_the_same() {
        let ab = ABBA;
        let targets: Vec<u16> = (0..16).map(|index| ab.target(index)).collect();
        assert_eq!(targets, [0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0]);
        let prompts: Vec<u64> = (0..8).map(|index| ab.prompt(index)).collect();
        assert_eq!(prompts, [0, 1, 0, 1, 2, 3, 2, 3]);
        assert!(ab.is_first(4) && !ab.is_first(5));
        assert_eq!(ab.whole_pairs(11), 8);
        let largest = AbBlocks { block: 1 << 63, ..ABBA };
        assert_eq!((largest.whole_pairs(1_000), largest.begins_couple(2)), (0, false));
    }

    #[test]
    fn pairs_hold_both_sides_and_an_incomplete_pair_is_left_out() {
        let ab = ABBA;
        // B is slower by one millisecond; the last pair lacks a request.
        let requests: Vec<ComparedRequest> = (0..15)
            .map(|index| {
                let target = ab.target(index);
                request(index, target, index * 100, 10.0 + index as f64 + f64::from(target))
            })
            .collect();
        let found = ab.pairs(&requests, &compared([]));
        assert_eq!(found.count, 3);
        let mean = Figure::parse("ttft mean").unwrap();
        // Blocks 0 1 | 2 3 | 4 5 begin at 0, 2 | 4, 6 | 8, 10; in the middle pair B comes first.
        assert_eq!(found.values[&mean].values, [(10.5, 13.5), (16.5, 15.5), (18.5, 21.5)]);
        let p99 = Figure::parse("ttft p99").unwrap();
        assert!(!found.values.contains_key(&p99), "two requests have no P99");
        let p50 = Figure::parse("ttft p50").unwrap();
        assert_eq!(found.values[&p50].values.len(), 3);
    }

    /// P90 takes ten requests, five pairs of blocks of two: with fewer than five such values their scatter is
    /// unknown.
    #[test]
    fn a_percentile_of_joined_pairs_needs_five_values() {
        let found = |pairs: u64| {
            let of = |index: u64| request(index, ABBA.target(index), index * 100, 10.0);
            let requests: Vec<ComparedRequest> = (0..pairs * 4).map(of).collect();
            let p90 = Figure::parse("ttft p90").unwrap();
            let found = ABBA.pairs(&requests, &compared([]));
            found.values.get(&p90).map(|of| (of.values.len(), of.pairs_each))
        };
        assert_eq!((found(24), found(25)), (None, Some((5, 5))));
        // Four pairs too few for a sixth value are in none.
        assert_eq!(found(29), Some((5, 5)));
    }

    #[test]
    fn blocks_of_one_side_are_moved_together() {
        let ab = ABBA;
        let seconds = |at: u64| Nanos::from_secs(at);
        let blocks = [(0, 10, 12), (1, 12, 15), (2, 15, 17), (3, 20, 21)]
            .map(|(block, begin, end)| (block, (seconds(begin), seconds(end))));
        let spans = Spans { ab, blocks: BTreeMap::from(blocks) };
        let (moves, end) = spans.moves(0, seconds(10));
        assert_eq!(moves, BTreeMap::from([(0, seconds(0)), (3, seconds(8))]));
        assert_eq!(end, seconds(13));
        let (moves, end) = spans.moves(1, seconds(10));
        assert_eq!(moves, BTreeMap::from([(1, seconds(2)), (2, seconds(2))]));
        assert_eq!(end, seconds(15));
    }

    /// Target 0 is sent requests 0, 1, 6 and 7, one per second; without the blocks of target 1 between them
    /// they follow each other at that pace.
    #[test]
    fn one_side_has_the_pace_of_its_own_blocks() {
        let text = include_str!("../../../../fixtures/run/info.json");
        let mut info: RunInfo = serde_json::from_str(text).unwrap();
        info.targets.push(info.targets[0].clone());
        let timelines: Vec<Timeline> = (0..8).map(sent_at_its_second).collect();
        let health = tokometer_record::Health::default();
        let state = RunState::Ended(Box::new(tokometer_record::RunEnd {
            stop: tokometer_record::Stop::Complete,
            measure_begin: Nanos::ZERO,
            measure_end: Nanos::from_secs(8),
            abandoned: 0,
            never_sent: 0,
            health,
        }));
        let run = RecordedRun { info: &info, state: &state, options: &SummaryOptions::default() };
        let spans = Spans::of(ABBA, timelines.iter().cloned());
        let half = spans.half(run, 0, timelines.into_iter());
        assert_eq!(half.summary.counts.succeeded, 4);
        let planned = info.load.planned_requests.unwrap();
        assert_eq!(half.info.load.planned_requests, Some(planned / 2));
        assert_eq!(half.summary.figure("achieved_rate_per_s"), Some(1.0));
    }

    /// A shard was lost: both sides had all of its abandoned requests and half of an odd number of unsent ones.
    #[test]
    fn both_sides_add_up_to_the_run() {
        use tokometer_record::{Health, Stop};
        let text = include_str!("../../../../fixtures/run/info.json");
        let mut info: RunInfo = serde_json::from_str(text).unwrap();
        info.targets.push(info.targets[0].clone());
        info.load.planned_requests = Some(12);
        // Of twelve, eight were sent; requests 2 and 3, of target 1, and 6, of target 0, have no answer.
        let mut timelines: Vec<Timeline> = (0..9).map(sent_at_its_second).collect();
        for lost in [2, 3, 6] {
            timelines[lost].outcome = Outcome::Abandoned;
        }
        let counts = |state: &RunState| {
            let options = SummaryOptions::default();
            let run = RecordedRun { info: &info, state, options: &options };
            let spans = Spans::of(ABBA, timelines.iter().cloned());
            [0, 1].map(|target| {
                let counts = spans.half(run, target, timelines.iter().cloned()).summary.counts;
                (counts.succeeded, counts.abandoned, counts.never_sent)
            })
        };
        let ended = |abandoned: u64, never_sent: u64| {
            RunState::Ended(Box::new(RunEnd {
                stop: Stop::ShardsLost,
                measure_begin: Nanos::ZERO,
                measure_end: Nanos::from_secs(9),
                abandoned,
                never_sent,
                health: Health::default(),
            }))
        };
        assert_eq!(counts(&ended(3, 3)), [(4, 1, 1), (2, 2, 2)]);
        // Requests without a row could be of either side.
        assert_eq!(counts(&ended(4, 2)), [(4, 2, 0), (2, 2, 2)]);
        assert_eq!(counts(&ended(3, 5)), [(4, 1, 3), (2, 2, 2)]);
        let killed = RunState::Killed { in_flight: 3, retrying: 1 };
        let [a, b] = counts(&killed);
        assert_eq!((a.1, b.1), (1 + 2, 2 + 1));
    }

    /// A request that is sent at the second of its index and answered within one second.
    fn sent_at_its_second(index: u64) -> Timeline {
        use tokometer_record::{AttemptId, Event, EventKind, Outcome, RequestedLengths};
        let at = |millis: u64| Nanos::from_millis(index * 1_000 + millis);
        let id = AttemptId { target: ABBA.target(index), ..AttemptId::new(index, Phase::Measure) };
        let mut timeline = Timeline::new(id, RequestedLengths::default(), at(0));
        timeline.times.first_byte_sent = Some(at(0));
        timeline.push(Event::new(at(500), 0, EventKind::Text));
        timeline.times.end = Some(at(1_000));
        timeline.outcome = Outcome::Success;
        timeline
    }
}
