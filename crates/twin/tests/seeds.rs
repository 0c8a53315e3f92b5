//! The regression test of the model: the shipped profiles still describe the tables they were fitted to.
//! Not evidence, which is predicting runs of a real server; only a guard against a change that makes the
//! model worse.

use std::path::Path;

use tokometer_figures::{Figure, Quantity};
use tokometer_sim::Profile;
use tokometer_twin::OldClient;
use tokometer_twin::fit::{
    Accuracy, CalibrationTable, Candidate, FIGURES, HeldOut, MeasuredRow, errors, is_main,
    main_errors, predict_rows, stalls,
};

fn rows(name: &str) -> Vec<MeasuredRow> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/seeds").join(name);
    let text = std::fs::read_to_string(path).expect("a seed table");
    let mut table = CalibrationTable::default();
    table.add(name, &tokometer_compat::parse(&text), Some(150)).expect("one engine");
    table.rows
}

/// How well a shipped profile describes its table, the stalled rows left out.
fn accuracy(name: &str, seed_file: &str, spread: f64) -> Accuracy {
    let rows = rows(seed_file);
    let profile = Profile::shipped(name).expect("a shipped profile");
    let candidate = Candidate { profile, client: OldClient::default(), spread };
    let stalled = stalls(&rows);
    let is_kept = |at: &usize| stalled.iter().all(|left| left.row != *at);
    let kept: Vec<usize> = (0..rows.len()).filter(is_kept).collect();
    let predicted = predict_rows(&candidate, &rows, &kept, 4).expect("every row fits the engine");
    Accuracy::of(&main_errors(&rows, &predicted)).expect("every row has figures")
}

#[test]
fn shipped_profiles_describe_their_tables_within_the_stated_bounds() {
    let tables = [
        ("vllm-405b", "002_902df92d1b3a4732.txt", VLLM_SPREAD),
        ("tgi-405b", "003_8b5b9f497242493f.txt", TGI_SPREAD),
    ];
    for (name, seed_file, spread) in tables {
        let accuracy = accuracy(name, seed_file, spread);
        assert!(accuracy.median <= 0.03, "{name}: {accuracy:?}");
        assert!(accuracy.within_10 >= 0.90, "{name}: {accuracy:?}");
        assert!(accuracy.within_25 >= 1.0, "{name}: {accuracy:?}");
    }
}

/// Spreads of answer lengths that were fitted with the profiles. They belong to the tables.
const VLLM_SPREAD: f64 = 0.29;
const TGI_SPREAD: f64 = 0.31;

/// A seed table and the stored fits of its odd and of its even rows.
struct Table {
    seed_file: &'static str,
    odd: &'static str,
    even: &'static str,
}

const TABLES: [Table; 2] = [
    Table {
        seed_file: "002_902df92d1b3a4732.txt",
        odd: "vllm-405b.odd.toml",
        even: "vllm-405b.even.toml",
    },
    Table {
        seed_file: "003_8b5b9f497242493f.txt",
        odd: "tgi-405b.odd.toml",
        even: "tgi-405b.even.toml",
    },
];

/// Every kept row, predicted by the fit of the other half of the rows, as it was when `lab/data/seeds.md`
/// was made.
fn held_out(table: &Table, rows: &[MeasuredRow]) -> Vec<HeldOut> {
    let stalled = stalls(rows);
    let fold = |file: &str| -> Candidate {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/twin/folds");
        let text = std::fs::read_to_string(folder.join(file)).expect("a stored fold");
        toml::from_str(&text).expect("a candidate")
    };
    let mut predicted = Vec::new();
    for (rest, other) in [(0, fold(table.odd)), (1, fold(table.even))] {
        // Every event would have to be told for the client's part, which is below a percent.
        let other = Candidate { client: OldClient::default(), ..other };
        let is_kept = |at: &usize| at % 2 == rest && stalled.iter().all(|left| left.row != *at);
        let half: Vec<usize> = (0..rows.len()).filter(is_kept).collect();
        predicted.extend(predict_rows(&other, rows, &half, 20).expect("every row fits"));
    }
    predicted
}

/// The project's goals for both tables together.
#[test]
fn stored_fits_of_half_a_table_predict_the_other_half_within_the_stated_bounds() {
    let held: Vec<(Vec<MeasuredRow>, Vec<HeldOut>)> = TABLES
        .iter()
        .map(|table| {
            let rows = rows(table.seed_file);
            let held = held_out(table, &rows);
            (rows, held)
        })
        .collect();
    let share_within = |figure: Figure, bounds: std::ops::RangeInclusive<f64>| {
        let all = held.iter().flat_map(|(rows, held)| errors(rows, held, figure));
        let is_within: Vec<bool> = all.map(|error| bounds.contains(&(1.0 + error))).collect();
        is_within.iter().filter(|is_within| **is_within).count() as f64 / is_within.len() as f64
    };
    let main = held.iter().flat_map(|(rows, held)| main_errors(rows, held));
    let main = Accuracy::of(&main.collect::<Vec<_>>()).expect("every row has figures");
    assert!(main.median <= 0.03 && main.within_10 >= 0.90 && main.within_25 >= 1.0, "{main:?}");
    for figure in FIGURES.into_iter().filter(|figure| is_main(*figure)) {
        let share = share_within(figure, 0.9..=1.1);
        assert!(share >= 0.80, "{figure}: {share}");
    }
    let [tpot_p99, itl_p50, itl_p99] = [
        share_within(Figure::percentile(Quantity::Tpot, 99), 0.85..=1.15),
        share_within(Figure::percentile(Quantity::Itl, 50), 0.9..=1.1),
        share_within(Figure::percentile(Quantity::Itl, 99), 1.0 / 1.5..=1.5),
    ];
    assert!(
        tpot_p99 >= 0.90 && itl_p50 >= 0.85 && itl_p99 >= 0.75,
        "{tpot_p99} {itl_p50} {itl_p99}"
    );
}

#[test]
fn the_two_stalled_rows_are_found_and_no_other() {
    let tgi = rows("003_8b5b9f497242493f.txt");
    let found: Vec<u64> = stalls(&tgi).iter().map(|left| tgi[left.row].requests).collect();
    assert_eq!(found, [2, 32]);
    assert!(stalls(&rows("002_902df92d1b3a4732.txt")).is_empty());
}
