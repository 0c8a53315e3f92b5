//! GPU figures of a run, from NVIDIA's DCGM exporter or the driver's library.
//!
//! In: readings of one source, each with values per device. Out: [`GpuFigures`] over the measured
//! phase. A device without any utilisation is not used by the server; it is left out and counted as
//! unused. Energy comes from the device's counter where that was refreshed at both ends of the phase,
//! otherwise from power over time.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use tokometer_base::Nanos;
use tokometer_record::server::Scrape;

use super::prometheus::{bare_name, label};
use crate::rows::TimeSpan;

struct GpuMetricNames {
    name: &'static str,
    utilisation_percent: &'static str,
    memory_mib: &'static str,
    power_w: &'static str,
    energy_mj: &'static str,
}

const SOURCES: [GpuMetricNames; 2] = [
    GpuMetricNames {
        name: "DCGM",
        utilisation_percent: "DCGM_FI_DEV_GPU_UTIL",
        memory_mib: "DCGM_FI_DEV_FB_USED",
        power_w: "DCGM_FI_DEV_POWER_USAGE",
        energy_mj: "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
    },
    GpuMetricNames {
        name: "NVML",
        utilisation_percent: UTILISATION_PERCENT,
        memory_mib: MEMORY_MIB,
        power_w: POWER_W,
        energy_mj: ENERGY_MJ,
    },
];

/// Key of a device's utilisation in a reading of the driver's library.
pub const UTILISATION_PERCENT: &str = "nvml:utilisation_percent";
pub const MEMORY_MIB: &str = "nvml:memory_mib";
pub const POWER_W: &str = "nvml:power_w";
/// Key of its energy since the driver was loaded.
pub const ENERGY_MJ: &str = "nvml:energy_mj";

impl GpuMetricNames {
    fn names(&self) -> [&'static str; 4] {
        [self.utilisation_percent, self.memory_mib, self.power_w, self.energy_mj]
    }
}

pub(super) fn is_known(bare: &str) -> bool {
    SOURCES.iter().any(|source| source.names().contains(&bare))
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct GpuFigures {
    /// The source: `DCGM` or `NVML`.
    pub source: String,
    pub devices: u32,
    /// Devices without utilisation, which are left out.
    pub unused_devices: u32,
    /// Mean utilisation over time and devices, in percent.
    pub utilisation_percent_mean: Option<f64>,
    /// Sum of the devices' largest memory in use, in MiB.
    pub memory_mib_max: Option<f64>,
    /// Mean power of all devices together, in watts.
    pub power_w_mean: Option<f64>,
    /// Energy of all devices together over the measured phase, in joules.
    pub energy_j: Option<f64>,
    /// Whether the energy is power over time: a counter is missing, or was not refreshed at both ends.
    pub is_energy_from_power: bool,
    /// Per output token that the client counted, in joules.
    pub energy_j_per_output_token: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Device {
    utilisation_percent: Option<f64>,
    memory_mib: Option<f64>,
    power_w: Option<f64>,
    energy_mj: Option<f64>,
}

/// All devices of an endpoint at one time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct GpuReading {
    pub(super) at: Nanos,
    source: &'static str,
    devices: BTreeMap<String, Device>,
}

/// GPU use at one time, over all devices of a scrape.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct GpuGauges {
    pub utilisation_percent: Option<f64>,
    pub memory_mib: Option<f64>,
    pub power_w: Option<f64>,
}

pub fn gauges(scrape: &Scrape) -> Option<GpuGauges> {
    let reading = read(scrape)?;
    let all = |value: fn(&Device) -> Option<f64>| {
        let values: Vec<f64> = reading.devices.values().filter_map(value).collect();
        (!values.is_empty()).then(|| (values.iter().sum::<f64>(), values.len()))
    };
    Some(GpuGauges {
        utilisation_percent: all(|device| device.utilisation_percent)
            .map(|(sum, count)| sum / count as f64),
        memory_mib: all(|device| device.memory_mib).map(|(sum, _)| sum),
        power_w: all(|device| device.power_w).map(|(sum, _)| sum),
    })
}

pub(super) fn read(scrape: &Scrape) -> Option<GpuReading> {
    let has = |source: &&GpuMetricNames| {
        scrape.values.keys().any(|name| source.names().contains(&bare_name(name)))
    };
    let source = SOURCES.iter().find(has)?;
    let mut devices: BTreeMap<String, Device> = BTreeMap::new();
    for (name, value) in &scrape.values {
        let target: fn(&mut Device) -> &mut Option<f64> = match bare_name(name) {
            bare if bare == source.utilisation_percent => |device| &mut device.utilisation_percent,
            bare if bare == source.memory_mib => |device| &mut device.memory_mib,
            bare if bare == source.power_w => |device| &mut device.power_w,
            bare if bare == source.energy_mj => |device| &mut device.energy_mj,
            _ => continue,
        };
        // A device may be listed once for each of its partitions, under the same number.
        let number = label(name, "UUID").or_else(|| label(name, "gpu")).unwrap_or_default();
        *target(devices.entry(number.to_owned()).or_default()) = Some(*value);
    }
    Some(GpuReading { at: scrape.at, source: source.name, devices })
}

/// Figures over `span` from readings in time order, one list per endpoint. A counter that power over time
/// contradicts is `ignored`.
pub(super) fn figures(
    endpoints: &[Vec<GpuReading>],
    span: Option<TimeSpan>,
    ignored: &mut Vec<String>,
) -> Option<GpuFigures> {
    let source = endpoints.iter().flatten().next()?.source;
    let mut found = GpuFigures { source: source.to_owned(), ..GpuFigures::default() };
    let (mut use_sum, mut use_count) = (0.0, 0_u32);
    let add = |target: &mut Option<f64>, value: Option<f64>| {
        if let Some(value) = value {
            *target = Some(target.unwrap_or(0.0) + value);
        }
    };
    for readings in endpoints {
        let readings: Vec<&GpuReading> =
            readings.iter().filter(|reading| reading.source == source).collect();
        for device in course(&bracketed(&readings, span)) {
            let uses = || device.iter().filter_map(|(_, seen)| seen.utilisation_percent);
            // Without a utilisation it is unknown whether the server uses the device.
            if uses().next().is_some() && uses().all(|percent| percent <= 0.0) {
                found.unused_devices += 1;
                continue;
            }
            found.devices += 1;
            use_sum += uses().sum::<f64>();
            use_count += u32::try_from(uses().count()).unwrap_or(u32::MAX);
            let memory = device.iter().filter_map(|(_, seen)| seen.memory_mib);
            add(&mut found.memory_mib_max, memory.max_by(f64::total_cmp));
            let from_power = power_over_time(&device);
            add(&mut found.power_w_mean, from_power.map(|power| power.mean_w));
            let counted = counted_energy(&device).filter(|counted| {
                let why = from_power.and_then(|power| contradiction(*counted, power.energy_j));
                let is_sound = why.is_none();
                ignored.extend(why);
                is_sound
            });
            found.is_energy_from_power |= counted.is_none() && from_power.is_some();
            add(&mut found.energy_j, counted.or(from_power.map(|power| power.energy_j)));
        }
    }
    found.utilisation_percent_mean = (use_count > 0).then(|| use_sum / f64::from(use_count));
    Some(found)
}

/// Readings from the last before the span to the first after it.
fn bracketed<'a>(readings: &[&'a GpuReading], span: Option<TimeSpan>) -> Vec<&'a GpuReading> {
    let Some(span) = span else { return readings.to_vec() };
    let from = readings.partition_point(|reading| reading.at <= span.begin).saturating_sub(1);
    let until = readings.partition_point(|reading| reading.at < span.end) + 1;
    readings.get(from..until.min(readings.len())).unwrap_or_default().to_vec()
}

fn course(readings: &[&GpuReading]) -> Vec<Vec<(Nanos, Device)>> {
    let numbers: BTreeSet<&String> =
        readings.iter().flat_map(|reading| reading.devices.keys()).collect();
    let of = |number: &&String| {
        let seen = |reading: &&GpuReading| Some((reading.at, *reading.devices.get(*number)?));
        readings.iter().filter_map(seen).collect()
    };
    numbers.iter().map(of).collect()
}

#[derive(Debug, Clone, Copy)]
struct PowerSum {
    mean_w: f64,
    energy_j: f64,
}

/// `None` for a device with fewer than two power values.
fn power_over_time(device: &[(Nanos, Device)]) -> Option<PowerSum> {
    let (mut seconds, mut joules) = (0.0, 0.0);
    for pair in device.windows(2) {
        let Some((before, now)) = pair[0].1.power_w.zip(pair[1].1.power_w) else { continue };
        let span = (pair[1].0 - pair[0].0).as_secs_f64();
        seconds += span;
        joules += span * f64::midpoint(before, now);
    }
    (seconds > 0.0).then(|| PowerSum { mean_w: joules / seconds, energy_j: joules })
}

/// Energies that differ by more than this factor contradict each other. Power is read once a second, and
/// may miss what lies in between.
const CONTRADICTION: f64 = 1.5;

fn contradiction(counted: f64, power: f64) -> Option<String> {
    let is_contradicted = counted.max(power) > CONTRADICTION * counted.min(power);
    is_contradicted
        .then(|| format!("energy of {counted:.0} J by a GPU's counter, {power:.0} J by its power"))
}

/// Joules from the device's energy counter, if it was refreshed between the first two readings and between
/// the last two. An exporter may refresh it every 30 s: the change is then that of another time.
fn counted_energy(device: &[(Nanos, Device)]) -> Option<f64> {
    let seen: Vec<f64> = device.iter().filter_map(|(_, seen)| seen.energy_mj).collect();
    let (first, last) = (seen.first()?, seen.last()?);
    let is_refreshed = |pair: Option<&[f64]>| pair.is_some_and(|pair| pair[1] > pair[0]);
    let mut steps = seen.windows(2);
    let is_whole = is_refreshed(steps.next()) && is_refreshed(steps.next_back());
    (is_whole && last > first).then(|| (last - first) / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::prometheus::{KeptSeries, parse};

    fn reading(at: u64, text: &str) -> GpuReading {
        let values = parse(text, KeptSeries::Values);
        read(&Scrape { at: Nanos::from_secs(at), endpoint: 0, values, error: None }).unwrap()
    }

    fn over(readings: Vec<GpuReading>) -> GpuFigures {
        let span = TimeSpan { begin: Nanos::from_secs(1), end: Nanos::from_secs(9) };
        figures(&[readings], Some(span), &mut Vec::new()).unwrap()
    }

    /// Two devices of an exporter; the second is unused.
    fn exporter(at: u64, percent: u32, watts: u32, energy: Option<u64>) -> GpuReading {
        let labels = |gpu: u32| format!("{{gpu=\"{gpu}\",UUID=\"GPU-{gpu}\",modelName=\"x y\"}}");
        let text = format!(
            "DCGM_FI_DEV_GPU_UTIL{a} {percent}\nDCGM_FI_DEV_GPU_UTIL{b} 0\n\
             DCGM_FI_DEV_FB_USED{a} 40000\nDCGM_FI_DEV_FB_USED{b} 3\n\
             DCGM_FI_DEV_POWER_USAGE{a} {watts}\nDCGM_FI_DEV_POWER_USAGE{b} 70\n",
            a = labels(0),
            b = labels(1)
        );
        let counter = energy
            .map(|energy| format!("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{} {energy}\n", labels(0)));
        reading(at, &(text + &counter.unwrap_or_default()))
    }

    #[test]
    fn energy_comes_from_the_counter_and_unused_devices_are_left_out() {
        let found = over(vec![
            exporter(0, 0, 100, Some(1_000)),
            exporter(1, 50, 300, Some(2_000)),
            exporter(5, 100, 300, Some(1_202_000)),
            exporter(9, 90, 300, Some(2_402_000)),
            exporter(12, 0, 100, Some(9_999_000)),
        ]);
        assert_eq!((found.source.as_str(), found.devices, found.unused_devices), ("DCGM", 1, 1));
        assert_eq!((found.energy_j, found.is_energy_from_power), (Some(2_400.0), false));
        assert_eq!((found.power_w_mean, found.memory_mib_max), (Some(300.0), Some(40_000.0)));
        assert_eq!(found.utilisation_percent_mean, Some(80.0));
    }

    #[test]
    fn without_a_counter_energy_is_power_over_time() {
        let found = over(vec![
            exporter(1, 50, 100, None),
            exporter(5, 50, 200, None),
            exporter(9, 50, 300, None),
        ]);
        assert_eq!((found.energy_j, found.is_energy_from_power), (Some(1_600.0), true));
        assert_eq!(found.power_w_mean, Some(200.0));
    }

    /// A counter that is refreshed every 30 s gave 12,000 J for the 2,027 J of a run of 8 s.
    #[test]
    fn a_counter_that_is_not_refreshed_at_both_ends_gives_way_to_power_over_time() {
        let check = |counter: &dyn Fn(u64) -> u64, is_from_power: bool| {
            let readings = (1..=9).map(|at| exporter(at, 90, 250, Some(counter(at)))).collect();
            let found = over(readings);
            assert_eq!(
                (found.energy_j, found.is_energy_from_power),
                (Some(2_000.0), is_from_power)
            );
        };
        check(&|at| 250_000 * at, false);
        check(&|at| if at < 4 { 1_000 } else { 12_001_000 }, true);
        check(&|at| if at < 2 { 1_000 } else { 12_001_000 }, true);
        check(&|_| 1_000, true);
    }

    #[test]
    fn a_counter_that_power_contradicts_is_ignored_and_named() {
        let readings = (1..=9).map(|at| exporter(at, 90, 250, Some(1_500_000 * at))).collect();
        let span = TimeSpan { begin: Nanos::from_secs(1), end: Nanos::from_secs(9) };
        let mut ignored = Vec::new();
        let found = figures(&[readings], Some(span), &mut ignored).unwrap();
        assert_eq!((found.energy_j, found.is_energy_from_power), (Some(2_000.0), true));
        assert_eq!(ignored, ["energy of 12000 J by a GPU's counter, 2000 J by its power"]);
    }

    #[test]
    fn one_reading_tells_no_energy() {
        let found = over(vec![exporter(1, 50, 100, Some(5))]);
        assert_eq!((found.energy_j, found.power_w_mean), (None, None));
    }
}
