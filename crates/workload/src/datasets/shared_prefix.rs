//! Groups of prompts that share a system prompt: SGLang's `generated-shared-prefix`.
//!
//! A prompt is its group's system prompt, a blank line and a question of its own; further turns of
//! a conversation are further questions. The number of prompts is groups × prompts per group, not
//! the number that was asked for.

use serde::{Deserialize, Serialize};
use tokometer_base::seed::{Generator, unit_float};
use tokometer_base::{Conventions, PromptContent};
use tokometer_tokenize::Tokenizer;

use crate::lengths::Span;
use crate::session::{Given, Piece, PieceName};
use crate::{
    DatasetContext, DatasetNote, Error, PlannedPrompt, Ratio, Result, Source, WireForm, order,
};

/// Between the system prompt and the question.
const JOINT: &str = "\n\n";

/// The header by which a router keeps a group together.
const ROUTING_KEY: &str = "X-SMG-Routing-Key";

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Options {
    pub num_groups: u32,
    /// The number of prompts, or of conversations, in each.
    pub prompts_per_group: u32,
    pub system_prompt_len: u32,
    pub question_len: u32,
    pub output_len: u32,
    /// The spread of all lengths by SGLang's rule: 1 is fixed.
    pub range_ratio: Ratio,
    pub num_turns: u32,
    pub order: PromptOrder,
    pub routing_key: RoutingKey,
    pub group_distribution: GroupSizes,
    pub zipf_alpha: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptOrder {
    #[default]
    Shuffled,
    Grouped,
}

/// Whether each request names its group in a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoutingKey {
    #[default]
    Omit,
    Send,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupSizes {
    #[default]
    Uniform,
    /// Group `k` has a share of `1 / k^alpha`.
    Zipf,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            num_groups: 64,
            prompts_per_group: 16,
            system_prompt_len: 2_048,
            question_len: 128,
            output_len: 256,
            range_ratio: Ratio::both(1.0),
            num_turns: 1,
            order: PromptOrder::default(),
            routing_key: RoutingKey::default(),
            group_distribution: GroupSizes::default(),
            zipf_alpha: 1.0,
        }
    }
}

pub(crate) struct SharedPrefix {
    options: Options,
    context: DatasetContext,
    specials: u32,
    joint_tokens: u32,
    /// The group of each conversation, in sending order.
    groups: Vec<usize>,
}

pub(crate) fn open(options: &Options, context: &DatasetContext) -> Result<SharedPrefix> {
    let refused = |reason: String| Error::Options { dataset: "generated-shared-prefix", reason };
    if let Some(reason) = options.range_ratio.fault(Conventions::Sglang) {
        return Err(refused(reason));
    }
    if options.num_groups == 0 || options.prompts_per_group == 0 || options.num_turns == 0 {
        return Err(refused("groups, prompts per group and turns must be at least 1".into()));
    }
    let joint_tokens = match context.form {
        WireForm::TokenIds => 0,
        WireForm::Text | WireForm::Chat | WireForm::Sound => joint_tokens(&*context.tokenizer)?,
    };
    Ok(SharedPrefix {
        groups: groups(options, context),
        options: options.clone(),
        specials: context.specials()?,
        context: context.clone(),
        joint_tokens,
    })
}

/// The tokens of the blank line between two words. Vocabularies differ: one or two.
fn joint_tokens(tokenizer: &dyn Tokenizer) -> Result<u32> {
    let apart = tokenizer.count("about")? * 2;
    let joined = tokenizer.count(&format!("about{JOINT}about"))?;
    Ok(u32::try_from(joined.saturating_sub(apart)).unwrap_or(0))
}

fn groups(options: &Options, context: &DatasetContext) -> Vec<usize> {
    let (number, each) = (options.num_groups as usize, options.prompts_per_group as usize);
    let mut groups: Vec<usize> = match options.group_distribution {
        GroupSizes::Uniform => (0..number * each).map(|prompt| prompt / each).collect(),
        GroupSizes::Zipf => {
            let shares: Vec<f64> =
                (1..=number).map(|rank| (rank as f64).powf(-options.zipf_alpha)).collect();
            let draw =
                |prompt| zipf_group(&shares, &mut context.seed.stream("groups").at(prompt as u64));
            (0..number * each).map(draw).collect()
        }
    };
    match options.order {
        PromptOrder::Grouped => groups.sort_unstable(),
        PromptOrder::Shuffled => {
            let order = order::shuffled(groups.len(), context.seed, "rows");
            groups = order.into_iter().map(|index| groups[index]).collect();
        }
    }
    groups
}

fn zipf_group(shares: &[f64], generator: &mut Generator) -> usize {
    let mut left = unit_float(generator) * shares.iter().sum::<f64>();
    for (group, share) in shares.iter().enumerate() {
        left -= share;
        if left < 0.0 {
            return group;
        }
    }
    shares.len() - 1
}

impl SharedPrefix {
    fn length(&self, around: u32, stream: &str, index: u64) -> u32 {
        let span = Span::around(around, self.options.range_ratio.input, Conventions::Sglang);
        span.draw(&mut self.context.seed.stream(stream).at(index))
    }

    /// A question, behind its system prompt in the first turn.
    fn pieces(&self, index: u64, group: Option<u64>) -> Vec<Piece> {
        let length = self.length(self.options.question_len, "questions", index);
        let own = |tokens| Piece::Made { name: PieceName::Content(index), tokens };
        let Some(group) = group else { return vec![own(length)] };
        let tokens = self.length(self.options.system_prompt_len, "systems", group);
        let system = Piece::Made { name: PieceName::Prefix(group), tokens };
        let question = own(length.saturating_sub(self.specials).max(1));
        let (content, tokens) = (PromptContent::Text(JOINT.to_owned()), Some(self.joint_tokens));
        let joint = Piece::Given(Box::new(Given { content, tokens, asked: tokens }));
        let is_text = self.context.form != WireForm::TokenIds;
        [Some(system), is_text.then_some(joint), Some(question)].into_iter().flatten().collect()
    }
}

impl Source for SharedPrefix {
    fn len(&self) -> u64 {
        self.groups.len() as u64 * u64::from(self.options.num_turns)
    }

    /// First turns come first: those of the other turns are questions alone.
    fn prompt(&self, index: u64) -> Result<PlannedPrompt> {
        let conversations = self.groups.len() as u64;
        let (session, turn) = (index % conversations, index / conversations);
        let is_first = turn.is_multiple_of(u64::from(self.options.num_turns));
        let group = self.groups[usize::try_from(session).unwrap_or(0)] as u64;
        let specials = if is_first { self.specials } else { 0 };
        let output = self.length(self.options.output_len, "outputs", index);
        let pieces = self.pieces(index, is_first.then_some(group));
        let mut headers = Vec::new();
        if self.options.routing_key == RoutingKey::Send {
            let key = self.context.salt.stream("routing").draw(group);
            headers.push((ROUTING_KEY.into(), format!("{key:016x}")));
        }
        let class = Some(format!("group-{group}"));
        Ok(PlannedPrompt { headers, class, ..PlannedPrompt::of(pieces, specials, output) })
    }

    fn notes(&self) -> Vec<DatasetNote> {
        let (planned, asked) = (self.len(), self.context.count);
        let text = format!("{planned} prompts are sent (groups × prompts × turns), not {asked}");
        if planned == asked { Vec::new() } else { vec![DatasetNote::new("own-count", text)] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Item, PlannedTurn, Spec, TurnPosition, Workload, open};
    use std::collections::BTreeMap;
    use tokometer_base::Nanos;

    fn workload(options: Options) -> Workload {
        let conventions = Conventions::Sglang;
        let context = DatasetContext { conventions, ..DatasetContext::for_test(1, 12) };
        open(&Spec::SharedPrefix(options), &context).unwrap()
    }

    fn small() -> Options {
        Options {
            num_groups: 3,
            prompts_per_group: 4,
            system_prompt_len: 20,
            question_len: 6,
            output_len: 5,
            ..Options::default()
        }
    }

    fn system(item: &Item) -> String {
        let PromptContent::Text(text) = &item.prompt.content else { panic!("no text") };
        text.split(JOINT).next().unwrap().to_owned()
    }

    #[test]
    fn a_group_shares_its_system_prompt_and_lengths_are_exact() {
        let workload = workload(Options { routing_key: RoutingKey::Send, ..small() });
        assert_eq!((workload.len(), workload.notes().len()), (12, 0));
        let mut uses: BTreeMap<(String, String), u32> = BTreeMap::new();
        for index in 0..12 {
            let item = workload.item(index).unwrap();
            *uses.entry((system(&item), item.prompt.headers[0].1.clone())).or_default() += 1;
        }
        assert_eq!(uses.values().copied().collect::<Vec<_>>(), [4; 3]);
        let check = workload.check_lengths().unwrap();
        assert_eq!((check.checked, check.missed), (12, 0));
    }

    #[test]
    fn order_distribution_and_turns_do_what_they_say() {
        let groups = |options: Options| -> Vec<String> {
            let workload = workload(options);
            (0..12).map(|index| workload.item(index).unwrap().class.unwrap()).collect()
        };
        let grouped = groups(Options { order: PromptOrder::Grouped, ..small() });
        assert!(grouped.is_sorted());
        assert_ne!(groups(small()), grouped);
        let steep = Options { group_distribution: GroupSizes::Zipf, zipf_alpha: 50.0, ..small() };
        assert_eq!(groups(steep), vec!["group-0"; 12]);

        let conversations = workload(Options { num_turns: 2, ..small() });
        assert_eq!(conversations.len(), 24);
        let later = conversations.item(13).unwrap();
        assert_eq!(later.after, Some(TurnPosition { session: 1, turn: 1 }));
        let first = conversations.item(1).unwrap().prompt;
        let said = first.prompt_tokens.unwrap() + first.output_tokens.unwrap();
        assert_eq!(later.prompt.prompt_tokens, Some(said + 6));
        assert_eq!(conversations.session(1), PlannedTurn::chain([1, 13], Nanos::ZERO));
        assert!(conversations.session(12).is_empty());
    }
}
