//! The engine to predict: a profile by its name or file, or one from a data sheet.

use tokometer_sim::Profile;
use tokometer_sim::what_if::{Change, changed};
use tokometer_twin::roofline::UNCERTAINTY;
use tokometer_twin::{OldClient, Roofline};

use crate::exit::Refusal;

/// An engine and how far its times may be off by construction.
#[derive(Debug, Clone)]
pub(crate) struct EngineChoice {
    pub(crate) profile: Profile,
    /// Share by which times may be off; absent where the profile has its own evidence.
    pub(crate) uncertainty: Option<f64>,
    /// Numbers that were changed for this prediction.
    pub(crate) changes: Vec<Change>,
}

impl EngineChoice {
    /// The engine of this name or file, with the costs of a data sheet where one is given.
    pub(crate) fn open(name: Option<&str>, sheet: Option<&str>) -> Result<Self, Refusal> {
        let template = Profile::open(name.unwrap_or("default"))
            .map_err(|why| Refusal::usage(why.to_string(), ""))?;
        let Some(sheet) = sheet else { return Ok(Self::unchanged(template, None)) };
        let mut profile = parse_sheet(sheet)?.profile(template);
        profile.evidence = None;
        profile.check().map_err(|why| Refusal::usage(why.to_string(), ""))?;
        Ok(Self::unchanged(profile, Some(UNCERTAINTY)))
    }

    fn unchanged(profile: Profile, uncertainty: Option<f64>) -> Self {
        Self { profile, uncertainty, changes: Vec::new() }
    }

    /// The same engine with the numbers of `KEY=VALUE` settings.
    pub(crate) fn set(self, settings: &[String]) -> Result<Self, Refusal> {
        let (profile, changes) = changed(self.profile, settings)?;
        Ok(Self { profile, changes, ..self })
    }
}

const SHEET_HINT: &str = "write it as `--roofline \"params=70e9 bytes=2 gpus=8 tflops=800 gbs=3350\"`; `active=` and `context=` \
     (bytes of keys and values per token) may follow";

const KEYS: [&str; 7] = ["params", "bytes", "gpus", "tflops", "gbs", "active", "context"];

/// A data sheet such as `params=70e9 bytes=2 gpus=8 tflops=800 gbs=3350`.
fn parse_sheet(text: &str) -> Result<Roofline, Refusal> {
    let refused = |why: String| {
        Refusal::usage(format!("cannot use the data sheet `{text}`: {why}"), SHEET_HINT)
    };
    let mut found: [Option<f64>; KEYS.len()] = [None; KEYS.len()];
    for word in text.split_whitespace() {
        let pair = word.split_once('=');
        let (key, value) = pair.ok_or_else(|| refused(format!("`{word}` has no `=`")))?;
        let at = KEYS.iter().position(|known| *known == key);
        let at = at.ok_or_else(|| refused(format!("unknown key `{key}`")))?;
        let number = value.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
        found[at] = Some(
            number.ok_or_else(|| refused(format!("`{word}` is not a number greater than zero")))?,
        );
    }
    let needed = |at: usize| found[at].ok_or_else(|| refused(format!("`{}` is missing", KEYS[at])));
    Ok(Roofline {
        parameters: needed(0)?,
        parameter_bytes: needed(1)?,
        devices: needed(2)?,
        tflops: needed(3)?,
        gbytes_per_s: needed(4)?,
        active_parameters: found[5],
        context_bytes: found[6],
    })
}

/// The client of old tables from `REQUEST_MS,EVENT_MS`.
pub(crate) fn old_client(text: &str) -> Result<OldClient, Refusal> {
    let refused = || {
        Refusal::usage(
            format!("cannot use `--old-client={text}`"),
            "write it as `--old-client=1.5,0.05`: milliseconds per request and per event",
        )
    };
    let (request, event) = text.split_once(',').ok_or_else(refused)?;
    let millis = |word: &str| {
        let number = word.trim().parse::<f64>().ok();
        number.filter(|number| number.is_finite() && *number >= 0.0).ok_or_else(refused)
    };
    Ok(OldClient { request_ms: millis(request)?, event_ms: millis(event)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_sheet_becomes_an_engine_that_says_it_was_not_measured() {
        let sheet = "params=70e9 bytes=2 gpus=8 tflops=800 gbs=3350";
        let engine = EngineChoice::open(None, Some(sheet)).unwrap();
        assert_eq!(engine.uncertainty, Some(0.5));
        // 140 GB over 60 % of 26.8 TB/s.
        assert!((engine.profile.cost.base_ms - 8.706).abs() < 0.01, "{:?}", engine.profile.cost);
        assert!(engine.profile.provenance.contains("Not measured"));
        let moe = parse_sheet(&format!("{sheet} active=12e9 context=65536")).unwrap();
        assert_eq!((moe.active_parameters, moe.context_bytes), (Some(12e9), Some(65_536.0)));
    }

    #[test]
    fn bad_data_sheets_and_clients_are_refused_with_an_example() {
        let check = |sheet: &str, part: &str| {
            let refusal = parse_sheet(sheet).unwrap_err().to_string();
            assert!(refusal.contains(part) && refusal.contains("--roofline"), "{refusal}");
        };
        check("params", "`params` has no `=`");
        check("params=70e9 bytes=2 gpus=8 tflops=800", "`gbs` is missing");
        check("params=-1", "not a number greater than zero");
        check("size=1", "unknown key `size`");
        assert!(old_client("1.5").is_err() && old_client("a,b").is_err());
        assert_eq!(old_client("1.5, 0").unwrap(), OldClient { request_ms: 1.5, event_ms: 0.0 });
    }

    #[test]
    fn an_unknown_engine_is_refused_with_the_shipped_ones() {
        let refusal = EngineChoice::open(Some("vllm-406b"), None).unwrap_err().to_string();
        assert!(refusal.contains("vllm-405b"), "{refusal}");
    }
}
