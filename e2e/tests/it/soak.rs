//! A few short rounds of the soak, always the same ones.

use tokometer_base::Seed;
use tokometer_e2e::soak::{Length, round};

const ROUNDS: u64 = 5;
const REQUESTS: u32 = 40;

#[test]
fn every_request_is_accounted_for_once_whatever_the_server_does() {
    for number in 0..ROUNDS {
        let folder = tempfile::tempdir().unwrap();
        let done = round(folder.path(), Seed(12), number, Length::Requests(REQUESTS));
        assert_eq!(done.violations, [""; 0], "round {number}: {}", done.what);
        assert_eq!(done.planned, u64::from(REQUESTS), "round {number}");
    }
}
