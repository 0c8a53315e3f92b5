//! Reads the scrapes of the server's metrics.

use std::fs;
use std::io::Read as _;

use tokometer_base::Nanos;

use super::{Error, Kept, RunReader, file_error, names};
use crate::batches::Positioned;
use crate::columns;
use crate::server::Scrape;

impl RunReader {
    /// The scrapes of the server's metrics. A last line without its end is skipped: the writer was killed.
    /// Other lines that are no scrapes are a damage.
    pub fn scrapes(&self) -> Result<Vec<Scrape>, Error> {
        let path = self.folder.join(names::SERVER);
        let mut bytes = Vec::new();
        match &self.kept {
            Some(Kept { server: Some(file), .. }) => {
                let mut file = Positioned::of(file).map_err(file_error("read", &path))?;
                file.read_to_end(&mut bytes).map_err(file_error("read", &path))?;
            }
            None if path.is_file() => {
                bytes = fs::read(&path).map_err(file_error("read", &path))?;
            }
            Some(_) | None => {}
        }
        let lines = bytes.split_inclusive(|byte| *byte == b'\n');
        let mut broken = 0_u64;
        let mut written = Vec::new();
        for line in lines {
            match serde_json::from_slice::<Scrape>(line) {
                Ok(scrape) => written.push(scrape),
                Err(_) => broken += u64::from(line.ends_with(b"\n")),
            }
        }
        if broken > 0 {
            let all = broken + written.len() as u64;
            self.damages.note(&path, 0, &format!("{broken} of its {all} lines are no scrapes"));
        }
        let unwritten = self.kept.iter().flat_map(|kept| kept.scrapes.iter().cloned());
        let is_plausible = |at: Nanos| at - self.info.origin <= columns::LONGEST;
        Ok(written.into_iter().chain(unwritten).filter(|scrape| is_plausible(scrape.at)).collect())
    }
}
