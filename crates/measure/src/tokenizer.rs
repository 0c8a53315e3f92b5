//! The tokenizer that counts prompts: the given one, otherwise the server's, the hub's, or the
//! built-in one.

use std::sync::Arc;

use tokometer_base::Nanos;
use tokometer_client::control::SpecialTokens;
use tokometer_client::{Control, Url};
use tokometer_tokenize::{
    Choice, Encoding, OpenedTokenizer, ServerCalls, Specials, TokenizerSources, open,
};

use crate::Error;
use crate::secrets::Credentials;
use crate::target::Reached;
use tokometer_plan::Plan;

/// Opens the plan's tokenizer. Without a server, as for a look at a dataset, only this machine and
/// the hub are searched.
pub fn tokenizer(
    plan: &Plan,
    secrets: &Credentials,
    reached: Option<&Reached>,
) -> Result<OpenedTokenizer, Error> {
    let refused = |why: tokometer_tokenize::Error| {
        Error::usage(why.to_string(), "use `--tokenizer cl100k`, which needs no file")
    };
    let target = plan.targets.first();
    let given =
        plan.prompts.tokenizer.as_deref().map(Choice::parse).transpose().map_err(refused)?;
    // The simulated server uses the built-in encoding, so no request is needed.
    let is_simulated = reached.is_some_and(Reached::is_simulated);
    let given = given.or_else(|| is_simulated.then(|| Choice::BuiltIn(Encoding::default())));
    let server = reached
        .filter(|_| !is_simulated)
        .map(|reached| calls(&reached.control, &reached.settings.base_url));
    let root =
        reached.and_then(|reached| reached.model.as_ref()).and_then(|model| model.root.clone());
    let model_root = root.or_else(|| target.and_then(|target| target.model.clone()));
    let sources = TokenizerSources {
        given,
        server,
        model_root,
        built_in: Encoding::default(),
        hub: secrets.hub.clone(),
    };
    let mut opened = open(sources).map_err(refused)?;
    opened.notes.extend(substitute(plan, reached, opened.tokenizer.name()));
    Ok(opened)
}

/// A message for the case that another tool would have loaded the tokenizer of `--model` from the
/// hub.
fn substitute(plan: &Plan, reached: Option<&Reached>, name: &str) -> Option<String> {
    let model =
        plan.targets.first()?.model.as_ref().filter(|_| plan.prompts.tokenizer.is_none())?;
    let is_server_s = name == reached?.settings.base_url.at("/tokenize");
    let text = format!(
        "prompt tokens are counted by {name} instead of the tokenizer of `{model}` from the hub"
    );
    is_server_s.then_some(text)
}

/// The time for one request to `/tokenize`: a server that hangs must not keep the run from beginning.
const TOKENIZE_TIMEOUT: Nanos = Nanos::from_secs(5);

fn calls(control: &Control, url: &Url) -> ServerCalls {
    let control = control.with_timeout(TOKENIZE_TIMEOUT);
    let (tokenize, detokenize) = (Arc::new(control.clone()), Arc::new(control.clone()));
    ServerCalls {
        name: url.at("/tokenize"),
        tokenize: Box::new(move |text, specials| {
            let special = match specials {
                Specials::Add => SpecialTokens::Add,
                Specials::Skip => SpecialTokens::Skip,
            };
            tokenize.tokenize(text, special).map_err(|why| why.to_string())
        }),
        detokenize: Box::new(move |ids| detokenize.detokenize(ids).map_err(|why| why.to_string())),
    }
}
