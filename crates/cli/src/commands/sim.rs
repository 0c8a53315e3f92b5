//! `tokometer sim`: the simulated server on a port.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokometer_base::neighbours::nearest;
use tokometer_base::{Clock, Nanos, units};
use tokometer_sim::what_if::changed;
use tokometer_sim::{Faults, Flavour, Profile, SimConfig, SimServer, TokenTiming, Transport};

use crate::args::SimArgs;
use crate::exit::{Exit, Refusal, RefusalKind};
use crate::signals::heeded;
use crate::terminal::{print, print_message};

/// Runs until a signal arrives or the parent process exits.
pub(crate) fn sim(args: &SimArgs, clock: &dyn Clock) -> anyhow::Result<Exit> {
    let server = SimServer::bind(config(args)?)
        .map_err(|why| Refusal::new(RefusalKind::Target, why.to_string()))?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in heeded() {
        // The second one does not wait.
        let code = Exit::Interrupted as i32;
        let _second =
            signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&stop))?;
        let _handler = signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let scheme = if args.tls { "https" } else { "http" };
    let address = match (server.local_addr(), &args.unix) {
        (Some(address), _) => format!("{scheme}://{address}"),
        (None, path) => format!("unix:{}", path.as_deref().unwrap_or(Path::new("")).display()),
    };
    print(&format!("listening on {address}\n"))?;
    if server.local_addr().is_some_and(|address| !address.ip().is_loopback()) {
        print_message(
            "note: the simulated server is reachable from the network\n  omit `--host` to listen on this machine only",
        );
    }
    if args.follow_stdin {
        follow(&stop)?;
    }
    server.run(&stop, clock).map_err(|why| Refusal::new(RefusalKind::Target, why.to_string()))?;
    Ok(Exit::Done)
}

/// Stops the server once standard input is closed, which happens at the latest when the parent dies.
fn follow(stop: &Arc<AtomicBool>) -> std::io::Result<()> {
    let stop = Arc::clone(stop);
    let watch = move || {
        let mut nothing = [0; 64];
        while matches!(std::io::stdin().read(&mut nothing), Ok(count) if count > 0) {}
        stop.store(true, Ordering::Relaxed);
    };
    std::thread::Builder::new().name("parent".to_owned()).spawn(watch).map(|_thread| ())
}

fn config(args: &SimArgs) -> Result<SimConfig, Refusal> {
    let faults: Faults = match &args.faults {
        None => Faults::default(),
        Some(text) => serde_json::from_str(text).map_err(|why| {
            Refusal::usage(format!("cannot use the value of `--faults`: {why}"), "")
        })?,
    };
    let pace = pace(args)?;
    Ok(SimConfig {
        host: args.host.clone(),
        port: args.port,
        unix: args.unix.clone(),
        model: args.model.clone(),
        flavour: flavour(&args.flavour)?,
        pace: args.slower.map_or(pace.clone(), |factor| pace.scaled(factor)),
        seed: args.seed,
        reasoning_tokens: args.reasoning,
        reports_cached_tokens: args.enable_prompt_tokens_details,
        api_key: args.api_key.clone(),
        transport: if args.tls { Transport::Tls } else { Transport::Plain },
        truth: args.truth.clone(),
        faults,
        ..SimConfig::default()
    })
}

fn pace(args: &SimArgs) -> Result<TokenTiming, Refusal> {
    let span = |text: &String| {
        units::parse_span(text, Nanos::from_millis(1))
            .map_err(|why| Refusal::usage(why.to_string(), "write it as `20ms`"))
    };
    match (&args.ttft, &args.itl, args.flood) {
        (Some(ttft), Some(itl), _) => Ok(TokenTiming::Fixed { ttft: span(ttft)?, itl: span(itl)? }),
        (_, _, Some(events_per_write)) => Ok(TokenTiming::Flood { events_per_write }),
        _ => {
            let profile =
                Profile::open(&args.profile).map_err(|why| Refusal::usage(why.to_string(), ""))?;
            let (profile, changes) = changed(profile, &args.set)?;
            for change in changes {
                print_message(&format!("what-if: {change}"));
            }
            Ok(TokenTiming::Engine(Box::new(profile)))
        }
    }
}

fn flavour(name: &str) -> Result<Flavour, Refusal> {
    Flavour::ALL.into_iter().find(|flavour| flavour.name() == name).ok_or_else(|| {
        let near = nearest(name, Flavour::ALL.into_iter().map(Flavour::name)).join(", ");
        Refusal::usage(
            format!(
                "unknown flavour `{name}`{}",
                if near.is_empty() { near } else { format!(", similar to {near}") }
            ),
            "the flavours are vllm, sglang, llamacpp, tgi and transformers",
        )
    })
}
