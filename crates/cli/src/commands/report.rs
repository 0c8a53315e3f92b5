//! `tokometer report`: saved runs and printed reports, shown again.

use std::collections::BTreeMap;
use std::path::Path;

use tokometer_record::RunReader;
use tokometer_report::{self as views, LayoutChoice, Report};

use crate::args::ReportArgs;
use crate::bench::{View, summarise};
use crate::exit::{Exit, Refusal};
use crate::lower::{Environment, objective, percentiles, words};
use crate::plan::{Judgement, Metrics};
use crate::terminal::{print, style, tell};

/// Shows every source: a run folder from its record, a text block by block.
pub(crate) fn report(args: &ReportArgs, environment: &Environment) -> anyhow::Result<Exit> {
    let style = style(environment.is_colourless);
    for source in &args.sources {
        if source.is_dir() {
            if args.repair {
                mend(source)?;
            }
            let view = View::new(&metrics(args)?)?;
            let shown = summarise(source, &view)?;
            print(&shown.text(style)?)?;
        } else {
            for report in read(source)? {
                print(&text(&report, args.layout.as_deref(), style)?)?;
            }
        }
    }
    Ok(Exit::Done)
}

fn metrics(args: &ReportArgs) -> Result<Metrics, Refusal> {
    let goodput: BTreeMap<String, f64> =
        args.goodput.iter().map(|word| objective(word)).collect::<Result<_, _>>()?;
    let sections = args.percentile_metrics.as_deref().unwrap_or("ttft,tpot,itl");
    Ok(Metrics {
        layout: args.layout.clone().unwrap_or_else(|| "auto".to_owned()),
        sections: words(sections),
        percentiles: percentiles(args.metric_percentiles.as_deref())?.unwrap_or_else(|| vec![99.0]),
        goodput,
        judgement: Judgement::Lenient,
    })
}

fn mend(folder: &Path) -> Result<(), Refusal> {
    let mended = RunReader::open(folder)
        .and_then(|reader| reader.repair())
        .map_err(|why| Refusal::new(Exit::Write, why.to_string()))?;
    for name in mended {
        tell(&format!("mended {}", folder.join(name).display()));
    }
    Ok(())
}

/// The reports of a printed text.
pub(crate) fn read(path: &Path) -> Result<Vec<Report>, Refusal> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|why| Refusal::usage(format!("cannot read `{shown}`: {why}"), ""))?;
    let reports = views::parse(&text)
        .map_err(|why| Refusal::usage(format!("cannot read `{shown}`: {why}"), ""))?;
    if reports.is_empty() {
        return Err(Refusal::usage(
            format!("there is no report in `{shown}`"),
            "a report begins with a line `= Serving Benchmark Result =`",
        ));
    }
    Ok(reports)
}

fn text(report: &Report, layout: Option<&str>, style: views::Style) -> Result<String, Refusal> {
    let choice = layout.map_or(Ok(LayoutChoice::Same), LayoutChoice::named);
    let choice = choice.map_err(|why| Refusal::usage(why.to_string(), ""))?;
    let layout = match choice {
        LayoutChoice::Named(layout) => Some(layout),
        LayoutChoice::Auto => report.layout,
        LayoutChoice::Same => {
            return Ok(views::print_same(report).unwrap_or_default());
        }
    };
    Ok(views::print(report, layout.unwrap_or(views::Layout::Tokometer), style))
}
