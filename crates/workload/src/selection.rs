//! Which rows of a file become prompts.
//!
//! Rows are tried in the order of the seed until enough of them pass the dataset's filters; the
//! rest of the file is never read. Only row numbers and counts are kept: the text of a prompt is read
//! again when its turn comes.

use rayon::prelude::*;
use tokometer_base::{Conventions, Prompt, PromptContent};

use crate::rows::FileRows;
use crate::{
    BadRows, DatasetContext, DatasetNote, Error, Oversample, PlannedPrompt, Result, Source, order,
};

/// Rows read and counted at once, on all cores.
const BATCH_ROWS: usize = 256;

pub(crate) trait RowReader: Send + Sync {
    fn read(&self, row: &str, context: &DatasetContext) -> RowReading;

    /// Counts the tokens of a draft. `None` when the dataset's filters refuse it.
    fn measure(&self, draft: &Draft, context: &DatasetContext) -> Result<Option<TokenCounts>> {
        let content = &draft.prompt.content;
        // Only the server knows how many tokens audio becomes.
        let is_counted = !matches!(content, PromptContent::Sound(_));
        let prompt = is_counted.then(|| context.tokens_of(content)).transpose()?;
        Ok(Some(TokenCounts { prompt, output: None }))
    }

    fn tolerance(&self) -> Tolerance {
        Tolerance::Refuse
    }

    fn notes(&self) -> Vec<DatasetNote> {
        Vec::new()
    }
}

/// A prompt, `None` for a valid row that the dataset does not use, or why the row is invalid.
pub(crate) type RowReading = std::result::Result<Option<Draft>, String>;

/// A prompt whose tokens are not counted yet.
pub(crate) struct Draft {
    pub(crate) prompt: Prompt,
    /// The answer in the file, where its length is the length to ask for.
    pub(crate) answer: Option<String>,
    pub(crate) class: Option<String>,
}

impl From<Prompt> for Draft {
    fn from(prompt: Prompt) -> Self {
        Self { prompt, answer: None, class: None }
    }
}

/// Counted tokens; `None` where the draft's own value stays.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TokenCounts {
    pub(crate) prompt: Option<u32>,
    pub(crate) output: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tolerance {
    Skip,
    Refuse,
}

pub(crate) struct ChosenRows {
    rows: FileRows,
    reader: Box<dyn RowReader>,
    chosen: Vec<Chosen>,
    len: u64,
    context: DatasetContext,
    notes: Vec<DatasetNote>,
}

#[derive(Debug, Clone, Copy)]
struct Chosen {
    row: usize,
    counts: TokenCounts,
}

#[derive(Default)]
struct SkippedRows {
    tried: usize,
    unfit: usize,
    broken: usize,
    first_broken: Option<(usize, String)>,
}

impl ChosenRows {
    pub(crate) fn open(
        rows: FileRows,
        reader: impl RowReader + 'static,
        context: &DatasetContext,
    ) -> Result<Self> {
        let reader: Box<dyn RowReader> = Box::new(reader);
        let order = order::of_rows(rows.len(), context);
        let wanted = match usize::try_from(context.count) {
            Ok(count @ 1..) => count,
            _ => rows.len(),
        };
        let (mut chosen, mut tally) = (Vec::new(), SkippedRows::default());
        for batch in order.chunks(BATCH_ROWS) {
            if chosen.len() >= wanted {
                break;
            }
            let judged: Vec<_> =
                batch.par_iter().map(|row| (*row, judge(&rows, &*reader, *row, context))).collect();
            for (row, verdict) in judged {
                tally.take(row, verdict?, &mut chosen);
            }
        }
        chosen.truncate(wanted);
        let mut selection =
            Self { rows, reader, chosen, len: 0, context: context.clone(), notes: Vec::new() };
        selection.settle(wanted, &tally)?;
        selection.notes.extend(selection.reader.notes());
        Ok(selection)
    }

    /// With notes from before the rows were chosen.
    pub(crate) fn with_notes(mut self, notes: Vec<DatasetNote>) -> Self {
        self.notes.extend(notes);
        self
    }

    /// Decides how many prompts there are, and adds a note if they are too few.
    fn settle(&mut self, wanted: usize, tally: &SkippedRows) -> Result<()> {
        let path = self.rows.path().to_owned();
        if let Some((row, reason)) = &tally.first_broken {
            let line = self.rows.line(*row);
            let path = self.rows.path_of(*row).to_owned();
            let is_refused = self.reader.tolerance() == Tolerance::Refuse
                && self.context.bad_rows == BadRows::ByDataset;
            if is_refused {
                return Err(Error::Malformed { path, line, reason: reason.clone() });
            }
            let text = format!(
                "{} of {} entries read from `{}` are invalid and skipped; the first is on line {line}: {reason}",
                tally.broken,
                tally.tried,
                path.display()
            );
            self.notes.push(DatasetNote::new("skipped-rows", text));
        }
        if self.rows.is_cut() {
            let text = format!("`{}` is truncated; its last entry is skipped", path.display());
            self.notes.push(DatasetNote::new("cut-file", text));
        }
        let usable = self.chosen.len();
        // Every usable row was requested, so none is missing.
        let wanted = if self.context.count == 0 { usable } else { wanted };
        if usable == 0 {
            let first = tally.first_broken.as_ref().map(|(row, reason)| {
                format!(
                    "\n  the first that is not readable is on line {}: {reason}",
                    self.rows.line(*row)
                )
            });
            let reason = format!(
                "none of its {} entries can be used ({} too short or too long, {} not readable){}",
                self.rows.len(),
                tally.unfit,
                tally.broken,
                first.unwrap_or_default()
            );
            return Err(Error::TooShort { path, reason });
        }
        let is_repeating = self.context.oversample == Oversample::ByTool
            && self.context.conventions == Conventions::Vllm;
        self.len = if is_repeating { wanted } else { usable.min(wanted) } as u64;
        if usable < wanted {
            let what = if is_repeating { "some are repeated" } else { "there are no more prompts" };
            let text = format!(
                "`{}` has {usable} usable entries for {wanted} prompts: {what}",
                path.display()
            );
            self.notes.push(DatasetNote::new("few-rows", text));
        }
        Ok(())
    }
}

enum RowCheck {
    Keep(TokenCounts),
    Unfit,
    Broken(String),
}

fn judge(
    rows: &FileRows,
    reader: &dyn RowReader,
    row: usize,
    context: &DatasetContext,
) -> Result<RowCheck> {
    Ok(match reader.read(&rows.text(row)?, context) {
        Ok(Some(draft)) => reader.measure(&draft, context)?.map_or(RowCheck::Unfit, RowCheck::Keep),
        Ok(None) => RowCheck::Unfit,
        Err(reason) => RowCheck::Broken(reason),
    })
}

impl SkippedRows {
    fn take(&mut self, row: usize, verdict: RowCheck, chosen: &mut Vec<Chosen>) {
        self.tried += 1;
        match verdict {
            RowCheck::Keep(counts) => chosen.push(Chosen { row, counts }),
            RowCheck::Unfit => self.unfit += 1,
            RowCheck::Broken(reason) => {
                self.broken += 1;
                if self.first_broken.as_ref().is_none_or(|(first, _)| row < *first) {
                    self.first_broken = Some((row, reason));
                }
            }
        }
    }
}

impl Source for ChosenRows {
    fn len(&self) -> u64 {
        self.len
    }

    fn prompt(&self, index: u64) -> Result<PlannedPrompt> {
        let at = usize::try_from(index).ok().filter(|at| *at < self.chosen.len());
        let at = at.unwrap_or_else(|| order::repeated(index, self.chosen.len(), self.context.seed));
        let Chosen { row, counts } = self.chosen[at];
        let Ok(Some(mut draft)) = self.reader.read(&self.rows.text(row)?, &self.context) else {
            let reason = "an entry changed while the program ran".to_owned();
            let path = self.rows.path_of(row).to_owned();
            return Err(Error::Malformed { path, line: self.rows.line(row), reason });
        };
        draft.prompt.prompt_tokens = counts.prompt.or(draft.prompt.prompt_tokens);
        draft.prompt.output_tokens = counts.output.or(draft.prompt.output_tokens);
        Ok(PlannedPrompt { class: draft.class, ..PlannedPrompt::given(draft.prompt, None) })
    }

    fn notes(&self) -> Vec<DatasetNote> {
        self.notes.clone()
    }
}
