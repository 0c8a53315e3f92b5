//! Saved runs, read with this program's standard input and terminal.

use tokometer_report::reading::Reading;

use crate::files;
use crate::terminal::print_message;

pub(crate) use tokometer_record::stored::{end, first_point, open, timelines, unreadable};
pub(crate) use tokometer_report::reading::expanded;

/// How every command reads.
pub(crate) const READING: Reading = Reading { read: files::read, show: print_message };
