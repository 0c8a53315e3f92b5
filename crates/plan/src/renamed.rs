//! Our own earlier names. What a user types is refused with the name of today; what a run has recorded is
//! read with either.

use serde_json::Value;

use crate::options::LoraFlags;

struct Renamed {
    /// The flag as it was called, without dashes; also the key of the config file, and the variable.
    flag: &'static str,
    /// What to write now, without dashes.
    now: &'static str,
    /// Its key in earlier plans, and the key of today, where these differ.
    key: Option<[&'static str; 2]>,
}

const RENAMED: [Renamed; 4] = [
    Renamed { flag: "compat", now: "conventions", key: Some(["family", "conventions"]) },
    Renamed {
        flag: "harvest",
        now: "socket-reads",
        key: Some(["client.harvest", "client.socket_reads"]),
    },
    Renamed { flag: "json", now: "format json", key: None },
    Renamed { flag: "markdown", now: "format markdown", key: None },
];

/// What to write instead of a flag of ours that was renamed, both without dashes.
pub fn renamed_flag(flag: &str) -> Option<&'static str> {
    RENAMED.iter().find(|row| row.flag == flag).map(|row| row.now)
}

fn keys() -> impl Iterator<Item = [&'static str; 2]> {
    RENAMED.iter().filter_map(|row| row.key)
}

/// What to write instead of the first renamed key of a plan file; `None` where it has none.
pub(crate) fn renamed_key(plan: &Value) -> Option<String> {
    let is_there = |key: &str| plan.pointer(&format!("/{}", key.replace('.', "/"))).is_some();
    let [old, now] = keys().find(|[old, _]| is_there(old))?;
    Some(format!("the key `{old}` is called `{now}` now"))
}

/// A recorded plan with the keys of today, also in its parts and among the fields that it varies.
pub(crate) fn with_keys_of_today(mut plan: Value) -> Value {
    for [old, now] in keys() {
        rename(&mut plan, old, now);
        for part in plan.get_mut("sections").and_then(Value::as_array_mut).into_iter().flatten() {
            rename(part, old, now);
        }
        for axis in plan.get_mut("sweep").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(field) = axis.get_mut("field").filter(|field| *field == old) {
                *field = now.into();
            }
        }
    }
    if let Some(load) = plan.get_mut("load").and_then(Value::as_object_mut) {
        let ramp = load.remove("ramp").filter(Value::is_object);
        let part =
            |name: &str| ramp.as_ref()?.get(name).map(|value| value.to_string().replace('"', ""));
        if let (Some(shape), Some(from), Some(to)) = (part("strategy"), part("from"), part("to")) {
            load.insert("stages".to_owned(), vec![format!("run@{from}..{to}/s {shape}")].into());
        }
    }
    if let Some(lora) = plan.pointer_mut("/request/lora").map(Value::take).filter(Value::is_object)
    {
        let words = |name: &str| lora.get(name).map(|value| value.to_string().replace('"', ""));
        let names = lora.get("names").and_then(Value::as_array).into_iter().flatten();
        let flags = LoraFlags {
            names: names.filter_map(Value::as_str).map(str::to_owned).collect(),
            assignment: words("assignment"),
            alpha: words("alpha"),
        };
        if let (Ok(Some(mix)), Some(all)) = (flags.mix(), plan.as_object_mut()) {
            all.insert("classes".to_owned(), serde_json::to_value(mix.classes).unwrap_or_default());
            all.insert(
                "class_order".to_owned(),
                serde_json::to_value(mix.order).unwrap_or_default(),
            );
        }
    }
    if let Some(request) = plan.get_mut("request").and_then(Value::as_object_mut) {
        let _taken = request.remove("lora");
    }
    plan
}

/// Both keys stand in the same object.
fn rename(plan: &mut Value, old: &str, now: &str) {
    let (path, old) = old.rsplit_once('.').unwrap_or(("", old));
    let now = now.rsplit_once('.').map_or(now, |(_, name)| name);
    let path = if path.is_empty() { String::new() } else { format!("/{}", path.replace('.', "/")) };
    let Some(object) = plan.pointer_mut(&path).and_then(Value::as_object_mut) else { return };
    if let Some(value) = object.remove(old) {
        object.entry(now).or_insert(value);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::options;

    #[test]
    fn every_renamed_flag_leads_to_one_of_today() {
        for row in RENAMED {
            assert!(options::named(row.flag).is_none(), "{}", row.flag);
            let now = options::named(row.now.split(' ').next().unwrap()).unwrap();
            assert_eq!(row.key.map_or(now.key, |[_, key]| key), now.key, "{}", row.flag);
        }
        assert_eq!(renamed_flag("compat"), Some("conventions"));
        assert_eq!(renamed_flag("conventions"), None);
    }

    #[test]
    fn a_recorded_plan_is_read_by_the_keys_of_today() {
        let before = json!({
            "family": "sglang", "client": { "harvest": "eager", "retries": 1 },
            "sections": [{ "heading": "a", "client": { "harvest": "adaptive" } }],
            "sweep": [{ "field": "client.harvest", "values": ["eager"] }],
        });
        let now = json!({
            "conventions": "sglang", "client": { "socket_reads": "eager", "retries": 1 },
            "sections": [{ "heading": "a", "client": { "socket_reads": "adaptive" } }],
            "sweep": [{ "field": "client.socket_reads", "values": ["eager"] }],
        });
        assert_eq!(renamed_key(&before).unwrap(), "the key `family` is called `conventions` now");
        assert_eq!(renamed_key(&now), None);
        assert_eq!(with_keys_of_today(before), now);
        assert_eq!(with_keys_of_today(now.clone()), now);
    }
}
