//! Spellings, keys and labels of figures.

use proptest::prelude::*;

use super::quantity::named_rows;
use super::statistic::MILLIONTHS;
use super::*;
use crate::define::Formula;

/// Every figure with the statistics that rules and files use.
fn figures() -> Vec<Figure> {
    let statistics = [
        Statistic::Mean,
        Statistic::Std,
        Statistic::Min,
        Statistic::Max,
        Statistic::MEDIAN,
        Statistic::P99,
        Statistic::Percentile(Percentile::parse("99.9").unwrap()),
    ];
    let of = |quantity: Quantity| {
        if quantity.is_distribution() {
            statistics.map(|statistic| Figure { quantity, statistic }).to_vec()
        } else {
            vec![Figure::whole(quantity)]
        }
    };
    Quantity::all().flat_map(of).collect()
}

#[test]
fn every_spelling_means_one_figure() {
    let check = |key: &str, spellings: &[&str]| {
        for text in spellings {
            let found = Figure::parse(text).map(Figure::key);
            assert_eq!(found.as_deref(), Ok(key), "{text}");
        }
    };
    check(
        "ttft_ms_p99",
        &[
            "p99 ttft",
            "ttft p99",
            "P99 TTFT",
            "ttft_ms_p99",
            "p99_ttft_ms",
            "p99-ttft",
            "  p99   ttft ",
            "TTFT-P99",
            "p99 time to first token",
            "p99.0 ttft",
        ],
    );
    check("ttft_ms_p99.9", &["p99.9 ttft", "ttft p99.9", "p99.9_ttft_ms", "ttft_ms_p99.9"]);
    check("ttft_ms_mean", &["ttft", "mean ttft", "avg ttft", "ttft_ms", "mean_ttft_ms"]);
    check("gap_ms_p50", &["median itl", "itl p50", "median_itl_ms", "gap median", "gap_ms_p50"]);
    check("e2e_ms_mean", &["mean e2e", "e2el", "mean_e2el_ms", "latency", "end-to-end latency"]);
    check("e2e_ms_max", &["max e2e", "e2e max"]);
    check("tpot_ms_std", &["std_tpot_ms", "tpot std"]);
    check(
        "output_tokens_per_s",
        &["output throughput", "throughput", "output", "output_throughput", "OUTPUT tok/s"],
    );
    check("requests_per_s", &["req/s", "requests/s", "request_throughput", "requests"]);
    check("total_tokens_per_s", &["total", "total_token_throughput", "total throughput"]);
    check("prompt_tokens_per_s", &["input_throughput", "prompt throughput"]);
    check("peak_output_tokens_per_s", &["max_output_tokens_per_s", "peak output throughput"]);
    check("goodput_share", &["goodput", "goodput_share"]);
    check("goodput_requests_per_s", &["request_goodput", "goodput rate"]);
    check("client_queue_ms_p99", &["queue p99", "p99_client_queue_time_ms"]);
    check("ttft_from_intended_ms_mean", &["ttft-from-intended", "mean TTFT from intended"]);
    check("tokens_per_s_per_user_p50", &["median user-speed", "speed per user p50"]);
}

#[test]
fn what_is_no_figure_names_its_neighbours() {
    let check = |text: &str, expected: &str| {
        let message = Figure::parse(text).unwrap_err().to_string();
        assert!(message.contains(expected), "{text}: {message}");
    };
    check("p99 tttf", "`tttf` is not a metric\n  similar: TTFT");
    check("p99 tpto", "similar: TPOT");
    check("output thruput", "similar: Output throughput");
    check("xyz", "the metrics are Request throughput, Output throughput");
    check("", "is not a metric");
    check("p99", "is not a metric");
    check("p0 ttft", "`p0` is not a percentile");
    check("p200 ttft", "`p200` is not a percentile");
    check("p99x ttft", "`p99x` is not a percentile");
    check("p99 goodput", "Goodput is one value per run and has no p99");
    check("p99 mean ttft", "names two statistics");
    check("ttft tpot", "is not a metric");
    check("output_ms", "is not a metric");
}

#[test]
fn a_quantity_stands_in_its_own_row_and_among_the_definitions() {
    for quantity in Quantity::all() {
        assert_eq!(Quantity::parse(quantity.label()), Ok(quantity));
        assert_eq!(Quantity::parse(quantity.key()), Ok(quantity));
        assert!(quantity.section().is_none_or(|word| Quantity::parse(word) == Ok(quantity)));
        let is_latency = matches!(quantity.metric().formula, Formula::Latency(_));
        assert!(!is_latency || quantity.better() == Better::Lower);
    }
    let spellings: Vec<String> = named_rows()
        .flat_map(|(_, names)| {
            names.words.iter().map(|word| (*word).to_owned()).chain([normal(names.label)])
        })
        .collect();
    for (at, spelling) in spellings.iter().enumerate() {
        assert!(!spellings[..at].contains(spelling), "{spelling} means two quantities");
        assert_eq!(normal(spelling), *spelling, "{spelling} is never typed so");
    }
}

#[test]
fn every_figure_is_printed_in_one_way() {
    let shown: Vec<String> = figures()
        .into_iter()
        .map(|figure| {
            let better = if figure.better() == Better::Lower { "lower" } else { "higher" };
            format!("{} | {} | {} | {better}", figure.label(), figure.key(), figure.unit().name())
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn percentiles_are_written_without_needless_decimals() {
    for text in ["99", "99.9", "50", "99.99", "0.5", "100"] {
        assert_eq!(Percentile::parse(text).unwrap().to_string(), text);
    }
    for text in ["", "x", "-1", "101", "1e1", "+5"] {
        assert_eq!(Percentile::parse(text), None, "{text}");
    }
}

fn any_figure() -> impl Strategy<Value = Figure> {
    let quantities: Vec<Quantity> = Quantity::all().collect();
    let statistic = prop_oneof![
        Just(Statistic::Mean),
        Just(Statistic::Std),
        Just(Statistic::Min),
        Just(Statistic::Max),
        (1..100 * MILLIONTHS).prop_map(|one| Statistic::Percentile(Percentile(one))),
        (1..100_u32).prop_map(|one| Statistic::Percentile(Percentile::whole(one))),
    ];
    (proptest::sample::select(quantities), statistic).prop_map(|(quantity, statistic)| {
        let is_spread = quantity.is_distribution();
        Figure { quantity, statistic: if is_spread { statistic } else { Statistic::Whole } }
    })
}

proptest! {
    #[test]
    fn what_is_printed_is_read_back(figure in any_figure()) {
        prop_assert_eq!(Figure::parse(&figure.label()), Ok(figure));
        prop_assert_eq!(Figure::parse(&figure.key()), Ok(figure));
        prop_assert_eq!(Figure::parse(&figure.label().to_uppercase()), Ok(figure));
        prop_assert_eq!(Figure::parse(&figure.label().replace(' ', "_")), Ok(figure));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,24}") {
        let _read = Figure::parse(&text).map_err(|why| why.to_string());
    }

    #[test]
    fn words_of_figures_in_any_order_are_read_or_refused(
        words in proptest::collection::vec(
            prop_oneof!["(p|mean|ttft|ms|per|s|output|max|p99|p[0-9.]{0,4})"],
            0..5,
        )
    ) {
        let _read = Figure::parse(&words.join(" ")).map_err(|why| why.to_string());
    }
}
