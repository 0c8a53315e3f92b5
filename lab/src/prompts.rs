//! Measures prompt making: `cargo lab prompts TOKENIZER [DATASET FILE]`.
//!
//! For a tokenizer: asked against counted lengths of 100 random prompts, and the time for 10,000
//! prompts of 1,024 tokens. With a dataset name and a file: the time to open 1,000 prompts of it.

use std::io::Write;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use rayon::prelude::*;
use tokometer_base::{Clock, Conventions, MonotonicClock, Partial as _, PromptContent, Seed};
use tokometer_tokenize::{Choice, Specials, Tokenizer, TokenizerSources};
use tokometer_workload::{DatasetContext, PartialSpec, Spec, datasets, open};

/// Measures what the arguments name and prints it.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let mut arguments = arguments.iter();
    let name = arguments.next().context("name a tokenizer")?;
    let clock = MonotonicClock;
    let mut out = std::io::stdout().lock();

    let start = clock.now();
    let given = Some(Choice::parse(name)?);
    let tokenizer =
        tokometer_tokenize::open(TokenizerSources { given, ..TokenizerSources::default() })?
            .tokenizer;
    let words = tokenizer.words()?.map_or(0, |words| words.len());
    let specials = tokenizer.added_specials()?;
    let took = clock.now().saturating_sub(start);
    writeln!(
        out,
        "{name}: opened in {:.1} ms, {words} safe words, {specials} special tokens added",
        took.as_millis_f64()
    )?;

    if let (Some(dataset), Some(path)) = (arguments.next(), arguments.next()) {
        let start = clock.now();
        let spec: PartialSpec =
            serde_json::from_value(serde_json::json!({"dataset": dataset, "path": path}))?;
        let spec = spec.complete()?;
        let workload = open(&spec, &DatasetContext::new(tokenizer, Seed(0), 1_000))?;
        let took = clock.now().saturating_sub(start);
        writeln!(
            out,
            "{dataset}: {} prompts opened in {:.2} s",
            workload.len(),
            took.as_secs_f64()
        )?;
        let start = clock.now();
        let check = workload.check_lengths()?;
        let took = clock.now().saturating_sub(start);
        writeln!(out, "{check:?} in {:.2} s", took.as_secs_f64())?;
        for note in workload.notes() {
            writeln!(out, "note[{}]: {}", note.code, note.text)?;
        }
        return Ok(());
    }
    lengths(&tokenizer, &mut out)?;
    speed(&tokenizer, &clock, &mut out)
}

/// RequestedLengths against counted for 100 prompts of each of several lengths.
fn lengths(tokenizer: &Arc<dyn Tokenizer>, out: &mut impl Write) -> Result<()> {
    for input_len in [1, 16, 128, 1_024, 8_192] {
        let options = datasets::random::Options {
            input_len,
            ..datasets::random::Options::by_conventions(Conventions::Vllm)
        };
        let context = DatasetContext::new(Arc::clone(tokenizer), Seed(0), 100);
        let workload = open(&Spec::Random(options), &context)?;
        let (mut exact, mut counted) = (0, Vec::new());
        for index in 0..100 {
            let item = workload.item(index)?;
            let PromptContent::Text(text) = &item.prompt.content else { continue };
            let tokens = tokenizer.encode(text, Specials::Add)?.len();
            exact += u32::from(Some(tokens) == item.asked_tokens.map(|asked| asked as usize));
            counted.push(tokens);
        }
        let (low, high) = (counted.iter().min(), counted.iter().max());
        writeln!(out, "asked {input_len}: counted {low:?} to {high:?}, {exact} of 100 exact")?;
    }
    Ok(())
}

fn speed(tokenizer: &Arc<dyn Tokenizer>, clock: &impl Clock, out: &mut impl Write) -> Result<()> {
    let context = DatasetContext::new(Arc::clone(tokenizer), Seed(0), 10_000);
    let start = clock.now();
    let workload = open(&Spec::Random(datasets::random::Options::default()), &context)?;
    let one_thread: usize = (0..10_000).map(|index| bytes(&workload, index)).sum();
    let single = clock.now().saturating_sub(start);
    let start = clock.now();
    let threads: usize = (0..10_000_u64).into_par_iter().map(|index| bytes(&workload, index)).sum();
    let parallel = clock.now().saturating_sub(start);
    writeln!(
        out,
        "10,000 prompts of 1,024 tokens: {:.2} s on one thread, {:.2} s on all ({one_thread} bytes, {})",
        single.as_secs_f64(),
        parallel.as_secs_f64(),
        if one_thread == threads { "the same" } else { "not the same" },
    )?;
    let start = clock.now();
    let check = workload.check_lengths()?;
    let took = clock.now().saturating_sub(start);
    writeln!(out, "check of a sample: {check:?} in {:.2} s", took.as_secs_f64())?;
    Ok(())
}

fn bytes(workload: &tokometer_workload::Workload, index: u64) -> usize {
    match workload.item(index).map(|item| item.prompt.content) {
        Ok(PromptContent::Text(text)) => text.len(),
        _ => 0,
    }
}
