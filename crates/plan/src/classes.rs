//! Classes: what a part of the requests carries, and which request belongs to which class.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tokometer_base::seed::unit_float;
use tokometer_base::{Refusal, Seed, Stream};
use tokometer_client::secret::{ExtraBody, Headers};
use tokometer_record::RecordedClass;
use tokometer_workload as workload;

use crate::Plan;

tokometer_base::partial! {
    #[derive(Debug, Clone, PartialEq, Serialize)]
    pub struct Class / PartialClass {
        pub name: String,
        /// Its share of the requests; where classes have rates, what it is entitled to.
        pub weight: f64 = 1.0,
        /// Its requests per second; absent: as many as its weight gives.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub rate: Option<f64> = None,
        /// Sent as it is. vLLM serves the lowest number first, SGLang the highest.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub priority: Option<i64> = None,
        /// LoRA adapter; absent: the model itself.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub lora: Option<String> = None,
        /// Sent with its requests. Only values of public headers are written.
        pub headers: Headers = Headers::default(),
        /// Merged into the bodies of its requests. Values of secrets are not written.
        pub extra_body: ExtraBody as ExtraBody,
        /// Objectives in milliseconds by metric: `ttft`, `tpot`, `e2el`.
        pub goodput: BTreeMap<String, f64> as BTreeMap<String, f64>,
        /// Its own prompts; absent: those of the plan.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub workload: Option<workload::Spec> as Option<workload::PartialSpec>,
    }
}

/// How requests are dealt out among classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClassOrder {
    /// By chance, as their weights or rates are.
    #[default]
    Drawn,
    /// One after the other.
    RoundRobin,
}

impl ClassOrder {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(crate) fn is_drawn(&self) -> bool {
        *self == Self::Drawn
    }
}

impl Class {
    /// Its body's fields, the priority among them.
    pub fn body(&self) -> ExtraBody {
        let mut body = self.extra_body.clone();
        body.0.extend(self.priority.map(|priority| ("priority".to_owned(), priority.into())));
        body
    }

    /// Whether it is an adapter of a mix and nothing else.
    fn is_adapter(&self) -> bool {
        self.lora.is_some()
            && self.rate.is_none()
            && self.workload.is_none()
            && self.goodput.is_empty()
    }
}

/// Which class each request belongs to: a pure function of the seed.
#[derive(Debug, Clone)]
pub struct ClassDraw {
    /// Requests of each, up to a common factor.
    shares: Vec<f64>,
    order: ClassOrder,
    stream: Stream,
}

impl ClassDraw {
    /// `None` for a plan without classes.
    pub fn of(plan: &Plan) -> Option<Self> {
        let shares = plan.classes.iter().map(|class| class.rate.unwrap_or(class.weight)).collect();
        let draw = Self {
            shares,
            order: plan.class_order,
            // Mixes of adapters were drawn from it before there were classes.
            stream: Seed(plan.seed).stream("lora"),
        };
        (!plan.classes.is_empty()).then_some(draw)
    }

    /// The same under another seed.
    #[must_use]
    pub fn with_seed(&self, seed: Seed) -> Self {
        Self { stream: seed.stream("lora"), ..self.clone() }
    }

    /// The class of a request, or of a session, whose turns all belong to one: the server keeps its history in
    /// the part of the prefix cache that belongs to an adapter.
    pub fn class_of(&self, key: u64) -> usize {
        let count = self.shares.len();
        if self.order == ClassOrder::RoundRobin {
            return usize::try_from(key % count as u64).unwrap_or(0);
        }
        let draw = unit_float(&mut self.stream.at(key));
        let total: f64 = self.shares.iter().sum();
        let mut below = 0.0;
        let is_reached = |at: &usize| {
            below += self.shares[*at];
            draw * total < below
        };
        (0..count).find(is_reached).unwrap_or(count - 1)
    }
}

/// Requests that are looked at for a class that gets none.
const LOOKED_AT: u64 = 1_000_000;

impl Plan {
    /// The classes as a record states them.
    pub fn recorded_classes(&self) -> Vec<RecordedClass> {
        let of = |class: &Class| RecordedClass {
            name: class.name.clone(),
            weight: class.weight,
            objectives: class.goodput.clone(),
        };
        self.classes.iter().map(of).collect()
    }

    pub(crate) fn check_classes(&self) -> Result<(), Refusal> {
        let refused = |class: &Class, what: String, hint: &str| {
            Err(Refusal::usage(format!("cannot use {what} of the class `{}`", class.name), hint))
        };
        for (at, class) in self.classes.iter().enumerate() {
            let is_positive = |number: &f64| *number > 0.0 && number.is_finite();
            if class.name.is_empty() || self.classes[..at].iter().any(|one| one.name == class.name)
            {
                let hint = "give each class a name of its own: `name=chat`";
                return refused(class, format!("the name `{}`", class.name), hint);
            }
            if !is_positive(&class.weight) {
                let hint =
                    "write a weight greater than zero, such as `weight=3`, or omit the class";
                return refused(class, format!("the weight {}", class.weight), hint);
            }
            if let Some(rate) = class.rate.filter(|rate| !is_positive(rate)) {
                let hint = "write a rate greater than zero, such as `rate=5`, or omit the class";
                return refused(class, format!("the rate {rate}"), hint);
            }
            if class.rate.is_some() != self.classes[0].rate.is_some() {
                let hint = "give every class a `rate`, or none and `--request-rate`";
                return refused(
                    class,
                    "no rate beside the rates of others, or a rate beside none,".into(),
                    hint,
                );
            }
            let unknown =
                class.goodput.keys().find(|key| !["ttft", "tpot", "e2el"].contains(&key.as_str()));
            if let Some(key) = unknown {
                return refused(
                    class,
                    format!("the objective `{key}`"),
                    "use `goodput.ttft`, `goodput.tpot` or `goodput.e2el`",
                );
            }
            if class.workload.is_some()
                && (self.prompts.turns.is_some() || self.prompts.max_model_len.is_some())
            {
                let hint = "omit `--multi-turn` and `--max-model-len`, or the dataset of the class";
                return refused(class, "the dataset".to_owned(), hint);
            }
        }
        let has_rates = self.classes.iter().any(|class| class.rate.is_some());
        if has_rates && !self.load.stages.is_empty() {
            return Err(Refusal::usage(
                "cannot use stages together with rates of classes",
                "give the classes weights: stages say the rate of all",
            ));
        }
        self.check_drawn()
    }

    /// Refuses a class that no request belongs to.
    fn check_drawn(&self) -> Result<(), Refusal> {
        let Some(draw) =
            ClassDraw::of(self).filter(|_| !self.classes.iter().all(Class::is_adapter))
        else {
            return Ok(());
        };
        let count = self.load.num_prompts.unwrap_or(LOOKED_AT);
        let mut left: Vec<usize> = (0..self.classes.len()).collect();
        for key in 0..count.min(LOOKED_AT) {
            let class = draw.class_of(key);
            left.retain(|one| *one != class);
            if left.is_empty() {
                return Ok(());
            }
        }
        match left.first().filter(|_| count > 0 && count <= LOOKED_AT) {
            Some(class) => Err(Refusal::usage(
                format!(
                    "no request belongs to the class `{}`: there are {count}",
                    self.classes[*class].name
                ),
                "raise its weight or `--num-prompts`, or omit the class",
            )),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::LoraFlags;

    fn draw(names: usize, flags: &LoraFlags) -> ClassDraw {
        let names = (0..names).map(|at| format!("a{at}")).collect();
        let mix = LoraFlags { names, ..flags.clone() }.mix().unwrap().unwrap();
        let shares = mix.classes.iter().map(|class| class.weight.unwrap_or(1.0)).collect();
        ClassDraw { shares, order: mix.order, stream: Seed(3).stream("lora") }
    }

    /// These are the adapters that `--lora-*` gave before there were classes.
    #[test]
    fn an_adapter_mix_keeps_its_assignment() {
        let flags = |how: &str| LoraFlags {
            assignment: Some(how.to_owned()),
            alpha: Some("2".to_owned()),
            ..LoraFlags::default()
        };
        let check = |how: &str, expected: [usize; 12]| {
            let draw = draw(3, &flags(how));
            let found: Vec<usize> = (0..12).map(|key| draw.class_of(key)).collect();
            assert_eq!(found, expected, "{how}");
        };
        check("round-robin", [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2]);
        check("distinct", [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2]);
        check("random", OLD_RANDOM);
        check("uniform", OLD_RANDOM);
        check("skewed", OLD_SKEWED);
    }

    const OLD_RANDOM: [usize; 12] = [2, 1, 0, 0, 2, 1, 1, 1, 2, 0, 0, 0];
    const OLD_SKEWED: [usize; 12] = [1, 0, 0, 0, 2, 0, 0, 1, 2, 0, 0, 0];

    #[test]
    fn classes_get_requests_as_their_shares_are() {
        let draw = ClassDraw {
            shares: vec![30.0, 10.0],
            order: ClassOrder::Drawn,
            stream: Seed(1).stream("lora"),
        };
        let first = (0..10_000).filter(|key| draw.class_of(*key) == 0).count();
        // Five deviations of a binomial distribution.
        assert!(first.abs_diff(7_500) < 217, "{first}");
    }
}
