//! An unmeasured engine, from its model's size and its hardware's data sheet.
//!
//! Reading all weights takes their bytes over the memory's bandwidth; a token takes two operations per
//! parameter over the arithmetic speed; a token of context takes its keys and values over the
//! bandwidth. Arithmetic and the reading of weights overlap, so a step takes the longer of the two. Real
//! engines reach part of that, so the result is stated with plus or minus half.

use sim::Profile;
use tokometer_sim as sim;

/// What such a profile's times may be off by, as a share.
pub const UNCERTAINTY: f64 = 0.5;

/// What a data sheet does not say.
pub const LEFT_OUT: &str =
    "communication between devices, the arithmetic of attention, and the time between steps";

/// Share of the data sheet's figures that well-made engines reach.
const REACHED: f64 = 0.6;

/// A model on its hardware, as a data sheet describes it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Roofline {
    pub parameters: f64,
    /// Parameters that a token passes through; `None`: all of them.
    pub active_parameters: Option<f64>,
    pub parameter_bytes: f64,
    /// Bytes of keys and values per token of context, all layers together; `None`: what models of this
    /// size usually have.
    pub context_bytes: Option<f64>,
    /// Devices that share the work.
    pub devices: f64,
    /// Arithmetic speed of one device, in 10^12 operations per second.
    pub tflops: f64,
    /// Memory bandwidth of one device, in 10^9 bytes per second.
    pub gbytes_per_s: f64,
}

/// Bytes of keys and values per token that models of this many parameters usually have:
/// eight heads of 128 in two bytes, for 32, 80 or 126 layers.
fn usual_context_bytes(parameters: f64) -> f64 {
    match parameters {
        small if small < 25e9 => 131_072.0,
        middle if middle < 200e9 => 327_680.0,
        _ => 516_096.0,
    }
}

impl Roofline {
    /// The engine profile that follows from the data sheet, less what engines usually lose. Scheduler and
    /// front end are those of `template`.
    pub fn profile(&self, template: Profile) -> Profile {
        let bandwidth = self.devices * self.gbytes_per_s * 1e9 * REACHED;
        let speed = self.devices * self.tflops * 1e12 * REACHED;
        let mut profile = template;
        let cost = &mut profile.cost;
        cost.base_ms = self.parameters * self.parameter_bytes / bandwidth * 1e3;
        cost.token_ms = 0.0;
        cost.compute_ms = 2.0 * self.active_parameters.unwrap_or(self.parameters) / speed * 1e3;
        let context_bytes =
            self.context_bytes.unwrap_or_else(|| usual_context_bytes(self.parameters));
        cost.context_ms = context_bytes / bandwidth * 1e3;
        cost.pair_ms = 0.0;
        (cost.cliff_ms, cost.eager_ms, cost.sequence_ms) = (0.0, 0.0, 0.0);
        // The one formula holds for steps that only prefill too: it alone knows what overlaps.
        cost.prefill = None;
        "roofline".clone_into(&mut profile.name);
        profile.provenance = format!(
            "Not measured: {} billion parameters of {} bytes on {} devices of {} TFLOP/s and {} GB/s, of \
             which {:.0} % are assumed to be reached. A step takes the longer of its arithmetic and of reading the \
             weights. Left out: {LEFT_OUT}. Times may be off by {:.0} %.",
            self.parameters / 1e9,
            self.parameter_bytes,
            self.devices,
            self.tflops,
            self.gbytes_per_s,
            100.0 * REACHED,
            100.0 * UNCERTAINTY
        );
        profile
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_sheet_leaves_out_what_follows_from_the_size() {
        let cost = |sheet: Roofline| sheet.profile(Profile::default()).cost;
        let sheet = Roofline { parameters: 70e9, ..small_model() };
        let given = |active_parameters, context_bytes| Roofline {
            active_parameters: Some(active_parameters),
            context_bytes: Some(context_bytes),
            ..sheet
        };
        assert_eq!(cost(sheet), cost(given(70e9, 327_680.0)));
        let sparse = cost(given(12e9, 65_536.0));
        assert!(sparse.compute_ms < cost(sheet).compute_ms);
        assert!(sparse.context_ms < cost(sheet).context_ms);
    }

    /// Eight billion parameters of two bytes on one device.
    fn small_model() -> Roofline {
        Roofline {
            parameters: 8e9,
            active_parameters: None,
            parameter_bytes: 2.0,
            context_bytes: None,
            devices: 1.0,
            tflops: 990.0,
            gbytes_per_s: 4_800.0,
        }
    }

    #[test]
    fn a_small_model_on_one_device_reads_its_weights_once_per_step() {
        let roofline = small_model();
        let profile = roofline.profile(Profile::default());
        // 16 GB over 60 % of 4.8 TB/s
        assert!((profile.cost.base_ms - 5.56).abs() < 0.01, "{}", profile.cost.base_ms);
        assert!((profile.cost.compute_ms - 0.0269).abs() < 1e-3, "{}", profile.cost.compute_ms);
        assert!(profile.provenance.contains("off by 50 %"));
        assert!(profile.provenance.contains("Left out: communication between devices"));
        profile.check().unwrap();
    }

    /// Reading the weights and computing overlap: the sum of both would be up to twice too slow.
    #[test]
    fn a_step_takes_the_longer_of_arithmetic_and_reading_the_weights() {
        let roofline = small_model();
        let mut template = Profile::default();
        template.cost.prefill =
            Some(sim::cost::PrefillCost { base_ms: 9.0, token_ms: 9.0, pair_ms: 9.0 });
        let cost = roofline.profile(template).cost;
        let prefill = |prefill_tokens| {
            cost.mean_ms(&sim::cost::Batch { prefill_tokens, ..sim::cost::Batch::default() })
        };
        let (reading, token) = (cost.base_ms, cost.compute_ms);
        assert!((prefill(1) - reading).abs() < 1e-9 && (prefill(200) - reading).abs() < 1e-9);
        assert!((prefill(8_192) - 8_192.0 * token).abs() < 1e-9, "{}", prefill(8_192));
        let decode = sim::cost::Batch { decodes: 64, ..sim::cost::Batch::default() };
        assert!((cost.mean_ms(&decode) - reading).abs() < 1e-9);
    }
}
