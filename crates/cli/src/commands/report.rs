//! `tokometer report`: saved runs and printed reports, shown again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tokometer_base::redact::Secrets;
use tokometer_decide::Slo;
use tokometer_decide::slo::Objective;
use tokometer_plan::options::percentiles;
use tokometer_plan::{Judgement, Metrics};
use tokometer_record::RunReader;
use tokometer_report::capacity;
use tokometer_report::export::{csv, markdown, parquet, trace};
use tokometer_report::html::{Page, PageContext, Price};
use tokometer_report::reading::Reading;
use tokometer_report::sources::{self, NamedSource, SourcesView};
use tokometer_report::{PageSource, Style, TableFormat, history, several};

use super::kit;
use crate::args::{ReportArgs, TableFormatArg};
use crate::bench::RunView;
use crate::command_line::command_line;
use crate::exit::{Exit, Refusal, RefusalKind};
use crate::files::is_standard;
use crate::lower::{Environment, objective, sections};
use crate::pages;
use crate::runs::{READING, expanded};
use crate::terminal::{print, print_message};

/// Shows every source: one run in full, several as a table, blocks in any layout.
pub(crate) fn report(args: &ReportArgs, environment: &Environment) -> anyhow::Result<Exit> {
    if args.repair {
        for source in &args.sources {
            for run in expanded(source)? {
                repair(&run)?;
            }
        }
    }
    let view = RunView::new(&metrics(args)?)?;
    if args.history {
        return show_history(args, &view);
    }
    let files = [
        &args.html,
        &args.perfetto,
        &args.csv,
        &args.parquet,
        &args.markdown,
        &args.inferencex,
        &args.llm_d,
    ];
    if files.iter().any(|file| file.is_some()) {
        return export(args, &view);
    }
    if let Some(text) = capacity_text(args)? {
        print(&text)?;
        return Ok(Exit::Done);
    }
    let sources = NamedSource::open_all(READING, &args.sources, &view)?;
    let view = SourcesView {
        format: args.format.map(TableFormat::from),
        layout: args.layout.as_deref(),
        style: Style { is_detailed: args.details, ..environment.style() },
    };
    let text = sources::text(&args.sources, sources, view)?;
    print(&text)?;
    Ok(Exit::Done)
}

/// What a capacity search showed. `None` where something else was given, or asked for.
fn capacity_text(args: &ReportArgs) -> Result<Option<String>, Refusal> {
    let [folder] = args.sources.as_slice() else { return Ok(None) };
    if !capacity::found(folder) || args.layout.is_some() {
        return Ok(None);
    }
    let findings = capacity::read(folder)?;
    Ok(match args.format {
        None | Some(TableFormatArg::Text) => Some(capacity::text(&findings)),
        Some(TableFormatArg::Json) => {
            let json = serde_json::to_string_pretty(&findings).unwrap_or_default();
            Some(format!("{json}\n"))
        }
        Some(TableFormatArg::Csv | TableFormatArg::Markdown) => None,
    })
}

fn show_history(args: &ReportArgs, view: &RunView) -> anyhow::Result<Exit> {
    let mut sources = PageSource::of(&args.sources, &args.label)?;
    // The name of a folder is no label: its runs are steps of their own.
    for (at, source) in sources.iter_mut().enumerate() {
        source.name = args.label.get(at).cloned();
    }
    let history = history::history(READING, &sources, view)?;
    match &args.html {
        Some(out) => {
            let page = Page { command: Some(command_line(&Secrets::new())), ..history.page() };
            pages::write(page, out)?;
            tell_written(out);
        }
        None => print(&history.text())?,
    }
    Ok(Exit::Done)
}

/// What the flags say of all runs of a page.
fn context(args: &ReportArgs) -> Result<PageContext, Refusal> {
    let slo =
        if args.slo.is_empty() { Ok(Slo::default()) } else { Slo::parse(&args.slo.join(", ")) };
    let slo = slo.map_err(|why| Refusal::usage(format!("cannot use `--slo`: {why}"), ""))?;
    for remark in slo.objectives.iter().filter_map(Objective::remark) {
        print_message(&format!("note: {remark}"));
    }
    let price = |text: &String| {
        Price::parse(text).ok_or_else(|| {
            Refusal::usage(
                format!("cannot use `--price {text}`: it must be the price of one GPU for an hour"),
                "write it as `--price 2.5/h`",
            )
        })
    };
    let price = args.price.as_ref().map(price).transpose()?;
    Ok(PageContext { gpus: args.gpus, price, slo, knee: None })
}

/// The page of what was given: a capacity search, a run, or several.
fn page(args: &ReportArgs, view: &RunView) -> Result<Page, Refusal> {
    if let ([folder], []) = (args.sources.as_slice(), args.slo.as_slice())
        && capacity::found(folder)
    {
        let mut findings = capacity::read(folder)?;
        findings.gpus = args.gpus.or(findings.gpus);
        let price = context(args)?.price;
        return Ok(capacity::page(READING, &findings, folder, view, price.as_ref()));
    }
    let sources = PageSource::of(&args.sources, &args.label)?;
    several::page(READING, &sources, view, &context(args)?)
}

type WriteTable = fn(Reading, &[PageSource], &RunView, &Path) -> Result<(), Refusal>;

fn export(args: &ReportArgs, view: &RunView) -> anyhow::Result<Exit> {
    let mut folders = Vec::new();
    for source in &args.sources {
        folders.extend(expanded(source)?);
    }
    if let Some(out) = &args.html {
        pages::write(page(args, view)?, out)?;
        tell_written(out);
    }
    if let Some(out) = &args.markdown {
        markdown(READING, &folders, view, out)?;
        tell_written(out);
    }
    if let Some(out) = &args.perfetto {
        trace(only(&folders, out)?, out)?;
        tell_written(out);
    }
    let tables: [(&Option<PathBuf>, WriteTable); 2] = [(&args.csv, csv), (&args.parquet, parquet)];
    for (out, write) in tables {
        let Some(out) = out else { continue };
        write(READING, &PageSource::of(&args.sources, &args.label)?, view, out)?;
        tell_written(out);
    }
    if let Some(out) = args.inferencex.as_ref().or(args.llm_d.as_ref()) {
        for path in kit::write(args, only(&folders, out)?, &metrics(args)?)? {
            tell_written(&path);
        }
    }
    Ok(Exit::Done)
}

/// The run that a file is made of, which cannot hold several.
fn only<'a>(folders: &'a [PathBuf], out: &Path) -> Result<&'a Path, Refusal> {
    if let [folder] = folders {
        return Ok(folder);
    }
    let first = folders.first().map_or(String::new(), |run| run.display().to_string());
    Err(Refusal::usage(
        format!("cannot write `{}` for {} runs", out.display(), folders.len()),
        format!("give one run, such as `{first}`"),
    ))
}

/// Names a file that was written; standard output needs no name.
fn tell_written(path: &Path) {
    if !is_standard(path) {
        print_message(&format!("wrote {}", path.display()));
    }
}

fn metrics(args: &ReportArgs) -> Result<Metrics, Refusal> {
    let goodput: BTreeMap<String, f64> =
        args.goodput.iter().map(|word| objective(word)).collect::<Result<_, _>>()?;
    let text = args.metric_percentiles.as_deref().unwrap_or("99");
    let percentiles = percentiles(text).map_err(|why| {
        Refusal::usage(format!("cannot use `--metric-percentiles {text}`: {why}"), "")
    })?;
    // A table for programs has every latency.
    let usual = if args.format.is_some() { "ttft,tpot,itl,e2el" } else { "ttft,tpot,itl" };
    Ok(Metrics {
        layout: args.layout.clone().unwrap_or_else(|| "auto".to_owned()),
        sections: sections(args.percentile_metrics.as_deref().unwrap_or(usual))?,
        percentiles,
        goodput,
        judgement: Judgement::Lenient,
        slo: None,
    })
}

fn repair(folder: &Path) -> Result<(), Refusal> {
    if !folder.is_dir() {
        return Ok(());
    }
    let repaired = RunReader::open(folder)
        .and_then(|reader| reader.repair())
        .map_err(|why| Refusal::new(RefusalKind::Write, why.to_string()))?;
    for name in repaired {
        print_message(&format!("repaired {}", folder.join(name).display()));
    }
    Ok(())
}

impl From<TableFormatArg> for TableFormat {
    fn from(format: TableFormatArg) -> Self {
        match format {
            TableFormatArg::Text => Self::Text,
            TableFormatArg::Csv => Self::Csv,
            TableFormatArg::Json => Self::Json,
            TableFormatArg::Markdown => Self::Markdown,
        }
    }
}
