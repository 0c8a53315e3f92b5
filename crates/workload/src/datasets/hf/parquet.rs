//! Parquet files: the columns that may be needed, as rows of JSON. Such a file is compressed and may hold
//! images, which are not read.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Row;
use parquet::schema::types::Type;

use super::{Options, is_wanted};
use crate::rows::FileRows;
use crate::{Error, Result};

pub(super) fn rows(path: &Path, options: &Options) -> Result<FileRows> {
    let malformed = |error: ParquetError| Error::Malformed {
        path: path.to_owned(),
        line: 1,
        reason: error.to_string(),
    };
    let file = File::open(path).map_err(Error::read(path))?;
    let reader = SerializedFileReader::new(file).map_err(malformed)?;
    let schema = reader.metadata().file_metadata().schema();
    let projection = projection(schema, options).map_err(malformed)?;
    let Some(projection) = projection else {
        let names: Vec<&str> = schema.get_fields().iter().map(|field| field.name()).collect();
        let reason = format!("no text column for the prompt among {}", names.join(", "));
        return Err(Error::TooShort { path: path.to_owned(), reason });
    };
    let rows = reader.get_row_iter(Some(projection)).map_err(malformed)?;
    let text =
        |row: parquet::errors::Result<Row>| Ok(row.map_err(malformed)?.to_json_value().to_string());
    FileRows::spooled(path, rows.map(text))
}

/// The schema with only the wanted columns; `None` when there are none.
fn projection(schema: &Type, options: &Options) -> std::result::Result<Option<Type>, ParquetError> {
    let wanted: Vec<Arc<Type>> = schema
        .get_fields()
        .iter()
        .filter(|field| is_wanted(options, field.name()))
        .cloned()
        .collect();
    if wanted.is_empty() {
        return Ok(None);
    }
    Type::group_type_builder(schema.name()).with_fields(wanted).build().map(Some)
}

#[cfg(test)]
mod tests {
    use parquet::basic::Compression;
    use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    use proptest::prelude::*;
    use tokometer_base::PromptContent;

    use super::*;
    use crate::{DatasetContext, RowOrder, Spec, Workload, open};

    const SCHEMA: &str = "message schema {
        REQUIRED INT64 id;
        REQUIRED BYTE_ARRAY question (UTF8);
        REQUIRED BYTE_ARRAY answer (UTF8);
    }";

    /// A table of questions and answers in two row groups.
    fn write(path: &Path, rows: &[(&str, &str)], compression: Compression) {
        let schema = Arc::new(parse_message_type(SCHEMA).unwrap());
        let properties = WriterProperties::builder().set_compression(compression).build();
        let file = File::create(path).unwrap();
        let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).unwrap();
        let (first, second) = rows.split_at(rows.len() / 2);
        for rows in [first, second] {
            let mut group = writer.next_row_group().unwrap();
            let ids: Vec<i64> = (0..).take(rows.len()).collect();
            let mut column = group.next_column().unwrap().unwrap();
            column.typed::<Int64Type>().write_batch(&ids, None, None).unwrap();
            column.close().unwrap();
            for text in [|row: &(&str, &str)| row.0.into(), |row: &(&str, &str)| row.1.into()] {
                let values: Vec<ByteArray> = rows.iter().map(text).collect();
                let mut column = group.next_column().unwrap().unwrap();
                column.typed::<ByteArrayType>().write_batch(&values, None, None).unwrap();
                column.close().unwrap();
            }
            group.close().unwrap();
        }
        writer.close().unwrap();
    }

    fn workload(path: &Path, options: Options) -> Result<Workload> {
        let context =
            DatasetContext { row_order: RowOrder::AsInFile, ..DatasetContext::for_test(1, 0) };
        open(&Spec::Hf(Options { path: path.to_owned(), ..options }), &context)
    }

    #[test]
    fn questions_and_answers_are_read_with_every_common_compression() {
        let rows = [("how \"now\"", "brown cow"), ("what", "ever"), ("who", "knows that")];
        let zstd = Compression::ZSTD(parquet::basic::ZstdLevel::default());
        for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY, zstd] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("train-00000-of-00001.parquet");
            write(&path, &rows, compression);
            let workload = workload(folder.path(), Options::default()).unwrap();
            assert_eq!(workload.len(), 3);
            let first = workload.item(0).unwrap().prompt;
            assert_eq!(first.content, PromptContent::Text("how \"now\"".into()));
            assert_eq!(first.output_tokens, Some(2));
            let last = workload.item(2).unwrap().prompt;
            assert_eq!(last.content, PromptContent::Text("who".into()));
        }
    }

    #[test]
    fn only_the_wanted_column_counts_and_a_table_without_one_names_its_columns() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        write(&path, &[("q", "a")], Compression::SNAPPY);
        let column = |name: &str| Options { text_column: Some(name.into()), ..Options::default() };
        let item = workload(&path, column("answer")).unwrap().item(0).unwrap();
        assert_eq!(item.prompt.content, PromptContent::Text("a".into()));
        let refused = workload(&path, column("title")).err().unwrap().to_string();
        assert!(refused.contains("among id, question, answer"), "{refused}");
    }

    proptest! {
        #[test]
        fn files_that_are_no_parquet_are_refused_and_never_panic(bytes: Vec<u8>) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("t.parquet");
            std::fs::write(&path, [b"PAR1", &bytes[..], b"PAR1"].concat()).unwrap();
            prop_assert!(workload(&path, Options::default()).is_err());
        }
    }
}
