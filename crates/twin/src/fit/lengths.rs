//! The lengths of a row's requests, from the totals that its table prints.
//!
//! A sweep over the number of prompts takes the first `n` prompts of one list, so the totals of the
//! smaller rows say how many tokens the first answers had: a row of two knows both of its lengths.
//! Within a block of unknown lengths they follow a normal distribution of one spread for the whole
//! table, cut at the longest answer allowed and scaled to the block's total.

use base::Seed;
use base::seed::shuffle;
use tokometer_base as base;

use super::row::MeasuredRow;
use crate::workload::Ask;

/// Requests at the beginning of a list, and the tokens of their answers together.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LengthBlock {
    requests: u64,
    tokens: u64,
    /// Even quantiles of the standard normal distribution, one per request.
    quantiles: Vec<f64>,
}

impl LengthBlock {
    fn new(requests: u64, tokens: u64) -> Self {
        let share = |rank: u64| (rank as f64 + 0.5) / requests as f64;
        Self {
            requests,
            tokens,
            quantiles: (0..requests).map(|rank| quantile(share(rank))).collect(),
        }
    }
}

/// The blocks that a row is made of, as far as smaller rows of its sweep show them.
pub(crate) fn blocks(rows: &[MeasuredRow], at: usize) -> Vec<LengthBlock> {
    let row = &rows[at];
    let mut smaller: Vec<&MeasuredRow> = rows
        .iter()
        .filter(|other| other.requests < row.requests && other.is_same_sweep(row))
        .collect();
    smaller.sort_by_key(|other| other.requests);
    let (mut blocks, mut requests, mut tokens) = (Vec::new(), 0, 0);
    for other in smaller.into_iter().chain([row]) {
        let block = LengthBlock::new(
            other.requests.saturating_sub(requests),
            other.output_tokens.saturating_sub(tokens),
        );
        // A total that does not fit the list was made from other prompts: it says nothing.
        let is_possible = block.tokens >= block.requests
            && row.output_tokens.saturating_sub(other.output_tokens)
                >= row.requests.saturating_sub(other.requests);
        if block.requests == 0 || !is_possible {
            continue;
        }
        blocks.push(block);
        (requests, tokens) = (other.requests, other.output_tokens);
    }
    let known: u64 = blocks.iter().map(|block| block.requests).sum();
    if known == row.requests {
        blocks
    } else {
        vec![LengthBlock::new(row.requests, row.output_tokens)]
    }
}

/// The requests of a row, drawn for one seed.
pub(crate) fn asks(row: &MeasuredRow, blocks: &[LengthBlock], spread: f64, seed: Seed) -> Vec<Ask> {
    let mut outputs = Vec::new();
    for (number, block) in (0_u64..).zip(blocks) {
        let limit = row.output_limit.unwrap_or(u32::MAX);
        let mut generator = seed.stream("answer-lengths").at(number);
        let mut lengths = spread_out(block, spread, limit);
        shuffle(&mut lengths, &mut generator);
        outputs.extend(lengths);
    }
    let limit = row.output_limit;
    let prompt = |index: u64| {
        let even = row.input_tokens / row.requests;
        let more = u64::from(index < row.input_tokens % row.requests);
        u32::try_from(even + more).unwrap_or(u32::MAX)
    };
    (0_u64..)
        .zip(outputs)
        .map(|(index, output_tokens)| Ask {
            prompt_tokens: prompt(index),
            output_tokens,
            output_limit: limit.unwrap_or(output_tokens).max(output_tokens),
            ..Ask::default()
        })
        .collect()
}

/// Lengths at even quantiles of a normal distribution, cut and scaled to the block's total.
fn spread_out(block: &LengthBlock, spread: f64, limit: u32) -> Vec<u32> {
    let count = block.requests;
    let mean = block.tokens as f64 / count as f64;
    let shape: Vec<f64> =
        block.quantiles.iter().map(|quantile| (1.0 + spread * quantile).max(0.05)).collect();
    let sum: f64 = shape.iter().sum();
    let mut scale = count as f64 / sum;
    let cap = f64::from(limit);
    // What the cap cuts off is given to the others, a part of it in each round.
    for _ in 0..40 {
        let total: f64 = shape.iter().map(|share| (share * scale * mean).min(cap)).sum();
        if (total - block.tokens as f64).abs() < 0.25 {
            break;
        }
        scale *= block.tokens as f64 / total;
    }
    let mut lengths = Vec::with_capacity(shape.len());
    let (mut wanted, mut given) = (0.0, 0_u64);
    for share in &shape {
        wanted += (share * scale * mean).min(cap);
        let length = libm::round(wanted - given as f64).clamp(1.0, cap);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped between one and a 32-bit limit"
        )]
        let length = length as u32;
        given += u64::from(length);
        lengths.push(length);
    }
    lengths
}

/// The quantile of the standard normal distribution, by Acklam's rational approximation.
fn quantile(share: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 5] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 4] = [
        7.784_695_709_041_462e-3,
        3.224_671_290_700_398e-1,
        2.445_134_137_142_996,
        3.754_408_661_907_416,
    ];
    let poly = |terms: &[f64], x: f64| terms.iter().fold(0.0, |sum, term| sum * x + term);
    if share > 0.5 {
        return -quantile(1.0 - share);
    }
    if share < 0.024_25 {
        let q = libm::sqrt(-2.0 * libm::log(share));
        return poly(&C, q) / (poly(&D, q) * q + 1.0);
    }
    let q = share - 0.5;
    let r = q * q;
    poly(&A, r) * q / (poly(&B, r) * r + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(requests: u64, output_tokens: u64) -> MeasuredRow {
        let input_tokens = 80 * requests;
        MeasuredRow {
            requests,
            input_tokens,
            output_tokens,
            output_limit: Some(150),
            ..MeasuredRow::default()
        }
    }

    #[test]
    fn smaller_rows_of_a_sweep_tell_the_first_lengths() {
        let rows = [row(1, 85), row(2, 127), row(4, 288), row(8, 484)];
        let asks = asks(&rows[2], &blocks(&rows, 2), 0.3, Seed(1));
        assert_eq!((asks[0].output_tokens, asks[1].output_tokens), (85, 42));
        assert_eq!(asks.iter().map(|ask| ask.output_tokens).sum::<u32>(), 288);
        // A smaller total in a larger row: the lists differ, and nothing is known.
        let odd = [row(4, 288), row(8, 200)];
        assert_eq!(blocks(&odd, 1), [LengthBlock::new(8, 200)]);
    }

    #[test]
    fn lengths_add_up_and_respect_the_limit() {
        let block = LengthBlock::new(100, 12_000);
        let lengths = spread_out(&block, 0.3, 150);
        assert_eq!(lengths.iter().sum::<u32>(), 12_000);
        assert!(lengths.iter().all(|length| (1..=150).contains(length)));
        let quantiles = [quantile(0.5), quantile(0.975), quantile(0.001)];
        let expected = [0.0, 1.959_964, -3.090_232];
        assert!(quantiles.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5), "{quantiles:?}");
    }
}
