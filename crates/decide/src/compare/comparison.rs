//! Compares two sides: one row per figure, with what the data support.
//!
//! With three or more runs per side, the scatter between runs decides: runs of one server differ by
//! more than blocks of time within a run. With fewer runs, blocks are used, and the comparison says
//! that this is weak evidence.

use serde::Serialize;
use serde::ser::SerializeStruct as _;
use tokometer_base::Refusal;
use tokometer_base::units::counted;
use tokometer_figures::figure::{Figure, Quantity, Statistic};
use tokometer_figures::{SummaryOptions, Verdict, statistics};
use tokometer_record::{RunReader, stored};

use super::ab_blocks::{AbBlocks, Half, Pairs};
use super::answers::AnswerComparison;
use super::difference::{
    self, Basis, Conclusion, Difference, DifferenceRule, Equivalence, LOOKED_FOR,
};
use super::failures::Failures;
use super::figures::{compared, percentiles};
use super::likeness::{DifferingLine, Likeness, Warning, Weight, likeness};
use super::requests::last_attempts;
use super::restarts::{self, Restarts, one_process};
use super::rule::{FailRule, RuleResult};
use super::run::Run;

/// Runs per side that are needed to estimate the scatter between runs.
pub const ENOUGH_RUNS: usize = 3;

/// What is compared, and what counts as a difference.
#[derive(Debug, Clone, Copy)]
pub struct Criteria<'a> {
    pub figures: &'a [Figure],
    pub equivalence: Equivalence,
}

impl<'a> Criteria<'a> {
    /// These figures with the default margin.
    pub fn of(figures: &'a [Figure]) -> Self {
        Self { figures, equivalence: Equivalence::default() }
    }

    fn judgement(&self, figure: Figure, basis: Basis) -> DifferenceRule {
        DifferenceRule { basis, better: figure.better(), equivalence: self.equivalence }
    }
}

/// One figure on both sides. Where there is a difference, both values are the means that it compares:
/// what is shown adds up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ComparedFigure {
    /// Both values have its unit.
    pub figure: Figure,
    /// Mean over the runs or pairs of A; infinite where it lies among failed requests.
    pub a: f64,
    /// The same of B.
    pub b: f64,
    /// `None` when the data have no scatter to estimate from.
    pub difference: Option<Difference>,
    /// From the difference and the failures of both sides. `None` where there is nothing to conclude from.
    pub conclusion: Option<Conclusion>,
}

impl ComparedFigure {
    /// A row. Without a difference it has the values of the runs, as (A, B).
    fn new(figure: Figure, (a, b): (f64, f64), difference: Option<Difference>) -> Self {
        let (a, b) = difference.map_or((a, b), |difference| (difference.a, difference.b));
        let conclusion = difference.map(|difference| difference.conclusion);
        Self { figure, a, b, difference, conclusion }
    }

    /// The same where requests failed: a percentile among them is slower than any other, and nothing speaks
    /// for the side that fails more.
    fn after(mut self, failures: Option<Failures>) -> Self {
        let more_in_a = failures.is_some_and(|found| found.are_more_in_a());
        let more_in_b = failures.is_some_and(|found| found.are_more_in_b());
        self.conclusion = match (self.a.is_finite(), self.b.is_finite(), self.conclusion) {
            (true, true, Some(Conclusion::Better)) if more_in_b => Some(Conclusion::CannotTell),
            (true, true, Some(Conclusion::Worse)) if more_in_a => Some(Conclusion::CannotTell),
            (true, true, found) => found,
            (true, false, _) if more_in_b => Some(Conclusion::Worse),
            (false, true, _) if more_in_a => Some(Conclusion::Better),
            _ => Some(Conclusion::CannotTell),
        };
        self
    }

    /// B minus A as a share of A.
    pub fn change(&self) -> f64 {
        self.difference.map_or((self.b - self.a) / self.a.abs(), |difference| difference.change)
    }

    /// Whether these data would detect a change of [`LOOKED_FOR`] four times in five. `None` without an
    /// interval.
    pub fn is_sensitive(&self) -> Option<bool> {
        self.difference.map(|difference| difference.detectable <= LOOKED_FOR)
    }

    /// Values per side, or pairs, that would detect a change of [`LOOKED_FOR`] four times in five.
    /// `None` without an interval, and beyond what anybody would measure.
    pub fn units_needed(&self) -> Option<usize> {
        let difference = self.difference?;
        Some(difference.values_needed(LOOKED_FOR)? * difference.pairs_per_unit)
    }

    /// Values per side, or pairs, that its interval comes from.
    fn units(&self) -> Option<usize> {
        self.difference.map(|difference| difference.units * difference.pairs_per_unit)
    }

    /// Whether both are of one quantity; all throughputs count as one, because they move together.
    pub fn is_of_kind(&self, other: &Self) -> bool {
        let is_whole = |one: &Self| one.figure.statistic == Statistic::Whole;
        self.figure.quantity == other.figure.quantity || (is_whole(self) && is_whole(other))
    }

    /// Whether it represents all throughputs.
    pub fn is_output(&self) -> bool {
        self.figure.quantity == Quantity::Output
    }
}

impl Serialize for ComparedFigure {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_struct("Row", 12)?;
        row.serialize_field("figure", &self.figure)?;
        row.serialize_field("unit", self.figure.unit().name())?;
        row.serialize_field("better", &self.figure.better())?;
        row.serialize_field("a", &self.a)?;
        row.serialize_field("b", &self.b)?;
        row.serialize_field("change", &self.change())?;
        row.serialize_field("low", &self.difference.map(|difference| difference.low))?;
        row.serialize_field("high", &self.difference.map(|difference| difference.high))?;
        row.serialize_field(
            "detectable",
            &self.difference.map(|difference| difference.detectable),
        )?;
        row.serialize_field("conclusion", &self.conclusion)?;
        row.serialize_field("units", &self.units())?;
        row.serialize_field("units_for_3_percent", &self.units_needed())?;
        row.end()
    }
}

/// A short description of one side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Side {
    /// As the user named them.
    pub runs: Vec<String>,
    pub targets: Vec<String>,
    /// Server processes that its runs come from. `None` where one is unknown.
    pub processes: Option<usize>,
    pub succeeded: u64,
    pub failed: u64,
    /// The worst of its runs; `None` where a run is a printed report.
    #[serde(skip)]
    pub verdict: Option<Verdict>,
}

impl Side {
    pub fn of(runs: &[Run]) -> Self {
        let mut targets: Vec<String> =
            runs.iter().filter_map(|run| run.facts.target.clone()).collect();
        targets.sort();
        targets.dedup();
        Self {
            runs: runs.iter().map(|run| run.name.clone()).collect(),
            targets,
            processes: restarts::processes(runs).map(|processes| processes.len()),
            succeeded: runs.iter().map(|run| run.facts.succeeded).sum(),
            failed: runs.iter().map(|run| run.facts.failed).sum(),
            verdict: runs
                .iter()
                .map(|run| run.facts.verdict)
                .collect::<Option<Vec<_>>>()
                .and_then(|verdicts| verdicts.into_iter().max()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    pub basis: Basis,
    /// Number of pairs in an A/B measurement; `None` otherwise.
    pub pairs: Option<usize>,
    /// Server processes behind the runs of A and of B, where they are the units of evidence; `None`
    /// where the runs are.
    pub restarts: Option<(usize, usize)>,
    pub equivalence: Equivalence,
    /// The base line.
    pub a: Side,
    /// The side under test.
    pub b: Side,
    /// How much more often requests of B fail; `None` where a side does not say.
    pub failures: Option<Failures>,
    /// One per figure that both sides have.
    pub rows: Vec<ComparedFigure>,
    /// Whether both sides answer alike; `None` where the runs do not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<AnswerComparison>,
    #[serde(flatten)]
    pub likeness: Likeness,
    /// Results of the `--fail-if` rules.
    pub rules: Vec<RuleResult>,
}

impl Comparison {
    /// Compares two sets of runs by these figures, as far as all runs have them. `lines` is in what
    /// their plans differ.
    pub fn of_runs(
        a: &[Run],
        b: &[Run],
        criteria: Criteria<'_>,
        lines: Vec<DifferingLine>,
    ) -> Self {
        let is_enough = a.len() >= ENOUGH_RUNS && b.len() >= ENOUGH_RUNS;
        let basis = if is_enough { Basis::Runs } else { Basis::Blocks };
        let restarts = Restarts::of(a, b).filter(|_| is_enough);
        let mut likeness = likeness(a, b, lines);
        likeness.warnings.extend(one_process(a, b).filter(|_| restarts.is_none()));
        if basis == Basis::Blocks {
            let text = format!(
                "{} against {} is weak evidence: runs of one server differ more than blocks of time within one run. Measure at least {ENOUGH_RUNS} runs per side, or alternate both targets with `bench --against`",
                counted(a.len(), "run"),
                b.len(),
            );
            likeness.warnings.insert(0, Warning { weight: Weight::Caution, text });
        }
        let (of_a, of_b) = (Side::of(a), Side::of(b));
        let failures = Failures::of(&of_a, &of_b);
        let runs = ComparedRuns { a, b, basis, restarts: restarts.as_ref() };
        let row = |figure: &Figure| Some(runs.row(*figure, criteria)?.after(failures));
        let rows: Vec<ComparedFigure> = criteria.figures.iter().filter_map(row).collect();
        let answers = AnswerComparison::of(a, b);
        likeness.warnings.extend(answer_warning(answers.as_ref(), &rows));
        Self {
            basis,
            pairs: None,
            restarts: restarts.map(|restarts| restarts.counts()),
            equivalence: criteria.equivalence,
            a: of_a,
            b: of_b,
            failures,
            rows,
            answers,
            likeness,
            rules: Vec::new(),
        }
    }

    /// Compares the two targets of a run in A/B blocks.
    pub fn of_targets(
        reader: &RunReader,
        ab: AbBlocks,
        criteria: Criteria<'_>,
    ) -> Result<Self, Refusal> {
        let (folder, figures) = (reader.folder(), criteria.figures);
        let options =
            SummaryOptions { percentiles: percentiles(figures), ..SummaryOptions::default() };
        let [a, b] = Half::both(reader, ab, &options)?;
        let pairs = ab.pairs(&last_attempts(stored::timelines(reader)?), figures);
        let side = |name: &str, half: &Half| {
            let name = format!("{} {name}", folder.display());
            Run::of_summary(&name, &half.info, &half.summary, figures)
        };
        Ok(Self::of_pairs(&side("a", &a)?, &side("b", &b)?, criteria, &pairs))
    }

    /// The same by the usual figures; `None` for a run of one side, and where one side has no success.
    pub fn of_sides(
        reader: &RunReader,
        ab: Option<AbBlocks>,
        sides: &[Half],
    ) -> Result<Option<Self>, Refusal> {
        let is_comparable = sides.iter().all(|half| half.summary.counts.succeeded > 0);
        let ab = ab.filter(|_| is_comparable);
        ab.map(|ab| Self::of_targets(reader, ab, Criteria::of(&compared([])))).transpose()
    }

    fn of_pairs(a: &Run, b: &Run, criteria: Criteria<'_>, pairs: &Pairs) -> Self {
        let [of_a, of_b] = [a, b].map(|run| Side::of(std::slice::from_ref(run)));
        let failures = Failures::of(&of_a, &of_b);
        let row = |figure: &Figure| {
            let figure = *figure;
            let judgement = criteria.judgement(figure, Basis::Pairs);
            let difference = pairs.values.get(&figure).and_then(|found| {
                let difference = difference::paired(&found.values, judgement)?;
                Some(difference.of_joined_pairs(found.pairs_each))
            });
            let of_runs = (*a.values.get(&figure)?, *b.values.get(&figure)?);
            Some(ComparedFigure::new(figure, of_runs, difference).after(failures))
        };
        let rows: Vec<ComparedFigure> = criteria.figures.iter().filter_map(row).collect();
        let (a, b) = (std::slice::from_ref(a), std::slice::from_ref(b));
        // Both targets of a run have one plan.
        let mut likeness = likeness(a, b, Vec::new());
        if pairs.restarted.is_none() {
            let text = "each side is one server process, and a restart may change its figures by more than this interval. Restart both servers and repeat, or restart them between blocks with `--switch-command`";
            let text = text.to_owned();
            likeness.warnings.push(Warning { weight: Weight::Caution, text });
        }
        let answers = AnswerComparison::of(a, b);
        likeness.warnings.extend(answer_warning(answers.as_ref(), &rows));
        Self {
            basis: Basis::Pairs,
            pairs: Some(pairs.count),
            restarts: pairs.restarted,
            equivalence: criteria.equivalence,
            a: of_a,
            b: of_b,
            failures,
            rows,
            answers,
            likeness,
            rules: Vec::new(),
        }
    }

    #[must_use]
    pub fn judged(mut self, rules: &[FailRule]) -> Self {
        self.rules = rules.iter().map(|rule| rule.judge(&self)).collect();
        self
    }

    /// Warnings that make the comparison meaningless.
    pub fn refusals(&self) -> Vec<&str> {
        let warnings = self.likeness.warnings.iter();
        let is_refusal = |warning: &&Warning| warning.weight == Weight::Meaningless;
        warnings.filter(is_refusal).map(|warning| warning.text.as_str()).collect()
    }
}

fn answer_warning(answers: Option<&AnswerComparison>, rows: &[ComparedFigure]) -> Option<Warning> {
    let text = answers?.warning(rows)?;
    Some(Warning { weight: Weight::Caution, text })
}

/// The runs of both sides, and which values of them are compared.
#[derive(Clone, Copy)]
struct ComparedRuns<'a> {
    a: &'a [Run],
    b: &'a [Run],
    basis: Basis,
    /// The runs in groups of one server process each, where these are the units.
    restarts: Option<&'a Restarts>,
}

impl ComparedRuns<'_> {
    /// The row of a figure that every run has; `None` where one lacks it.
    fn row(&self, figure: Figure, criteria: Criteria<'_>) -> Option<ComparedFigure> {
        let of_runs = |runs: &[Run]| {
            runs.iter().map(|run| run.values.get(&figure).copied()).collect::<Option<Vec<f64>>>()
        };
        let of_blocks = |runs: &[Run]| {
            let blocks = runs.iter().map(|run| run.blocks.get(&figure).map(Vec::as_slice));
            blocks.collect::<Option<Vec<&[f64]>>>().map(|blocks| blocks.concat())
        };
        let (of_a, of_b) = (of_runs(self.a)?, of_runs(self.b)?);
        let means = (statistics::mean(&of_a)?, statistics::mean(&of_b)?);
        let compared = match (self.basis, self.restarts) {
            (Basis::Runs, None) => Some((of_a, of_b)),
            (Basis::Runs, Some(restarts)) => Some(restarts.means(&of_a, &of_b)),
            (Basis::Blocks | Basis::Pairs, _) => of_blocks(self.a).zip(of_blocks(self.b)),
        };
        let judgement = criteria.judgement(figure, self.basis);
        let difference = compared.and_then(|(a, b)| match self.basis {
            // The mean of the medians of blocks is not the median of the run.
            Basis::Blocks => difference::of_blocks(&a, &b, means, judgement),
            Basis::Runs | Basis::Pairs => difference::unpaired(&a, &b, judgement),
        });
        Some(ComparedFigure::new(figure, means, difference))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::ab_blocks::PairedValues;
    use super::*;

    const TTFT: Figure = Figure::mean(Quantity::Ttft);
    const OUTPUT: Figure = Figure::whole(Quantity::Output);

    /// A run with this TTFT and throughput; its blocks scatter by a tenth of a percent.
    fn run(name: &str, ttft: f64, output: f64) -> Run {
        let scattered = |value: f64| {
            (0..8).map(|at| value * (1.0 + 0.001 * f64::from(at % 3 - 1))).collect::<Vec<f64>>()
        };
        let mut run = Run { name: name.to_owned(), ..Run::default() };
        run.values = BTreeMap::from([(TTFT, ttft), (OUTPUT, output)]);
        run.blocks = BTreeMap::from([(TTFT, scattered(ttft)), (OUTPUT, scattered(output))]);
        run.facts.succeeded = 100;
        run.facts.target = Some(format!("http://{name}"));
        run
    }

    fn conclusion(comparison: &Comparison, figure: Figure) -> Option<Conclusion> {
        let row = comparison.rows.iter().find(|row| row.figure == figure)?;
        row.conclusion
    }

    #[test]
    fn three_runs_a_side_are_judged_by_their_own_scatter() {
        let a = [run("a", 100.0, 50.0), run("a", 102.0, 50.5), run("a", 98.0, 49.5)];
        let b = [run("b", 110.0, 50.2), run("b", 112.0, 50.6), run("b", 108.0, 49.4)];
        let found = Comparison::of_runs(&a, &b, Criteria::of(&compared([])), Vec::new());
        assert_eq!(found.basis, Basis::Runs);
        assert_eq!(conclusion(&found, TTFT), Some(Conclusion::Worse));
        assert_eq!(conclusion(&found, OUTPUT), Some(Conclusion::NoDifferenceShown));
        assert!(found.likeness.warnings.is_empty(), "{:?}", found.likeness);
    }

    #[test]
    fn a_single_pair_falls_back_to_blocks_and_says_so_first() {
        let (a, b) = ([run("a", 100.0, 50.0)], [run("b", 110.0, 50.0)]);
        let found = Comparison::of_runs(&a, &b, Criteria::of(&compared([])), Vec::new());
        assert_eq!((found.basis, found.rows.len()), (Basis::Blocks, 2));
        assert_eq!(conclusion(&found, TTFT), Some(Conclusion::Worse));
        assert!(found.likeness.warnings[0].text.starts_with("1 run against 1 is weak evidence"));
    }

    #[test]
    fn fewer_than_three_runs_on_a_side_are_compared_by_blocks() {
        let runs = |count: usize| vec![run("a", 100.0, 50.0); count];
        let basis = |a: usize, b: usize| {
            let criteria = compared([]);
            Comparison::of_runs(&runs(a), &runs(b), Criteria::of(&criteria), Vec::new()).basis
        };
        assert_eq!(
            (basis(2, 2), basis(3, 2), basis(2, 3)),
            (Basis::Blocks, Basis::Blocks, Basis::Blocks)
        );
        assert_eq!(basis(3, 3), Basis::Runs);
    }

    fn ttft(values: Vec<(f64, f64)>, pairs_each: usize) -> BTreeMap<Figure, PairedValues> {
        BTreeMap::from([(TTFT, PairedValues { values, pairs_each })])
    }

    #[test]
    fn two_servers_that_keep_running_are_warned_of_and_restarted_ones_are_not() {
        let warnings = |restarted: Option<(usize, usize)>| {
            let values = vec![(100.0, 103.0), (110.0, 113.0)];
            let pairs = Pairs { values: ttft(values, 1), count: 2, restarted };
            let (a, b) = (run("a", 100.0, 50.0), run("b", 100.0, 50.0));
            let found = Comparison::of_pairs(&a, &b, Criteria::of(&compared([])), &pairs);
            found.likeness.warnings.len()
        };
        assert_eq!((warnings(None), warnings(Some((2, 1)))), (1, 0));
    }

    #[test]
    fn a_figure_that_one_run_lacks_is_no_row_and_one_without_blocks_has_no_verdict() {
        let mut a = run("a", 100.0, 50.0);
        a.values.remove(&OUTPUT);
        a.blocks.remove(&TTFT);
        let found = Comparison::of_runs(
            &[a],
            &[run("b", 110.0, 50.0)],
            Criteria::of(&compared([])),
            Vec::new(),
        );
        assert_eq!(found.rows.len(), 1);
        assert_eq!(found.rows[0].difference, None);
        assert!((found.rows[0].change() - 0.1).abs() < 1e-9);
    }

    #[test]
    fn pairs_are_compared_as_pairs() {
        let pairs: Vec<(f64, f64)> = (0..20)
            .map(|at| (100.0 + f64::from(at), 103.0 + f64::from(at) + 0.1 * f64::from(at % 2)))
            .collect();
        let pairs = Pairs { values: ttft(pairs, 1), count: 20, restarted: None };
        let found = Comparison::of_pairs(
            &run("a", 109.5, 50.0),
            &run("b", 112.6, 50.0),
            Criteria::of(&compared([])),
            &pairs,
        );
        assert_eq!(conclusion(&found, TTFT), Some(Conclusion::Worse));
        assert_eq!(conclusion(&found, OUTPUT), None);
    }

    /// A percentile that takes four pairs per value was said to need as many pairs as it needs values.
    #[test]
    fn the_pairs_that_are_needed_are_those_of_all_values() {
        let of = |pairs_each: usize, count: usize| {
            let joined = vec![(100.0, 103.0), (101.0, 108.0), (99.0, 97.0), (100.0, 106.0)];
            let pairs = Pairs { values: ttft(joined, pairs_each), count, restarted: None };
            let (a, b) = (run("a", 100.0, 50.0), run("b", 103.0, 50.0));
            let rules = [FailRule::parse("ttft worse by 2%").unwrap()];
            let found = Comparison::of_pairs(&a, &b, Criteria::of(&compared([])), &pairs);
            let found = found.judged(&rules);
            let row = found.rows.iter().find(|row| row.figure == TTFT).unwrap();
            [row.units(), row.units_needed(), found.rules[0].more_units].map(Option::unwrap)
        };
        let single = of(1, 4);
        assert!(single[0] == 4 && single[1] > 4 && single[2] > 0, "{single:?}");
        assert_eq!(of(4, 16), single.map(|pairs| 4 * pairs));
        // Three pairs that are in no value do not count.
        assert_eq!(of(4, 19), single.map(|pairs| 4 * pairs));
    }

    /// The table showed the means of whole runs beside a change of means over pairs, and the two did
    /// not add up.
    #[test]
    fn the_shown_sides_are_those_that_the_change_compares() {
        let values = ttft(vec![(100.0, 103.0), (110.0, 113.0), (90.0, 93.5)], 1);
        let pairs = Pairs { values, count: 3, restarted: None };
        let (a, b) = (run("a", 150.0, 50.0), run("b", 140.0, 50.0));
        let found = Comparison::of_pairs(&a, &b, Criteria::of(&compared([])), &pairs);
        for row in &found.rows {
            assert!((row.change() - (row.b - row.a) / row.a).abs() < 1e-12, "{row:?}");
        }
        let row = found.rows.iter().find(|row| row.figure == TTFT).unwrap();
        assert!((row.a - 100.0).abs() < 1e-9, "{row:?}");
    }

    /// Six runs of two processes differ by process: the processes are the evidence.
    #[test]
    fn runs_are_nested_in_server_processes() {
        let of = |name: &str, process: &str, ttft: f64| {
            let mut run = run(name, ttft, 50.0);
            run.facts.process = Some(process.to_owned());
            run
        };
        let side = |name: &str, first: f64, second: f64| -> Vec<Run> {
            let of_process = |process: &str, ttft: f64| {
                let process = format!("{name}{process}");
                (0..3).map(|at| of(name, &process, ttft + 0.1 * f64::from(at))).collect::<Vec<_>>()
            };
            [of_process("1", first), of_process("2", second)].concat()
        };
        let (a, b) = (side("a", 100.0, 108.0), side("b", 107.0, 115.0));
        let criteria = compared([]);
        let found = Comparison::of_runs(&a, &b, Criteria::of(&criteria), Vec::new());
        assert_eq!(found.restarts, Some((2, 2)));
        assert_ne!(conclusion(&found, TTFT), Some(Conclusion::Worse), "two starts a side");
        let apart = |runs: &[Run]| {
            let unknown = |run: &Run| {
                let mut run = run.clone();
                run.facts.process = None;
                run
            };
            runs.iter().map(unknown).collect::<Vec<_>>()
        };
        let pooled =
            Comparison::of_runs(&apart(&a), &apart(&b), Criteria::of(&criteria), Vec::new());
        assert_eq!(conclusion(&pooled, TTFT), Some(Conclusion::Worse), "the old way");
    }

    #[test]
    fn runs_of_one_process_are_warned_of() {
        let side = |name: &str| -> Vec<Run> {
            let of = |ttft: f64| {
                let mut run = run(name, ttft, 50.0);
                run.facts.process = Some(format!("{name} started at 1"));
                run
            };
            [100.0, 101.0, 99.0].map(of).to_vec()
        };
        let criteria = compared([]);
        let found =
            Comparison::of_runs(&side("a"), &side("b"), Criteria::of(&criteria), Vec::new());
        assert_eq!(found.restarts, None);
        let text = &found.likeness.warnings[0].text;
        assert!(text.contains("one server process"), "{text}");
    }
}
