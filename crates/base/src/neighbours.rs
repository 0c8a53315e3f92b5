//! Names that are spelt like a mistyped one.

/// Similarity from which a name is worth naming, and how far below the best one it may lie.
const ALIKE: f64 = 0.8;
const BEHIND_BEST: f64 = 0.1;

/// At most three of `names` that look like `typed`, the likest first. Leading dashes do not count:
/// all flags share them.
pub fn nearest<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let bare = |name: &str| name.trim_start_matches('-').to_owned();
    let alike = |name: &&str| strsim::jaro_winkler(&bare(typed), &bare(name));
    let mut near: Vec<&str> = names.filter(|name| alike(name) > ALIKE).collect();
    near.sort_by(|a, b| alike(b).total_cmp(&alike(a)).then(a.cmp(b)));
    near.dedup();
    let best = near.first().map_or(0.0, alike);
    near.retain(|name| alike(name) > best - BEHIND_BEST);
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

    /// `--total-requests` was answered with `--tools` and `--save-result`.
    #[test]
    fn dashes_make_no_neighbours_and_a_good_match_hides_bad_ones() {
        let flags = ["--tools", "--save-result", "--timeout", "--timed-trace-sec-multiplier"];
        assert_eq!(nearest("--total-requests", flags.into_iter()), [] as [&str; 0]);
        assert_eq!(nearest("--timeout-sec", flags.into_iter()), ["--timeout"]);
    }
}
