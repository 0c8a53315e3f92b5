//! Where the values of a plan come from.

use std::collections::BTreeMap;

use crate::PartialPlan;
use serde::Serialize;
use tokometer_base::Partial;
use tokometer_base::partial::FieldVisitor;

/// Where a value comes from, the weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum ValueOrigin {
    /// The program, by the conventions to follow.
    #[default]
    Default,
    Config,
    Environment,
    Plan,
    Flag,
}

impl ValueOrigin {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Config => "config file",
            Self::Environment => "environment",
            Self::Plan => "plan file",
            Self::Flag => "flag",
        }
    }
}

/// The origin of each field of a plan, by its path.
#[derive(Debug, Clone, Default)]
pub struct Origins(BTreeMap<String, ValueOrigin>);

impl Origins {
    /// The origins of a plan that is made of these layers, the weakest first.
    pub(super) fn of(layers: &[(ValueOrigin, PartialPlan)], axes: &[ValueOrigin]) -> Self {
        let mut found = Found {
            layers: layers.iter().map(|(origin, _)| *origin).collect(),
            origins: BTreeMap::new(),
        };
        let parts: Vec<&PartialPlan> = layers.iter().map(|(_, part)| part).collect();
        PartialPlan::visit(&parts, "", &mut found);
        let mut origins = found.origins;
        for (at, origin) in axes.iter().enumerate() {
            origins.insert(format!("sweep.{at}"), *origin);
        }
        origins.insert("sections".to_owned(), ValueOrigin::Plan);
        Self(origins)
    }

    /// The origin of a field: its own, or that of the value it is part of.
    fn at(&self, path: &str) -> ValueOrigin {
        let mut path = path;
        loop {
            if let Some(origin) = self.0.get(path) {
                return *origin;
            }
            match path.rsplit_once('.') {
                Some((outer, _)) => path = outer,
                None => return ValueOrigin::Default,
            }
        }
    }

    /// A plan in TOML with each value's origin in a comment.
    pub(super) fn annotate(&self, text: &str) -> String {
        let mut position = TomlPosition::default();
        let mut lines = Vec::new();
        let mut is_open = false;
        for line in text.lines() {
            let quotes = line.matches("\"\"\"").count() + line.matches("'''").count();
            let is_whole = !is_open && quotes == 0;
            is_open ^= quotes % 2 == 1;
            let pair = line.split_once(" = ").filter(|_| is_whole && !line.starts_with('['));
            if let Some((key, _)) = pair {
                let origin = self.at(&position.path(key.trim_matches(['"', '\''])));
                lines.push(format!("{line}  # {}", origin.name()));
                continue;
            }
            if is_whole {
                position.enter(line);
            }
            lines.push(line.to_owned());
        }
        lines.join("\n") + "\n"
    }
}

struct Found {
    layers: Vec<ValueOrigin>,
    origins: BTreeMap<String, ValueOrigin>,
}

impl FieldVisitor for Found {
    fn field<T: PartialEq + Serialize>(&mut self, path: &str, values: &[Option<&T>]) {
        if let Some(at) = values.iter().rposition(Option::is_some) {
            self.origins.insert(path.to_owned(), self.layers[at]);
        }
    }
}

/// The table that a line of TOML stands in.
#[derive(Default)]
struct TomlPosition {
    table: String,
    /// Entries of each list of tables so far.
    entries: BTreeMap<String, usize>,
}

impl TomlPosition {
    /// Follows a header: `[load]`, `[[targets]]` or `[targets.headers]`.
    fn enter(&mut self, line: &str) {
        let Some(header) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else {
            return;
        };
        let list = header.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let parts: Vec<&str> = list.unwrap_or(header).split('.').collect();
        let mut path = String::new();
        for (at, part) in parts.iter().enumerate() {
            path = if path.is_empty() { (*part).to_owned() } else { format!("{path}.{part}") };
            if list.is_some() && at + 1 == parts.len() {
                *self.entries.entry(path.clone()).or_default() += 1;
            }
            if let Some(count) = self.entries.get(&path) {
                path = format!("{path}.{}", count - 1);
            }
        }
        self.table = path;
    }

    fn path(&self, key: &str) -> String {
        if self.table.is_empty() { key.to_owned() } else { format!("{}.{key}", self.table) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(text: &str) -> PartialPlan {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn the_strongest_layer_that_sets_a_field_is_its_origin() {
        let layers = [
            (ValueOrigin::Default, part("seed = 0\n[load]\nnum_prompts = 1000\n")),
            (ValueOrigin::Config, part("[[targets]]\naddress = \"http://h\"\nmodel = \"m\"\n")),
            (ValueOrigin::Environment, part("[load]\nnum_prompts = 5\n")),
            (ValueOrigin::Flag, part("[[targets]]\nmodel = \"n\"\n[[targets]]\nmodel = \"o\"\n")),
        ];
        let origins = Origins::of(&layers, &[ValueOrigin::Plan]);
        let text = "seed = 0\nname = \"a = b\"\n\n[[targets]]\naddress = \"http://h\"\nmodel = \"n\"\n\n\
                    [targets.headers]\nx = 1\n\n[[targets]]\nmodel = \"o\"\n\n[load]\nnum_prompts = 5\n\n\
                    [[sweep]]\nfield = \"seed\"\n\n[[sections]]\nheading = \"a\"\n\n[sections.load]\nnum_prompts = 9\n";
        let annotated = origins.annotate(text);
        let comments: Vec<&str> = annotated
            .lines()
            .filter_map(|line| line.split_once("  # "))
            .map(|(_, word)| word)
            .collect();
        let expected = [
            "default",
            "default",
            "config file",
            "flag",
            "default",
            "flag",
            "environment",
            "plan file",
            "plan file",
            "plan file",
        ];
        assert_eq!(comments, expected, "{annotated}");
    }
}
