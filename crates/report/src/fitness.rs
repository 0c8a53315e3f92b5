//! What `tokometer doctor --load` found: the client's measurement error at a load.

use tokometer_figures::instrument::{ErrorSpread, Fitness};

use crate::Grid;

fn table(fitness: &Fitness) -> Grid {
    let mut grid = Grid::new().left("");
    for head in ["first token p50/p99/max", "ITL p50/p99/max", "marked", "CPU s/M"] {
        grid = grid.right(head);
    }
    for pass in &fitness.passes {
        let marked = pass.error.marked_share.map(|share| format!("{:.2}%", 100.0 * share));
        grid.push([
            pass.name.clone(),
            spread(&pass.error.ttft),
            spread(&pass.error.gap),
            marked.unwrap_or_else(|| "–".to_owned()),
            pass.cpu_secs_per_million.map_or("–".to_owned(), |cpu| format!("{cpu:.2}")),
        ]);
        let lost = pass.error.lost_requests();
        if lost > 0 {
            grid.push([format!("{lost} requests do not match the server's log")]);
        }
    }
    grid
}

pub fn text(fitness: &Fitness) -> String {
    let mut lines = vec![format!(
        "measurement error against the server's log: {} streams, {:.0} events/s",
        fitness.concurrency, fitness.asked_events_per_s
    )];
    lines.extend(table(fitness).lines().iter().map(|line| format!("  {line}")));
    if let Some(most) = fitness.most_events_per_s {
        lines.push(format!("  maximum event rate of this client: {most:.0}/s"));
    }
    let verdict = if fitness.is_fit() { "within" } else { "NOT within" };
    lines.push(format!("the requested load is {verdict} what this machine can measure"));
    lines
        .push("measured on loopback: includes reading and parsing, but no network card".to_owned());
    lines.join("\n") + "\n"
}

/// Microseconds, as `3.1/5.9/48 µs`.
pub fn spread(spread: &ErrorSpread) -> String {
    let micros =
        |nanos: Option<f64>| nanos.map_or("–".to_owned(), |nanos| format!("{:.1}", nanos / 1e3));
    format!("{}/{}/{} µs", micros(spread.p50), micros(spread.p99), micros(spread.max))
}

#[cfg(test)]
mod tests {
    use tokometer_figures::instrument::{InstrumentError, PassError};

    use super::*;

    fn fitness(p99: f64, most: f64) -> Fitness {
        let spread = ErrorSpread {
            mean: Some(3_000.0),
            p50: Some(2_800.0),
            p99: Some(p99),
            max: Some(48_000.0),
        };
        let error = InstrumentError {
            ttft: spread,
            gap: spread,
            marked_share: Some(0.001),
            ..InstrumentError::default()
        };
        Fitness {
            concurrency: 2_048,
            asked_events_per_s: 102_400.0,
            most_events_per_s: Some(most),
            passes: vec![PassError {
                name: "adaptive reads".into(),
                error,
                cpu_secs_per_million: Some(3.2),
            }],
        }
    }

    #[test]
    fn a_check_shows_errors_rates_and_whether_the_load_is_within_them() {
        insta::assert_snapshot!(text(&fitness(5_900.0, 250_000.0)), @r#"
        measurement error against the server's log: 2048 streams, 102400 events/s
                          first token p50/p99/max  ITL p50/p99/max  marked  CPU s/M
          adaptive reads          2.8/5.9/48.0 µs  2.8/5.9/48.0 µs   0.10%     3.20
          maximum event rate of this client: 250000/s
        the requested load is within what this machine can measure
        measured on loopback: includes reading and parsing, but no network card
        "#);
    }
}
