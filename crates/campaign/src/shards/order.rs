//! What shard 0 tells the others to measure next.
//!
//! An order names a point and the values that a search has chosen for it. The plan itself never travels:
//! every shard derives it from its own command line and refuses an order whose plan differs.

use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokometer_base::refusal::{Refusal, RefusalKind};
use tokometer_plan::{Cache, Overload, Plan, Rate, Timing};
use tokometer_shards as shards;

use crate::outcome::PlannedRun;

/// What may differ between a point and the plan of the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Varied {
    /// Nothing: the command line lists all points.
    Nothing,
    /// The load: a search chooses it.
    Load,
}

/// One point of a measurement, as shard 0 hands it out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PointOrder {
    /// Its number in the sweep or search. The content of prompts depends on it.
    number: u32,
    /// Its folder, below that of the measurement.
    folder: String,
    load: PointLoad,
    /// Fingerprint of its plan.
    plan: String,
}

/// The fields of a plan that a search chooses. Numbers are texts that read back as the same number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PointLoad {
    request_rate: String,
    max_concurrency: Option<u32>,
    max_sessions: Option<u32>,
    timing: Timing,
    num_prompts: Option<u64>,
    duration_s: Option<String>,
    overload: Overload,
    seed: u64,
    cache: Cache,
}

impl PointLoad {
    fn of(plan: &Plan) -> Self {
        let load = &plan.load;
        Self {
            request_rate: load.request_rate.0.to_string(),
            max_concurrency: load.max_concurrency,
            max_sessions: load.max_sessions,
            timing: load.timing,
            num_prompts: load.num_prompts,
            duration_s: load.duration_s.map(|seconds| seconds.to_string()),
            overload: load.overload,
            seed: plan.seed,
            cache: plan.phases.cache,
        }
    }

    /// The plan with these values; `None` where one is not a number.
    fn put(&self, plan: &Plan) -> Option<Plan> {
        let mut plan = plan.clone();
        plan.load.request_rate = Rate(self.request_rate.parse().ok()?);
        plan.load.max_concurrency = self.max_concurrency;
        (plan.load.max_sessions, plan.load.timing) = (self.max_sessions, self.timing);
        plan.load.num_prompts = self.num_prompts;
        plan.load.duration_s =
            self.duration_s.as_ref().map(|seconds| seconds.parse()).transpose().ok()?;
        plan.load.overload = self.overload;
        plan.seed = self.seed;
        plan.phases.cache = self.cache;
        Some(plan)
    }
}

impl PointOrder {
    /// The order for a run below the folder of the measurement.
    pub(super) fn new(run: &PlannedRun, measurement: &Path) -> Result<Self, Refusal> {
        let below = run.folder.strip_prefix(measurement).unwrap_or(Path::new(""));
        Ok(Self {
            number: run.number,
            folder: below.display().to_string(),
            load: PointLoad::of(&run.plan),
            plan: plan_fingerprint(&run.plan)?,
        })
    }

    pub(super) fn text(&self) -> Result<String, Refusal> {
        serde_json::to_string(self)
            .map_err(|why| Refusal::new(RefusalKind::Internal, why.to_string()))
    }

    pub(super) fn read(text: &str) -> Result<Self, Refusal> {
        let unread = |why: serde_json::Error| unusable(&format!("it cannot be read: {why}"));
        let order: Self = serde_json::from_str(text).map_err(unread)?;
        let is_below = |part: Component<'_>| matches!(part, Component::Normal(_));
        if !Path::new(&order.folder).components().all(is_below) {
            return Err(unusable(&format!("`{}` is not a folder of this run", order.folder)));
        }
        Ok(order)
    }

    /// The folder of the point below that of the measurement.
    pub(super) fn folder(&self, measurement: &Path) -> PathBuf {
        if self.folder.is_empty() { measurement.to_owned() } else { measurement.join(&self.folder) }
    }

    /// The run in its folder, from those of this process's own command line.
    pub(super) fn run(
        &self,
        own: &[PlannedRun],
        varied: Varied,
        measurement: &Path,
    ) -> Result<PlannedRun, Refusal> {
        for run in own {
            let plan = match varied {
                Varied::Nothing => Some(run.plan.clone()),
                Varied::Load => self.load.put(&run.plan),
            };
            let Some(plan) = plan else { continue };
            if plan_fingerprint(&plan)? == self.plan {
                let (number, folder) = (self.number, self.folder(measurement));
                return Ok(PlannedRun { number, folder, plan, ..run.clone() });
            }
        }
        Err(unusable("its plan does not follow from this shard's command line"))
    }
}

fn unusable(why: &str) -> Refusal {
    Refusal::new(
        RefusalKind::Usage,
        format!("cannot measure the point that shard 0 asks for: {why}"),
    )
    .hint("give all shards the same flags and the same version")
}

/// What a plan measures, as one word: equal in shards that make one run.
pub(super) fn plan_fingerprint(plan: &Plan) -> Result<String, Refusal> {
    Ok(shards::fingerprint(&compared(plan)?.to_string()))
}

/// What shards of one run have in common.
fn compared(plan: &Plan) -> Result<Value, Refusal> {
    let unwritable = |why: serde_json::Error| Refusal::new(RefusalKind::Internal, why.to_string());
    let mut plan = serde_json::to_value(plan).map_err(unwritable)?;
    if let Some(plan) = plan.as_object_mut() {
        // How a run is called, shown and stored is every shard's own.
        for field in ["name", "output", "metrics"] {
            let _ = plan.remove(field);
        }
    }
    Ok(plan)
}

/// Digits of a field's digest: enough to tell two values apart, and few enough for a first message.
const FIELD_DIGITS: usize = 6;

/// `NAME=DIGEST` for each field of what a plan measures: shard 0 can name those that differ in another
/// shard. Absent values have no word.
pub(super) fn plan_fields(plan: &Plan) -> Result<String, Refusal> {
    let plan = compared(plan)?;
    let mut words = Vec::new();
    let mut add = |name: String, value: &Value| {
        let digest = shards::fingerprint(&value.to_string());
        let digest: String = digest.chars().take(FIELD_DIGITS).collect();
        if !value.is_null() {
            words.push(format!("{name}={digest}"));
        }
    };
    for (name, value) in plan.as_object().into_iter().flatten() {
        match value {
            Value::Object(inner) => {
                inner.iter().for_each(|(field, value)| add(format!("{name}.{field}"), value));
            }
            value => add(name.clone(), value),
        }
    }
    Ok(words.join(" "))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::testing::run as point;

    /// A plan as a search makes it.
    fn searched(plan: &Plan) -> Plan {
        let mut plan = plan.clone();
        plan.load.request_rate = Rate(0.1 + 0.2);
        plan.load.duration_s = Some(1.0 / 3.0);
        plan.load.num_prompts = None;
        plan.load.overload = Overload::Stop;
        plan.phases.cache = Cache::Flush;
        plan.seed = u64::MAX - 1;
        plan
    }

    /// A refusal showed two digests, and nobody knew which flag was meant.
    #[test]
    fn a_field_that_differs_changes_its_own_word_and_no_other() {
        let plan = point().plan;
        let mut other = plan.clone();
        other.load.max_concurrency = Some(7);
        other.name = "another".to_owned();
        let fields = |plan: &Plan| -> BTreeSet<String> {
            plan_fields(plan).unwrap().split(' ').map(str::to_owned).collect()
        };
        let (own, others) = (fields(&plan), fields(&other));
        let changed: Vec<&String> = own.symmetric_difference(&others).collect();
        assert!(
            changed.iter().all(|word| word.starts_with("load.max_concurrency=")),
            "{changed:?}"
        );
        assert!(!changed.is_empty());
        // Before a shard has proved the secret, a message has 4 KiB.
        let bytes = plan_fields(&plan).unwrap().len();
        assert!(bytes < 3 << 10, "{bytes} bytes");
    }

    fn order(plan: &Plan) -> PointOrder {
        let folder = PathBuf::from("/a/run/003-x");
        let run = PlannedRun { number: 3, folder, plan: plan.clone(), ..point() };
        let order = PointOrder::new(&run, Path::new("/a/run"));
        PointOrder::read(&order.unwrap().text().unwrap()).unwrap()
    }

    #[test]
    fn a_shard_derives_the_plan_of_a_point_from_its_own_command_line() {
        let own = point();
        let wanted = searched(&own.plan);
        let order = order(&wanted);
        let here = Path::new("/b/here");
        let derived = order.run(std::slice::from_ref(&own), Varied::Load, here).unwrap();
        assert_eq!((derived.folder.as_path(), derived.number), (Path::new("/b/here/003-x"), 3));
        assert_eq!((derived.plan.load, derived.plan.seed), (wanted.load, wanted.seed));
        let refused = order.run(&[own], Varied::Nothing, here);
        assert!(refused.is_err(), "the command line has another load");
    }

    #[test]
    fn an_order_of_another_measurement_is_refused() {
        let own = point();
        let mut other = searched(&own.plan);
        other.prompts.tokenizer = Some("elsewhere".to_owned());
        let refusal = order(&other).run(&[own], Varied::Load, Path::new("/b")).unwrap_err();
        assert!(refusal.to_string().contains("does not follow from"), "{refusal}");
    }

    #[test]
    fn a_folder_outside_of_the_run_and_garbage_are_refused() {
        let text = order(&searched(&point().plan)).text().unwrap();
        for folder in ["/etc", "../x", "a/../../x", "./x"] {
            let changed = text.replace("003-x", folder);
            assert!(PointOrder::read(&changed).is_err(), "{folder}");
        }
        for garbage in ["", "{}", "[1]", "null"] {
            assert!(PointOrder::read(garbage).is_err(), "{garbage}");
        }
    }
}
