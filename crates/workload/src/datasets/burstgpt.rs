//! Lengths of real requests from a BurstGPT file, filled with random words.
//!
//! Only rows of GPT-4 with an answer count. Their times are not used, as in the tool that has this
//! dataset: arrivals come from the schedule.

use std::path::PathBuf;

use csv::StringRecord;
use serde::Serialize;

use crate::session::{Piece, PieceName};
use crate::tables::{each_record, token_count};
use crate::{DatasetContext, DatasetNote, Error, PlannedPrompt, Result, Source, input, order};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Options {
    pub path: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lengths {
    prompt: u32,
    answer: u32,
}

pub(crate) struct BurstGpt {
    context: DatasetContext,
    specials: u32,
    rows: Vec<Lengths>,
    order: Vec<usize>,
}

pub(crate) fn open(options: &Options, context: &DatasetContext) -> Result<BurstGpt> {
    let rows = read(&options.path)?;
    let order = order::of_rows(rows.len(), context);
    Ok(BurstGpt { specials: context.specials()?, context: context.clone(), rows, order })
}

fn read(path: &std::path::Path) -> Result<Vec<Lengths>> {
    let file = input::open(path).map_err(Error::read(path))?;
    if file.metadata().map_err(Error::read(path))?.len() == 0 {
        return Err(Error::Empty(path.to_owned()));
    }
    let columns = |header: &StringRecord| {
        let column = |name: &str| {
            let found = header.iter().position(|field| field.trim().eq_ignore_ascii_case(name));
            found.ok_or_else(|| {
                let others = header.iter().collect::<Vec<_>>().join(", ");
                let hint = "for a trace with ContextTokens and GeneratedTokens try `--dataset-name timed_trace`";
                format!("there is no column `{name}` among {others}\n  {hint}")
            })
        };
        Ok([column("Model")?, column("Request tokens")?, column("Response tokens")?])
    };
    let mut rows = Vec::new();
    each_record(path, file, columns, |[model, prompt, answer], record| {
        let number = |at: &usize| token_count(record.get(*at).unwrap_or_default());
        let lengths = Lengths { prompt: number(prompt)?, answer: number(answer)? };
        if record.get(*model).map(str::trim) == Some("GPT-4") && lengths.answer > 0 {
            rows.push(lengths);
        }
        Ok(())
    })?;
    if rows.is_empty() {
        let reason = "it has no GPT-4 row with an answer".to_owned();
        return Err(Error::TooShort { path: path.to_owned(), reason });
    }
    Ok(rows)
}

impl Source for BurstGpt {
    fn len(&self) -> u64 {
        if self.context.count == 0 { self.rows.len() as u64 } else { self.context.count }
    }

    fn prompt(&self, index: u64) -> Result<PlannedPrompt> {
        let at = usize::try_from(index).ok().and_then(|at| self.order.get(at).copied());
        let row = at.unwrap_or_else(|| order::repeated(index, self.rows.len(), self.context.seed));
        let Lengths { prompt, answer } = self.rows[row];
        let tokens = prompt.saturating_sub(self.specials).max(1);
        let own = Piece::Made { name: PieceName::Content(index), tokens };
        Ok(PlannedPrompt::of(vec![own], self.specials, answer))
    }

    fn notes(&self) -> Vec<DatasetNote> {
        let (rows, wanted) = (self.rows.len() as u64, self.len());
        let text =
            format!("the file has {rows} usable rows for {wanted} prompts: some are repeated");
        if rows < wanted { vec![DatasetNote::new("few-rows", text)] } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RowOrder, Spec, Workload, open};

    fn workload(text: impl AsRef<[u8]>) -> Result<Workload> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("burst.csv");
        std::fs::write(&path, text.as_ref()).unwrap();
        let context =
            DatasetContext { row_order: RowOrder::AsInFile, ..DatasetContext::for_test(1, 3) };
        open(&Spec::Burstgpt(Options { path }), &context)
    }

    const HEADER: &str = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n";

    #[test]
    fn only_answered_rows_of_the_one_model_give_lengths() {
        let text = format!(
            "{HEADER}5,ChatGPT,1,1,2,x\n6,GPT-4,10,20,30,x\n7,GPT-4,5,0,5,x\n8,GPT-4,7.0,8.0,15,x\n"
        );
        let workload = workload(&text).unwrap();
        let shape = |index| {
            let prompt = workload.item(index).unwrap().prompt;
            (prompt.prompt_tokens.unwrap(), prompt.output_tokens.unwrap())
        };
        assert_eq!([shape(0), shape(1)], [(10, 20), (7, 8)]);
        assert_eq!(workload.notes()[0].code, "few-rows");
        assert_eq!(workload.check_lengths().unwrap().missed, 0);
    }

    #[test]
    fn files_that_cannot_be_used_are_named_with_their_line() {
        let check = |text: &str, expected: &str| {
            let error = workload(text).err().unwrap().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check("", "it is empty");
        check("a,b\n1,2\n", "line 1: there is no column `Model`");
        check(&format!("{HEADER}1,GPT-4,ten,2,3,x\n"), "line 2: `ten` is not a number of tokens");
        check(
            &format!("{HEADER}1,GPT-4,7.0.0,2,3,x\n"),
            "line 2: `7.0.0` is not a number of tokens",
        );
        check(&format!("{HEADER}1,GPT-3,1,2,3,x\n"), "it has no GPT-4 row");
        let latin = [HEADER.as_bytes(), b"1,GPT-4,7,8,15,caf\xe9\n"].concat();
        let error = workload(latin).err().unwrap().to_string();
        assert!(error.contains("line 2: it is not text in UTF-8\n  try `iconv"), "{error}");
    }
}
