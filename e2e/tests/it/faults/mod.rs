//! Faults that a server, a network, a machine or a file can have, and how the program ends with each.
//!
//! Every file here is a table of cases for one group. A case is run against the built binary, its
//! expectations are checked, and its row is compared with `docs/faults.md`, which is written from
//! these tables (`TOKOMETER_WRITE_PAGES=1 cargo test -p tokometer-e2e faults`).

mod answers;
mod case;
mod counting;
mod files;
mod input;
mod limits;
mod network;
mod page;
mod run;
mod scripts;
mod signals;
mod streams;
mod tls;

use case::Case;

/// Groups of the page, in its order.
const GROUPS: [&str; 9] = [
    "Server answers",
    "Streams",
    "Counting",
    "Network",
    "TLS",
    "Client limits",
    "Files and disks",
    "Signals",
    "Bad input",
];

fn check(group: &str, cases: &[Case]) {
    let rows = run::all(cases);
    page::compare(group, &rows);
}

#[test]
fn answers_of_a_faulty_server_end_as_the_page_says() {
    check("Server answers", answers::CASES);
}

#[test]
fn faulty_streams_end_as_the_page_says() {
    check("Streams", streams::CASES);
}

#[test]
fn doubtful_counts_end_as_the_page_says() {
    check("Counting", counting::CASES);
}

#[test]
fn faults_of_the_network_end_as_the_page_says() {
    check("Network", network::CASES);
}

#[test]
fn faults_of_tls_end_as_the_page_says() {
    check("TLS", tls::CASES);
}

#[test]
fn limits_of_the_client_end_as_the_page_says() {
    check("Client limits", limits::CASES);
}

#[test]
fn faults_of_files_and_disks_end_as_the_page_says() {
    check("Files and disks", files::CASES);
}

#[test]
fn signals_end_as_the_page_says() {
    check("Signals", signals::CASES);
}

#[test]
fn bad_input_ends_as_the_page_says() {
    check("Bad input", input::CASES);
}

/// Two rows with one text could not be told apart on the page.
#[test]
fn every_fault_is_described_once_and_the_page_has_enough_of_them() {
    let tables = [
        answers::CASES,
        streams::CASES,
        counting::CASES,
        network::CASES,
        tls::CASES,
        limits::CASES,
        files::CASES,
        signals::CASES,
        input::CASES,
    ];
    let mut faults: Vec<&str> =
        tables.iter().flat_map(|cases| cases.iter()).map(|c| c.fault).collect();
    let all = faults.len();
    faults.sort_unstable();
    faults.dedup();
    assert_eq!(faults.len(), all, "a fault is described twice");
    assert!(all >= 120, "only {all} faults are described");
}
