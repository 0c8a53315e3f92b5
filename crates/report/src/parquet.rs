//! A run as a Parquet file: the columns of [`crate::rows`], and the events of each request as lists.
//!
//! `event_ms` is when each event arrived, in milliseconds since the request's first byte (or since it
//! was admitted, where nothing was sent); `event_tokens` how many tokens it held, null where nothing
//! tells.

use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::builder::{Float64Builder, ListBuilder, StringBuilder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use tokometer_base::Nanos;
use tokometer_record::Timeline;

use crate::rows::{Cell, Kind, cells, columns};

/// Rows that are gathered before they are encoded.
const ROWS: usize = 4_096;

enum Column {
    Count(UInt64Builder),
    Number(Float64Builder),
    Word(StringBuilder),
}

impl Column {
    fn new(kind: Kind) -> Self {
        match kind {
            Kind::Count => Self::Count(UInt64Builder::new()),
            Kind::Number => Self::Number(Float64Builder::new()),
            Kind::Word => Self::Word(StringBuilder::new()),
        }
    }

    fn push(&mut self, cell: Cell) {
        match (self, cell) {
            (Self::Count(column), Cell::Count(count)) => column.append_value(count),
            (Self::Number(column), Cell::Number(number)) => column.append_value(number),
            (Self::Word(column), Cell::Word(word)) => column.append_value(word),
            (Self::Count(column), _) => column.append_null(),
            (Self::Number(column), _) => column.append_null(),
            (Self::Word(column), _) => column.append_null(),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Count(column) => Arc::new(column.finish()),
            Self::Number(column) => Arc::new(column.finish()),
            Self::Word(column) => Arc::new(column.finish()),
        }
    }
}

/// Rows under construction.
struct Rows {
    columns: Vec<Column>,
    event_ms: ListBuilder<Float64Builder>,
    event_tokens: ListBuilder<UInt64Builder>,
    count: usize,
}

impl Rows {
    fn new() -> Self {
        Self {
            columns: columns().map(|(_, kind)| Column::new(kind)).collect(),
            event_ms: ListBuilder::new(Float64Builder::new()),
            event_tokens: ListBuilder::new(UInt64Builder::new()),
            count: 0,
        }
    }

    fn push(&mut self, timeline: &Timeline, begin: Nanos) {
        for (column, cell) in self.columns.iter_mut().zip(cells(timeline, begin)) {
            column.push(cell);
        }
        let since = timeline.times.first_byte_sent.unwrap_or(timeline.times.admitted);
        for event in &timeline.events {
            self.event_ms.values().append_value(event.at.signed_since(since) as f64 / 1e6);
            self.event_tokens.values().append_option(event.tokens().map(u64::from));
        }
        self.event_ms.append(true);
        self.event_tokens.append(true);
        self.count += 1;
    }

    /// What was gathered, which leaves nothing.
    fn take(&mut self) -> Result<RecordBatch, parquet::errors::ParquetError> {
        let names = columns().map(|(name, _)| name);
        let arrays = self.columns.iter_mut().map(Column::finish);
        let lists: [(&str, ArrayRef); 2] = [
            ("event_ms", Arc::new(self.event_ms.finish())),
            ("event_tokens", Arc::new(self.event_tokens.finish())),
        ];
        self.count = 0;
        let all = names.zip(arrays).chain(lists).map(|(name, array)| (name, array, true));
        Ok(RecordBatch::try_from_iter_with_nullable(all)?)
    }
}

/// Writes a run as Parquet.
pub struct ParquetWriter<W: Write + Send> {
    out: ArrowWriter<W>,
    rows: Rows,
    begin: Nanos,
}

impl<W: Write + Send> ParquetWriter<W> {
    /// Begins the file of a run whose measured phase began at `begin`.
    pub fn new(out: W, begin: Nanos) -> io::Result<Self> {
        let mut rows = Rows::new();
        let schema = rows.take()?.schema();
        let compression = Compression::ZSTD(ZstdLevel::default());
        let properties = WriterProperties::builder().set_compression(compression).build();
        let out = ArrowWriter::try_new(out, schema, Some(properties))?;
        Ok(Self { out, rows, begin })
    }

    /// Adds one request.
    pub fn push(&mut self, timeline: &Timeline) -> io::Result<()> {
        self.rows.push(timeline, self.begin);
        if self.rows.count >= ROWS { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> io::Result<()> {
        Ok(self.out.write(&self.rows.take()?)?)
    }

    /// Writes what is left, and the file's end.
    pub fn finish(mut self) -> io::Result<()> {
        self.write()?;
        let _metadata = self.out.close()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    use super::*;
    use crate::rows::tests::requests;

    #[test]
    fn a_written_file_is_read_back_with_its_rows_and_events() {
        let file = tempfile::tempfile().unwrap();
        let out = file.try_clone().unwrap();
        let mut writer = ParquetWriter::new(out, Nanos::from_secs(1)).unwrap();
        for timeline in requests() {
            writer.push(&timeline).unwrap();
        }
        writer.finish().unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let fields = reader.metadata().file_metadata().schema().get_fields();
        let place = |name: &str| fields.iter().position(|field| field.name() == name).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 2);
        assert!((rows[0].get_double(place("ttft_ms")).unwrap() - 50.0).abs() < 1e-9);
        assert_eq!(rows[0].get_list(place("event_ms")).unwrap().len(), 3);
        assert_eq!(rows[1].get_string(place("outcome")).unwrap(), "status");
        assert!(rows[1].is_null(place("ttft_ms")).unwrap_or(true));
    }
}
