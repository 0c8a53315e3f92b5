//! How the load was spread over the addresses of a server.

use serde::{Deserialize, Serialize};
use tokometer_record::RunInfo;

use crate::rows::{Fate, RequestRow};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressShare {
    pub target: u16,
    pub address: String,
    /// Measured requests that were sent to it.
    pub requests: u64,
    /// Of these, those that succeeded.
    pub succeeded: u64,
}

/// The share of each address, for targets that have more than one.
pub(crate) fn shares(info: &RunInfo, rows: &[RequestRow]) -> Vec<AddressShare> {
    let mut shares = Vec::new();
    for (target, known) in
        (0_u16..).zip(&info.targets).filter(|(_, known)| known.addresses.len() > 1)
    {
        let first = shares.len();
        shares.extend(known.addresses.iter().map(|address| AddressShare {
            target,
            address: address.clone(),
            requests: 0,
            succeeded: 0,
        }));
        for row in rows.iter().filter(|row| row.target == target) {
            let nth = row.address.map(|address| first + usize::from(address));
            if let Some(share) = nth.and_then(|nth| shares.get_mut(nth)) {
                share.requests += 1;
                share.succeeded += u64::from(row.fate == Fate::Succeeded);
            }
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use tokometer_base::Nanos;

    use super::*;
    use crate::testing::{info, load, row};

    #[test]
    fn requests_are_counted_per_address_of_servers_that_have_several() {
        let mut info = info(load(None, 4));
        let at = |address: Option<u16>, fate: Fate| {
            let mut row = row(0, Nanos::ZERO, Nanos::ZERO);
            (row.address, row.fate) = (address, fate);
            row
        };
        let rows = [
            at(Some(1), Fate::Succeeded),
            at(Some(1), Fate::Failed),
            at(None, Fate::Failed),
            at(Some(9), Fate::Failed),
        ];
        info.targets[0].addresses = vec!["a".into()];
        assert_eq!(shares(&info, &rows), []);
        info.targets[0].addresses = vec!["a".into(), "b".into()];
        let found = shares(&info, &rows);
        let found: Vec<_> =
            found.iter().map(|one| (one.address.as_str(), one.requests, one.succeeded)).collect();
        assert_eq!(found, [("a", 0, 0), ("b", 2, 1)]);
    }
}
