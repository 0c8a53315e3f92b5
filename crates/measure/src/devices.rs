//! The GPUs of this host, read through the driver's library.
//!
//! The library is part of NVIDIA's driver and is loaded when a run starts. Where it is missing, or
//! where the server runs on another host, there are no GPU figures. A value that a device does not
//! report is absent.

use std::collections::BTreeMap;
use std::net::UdpSocket;

use nvml_wrapper::{Device, Nvml};
use tokometer_client::Url;
use tokometer_metrics::server::gpu::{ENERGY_MJ, MEMORY_MIB, POWER_W, UTILISATION_PERCENT};

/// The driver's library, with at least one device.
pub(crate) struct Devices {
    library: Nvml,
    count: u32,
}

impl Devices {
    /// The GPUs of a server at `url`; `None` where it is on another host or has none.
    pub(crate) fn beside(url: &Url) -> Option<Self> {
        if !is_here(url) {
            return None;
        }
        let library = Nvml::init().ok()?;
        let count = library.device_count().ok().filter(|count| *count > 0)?;
        Some(Self { library, count })
    }

    /// Current values of all devices, under the names of [`tokometer_metrics::server::gpu`].
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

/// Whether an address belongs to this host: only such an address can be bound.
fn is_here(url: &Url) -> bool {
    let is_own = |address: std::net::SocketAddr| UdpSocket::bind((address.ip(), 0)).is_ok();
    url.resolve().is_ok_and(|addresses| addresses.into_iter().any(is_own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_this_host_are_here() {
        let check = |url: &str, expected: bool| {
            assert_eq!(is_here(&Url::parse(url).unwrap()), expected, "{url}");
        };
        check("http://127.0.0.1:8000", true);
        check("http://[::1]:8000", UdpSocket::bind(("::1", 0)).is_ok());
        // An address reserved for documentation.
        check("http://192.0.2.1:8000", false);
    }
}
