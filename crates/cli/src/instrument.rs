//! `tokometer doctor --load`: is this machine fit to measure that load?
//!
//! Drives the simulated server, which logs when it handed each token to the kernel, with the load in
//! question, and compares every stamp with the log: adaptive and eager readsing, and with the head,
//! the role and the first token sent at once. Then floods this client to see how many events a second
//! it can take. On loopback this shows the error of reading and parsing, not of a network
//! card.

use std::path::{Path, PathBuf};

use tokometer_base::{Nanos, units};
use tokometer_client::Url;
use tokometer_client::tls::Trust;
use tokometer_drive::{Connections, SocketReads};
use tokometer_figures::instrument::{Emission, Fitness, PassError, events_per_s};
use tokometer_measure::{Credentials, Simulator, StreamLoad};
use tokometer_plan::{
    Address, PartialClient, PartialOutput, PartialPlan, PartialRequest, PartialTarget, Plan, Shown,
};
use tokometer_record::Timeline;
use tokometer_report::fitness;
use tokometer_sim::truth;
use tokometer_workload::{OrNone, PartialSpec};

use crate::args::{self, Command, ParseOutcome, TableFormatArg};
use crate::bench::measurement;
use crate::exit::{Exit, Refusal, RefusalKind};
use crate::lower::{self, Bar, Lowered, lower};
use crate::runs;
use crate::session::Given;
use crate::terminal::{print, print_message};

/// How the load is sent and read in one pass.
#[derive(Debug, Clone, Copy)]
struct Pass {
    name: &'static str,
    reads: SocketReads,
    /// What the server does, as its flags.
    server: &'static [&'static str],
}

const PASSES: [Pass; 3] = [
    Pass { name: "adaptive reads", reads: SocketReads::Adaptive, server: &[] },
    Pass { name: "eager reads", reads: SocketReads::Eager, server: &[] },
    Pass {
        name: "adaptive, header and first token together",
        reads: SocketReads::Adaptive,
        server: &["--faults", r#"{"packets":"tight-start"}"#],
    },
];

pub(crate) fn doctor(
    load: &StreamLoad,
    given: &Given,
    format: TableFormatArg,
) -> anyhow::Result<Exit> {
    let fitness = examine(load, given, &PASSES)?;
    let text = match format {
        TableFormatArg::Json => serde_json::to_string(&fitness)? + "\n",
        _ => fitness::text(&fitness),
    };
    print(&text)?;
    Ok(if fitness.is_fit() { Exit::Done } else { Exit::Missed })
}

/// The client's measurement error at the load of a plan, printed to stderr: the first step of `bench --calibrate`.
/// `None` when nothing could be compared.
pub(crate) fn calibrate(plan: &Plan, given: &Given) -> anyhow::Result<Option<Nanos>> {
    let load = StreamLoad::of(plan);
    let fitness = examine(&load, given, &PASSES[..1])?;
    let Some(pass) = fitness.passes.first() else { return Ok(None) };
    print_message(&format!(
        "measurement error at {} streams: first token {}, ITL {} (p50/p99/max; on loopback, without a network card)",
        load.concurrency,
        fitness::spread(&pass.error.ttft),
        fitness::spread(&pass.error.gap)
    ));
    Ok(pass.error.first_token_p99())
}

fn examine(load: &StreamLoad, given: &Given, passes: &[Pass]) -> anyhow::Result<Fitness> {
    let folder = tempfile::Builder::new().prefix("tokometer-doctor-").tempdir()?;
    let mut found = Vec::new();
    for pass in passes {
        print_message(&format!("checking: {}", pass.name));
        found.push(measure(load, pass, given, folder.path())?);
    }
    let most_events_per_s =
        if passes.len() > 1 { Some(flood(load, given, folder.path())?) } else { None };
    Ok(Fitness {
        concurrency: load.concurrency,
        asked_events_per_s: load.events_per_s(),
        most_events_per_s,
        passes: found,
    })
}

/// The load that is asked about: words such as `concurrency=64`, or the flags of a `bench`.
pub(crate) fn load_of(text: &str, given: &Given) -> anyhow::Result<StreamLoad> {
    if !text.split_whitespace().any(|word| word.starts_with("--")) {
        return Ok(parse(text)?);
    }
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    Ok(StreamLoad::of(&lower_words(&words, given)?.plan))
}

fn lower_words(words: &[String], given: &Given) -> anyhow::Result<Lowered> {
    let words = [&["bench".to_owned()], words].concat();
    let typed = args::parse(&words).map_err(|outcome| match outcome {
        ParseOutcome::Clap(error) => Refusal::new(RefusalKind::Usage, error.to_string()),
        ParseOutcome::Refused(refusal) => refusal,
    })?;
    let Command::Bench(bench) = typed.command else {
        anyhow::bail!("internal error: the flags of bench were parsed as another command")
    };
    // The load is what is asked about, not what a preset says.
    Ok(lower(&bench.bench, &typed.order, &given.environment.without_presets())?)
}

/// The plan of a run that drives `load` at the server. Requests carry the ids that its log names.
fn planned(load: &StreamLoad, reads: SocketReads, server: &Url) -> Result<PartialPlan, Refusal> {
    let target = PartialTarget {
        address: Some(Address::Server(server.clone())),
        backend: Some(lower::dialect("openai")?),
        trust: Some(Trust::Anybody),
        ..PartialTarget::default()
    };
    Ok(PartialPlan {
        targets: vec![target],
        workload: PartialSpec {
            dataset: Some("random".to_owned()),
            input_len: Some(16),
            output_len: Some(OrNone(Some(load.tokens))),
            ..PartialSpec::default()
        },
        load: load.planned(),
        request: PartialRequest {
            request_id_prefix: Some(Some("truth-".to_owned())),
            ..PartialRequest::default()
        },
        client: PartialClient {
            connections: Some(Connections::Preopen),
            socket_reads: Some(reads),
            scrape_interval_s: Some(0.0),
            ..PartialClient::default()
        },
        output: PartialOutput { shown: Some(Shown::Nothing), ..PartialOutput::default() },
        ..PartialPlan::default()
    })
}

/// A run against a simulated server with these flags. Returns the folder of its record.
fn run(
    load: &StreamLoad,
    server: &[String],
    reads: SocketReads,
    given: &Given,
    folder: &Path,
) -> anyhow::Result<PathBuf> {
    let mut flags = server.to_vec();
    flags.extend(load.is_tls.then(|| "--tls".to_owned()));
    let simulator = Simulator::launch(&flags)?;
    let record = folder.join("run");
    let _ = std::fs::remove_dir_all(&record);
    let plan = lower::complete_part(planned(load, reads, simulator.url())?)?;
    // The simulated server takes no key.
    let secrets = Credentials { hub: given.environment.hub.clone(), ..Credentials::default() };
    let mut measurement = measurement(&secrets, None, Bar::Hidden, given);
    if let Some(why) = measurement.run(&plan, 0, &record)?.write_failure {
        return Err(Refusal::new(RefusalKind::Write, why.to_string()).into());
    }
    if measurement.is_interrupted() {
        return Err(Refusal::new(RefusalKind::Interrupted, "interrupted").into());
    }
    // Ending the server closes its log.
    drop(simulator);
    Ok(record)
}

fn measure(
    load: &StreamLoad,
    pass: &Pass,
    given: &Given,
    folder: &Path,
) -> anyhow::Result<PassError> {
    let log = folder.join("truth");
    let mut server = vec![
        "--ttft".to_owned(),
        format!("{}ns", load.ttft.0),
        "--itl".to_owned(),
        format!("{}ns", load.itl.0),
        "--truth".to_owned(),
        log.display().to_string(),
    ];
    server.extend(pass.server.iter().map(|flag| (*flag).to_owned()));
    let record = run(load, &server, pass.reads, given, folder)?;
    let reader = runs::open(&record)?;
    let timelines: Vec<Timeline> = runs::timelines(&reader)?.collect();
    let emissions: Vec<Emission> = truth::read(&log)?.iter().filter_map(emission).collect();
    let cpu_time = runs::end(&record).and_then(|end| end.health.cpu_time);
    Ok(PassError::of(pass.name, &timelines, &emissions, cpu_time))
}

/// Floods the client over as many streams as asked for, one event per write.
fn flood(load: &StreamLoad, given: &Given, folder: &Path) -> anyhow::Result<f64> {
    print_message("checking: maximum event rate");
    let server = ["--flood".to_owned(), "1".to_owned()];
    let record = run(&load.flooded(), &server, SocketReads::Adaptive, given, folder)?;
    let reader = runs::open(&record)?;
    Ok(events_per_s(runs::timelines(&reader)?))
}

fn emission(request: &truth::TrueRequest) -> Option<Emission> {
    Some(Emission { index: request.index()?, sent: request.texts_sent() })
}

const HINT: &str = "write it as `concurrency=2048 itl=20ms`, also with rate=, ttft=, tokens= and tls, or give the flags of bench";

/// Reads words such as `concurrency=2048 itl=20ms tls`.
fn parse(text: &str) -> Result<StreamLoad, Refusal> {
    let mut load = StreamLoad::default();
    for word in text.split([' ', ',']).filter(|word| !word.is_empty()) {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let refused = |why: &str| Refusal::usage(format!("cannot use `{word}`: {why}"), HINT);
        let span = || {
            units::parse_span(value, Nanos::from_millis(1)).map_err(|why| refused(&why.to_string()))
        };
        let count = || {
            let count = value.parse::<u32>().ok().filter(|count| *count > 0);
            count.ok_or_else(|| refused("it must be a whole number greater than zero"))
        };
        let rate = || {
            let rate = value.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
            rate.ok_or_else(|| refused("the rate must be a number greater than zero"))
        };
        match name {
            "concurrency" | "streams" => load.concurrency = count()?,
            "tokens" => load.tokens = count()?.max(2),
            "ttft" => load.ttft = span()?,
            "itl" => load.itl = span()?,
            "rate" => load.rate = Some(rate()?),
            "tls" => load.is_tls = true,
            _ => {
                return Err(Refusal::usage(
                    format!("cannot use `{word}` in `--load`: unknown key"),
                    HINT,
                ));
            }
        }
    }
    if load.itl == Nanos::ZERO {
        return Err(Refusal::usage(
            "cannot use `itl=0`: the time between tokens must be greater than zero",
            HINT,
        ));
    }
    Ok(load)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_read_as_typed_and_the_rest_is_by_default() {
        let load = parse("concurrency=2048 itl=20ms, tls").unwrap();
        assert_eq!(
            (load.concurrency, load.itl, load.is_tls),
            (2_048, Nanos::from_millis(20), true)
        );
        assert_eq!(load.ttft, StreamLoad::default().ttft);
        let load = parse("rate=50 tokens=100").unwrap();
        assert_eq!((load.rate, load.tokens), (Some(50.0), 100));
        for bad in ["concurrency=0", "rate=0", "rate=inf", "speed=3", "itl=0ms", "itl=soon"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
