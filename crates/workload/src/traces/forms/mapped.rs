//! JSON lines or tables of any other kind, by the places of their fields: `in=usage.prompt_tokens,out=…`.

use std::fmt;

use serde_json::Value;

use super::super::call::{Blocks, Call, Content, Moment, Order, SECOND, Tokens, key};
use super::super::flaw::{Flaw, FlawKind};
use super::super::form::{self, Form, Found, Setting, TraceClock};
use super::super::stream::Row;

pub(in super::super) const FORM: Form = Form {
    name: "mapped",
    // Only a map tells where its fields are.
    is: |_| false,
    read,
    clock: TraceClock::Trace,
};

const BLOCK_TOKENS: u32 = 512;

/// What a map can name. Times and spans are dates or seconds, unless a `:ms` or `:us` follows.
const FIELDS: [&str; 12] = [
    "in", "out", "time", "end", "duration", "ttft", "pause", "session", "id", "parent", "class",
    "blocks",
];

/// Where the fields of a call are in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldMap(Vec<MappedField>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct MappedField {
    name: &'static str,
    path: String,
    unit: tokometer_base::Nanos,
}

impl FieldMap {
    /// `in=a.b,out=c,time=d:ms`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let fields = text.split(',').map(|part| {
            let (name, path) = part.split_once('=').ok_or_else(|| {
                format!("`{part}` is not FIELD=PLACE\n  try `in=usage.prompt_tokens`")
            })?;
            let name = FIELDS.into_iter().find(|field| *field == name.trim()).ok_or_else(|| {
                format!(
                    "`{name}` is not a field of a request\n  it is one of {}",
                    FIELDS.join(", ")
                )
            })?;
            let (path, unit) = match path.rsplit_once(':') {
                Some((path, "ms")) => (path, tokometer_base::Nanos::from_millis(1)),
                Some((path, "us")) => (path, tokometer_base::Nanos::from_micros(1)),
                Some((path, "s")) => (path, SECOND),
                _ => (path, SECOND),
            };
            Ok(MappedField { name, path: path.trim().to_owned(), unit })
        });
        let fields = fields.collect::<Result<Vec<_>, String>>()?;
        for needed in ["in", "out"] {
            if !fields.iter().any(|field| field.name == needed) {
                return Err(format!("`{needed}=PLACE` is missing"));
            }
        }
        Ok(Self(fields))
    }

    fn field(&self, name: &str) -> Option<&MappedField> {
        self.0.iter().find(|field| field.name == name)
    }
}

impl fmt::Display for FieldMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.0.iter().map(|field| format!("{}={}", field.name, field.path));
        f.write_str(&parts.collect::<Vec<_>>().join(","))
    }
}

/// The fields of one row by their names in the map.
struct MappedRow<'a> {
    map: &'a FieldMap,
    json: Value,
    row: Row<'a>,
}

impl MappedRow<'_> {
    /// What stands at a field's place. `None` where the map or the row has none.
    fn value(&self, name: &str) -> Option<Value> {
        let path = &self.map.field(name)?.path;
        let found = match self.row {
            Row::Cells(cells) => cells.cell(&path.to_lowercase()).map(Value::from),
            // A key may have dots of its own.
            Row::Json(_) => self.json.get(path).cloned().or_else(|| {
                path.split('.')
                    .try_fold(&self.json, |value, key| {
                        key.parse().map_or_else(
                            |_| value.get(key),
                            |at: usize| value.get(at).or(value.get(key)),
                        )
                    })
                    .cloned()
            }),
        };
        found.filter(|value| !value.is_null())
    }

    fn tokens(&self, name: &str) -> Result<u32, Flaw> {
        let value = self.value(name).ok_or_else(|| self.missing(name))?;
        Ok(serde_json::from_value::<Tokens>(value)?.0)
    }

    fn missing(&self, name: &str) -> Flaw {
        let path = self.map.field(name).map_or("", |field| field.path.as_str());
        FlawKind::Malformed.with(format!("there is no `{path}`"))
    }

    fn time(&self, name: &str) -> Result<Option<tokometer_base::Nanos>, Flaw> {
        let (Some(value), Some(field)) = (self.value(name), self.map.field(name)) else {
            return Ok(None);
        };
        serde_json::from_value::<Moment>(value)?.nanos(field.unit).map(Some)
    }

    fn id(&self, name: &str) -> Option<u64> {
        self.value(name).map(|value| match value {
            Value::Number(number) => number.as_u64().unwrap_or_else(|| key(&number.to_string())),
            Value::String(text) => text.parse().unwrap_or_else(|_| key(&text)),
            other => key(&other.to_string()),
        })
    }
}

fn read(row: Row<'_>, setting: &Setting, found: &mut Found) -> Result<(), Flaw> {
    let map = setting.map.as_ref().ok_or_else(|| "it needs `--map`".to_owned())?;
    let json = match row {
        Row::Json(_) => form::json(row)?,
        Row::Cells(_) => Value::Null,
    };
    let row = MappedRow { map, json, row };
    let input = row.tokens("in")?;
    let start = row.time("time")?;
    if start.is_none() && map.field("time").is_some() {
        return Err(FlawKind::NoTime.with(row.missing("time").text));
    }
    let end = row.time("end")?;
    let until_end = start.zip(end).map(|(start, end)| {
        end.checked_sub(start).ok_or(FlawKind::NegativeTime.with("it ends before it starts"))
    });
    let duration = row.time("duration")?;
    let blocks = row.value("blocks").map(serde_json::from_value::<Vec<u64>>).transpose()?;
    let blocks = blocks.map(|ids| Blocks {
        ids,
        tokens: setting.block_tokens.unwrap_or(BLOCK_TOKENS),
        scope: 0,
    });
    if let Some(blocks) = &blocks {
        blocks.check(input)?;
    }
    found.calls.push(Call {
        session: row.id("session"),
        order: row
            .id("id")
            .filter(|_| map.field("parent").is_some())
            .map_or(Order::ByTime, |id| Order::After { id, parent: row.id("parent") }),
        start,
        duration: duration.or(until_end.transpose()?),
        ttft: row.time("ttft")?,
        pause_before: row.time("pause")?,
        input: Some(input),
        output: Some(row.tokens("out")?),
        prompt: blocks.map_or(Content::Fresh, Content::Blocks),
        class: row
            .value("class")
            .map(|class| class.as_str().map_or_else(|| class.to_string(), str::to_owned)),
        ..Call::default()
    });
    Ok(())
}
