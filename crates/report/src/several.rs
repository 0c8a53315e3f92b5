//! The page of a run, of a sweep, or of several of them.

use std::path::{Path, PathBuf};

use tokometer_base::Refusal;
use tokometer_figures::Summary;
use tokometer_record::{RunInfo, stored};

use crate::html::{
    ObjectivesOutcome, Page, PageContext, RunPage, SweepPoint, SweepView, command, command_lines,
    facts, title,
};
use crate::reading::Reading;
use crate::saved::{RunView, SummarisedRun};
use crate::{PageSource, comparison, point_name, quoted, staircase};

/// More runs than this are shown without their requests: a page must open at once.
const RUNS_IN_FULL: usize = 4;
/// More runs than this have a row and their points, but no part of their own.
const RUNS_IN_PARTS: usize = 300;

struct PageRun {
    folder: PathBuf,
    name: String,
    source: Option<String>,
    shown: SummarisedRun,
    /// Which target of an A/B run it is; `None` for a run with one target.
    target: Option<u16>,
}

pub fn page(
    reading: Reading,
    sources: &[PageSource],
    view: &RunView,
    context: &PageContext,
) -> Result<Page, Refusal> {
    let has_objectives = !context.slo.objectives.is_empty();
    let view = if has_objectives { &view.clone().with_objectives(&context.slo) } else { view };
    let mut all = Vec::new();
    for source in sources {
        for folder in &source.runs {
            let shown = reading.summarise(folder, view)?;
            let (name, source) = (point_name(folder), source.name.clone());
            all.push(PageRun { folder: folder.clone(), name, source, shown, target: None });
        }
    }
    if all.len() == 1
        && let Some(only) = all.pop()
    {
        return single(only, context.gpus);
    }
    let findings = match sources {
        [only] => staircase::read(&only.path),
        _ => None,
    };
    let Some(findings) = findings else { return of_several(&sides(all), context) };
    // Runs of earlier versions do not hold what the staircase was told of its server.
    for target in all.iter_mut().flat_map(|run| &mut run.shown.info.targets) {
        target.server.get_or_insert_with(|| findings.server.clone());
    }
    for (step, run) in findings.steps.iter().zip(&mut all) {
        staircase::put_throughput(step, &mut run.shown.summary);
    }
    let context = PageContext { knee: findings.knee, ..context.clone() };
    let summaries: Vec<&Summary> = all.iter().map(|run| &run.shown.summary).collect();
    let answer = staircase::answer(&findings, &summaries);
    Ok(Page { answer: Some(answer), ..of_several(&all, &context)? })
}

/// The page of one run; of two targets that took turns, their comparison and both.
fn single(mut only: PageRun, gpus: Option<u32>) -> Result<Page, Refusal> {
    let mut page = match only.shown.against() {
        Some((_, Some(comparison))) => comparison::page(comparison),
        _ => Page::default(),
    };
    let infos = [Some(&only.shown), only.shown.against().map(|(b, _)| b)];
    let infos: Vec<_> =
        infos.into_iter().flatten().map(|shown| (&shown.info, &shown.summary)).collect();
    let against = if infos.len() > 1 { "b against a: " } else { "" };
    page.title = format!("{against}{}", title(&infos));
    let Some(b) = only.shown.take_against() else {
        page.runs.push(only.full(&only.shown.info.name, gpus)?);
        return Ok(page);
    };
    let (a, folder) = (only.shown, only.folder);
    page.facts = facts(&[(&a.info, &a.summary), (&b.info, &b.summary)], gpus);
    page.command = command(&[&a.info]).or_else(|| Some(repeat(&folder)));
    for (name, shown, target) in [("target a", a, Some(0)), ("target b", b, Some(1))] {
        let (folder, name) = (folder.clone(), name.to_owned());
        let side = PageRun { folder, name, source: None, shown, target };
        page.runs.push(side.full(&side.name, gpus)?);
    }
    Ok(page)
}

/// The command for a run that does not hold the one that made it.
fn repeat(folder: &Path) -> String {
    let plan = folder.join(tokometer_record::folder::names::PLAN);
    format!("tokometer bench --plan {}", quoted(&plan.display().to_string()))
}

/// The commands of all runs: their own, or those of their plans.
fn repeated(all: &[PageRun]) -> String {
    let infos: Vec<&RunInfo> = all.iter().map(|run| &run.shown.info).collect();
    command(&infos).unwrap_or_else(|| {
        let mut commands: Vec<String> = all.iter().map(|run| repeat(&run.folder)).collect();
        commands.dedup();
        command_lines(commands)
    })
}

/// Every target of an A/B run as a run of its own.
fn sides(all: Vec<PageRun>) -> Vec<PageRun> {
    let mut sides = Vec::new();
    for mut run in all {
        let Some(b) = run.shown.take_against() else {
            sides.push(run);
            continue;
        };
        let named = |side: &str| match &run.source {
            Some(source) => Some(format!("{source}: target {side}")),
            None => Some(format!("target {side}")),
        };
        let b = PageRun {
            folder: run.folder.clone(),
            name: format!("{} (b)", run.name),
            source: named("b"),
            shown: b,
            target: Some(1),
        };
        let source = named("a");
        sides.push(PageRun { name: format!("{} (a)", run.name), source, target: Some(0), ..run });
        sides.push(b);
    }
    sides
}

fn of_several(all: &[PageRun], context: &PageContext) -> Result<Page, Refusal> {
    let points: Vec<SweepPoint<'_>> = all
        .iter()
        .map(|run| SweepPoint {
            name: &run.name,
            source: run.source.as_deref(),
            info: &run.shown.info,
            summary: &run.shown.summary,
            outcome: ObjectivesOutcome::of(&context.slo, &run.shown.summary),
        })
        .collect();
    let sweep = SweepView::new(&points, context);
    let infos: Vec<(&RunInfo, &Summary)> =
        all.iter().map(|run| (&run.shown.info, &run.shown.summary)).collect();
    let mut page = Page {
        title: title(&infos),
        answer: Some(sweep.answer()),
        notes: sweep.doubts(),
        facts: facts(&infos, context.gpus),
        command: Some(repeated(all)),
        overview: Some(sweep.overview()),
        groups: sweep.charts(),
        ..Page::default()
    };
    let is_one_source = all.iter().all(|run| run.source == all[0].source);
    for run in all {
        let name = match &run.source {
            Some(source) if !is_one_source => format!("{source}: {}", run.name),
            _ => run.name.clone(),
        };
        let is_full = all.len() <= RUNS_IN_FULL;
        let gpus = context.gpus;
        let part = if is_full { run.full(&name, gpus)? } else { run.brief(&name, gpus) };
        page.cards.push(part.card());
        if all.len() <= RUNS_IN_PARTS {
            page.runs.push(part);
        }
    }
    Ok(page)
}

impl PageRun {
    fn brief(&self, name: &str, gpus: Option<u32>) -> RunPage {
        let mut page = RunPage::new(name, &self.shown.info, &self.shown.summary);
        page.gpus = gpus;
        page
    }

    /// The same with the requests of the run, or of one of its targets, and with the server's metrics.
    fn full(&self, name: &str, gpus: Option<u32>) -> Result<RunPage, Refusal> {
        let mut page = self.brief(name, gpus);
        let reader = stored::open(&self.folder)?;
        page.begin = Some(stored::measure_begin(&reader)?);
        for timeline in stored::timelines(&reader)? {
            if self.target.is_none_or(|target| timeline.identity.target == target) {
                page.push(&timeline);
            }
        }
        // Scrapes do not say which of two targets they belong to.
        if self.target.is_none() {
            for scrape in reader.scrapes().map_err(stored::unreadable)? {
                page.push_scrape(scrape);
            }
        }
        Ok(page)
    }
}
