//! Figures named by `--percentile-metrics` and `--goodput`.

use std::collections::BTreeMap;

use crate::{PartialPlan, Plan, options};
use tokometer_figures::Quantity;

use tokometer_base::Refusal;

/// The section of the report that shows a metric, by the word that vLLM uses, such as `e2el`.
pub(crate) fn section(name: &str) -> Result<&'static str, Refusal> {
    let refused = |why: String| {
        let sections: Vec<&str> = Quantity::all().filter_map(Quantity::section).collect();
        Refusal::usage(
            format!("cannot show the section `{name}`: {why}"),
            format!("the sections are {}", sections.join(", ")),
        )
    };
    let quantity = Quantity::parse(name).map_err(|why| refused(why.to_string()))?;
    let none = || refused(format!("{} has no section in the report", quantity.label()));
    quantity.section().ok_or_else(none)
}

/// An objective that is so short was mostly meant in seconds.
const SHORT_MS: f64 = 1.0;

/// Says in which unit an objective is read that looks like seconds.
pub(super) fn unit_remark(plan: &Plan) -> Option<String> {
    let short = |(_, limit): &(&String, &f64)| **limit > 0.0 && **limit < SHORT_MS;
    let (name, limit) = plan.metrics.goodput.iter().find(short)?;
    Some(format!(
        "`--goodput {name}:{limit}` means {limit} ms: the unit is milliseconds; `{name}:{}` means {limit} s",
        limit * 1e3
    ))
}

/// Says which sections a load leaves empty: without a cap nothing waits in the client, and without a rate
/// there is no schedule to wait for.
pub(super) fn remarks(plan: &Plan) -> Option<String> {
    let asks = |quantity: Quantity| {
        let name = quantity.section();
        name.filter(|name| plan.metrics.sections.iter().any(|asked| asked == name))
    };
    let load = &plan.load;
    let is_capped = load.max_concurrency.is_some();
    let queue = asks(Quantity::ClientQueue).filter(|_| !is_capped);
    let queued = asks(Quantity::E2eFromIntended)
        .filter(|_| !(is_capped && (load.request_rate.0.is_finite() || !load.stages.is_empty())));
    let (name, needed) = queue
        .map(|name| (name, "`--max-concurrency`"))
        .or(queued.map(|name| (name, "`--max-concurrency` and a finite `--request-rate`")))?;
    Some(format!("the section `{name}` is not shown: it needs {needed}"))
}

/// `ttft,itl,e2el` as sections.
pub fn sections(text: &str) -> Result<Vec<String>, Refusal> {
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    words.map(|word| section(word).map(str::to_owned)).collect()
}

/// `ttft:200` as a metric and its limit in milliseconds.
pub fn objective(word: &str) -> Result<(String, f64), Refusal> {
    let refused = |why: &str| {
        Refusal::usage(
            format!("cannot use the objective `{word}`: {why}"),
            "write METRIC:MILLISECONDS with one of ttft, tpot, e2el, such as `ttft:200`",
        )
    };
    let (name, limit) = word.split_once(':').ok_or_else(|| refused("it has no `:`"))?;
    let limit = limit.trim().parse::<f64>().ok().filter(|limit| *limit >= 0.0);
    let limit = limit.ok_or_else(|| refused("its limit is not a number of milliseconds"))?;
    let name = objective_name(name).map_err(|why| refused(&why))?;
    Ok((name.to_owned(), limit))
}

pub fn seconds(flag: &str, text: Option<&str>) -> Result<Option<f64>, Refusal> {
    let refused =
        |text: &str, why| Refusal::usage(format!("cannot use `{flag} {text}`: {why}"), "");
    text.map(|text| options::time(text).map_err(|why| refused(text, why))).transpose()
}

/// The latency that an objective limits, by the word that vLLM uses.
fn objective_name(name: &str) -> Result<&'static str, String> {
    let quantity = Quantity::parse(name).map_err(|why| why.to_string())?;
    match (quantity, quantity.section()) {
        (Quantity::Ttft | Quantity::Tpot | Quantity::E2e, Some(name)) => Ok(name),
        _ => Err(format!("{} is not one latency per request", quantity.label())),
    }
}

/// Gives the sections and objectives of a layer the names that reports have for them, so that layers
/// override each other.
pub(super) fn put_names(part: &mut PartialPlan) -> Result<(), Refusal> {
    if let Some(sections) = &mut part.metrics.sections {
        for name in sections {
            section(name)?.clone_into(name);
        }
    }
    let mut named = BTreeMap::new();
    for (key, limit) in std::mem::take(&mut part.metrics.goodput) {
        let refused = |why: String| {
            let message = format!("cannot use the objective `{key}`: {why}");
            Refusal::usage(message, "use one of ttft, tpot, e2el, such as `ttft:200`")
        };
        let name = objective_name(&key).map_err(refused)?;
        if named.insert(name.to_owned(), limit).is_some() {
            return Err(refused(format!("another key also means `{name}`")));
        }
    }
    part.metrics.goodput = named;
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokometer_base::Partial as _;

    use super::*;

    #[test]
    fn sections_are_named_in_any_spelling() {
        assert_eq!(sections("ttft, TPOT,ITL,e2e").unwrap(), ["ttft", "tpot", "itl", "e2el"]);
        assert_eq!(sections("e2el,gap").unwrap(), ["e2el", "itl"]);
        assert_eq!(sections("queue").unwrap(), ["client_queue_time"]);
        let refusal = section("goodput").unwrap_err().to_string();
        assert!(refusal.contains("Goodput has no section in the report"), "{refusal}");
        let refusal = section("tttf").unwrap_err().to_string();
        assert!(refusal.contains("similar: TTFT"), "{refusal}");
    }

    #[test]
    fn objectives_are_a_latency_and_milliseconds() {
        assert_eq!(objective("ttft:200").unwrap(), ("ttft".to_owned(), 200.0));
        assert_eq!(objective("E2E:3000").unwrap(), ("e2el".to_owned(), 3000.0));
        let check = |word: &str, expected: &str| {
            let refusal = objective(word).unwrap_err().to_string();
            assert!(refusal.contains(expected), "{refusal}");
        };
        check("ttft", "it has no `:`");
        check("ttft:x", "its limit is not a number of milliseconds");
        check("ttft:-1", "its limit is not a number of milliseconds");
        check("tttf:200", "similar: TTFT");
        check("itl:200", "ITL is not one latency per request");
    }

    /// Every request of a good server missed `ttft:0.2`.
    #[test]
    fn an_objective_that_looks_like_seconds_is_said_to_be_milliseconds() {
        let said = |name: &str, limit: f64| {
            let mut plan = crate::laws_tests::least().complete().unwrap();
            plan.metrics.goodput = [(name.to_owned(), limit)].into();
            unit_remark(&plan)
        };
        let expected =
            "`--goodput ttft:0.2` means 0.2 ms: the unit is milliseconds; `ttft:200` means 0.2 s";
        assert_eq!(said("ttft", 0.2).as_deref(), Some(expected));
        assert_eq!([said("ttft", 200.0), said("tpot", 1.0), said("e2el", 0.0)], [None, None, None]);
    }

    /// A plan file could name an objective that nothing looked at.
    #[test]
    fn objectives_of_a_plan_are_named_in_any_spelling_and_unknown_ones_are_refused() {
        let objectives = |keys: &[&str]| {
            let mut part = PartialPlan::default();
            part.metrics.goodput = keys.iter().map(|key| ((*key).to_owned(), 5.0)).collect();
            put_names(&mut part).map(|()| part.metrics.goodput)
        };
        let named = objectives(&["TTFT", "e2e"]).unwrap();
        assert_eq!(named.into_keys().collect::<Vec<_>>(), ["e2el", "ttft"]);
        let check = |keys: &[&str], expected: &str| {
            let refusal = objectives(keys).unwrap_err().to_string();
            assert!(refusal.contains(expected), "{refusal}");
        };
        check(&["tttf"], "similar: TTFT");
        check(&["itl"], "ITL is not one latency per request");
        check(&["e2e", "e2el"], "another key also means `e2el`");
    }
}
