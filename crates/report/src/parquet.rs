//! Runs as a Parquet file: the columns of [`crate::rows`], and the events of each request as lists.
//!
//! `event_ms` is when each event arrived, in milliseconds since the request's first byte (or since it
//! was admitted, where nothing was sent); `event_tokens` how many tokens it held, null where nothing
//! tells.
//!
//! Written column by column. The crate's other way leads through Arrow arrays, and compiling that took
//! longer than the whole rest of the crate.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::mem;
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;

use crate::rows::{Cell, ColumnKind, RequestTable, TableRow, cells, columns};

/// A row group is written once it has this many rows, or this many events: it is held in memory.
const ROWS: usize = 65_536;
const EVENTS: usize = 1 << 20;

/// How deep a value of a plain column is defined: not at all, or present.
const ABSENT: i16 = 0;
const PRESENT: i16 = 1;
/// The same within a list, which itself is always present.
const EMPTY_LIST: i16 = 1;
const ABSENT_ITEM: i16 = 2;
const PRESENT_ITEM: i16 = 3;
/// Whether an item begins a row's list or continues it.
const BEGINS: i16 = 0;
const CONTINUES: i16 = 1;

enum ColumnValues {
    /// Parquet has no unsigned type: the schema says that these are.
    Counts(Vec<i64>),
    Numbers(Vec<f64>),
    Words(Vec<ByteArray>),
}

/// A column of the row group under construction: the values that are present, and the levels that say
/// where they belong.
struct ColumnBuffer {
    values: ColumnValues,
    definitions: Vec<i16>,
    /// `None` for a column with one value per row.
    repetitions: Option<Vec<i16>>,
}

impl ColumnBuffer {
    fn new(kind: ColumnKind) -> Self {
        let values = match kind {
            ColumnKind::Count => ColumnValues::Counts(Vec::new()),
            ColumnKind::Number => ColumnValues::Numbers(Vec::new()),
            ColumnKind::Word => ColumnValues::Words(Vec::new()),
        };
        Self { values, definitions: Vec::new(), repetitions: None }
    }

    fn list(kind: ColumnKind) -> Self {
        Self { repetitions: Some(Vec::new()), ..Self::new(kind) }
    }

    /// Adds the value if there is one. Says whether there was.
    fn add(&mut self, cell: Cell) -> bool {
        match (&mut self.values, cell) {
            (ColumnValues::Counts(values), Cell::Count(count)) => values.push(count.cast_signed()),
            (ColumnValues::Numbers(values), Cell::Number(number)) => values.push(number),
            (ColumnValues::Words(values), Cell::Word(word)) => {
                values.push(word.into_bytes().into());
            }
            _ => return false,
        }
        true
    }

    fn push(&mut self, cell: Cell) {
        let is_present = self.add(cell);
        self.definitions.push(if is_present { PRESENT } else { ABSENT });
    }

    fn push_list(&mut self, cells: impl Iterator<Item = Cell>) {
        let mut repetition = BEGINS;
        for cell in cells {
            let is_present = self.add(cell);
            self.level(if is_present { PRESENT_ITEM } else { ABSENT_ITEM }, repetition);
            repetition = CONTINUES;
        }
        if repetition == BEGINS {
            self.level(EMPTY_LIST, BEGINS);
        }
    }

    fn level(&mut self, definition: i16, repetition: i16) {
        self.definitions.push(definition);
        self.repetitions.as_mut().into_iter().for_each(|levels| levels.push(repetition));
    }

    fn write(&self, mut out: SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let (definitions, repetitions) = (Some(&self.definitions[..]), self.repetitions.as_deref());
        let _count = match &self.values {
            ColumnValues::Counts(values) => {
                out.typed::<Int64Type>().write_batch(values, definitions, repetitions)?
            }
            ColumnValues::Numbers(values) => {
                out.typed::<DoubleType>().write_batch(values, definitions, repetitions)?
            }
            ColumnValues::Words(values) => {
                out.typed::<ByteArrayType>().write_batch(values, definitions, repetitions)?
            }
        };
        out.close()
    }
}

struct RowGroup {
    columns: Vec<ColumnBuffer>,
    event_ms: ColumnBuffer,
    event_tokens: ColumnBuffer,
    rows: usize,
    events: usize,
}

impl RowGroup {
    fn new() -> Self {
        Self {
            columns: columns().map(|(_, kind)| ColumnBuffer::new(kind)).collect(),
            event_ms: ColumnBuffer::list(ColumnKind::Number),
            event_tokens: ColumnBuffer::list(ColumnKind::Count),
            rows: 0,
            events: 0,
        }
    }

    fn push(&mut self, row: TableRow<'_>) {
        for (column, cell) in self.columns.iter_mut().zip(cells(row)) {
            column.push(cell);
        }
        let timeline = row.timeline;
        let since = timeline.times.first_byte_sent.unwrap_or(timeline.times.admitted);
        let events = &timeline.events;
        self.event_ms.push_list(
            events.iter().map(|event| Cell::Number(event.at.signed_since(since) as f64 / 1e6)),
        );
        self.event_tokens.push_list(
            events.iter().map(|event| {
                event.tokens().map_or(Cell::Absent, |tokens| Cell::Count(tokens.into()))
            }),
        );
        self.rows += 1;
        self.events += events.len();
    }

    fn write(&self, out: &mut SerializedFileWriter<impl Write + Send>) -> io::Result<()> {
        let mut group = out.next_row_group()?;
        for column in self.columns.iter().chain([&self.event_ms, &self.event_tokens]) {
            let Some(out) = group.next_column()? else {
                return Err(io::Error::other("the schema has fewer columns than a row"));
            };
            column.write(out)?;
        }
        group.close()?;
        Ok(())
    }
}

/// The schema in Parquet's own notation, with the names that Arrow gives to the inside of a list.
fn schema() -> String {
    let mut text = "message schema {\n".to_owned();
    for (name, kind) in columns() {
        let (physical, logical) = match kind {
            ColumnKind::Count => ("INT64", " (INTEGER(64,false))"),
            ColumnKind::Number => ("DOUBLE", ""),
            ColumnKind::Word => ("BYTE_ARRAY", " (STRING)"),
        };
        let _ = writeln!(text, "OPTIONAL {physical} {name}{logical};");
    }
    for (name, item) in
        [("event_ms", "DOUBLE item"), ("event_tokens", "INT64 item (INTEGER(64,false))")]
    {
        let _ = writeln!(
            text,
            "OPTIONAL group {name} (LIST) {{ REPEATED group list {{ OPTIONAL {item}; }} }}"
        );
    }
    text + "}"
}

pub struct ParquetTable<W: Write + Send> {
    out: SerializedFileWriter<W>,
    group: RowGroup,
}

impl<W: Write + Send> ParquetTable<W> {
    pub fn new(out: W) -> io::Result<Self> {
        let schema = Arc::new(parse_message_type(&schema())?);
        let compression = Compression::ZSTD(ZstdLevel::default());
        let properties = WriterProperties::builder().set_compression(compression).build();
        let out = SerializedFileWriter::new(out, schema, Arc::new(properties))?;
        Ok(Self { out, group: RowGroup::new() })
    }

    pub fn finish(mut self) -> io::Result<()> {
        if self.group.rows > 0 {
            self.group.write(&mut self.out)?;
        }
        self.out.close()?;
        Ok(())
    }
}

impl<W: Write + Send> RequestTable for ParquetTable<W> {
    fn push(&mut self, row: TableRow<'_>) -> io::Result<()> {
        self.group.push(row);
        if self.group.rows >= ROWS || self.group.events >= EVENTS {
            mem::replace(&mut self.group, RowGroup::new()).write(&mut self.out)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::{ListAccessor, Row, RowAccessor};
    use tokometer_base::Nanos;
    use tokometer_record::{Event, EventKind, Timeline};

    use super::*;
    use crate::rows::tests::{requests, run};

    fn written<'a>(timelines: impl Iterator<Item = &'a Timeline>) -> SerializedFileReader<File> {
        let file = tempfile::tempfile().unwrap();
        let out = file.try_clone().unwrap();
        let (mut table, run) = (ParquetTable::new(out).unwrap(), run());
        for timeline in timelines {
            table.push(TableRow { run: &run, timeline }).unwrap();
        }
        table.finish().unwrap();
        SerializedFileReader::new(file).unwrap()
    }

    fn column(reader: &impl FileReader, name: &str) -> usize {
        let fields = reader.metadata().file_metadata().schema().get_fields();
        fields.iter().position(|field| field.name() == name).unwrap()
    }

    fn rows(reader: &SerializedFileReader<File>) -> Vec<Row> {
        reader.get_row_iter(None).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn a_written_file_is_read_back_with_its_rows_and_events() {
        let reader = written(requests().iter());
        let column = |name: &str| column(&reader, name);
        let rows = rows(&reader);
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[1].get_ulong(column("index")).unwrap(), 1);
        assert!((rows[0].get_double(column("ttft_ms")).unwrap() - 50.0).abs() < 1e-9);
        assert!((rows[0].get_double(column("request_rate")).unwrap() - 8.0).abs() < 1e-9);
        assert_eq!(rows[1].get_string(column("verdict")).unwrap(), "SUSPECT");
        let events = rows[0].get_list(column("event_ms")).unwrap();
        let times: Vec<f64> = (0..events.len()).map(|at| events.get_double(at).unwrap()).collect();
        assert_eq!(times, [50.0, 60.0, 70.0]);
        assert_eq!(rows[1].get_list(column("event_ms")).unwrap().len(), 0);
        assert_eq!(rows[1].get_string(column("outcome")).unwrap(), "status");
        assert!(rows[1].is_null(column("ttft_ms")).unwrap_or(true));
    }

    /// The schema that files had when they were written through Arrow arrays, which readers rely on.
    #[test]
    fn the_columns_have_the_types_and_the_inner_names_that_arrow_gives_them() {
        let reader = written(requests().iter());
        let mut text = Vec::new();
        parquet::schema::printer::print_schema(
            &mut text,
            reader.metadata().file_metadata().schema(),
        );
        let text = String::from_utf8(text).unwrap();
        for line in [
            "OPTIONAL INT64 index (INTEGER(64,false));",
            "OPTIONAL BYTE_ARRAY phase (STRING);",
            "OPTIONAL DOUBLE ttft_ms;",
        ] {
            assert!(text.contains(line), "no `{line}` in {text}");
        }
        let squeezed = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let lists = "OPTIONAL group event_ms (LIST) { REPEATED group list { OPTIONAL DOUBLE item; } } \
                     OPTIONAL group event_tokens (LIST) { REPEATED group list { \
                     OPTIONAL INT64 item (INTEGER(64,false)); } } }";
        assert!(squeezed.ends_with(lists), "{text}");
    }

    #[test]
    fn an_event_whose_tokens_are_unknown_is_null_and_keeps_its_place() {
        let mut timeline = requests().remove(0);
        let known = Event::new(Nanos::from_millis(1_080), 3, EventKind::Text);
        timeline.push(known.with_tokens(Some(2)));
        let reader = written([timeline].iter());
        let rows = rows(&reader);
        let tokens = rows[0].get_list(column(&reader, "event_tokens")).unwrap();
        let is_known: Vec<bool> =
            (0..tokens.len()).map(|at| tokens.get_ulong(at).is_ok()).collect();
        assert_eq!(is_known, [false, false, false, true]);
        assert_eq!(tokens.get_ulong(3).unwrap(), 2);
    }

    #[test]
    fn many_events_make_several_row_groups_and_no_row_is_lost() {
        let mut long = requests().remove(0);
        for at in 0..EVENTS as u64 / 2 {
            long.push(Event::new(Nanos::from_millis(1_080 + at), 3, EventKind::Text));
        }
        let reader = written([long].iter().cycle().take(3));
        assert_eq!(reader.num_row_groups(), 2);
        assert_eq!(reader.metadata().file_metadata().num_rows(), 3);
        assert_eq!(written([].iter()).metadata().file_metadata().num_rows(), 0);
    }
}
