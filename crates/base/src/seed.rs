//! One root seed, many independent streams.
//!
//! Every draw is keyed by (root, stream name, index): the lengths of request 17 do not depend on how
//! many numbers the arrivals took, nor on which worker drew them. Any shard of a run can therefore be
//! computed alone. The generator is xoshiro256++, the same bits on every machine.

use rand::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

/// The generator handed out by a [`Stream`].
pub type Generator = Xoshiro256PlusPlus;

/// The root of all randomness of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seed(pub u64);

/// A named, independent source of randomness below a [`Seed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    key: u64,
}

/// One round of the splitmix64 finaliser: every input bit reaches every output bit.
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl Seed {
    /// The stream of this name. The same name always gives the same stream.
    pub fn stream(self, name: &str) -> Stream {
        let key = name.bytes().fold(mix(self.0), |key, byte| mix(key ^ u64::from(byte)));
        Stream { key }
    }
}

impl Stream {
    /// A generator for item `index`, independent of all other indexes.
    pub fn at(self, index: u64) -> Generator {
        Generator::seed_from_u64(mix(self.key ^ mix(index)))
    }

    pub fn draw(self, index: u64) -> u64 {
        self.at(index).next_u64()
    }
}

/// A number in `0.0..1.0` with 53 random bits.
pub fn unit_float(generator: &mut impl RngCore) -> f64 {
    (generator.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// A whole number in `low..=high`, each equally likely. `low` when the range is empty.
pub fn whole_between(generator: &mut impl RngCore, low: u64, high: u64) -> u64 {
    let Some(width) = high.checked_sub(low).filter(|width| *width < u64::MAX) else { return low };
    let product = u128::from(generator.next_u64()) * u128::from(width + 1);
    // The upper half of a 64 × 64 bit product is uniform to within width / 2^64.
    low + u64::try_from(product >> 64).unwrap_or(width)
}

pub fn shuffle<T>(items: &mut [T], generator: &mut impl RngCore) {
    for last in (1..items.len()).rev() {
        let other = whole_between(generator, 0, last as u64);
        items.swap(last, usize::try_from(other).unwrap_or(last));
    }
}

/// A draw from the exponential distribution of mean one, the same bits on every machine.
pub fn exponential(generator: &mut impl RngCore) -> f64 {
    // One minus a number below one is never zero, so the logarithm is finite.
    -libm::log(1.0 - unit_float(generator))
}

/// A draw from the standard normal distribution, by Box and Muller's formula.
pub fn normal(generator: &mut impl RngCore) -> f64 {
    let radius = libm::sqrt(2.0 * exponential(generator));
    radius * libm::cos(std::f64::consts::TAU * unit_float(generator))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_repeatable_and_differ_by_name_index_and_root() {
        let draw = |root, name: &str, index| Seed(root).stream(name).draw(index);
        assert_eq!(draw(1, "arrivals", 3), draw(1, "arrivals", 3));
        assert_ne!(draw(1, "arrivals", 3), draw(1, "arrivals", 4));
        assert_ne!(draw(1, "arrivals", 3), draw(1, "lengths", 3));
        assert_ne!(draw(1, "arrivals", 3), draw(2, "arrivals", 3));
    }

    #[test]
    fn the_bits_never_change_between_releases_and_machines() {
        assert_eq!(Seed(0).stream("arrivals").draw(0), 0x419e_01ea_8e4d_d9fa);
    }

    #[test]
    fn whole_numbers_cover_their_range_and_nothing_else() {
        let mut generator = Seed(7).stream("test").at(0);
        let mut seen = [0_u32; 5];
        for _ in 0..5_000 {
            let value = whole_between(&mut generator, 10, 14);
            seen[usize::try_from(value - 10).unwrap()] += 1;
        }
        // Each of five cells expects 1,000 with a standard deviation of 28: seven of them is 200.
        assert!(seen.iter().all(|count| (800..1_200).contains(count)), "{seen:?}");
        assert_eq!(whole_between(&mut generator, 3, 3), 3);
        assert_eq!(whole_between(&mut generator, 4, 3), 4);
    }
}
