//! In what plans differ, field by field and by type.
//!
//! In: plans, some of them known in part only, because a printed report states few of its settings.
//! Out: one line per field that differs, with how much that matters for a comparison of figures.
//! Targets may differ: they are what is compared. Names, seeds and paths of files do not matter.

use serde::Serialize;
use serde_json::Value;
use tokometer_base::Partial;
use tokometer_base::partial::FieldVisitor;
use tokometer_decide::compare::{DifferingLine, Weight};
use tokometer_record::RunInfo;

use crate::{Error, PartialPlan, Plan};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PlanCoverage {
    /// The fields that are set; the others may have any value.
    #[default]
    Partly,
    /// All of it: a field that is not set is absent.
    Wholly,
}

/// A plan as far as it is known.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KnownPlan {
    pub fields: PartialPlan,
    pub known: PlanCoverage,
}

impl KnownPlan {
    /// The plan of a recorded run. One of another version may lack fields that every plan has now:
    /// it is known in part.
    pub fn of(info: &RunInfo) -> Result<Self, Error> {
        let fields = PartialPlan::of_run(info)?;
        Ok(match fields.clone().complete() {
            Ok(plan) => Self { fields: PartialPlan::of(plan), known: PlanCoverage::Wholly },
            Err(_) => Self { fields, known: PlanCoverage::Partly },
        })
    }
}

/// In what the plans of two sides differ. A field that is mixed within a side differs as well,
/// unless it is what is compared.
pub fn differing_lines(a: &[KnownPlan], b: &[KnownPlan]) -> Vec<DifferingLine> {
    let all: Vec<&KnownPlan> = a.iter().chain(b).collect();
    let mut found = Differing {
        of_a: a.len(),
        known: all.iter().map(|plan| plan.known).collect(),
        weight_of: compared_weight,
        lines: Vec::new(),
    };
    let fields: Vec<&PartialPlan> = all.iter().map(|plan| &plan.fields).collect();
    PartialPlan::visit(&fields, "", &mut found);
    found.lines
}

/// The first field in which a plan differs from the one that a stored run was made by; `None` where
/// the stored run can stand for a run of this plan.
pub fn first_change(stored: &Plan, meant: &Plan) -> Result<Option<DifferingLine>, Error> {
    let mut found = Differing {
        of_a: 1,
        known: vec![PlanCoverage::Wholly; 2],
        weight_of: resumed_weight,
        lines: Vec::new(),
    };
    // What is not written, such as a key, cannot differ from what was stored.
    let (mut stored, mut meant) = (stored.clone(), meant.as_stored()?);
    for target in stored.targets.iter_mut().chain(&mut meant.targets) {
        target.headers.drop_hidden();
    }
    for class in stored.classes.iter_mut().chain(&mut meant.classes) {
        class.headers.drop_hidden();
        class.extra_body.drop_hidden();
    }
    for plan in [&mut stored, &mut meant] {
        plan.request.extra_body.drop_hidden();
        plan.client.metrics_headers.drop_hidden();
    }
    let fields = [PartialPlan::of(stored), PartialPlan::of(meant)];
    PartialPlan::visit(&fields.each_ref(), "", &mut found);
    Ok(found.lines.into_iter().next())
}

/// Fields that say how a run is called, shown and stored, or that only make a plan of many runs.
const NOT_MEASURED: [&str; 5] = ["name", "output", "metrics", "sweep", "sections"];

/// Fields that differ from run to run of one comparison.
const OWN: [&str; 3] = ["seed", "content", "interleave"];

/// Fields without which figures answer different questions.
const DECISIVE: [&str; 10] = [
    "classes",
    "workload",
    "load.request_rate",
    "load.burstiness",
    "load.max_concurrency",
    "load.max_sessions",
    "load.stages",
    "load.timing",
    "prompts.tokenizer",
    "request.ignore_eos",
];

/// How long a run waits for its server before it begins.
const WAITING: [&str; 2] = ["phases.ready_timeout_s", "phases.flush_timeout_s"];

/// Whether a field is one of these or below one of them.
fn is_below(field: &str, roots: &[&str]) -> bool {
    let is_below = |root: &&str| {
        field.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    roots.iter().any(is_below)
}

/// How much a difference matters for a comparison of figures; `None`: not at all.
fn compared_weight(field: &str) -> Option<Weight> {
    match field {
        _ if is_below(field, &NOT_MEASURED) || is_below(field, &OWN) => None,
        _ if is_below(field, &["targets"]) => Some(Weight::Subject),
        _ if is_below(field, &DECISIVE) => Some(Weight::Meaningless),
        _ => Some(Weight::Caution),
    }
}

/// Points of one sweep must agree in all that is measured.
fn resumed_weight(field: &str) -> Option<Weight> {
    let is_free = is_below(field, &NOT_MEASURED) || is_below(field, &WAITING);
    (!is_free).then_some(Weight::Meaningless)
}

struct Differing {
    /// The first so many plans are those of A.
    of_a: usize,
    known: Vec<PlanCoverage>,
    weight_of: fn(&str) -> Option<Weight>,
    lines: Vec<DifferingLine>,
}

impl FieldVisitor for Differing {
    fn field<T: PartialEq + Serialize>(&mut self, path: &str, values: &[Option<&T>]) {
        let Some(weight) = (self.weight_of)(path) else { return };
        // All values are one in most fields, whatever their type.
        if values.windows(2).all(|pair| pair[0] == pair[1]) {
            return;
        }
        let known = values.iter().zip(&self.known);
        let stated =
            known.map(|(value, known)| (*known == PlanCoverage::Wholly || value.is_some(), *value));
        let stated: Vec<(bool, Option<&T>)> = stated.collect();
        let side = |values: &[(bool, Option<&T>)]| {
            let values = values.iter().filter(|(is_stated, _)| *is_stated);
            let mut shown: Vec<String> = values.map(|(_, value)| shown(*value)).collect();
            shown.sort();
            shown.dedup();
            shown
        };
        let (a, b) = stated.split_at(self.of_a);
        let (a, b) = (side(a), side(b));
        let is_mixed = a.len() > 1 && weight != Weight::Subject;
        if !a.is_empty() && !b.is_empty() && (a != b || is_mixed) {
            let [a, b] = [a, b].map(|values| values.join(" or "));
            self.lines.push(DifferingLine { field: path.to_owned(), a, b, weight });
        }
    }
}

/// A value as a plan file has it; a text without its quotes.
fn shown<T: Serialize>(value: Option<&T>) -> String {
    match serde_json::to_value(value).unwrap_or_default() {
        Value::Null => DifferingLine::ABSENT.to_owned(),
        Value::String(text) => text,
        Value::Number(number) if number.is_f64() => {
            // `20`, not `20.0`.
            number.as_f64().unwrap_or(f64::NAN).to_string()
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use tokometer_base::IgnoreEos;

    use super::*;
    use crate::{PartialLoad, Rate, laws_tests};

    fn wholly(change: &str) -> KnownPlan {
        let mut fields = laws_tests::least();
        fields.merge(toml::from_str(change).unwrap());
        let plan = fields.complete().unwrap();
        KnownPlan { fields: PartialPlan::of(plan), known: PlanCoverage::Wholly }
    }

    fn lines(a: &[KnownPlan], b: &[KnownPlan]) -> Vec<String> {
        let line = |line: DifferingLine| {
            format!("{:?}: {} {} / {}", line.weight, line.field, line.a, line.b)
        };
        differing_lines(a, b).into_iter().map(line).collect()
    }

    #[test]
    fn targets_may_differ_and_names_do_not_matter() {
        let a = wholly("name = \"one\"\nseed = 1\ntargets = [{ address = \"http://x:1\" }]");
        let b = wholly("name = \"two\"\nseed = 2\ntargets = [{ address = \"http://y:1\" }]");
        assert_eq!(lines(&[a], &[b]), ["Subject: targets.0.address http://x:1 / http://y:1"]);
    }

    #[test]
    fn another_load_is_meaningless_and_another_warm_up_is_a_caution() {
        let a = wholly("load = { request_rate = 5, max_concurrency = 8 }");
        let b = wholly("load = { request_rate = inf }\nphases = { warmups = 3 }");
        assert_eq!(
            lines(&[a], &[b]),
            [
                "Meaningless: load.request_rate 5 / inf",
                "Meaningless: load.max_concurrency 8 / —",
                "Caution: phases.warmups 0 / 3",
            ]
        );
    }

    #[test]
    fn what_only_one_plan_has_is_absent_in_the_other() {
        let ramp = "load = { stages = [\"run@1..2.5/s\"] }";
        let body = "request = { extra_body = { top = { k = 1 } } }";
        assert_eq!(
            lines(&[wholly(ramp)], &[wholly(body)]),
            [
                r#"Meaningless: load.stages ["run@1..2.5/s"] / []"#,
                r#"Caution: request.extra_body.top — / {"k":1}"#,
            ]
        );
        let other = wholly("workload = { dataset = \"random-ids\" }");
        let found = lines(&[wholly("")], &[other]);
        assert_eq!(found[0], "Meaningless: workload.dataset random / random-ids");
        let lost = "Meaningless: workload.prefix_len 0 / —".to_owned();
        assert!(found.contains(&lost), "{found:?}");
    }

    #[test]
    fn runs_of_one_side_that_differ_are_named_too() {
        let side = || [4, 8].map(|cap| wholly(&format!("load = {{ max_concurrency = {cap} }}")));
        assert_eq!(lines(&side(), &side()), ["Meaningless: load.max_concurrency 4 or 8 / 4 or 8"]);
    }

    /// A printed report that does not state the cap was once compared as one without a cap.
    #[test]
    fn what_a_report_leaves_out_is_not_known_to_differ() {
        let load = PartialLoad { request_rate: Some(Rate(5.0)), ..PartialLoad::default() };
        let fields = PartialPlan { load, ..PartialPlan::default() };
        let report = KnownPlan { fields, known: PlanCoverage::Partly };
        let plan = wholly("load = { request_rate = 5.0, max_concurrency = 2 }");
        assert_eq!(lines(std::slice::from_ref(&report), &[plan]), [""; 0]);
        let plan = wholly("load = { request_rate = 6 }");
        assert_eq!(lines(&[report], &[plan]), ["Meaningless: load.request_rate 5 / 6"]);
    }

    /// A record of an earlier version lacks fields that have a default now, and one of a later version
    /// may have fields that are unknown here.
    #[test]
    fn records_of_other_versions_are_compared_as_far_as_they_are_known() {
        let of = |plan: serde_json::Value| {
            let mut info: RunInfo =
                serde_json::from_str(include_str!("../../../fixtures/run/info.json")).unwrap();
            info.plan = plan;
            KnownPlan::of(&info)
        };
        let whole = serde_json::to_value(laws_tests::least().complete().unwrap()).unwrap();
        let mut earlier = whole.clone();
        earlier["client"].as_object_mut().unwrap().remove("stamps").unwrap();
        assert_eq!(of(earlier).unwrap(), wholly(""));
        let mut less = whole.clone();
        less["load"].as_object_mut().unwrap().remove("timing").unwrap();
        let less = of(less).unwrap();
        assert_eq!(less.known, PlanCoverage::Partly);
        assert_eq!(lines(&[less], &[wholly("load = { timing = \"trace\" }")]), [""; 0]);
        let mut later = whole;
        later["load"]["shape"] = "square".into();
        let why = of(later).unwrap_err().to_string();
        assert!(why.contains("unknown key `shape`"), "{why}");
    }

    /// Reports read this rule from the record without knowing the plan's types.
    #[test]
    fn a_record_returns_the_end_of_sequence_rule_of_its_plan() {
        let mut info: RunInfo =
            serde_json::from_str(include_str!("../../../fixtures/run/info.json")).unwrap();
        for (word, rule) in [("off", IgnoreEos::Off), ("implied", IgnoreEos::Implied)] {
            let change = format!("request = {{ ignore_eos = \"{word}\" }}");
            info.plan = serde_json::to_value(wholly(&change).fields.complete().unwrap()).unwrap();
            assert_eq!(info.ignore_eos(), Some(rule), "{word}");
        }
        info.plan = serde_json::Value::Null;
        assert_eq!(info.ignore_eos(), None);
    }

    #[test]
    fn a_stored_run_stands_for_a_plan_that_measures_the_same() {
        let plan = |change: &str| wholly(change).fields.complete().unwrap();
        let check = |change: &str, expected: Option<&str>| {
            let found = first_change(&plan(""), &plan(change)).unwrap();
            assert_eq!(found.map(|line| line.field).as_deref(), expected, "{change}");
        };
        check("", None);
        check("name = \"other\"\noutput = { shown = \"json\" }", None);
        check("metrics = { judgement = \"strict\" }\nphases = { ready_timeout_s = 5 }", None);
        // A key is not stored, so the stored plan cannot have it.
        check("targets = [{ headers = [[\"X-Api-Key\", \"abc\"]] }]", None);
        check("seed = 3\nload = { num_prompts = 3 }", Some("seed"));
        check("targets = [{ model = \"m\" }]", Some("targets.0.model"));
        check("workload = { output_len = 7 }", Some("workload.output_len"));
        check("client = { timeout_s = 3 }", Some("client.timeout_s"));
    }

    /// Every path in the tables above: a renamed field would silently lose its weight.
    #[test]
    fn each_weighed_field_is_a_field_of_the_plan() {
        struct Paths(Vec<String>);
        impl FieldVisitor for Paths {
            fn field<T: PartialEq + Serialize>(&mut self, path: &str, _: &[Option<&T>]) {
                self.0.push(path.to_owned());
            }
        }
        let mut plan = laws_tests::least();
        plan.classes = vec![crate::PartialClass::default()];
        plan.interleave = Some(crate::PartialInterleave::default());
        let mut paths = Paths(Vec::new());
        PartialPlan::visit(&[&plan], "", &mut paths);
        let roots = NOT_MEASURED.iter().chain(&OWN).chain(&DECISIVE).chain(&WAITING);
        for root in roots.chain(&["targets"]) {
            assert!(paths.0.iter().any(|path| is_below(path, &[*root])), "{root}");
        }
        assert_eq!(paths.0.iter().filter(|path| path.starts_with("load.")).count(), 10);
    }
}
