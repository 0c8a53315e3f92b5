//! Names that are spelt like a mistyped one.

/// At most three of `names` that look like `typed`, the likest first.
pub fn nearest<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let alike = |name: &&str| strsim::jaro_winkler(typed, name);
    let mut near: Vec<&str> = names.filter(|name| alike(name) > 0.8).collect();
    near.sort_by(|a, b| alike(b).total_cmp(&alike(a)).then(a.cmp(b)));
    near.dedup();
    near.truncate(3);
    near
}

/// What to try instead of a name that does not exist: the nearest ones, or all.
pub fn suggestion(typed: &str, names: &[&str]) -> String {
    let near = nearest(typed, names.iter().copied());
    if near.is_empty() {
        format!("the choices are {}", names.join(", "))
    } else {
        format!("similar: {}; all: {}", near.join(", "), names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_name_finds_its_neighbours_and_a_strange_one_sees_them_all() {
        let names = ["num_prompts", "request_rate", "burstiness"];
        let near = suggestion("num_promts", &names);
        assert!(near.starts_with("similar: num_prompts; all: "), "{near}");
        let all = suggestion("zzz", &names);
        assert_eq!(all, "the choices are num_prompts, request_rate, burstiness");
    }
}
