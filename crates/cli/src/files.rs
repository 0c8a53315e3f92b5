//! Files that are given; `-` is standard input or standard output.

use std::fs::OpenOptions;
use std::io::{self, IsTerminal as _, Read as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::sync::OnceLock;

use tokometer_record::STDOUT;

use crate::terminal::print_message;

/// Whether a path stands for standard input or standard output.
pub(crate) fn is_standard(path: &Path) -> bool {
    path == Path::new(STDOUT)
}

/// Opens a file as it will be opened, and leaves no empty one behind.
pub(crate) fn try_append(path: &Path) -> io::Result<()> {
    if is_standard(path) {
        return Ok(());
    }
    let is_new = !path.exists();
    let _file = OpenOptions::new().create(true).append(true).open(path)?;
    if is_new {
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

/// Standard input, which ends once; flags are read again where a server's answer changes a default.
static READ: OnceLock<Vec<u8>> = OnceLock::new();

/// The bytes of a file, or of standard input to its end.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    if !is_standard(path) {
        if std::fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo()) {
            say_pipe(path);
        }
        return std::fs::read(path);
    }
    if let Some(bytes) = READ.get() {
        return Ok(bytes.clone());
    }
    if io::stdin().is_terminal() {
        print_message("reading standard input; press Ctrl-D at its end");
    }
    let mut bytes = Vec::new();
    let _count = io::stdin().lock().read_to_end(&mut bytes)?;
    Ok(READ.get_or_init(|| bytes).clone())
}

/// Says for what the program waits.
pub(crate) fn say_pipe(path: &Path) {
    print_message(&format!("note: reading the pipe `{}` to its end", path.display()));
}

pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    let invalid = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not text in UTF-8");
    String::from_utf8(read(path)?).map_err(invalid)
}
