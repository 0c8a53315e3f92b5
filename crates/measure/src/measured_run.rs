//! A run that has been measured.

use std::path::PathBuf;
use std::sync::Arc;

use tokometer_drive::Interrupt;
use tokometer_record::{self as record, RunEnd, RunReader};
use tokometer_tokenize::Tokenizer;

use crate::observer::Observer;
use crate::retokenize::{CountedTexts, CountingEnd, retokenize};
use crate::{Error, ErrorKind};

#[derive(Debug)]
pub struct MeasuredRun {
    pub folder: PathBuf,
    pub end: RunEnd,
    /// Why the record could not be written to its end.
    pub write_failure: Option<record::Error>,
    /// Reads all of the run where its folder does not have it.
    pub reader: Option<RunReader>,
}

impl MeasuredRun {
    /// Counts kept texts. Where the counts cannot be written they are in the reader.
    pub(crate) fn count(
        &mut self,
        tokenizer: &dyn Tokenizer,
        texts: CountedTexts,
        observer: &dyn Observer,
    ) -> Result<(), Error> {
        let unreadable = |why: record::Error| Error::new(ErrorKind::Write, why.to_string());
        let (mut reader, is_kept) = match self.reader.take() {
            Some(reader) => (reader, true),
            None => (RunReader::open(&self.folder).map_err(unreadable)?, false),
        };
        // A run that the first signal ended is counted all the same; one more ends the counting.
        let interrupt = Arc::new(Interrupt::default());
        let routed = observer.route_interrupts(&interrupt);
        let before = interrupt.times();
        let is_stopped = || interrupt.times() > before;
        let counted = retokenize(&mut reader, tokenizer, texts, &is_stopped);
        drop(routed);
        if counted.as_ref().is_ok_and(|counting| *counting == CountingEnd::Stopped) {
            observer.remark(
                "counting the tokens of the answers was interrupted; answers without usage have no count",
            );
        }
        self.reader = Some(reader).filter(|_| is_kept || counted.is_err());
        self.write_failure = self.write_failure.take().or(counted.err());
        Ok(())
    }
}
