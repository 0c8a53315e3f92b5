//! The GPUs of this host, read through the driver's library.
//!
//! The library is part of NVIDIA's driver and is loaded when a run starts. Where it is missing, or
//! where the server runs on another host, there are no GPU figures. A value that a device does not
//! report is absent.

use std::collections::BTreeMap;
use std::net::UdpSocket;

use nvml_wrapper::{Device, Nvml};
use tokometer_client::conn::{Endpoint, Peer};
use tokometer_figures::server::gpu::{ENERGY_MJ, MEMORY_MIB, POWER_W, UTILISATION_PERCENT};

/// The driver's library, with at least one device.
pub(crate) struct Devices {
    library: Nvml,
    count: u32,
}

impl Devices {
    /// The GPUs of a server; `None` where it is on another host or has none.
    pub(crate) fn beside(endpoint: &Endpoint) -> Option<Self> {
        if !is_here(endpoint) {
            return None;
        }
        let library = Nvml::init().ok()?;
        let count = library.device_count().ok().filter(|count| *count > 0)?;
        Some(Self { library, count })
    }

    /// Current values of all devices, under the names of [`tokometer_figures::server::gpu`].
    pub(crate) fn values(&self) -> BTreeMap<String, f64> {
        let device = |index: u32| Some((index, self.library.device_by_index(index).ok()?));
        (0..self.count)
            .filter_map(device)
            .flat_map(|(index, device)| values_of(index, &device))
            .collect()
    }
}

fn values_of(index: u32, device: &Device<'_>) -> impl Iterator<Item = (String, f64)> + use<> {
    let used = device.utilization_rates().ok().map(|rates| f64::from(rates.gpu));
    let memory = device.memory_info().ok().map(|memory| memory.used as f64 / f64::from(1 << 20));
    let power = device.power_usage().ok().map(|milliwatts| f64::from(milliwatts) / 1e3);
    let energy = device.total_energy_consumption().ok().map(|millijoules| millijoules as f64);
    [(UTILISATION_PERCENT, used), (MEMORY_MIB, memory), (POWER_W, power), (ENERGY_MJ, energy)]
        .into_iter()
        .filter_map(move |(name, value)| Some((format!("{name}{{gpu=\"{index}\"}}"), value?)))
}

/// Whether a server is on this host: only addresses of this host can be bound. Nobody knows where a
/// server behind a proxy is.
fn is_here(endpoint: &Endpoint) -> bool {
    let is_own = |peer: &Peer| match peer {
        Peer::Tcp(address) => UdpSocket::bind((address.ip(), 0)).is_ok(),
        Peer::Unix(_) => true,
    };
    endpoint.proxy().is_none() && endpoint.addresses.iter().any(is_own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_this_host_are_here() {
        let check = |address: &str, expected: bool| {
            let endpoint = Endpoint::plain(address.parse().unwrap());
            assert_eq!(is_here(&endpoint), expected, "{address}");
        };
        check("127.0.0.1:8000", true);
        check("[::1]:8000", UdpSocket::bind(("::1", 0)).is_ok());
        // An address set aside for documentation belongs to nobody.
        check("192.0.2.1:8000", false);
    }
}
