//! The requests of a plan as the engine sees them: lengths, times and shared prefixes, no content.
//!
//! `random` lengths are drawn one at a time by their index, without a tokenizer and without memory,
//! exactly as the workload draws them. Every other dataset is opened as `bench` opens it: lengths and the
//! hashes of blocks come from the names of pieces; only given text is made and counted.

use std::sync::Arc;

use tokometer_base::{Cancellation, Prompt, PromptContent, Seed};
use tokometer_measure::{
    Credentials, OpenedWorkload, WorkloadInputs, open, prompts_needed, tokenizer,
};
use tokometer_plan::{ClassDraw, Plan, Timing};
use tokometer_sim::Profile;
use tokometer_sim::profile::PrefixCache;
use tokometer_tokenize::{Specials, Tokenizer};
use tokometer_twin::workload::block_hashes;
use tokometer_twin::{Ask, RequestSource, TurnPlace};
use tokometer_workload::datasets::random;
use tokometer_workload::lengths::Span;
use tokometer_workload::{
    Answers, PlannedTurn, SeenPrefixes, Spec, TurnPosition, USUAL_BLOCK,
    block_hashes as blocks_of_names,
};

use tokometer_base::refusal::Refusal;

/// The requests of a plan.
pub(super) enum Asks {
    /// Drawn by index.
    Drawn(RandomLengths),
    /// Taken from a dataset.
    Listed(Box<Listed>),
}

impl Asks {
    /// Opens the requests of a plan for an engine.
    pub(super) fn open(
        plan: &Plan,
        profile: &Profile,
        secrets: &Credentials,
    ) -> Result<Self, Refusal> {
        match &plan.workload {
            Spec::Random(options) if is_drawn(plan, options) => {
                RandomLengths::new(plan, options, shared_blocks(profile)).map(Self::Drawn)
            }
            _ => Listed::open(plan, profile, secrets).map(|listed| Self::Listed(Box::new(listed))),
        }
    }

    /// Requests that the plan may need.
    pub(super) fn count(&self) -> u64 {
        match self {
            Self::Drawn(drawn) => drawn.count,
            Self::Listed(listed) => listed.opened.len(),
        }
    }

    /// What was noticed on the way.
    pub(super) fn remarks(&self) -> Vec<String> {
        match self {
            Self::Drawn(_) => Vec::new(),
            Self::Listed(listed) => listed.remarks.clone(),
        }
    }

    /// The tokenizer that counted prompts; `None` where lengths were drawn.
    pub(super) fn tokenizer_name(&self) -> Option<String> {
        match self {
            Self::Drawn(_) => None,
            Self::Listed(listed) => Some(listed.tokenizer.name().to_owned()),
        }
    }

    /// The first `count` requests. Lengths that are drawn depend on the seed; rows of a dataset are
    /// the plan's own, whatever the seed.
    pub(super) fn source(
        &mut self,
        count: u64,
        seed: Seed,
    ) -> Result<Arc<dyn RequestSource>, Refusal> {
        match self {
            Self::Drawn(drawn) => Ok(Arc::new(drawn.with_seed(seed, count))),
            Self::Listed(listed) => listed.first(count),
        }
    }
}

/// Lengths need no dataset unless texts of a file fill the prompts, a limit leaves some out, or
/// prompts are turns of conversations.
fn is_drawn(plan: &Plan, options: &random::Options) -> bool {
    let prompts = &plan.prompts;
    let has_own = plan.classes.iter().any(|class| class.workload.is_some());
    let is_whole = prompts.max_model_len.is_none() && prompts.turns.is_none();
    let is_plain = options.content_path.is_none() && options.cache_hit_fraction <= 0.0;
    is_plain && is_whole && !has_own
}

/// What the requests of each class ask of an engine.
#[derive(Debug, Clone)]
struct ClassAsks {
    draw: Option<ClassDraw>,
    /// Priority and adapter of each.
    of_each: Vec<(i32, Option<u32>)>,
}

impl ClassAsks {
    fn of(plan: &Plan) -> Self {
        let adapters: Vec<&String> =
            plan.classes.iter().filter_map(|class| class.lora.as_ref()).collect();
        let number = |name: &String| adapters.iter().position(|one| *one == name);
        let each = |class: &tokometer_plan::Class| {
            let lora = class.lora.as_ref().and_then(number).and_then(|at| u32::try_from(at).ok());
            (i32::try_from(class.priority.unwrap_or(0)).unwrap_or(0), lora)
        };
        Self { draw: ClassDraw::of(plan), of_each: plan.classes.iter().map(each).collect() }
    }

    fn with_seed(&self, seed: Seed) -> Self {
        let draw = self.draw.as_ref().map(|draw| draw.with_seed(seed));
        Self { draw, of_each: self.of_each.clone() }
    }

    /// The request as its class makes it; `key` is its session, or its index.
    fn put(&self, ask: Ask, key: u64) -> Ask {
        let Some(draw) = &self.draw else { return ask };
        let (priority, lora) = self.of_each[draw.class_of(key)];
        Ask { priority, lora, ..ask }
    }
}

/// Tokens per block where equal beginnings are reused.
fn shared_blocks(profile: &Profile) -> Option<u32> {
    let kv = profile.kv.as_ref().filter(|kv| kv.prefix_cache == PrefixCache::Lru)?;
    Some(kv.block_tokens)
}

#[derive(Debug, Clone)]
pub(super) struct RandomLengths {
    prompt: Span,
    output: Span,
    prefix_tokens: u32,
    prefix_hashes: Box<[u64]>,
    cancel: Option<Cancellation>,
    classes: ClassAsks,
    seed: Seed,
    count: u64,
}

impl RandomLengths {
    fn new(plan: &Plan, options: &random::Options, block: Option<u32>) -> Result<Self, Refusal> {
        let ratio = options.range_ratio;
        if let Some(fault) = ratio.fault(plan.conventions) {
            return Err(Refusal::usage(format!("cannot make the dataset `random`: {fault}"), ""));
        }
        let blocks = block.map_or(0, |block| options.prefix_len / block);
        let stream = Seed(plan.seed).stream("shared beginning");
        Ok(Self {
            prompt: Span::around(options.input_len, ratio.input, plan.conventions),
            output: Span::around(options.output_len, ratio.output, plan.conventions),
            prefix_tokens: options.prefix_len,
            prefix_hashes: (0..blocks).map(|at| stream.draw(u64::from(at))).collect(),
            cancel: plan.load.cancel,
            classes: ClassAsks::of(plan),
            seed: Seed(plan.seed),
            count: prompts_needed(&plan.load),
        })
    }

    /// As many requests of another seed.
    pub(super) fn with_seed(&self, seed: Seed, count: u64) -> Self {
        let classes = self.classes.with_seed(seed);
        Self { classes, seed, count, ..self.clone() }
    }
}

impl RequestSource for RandomLengths {
    fn count(&self) -> u64 {
        self.count
    }

    fn ask(&self, index: u64) -> Ask {
        let mut generator = self.seed.stream("lengths").at(index);
        let prompt = self.prefix_tokens + self.prompt.draw(&mut generator);
        let ask = Ask {
            block_hashes: self.prefix_hashes.clone(),
            cancel: self.cancel.and_then(|cancel| cancel.of(self.seed, index)),
            ..Ask::new(prompt, self.output.draw(&mut generator))
        };
        self.classes.put(ask, index)
    }

    fn has_cancels(&self) -> bool {
        self.cancel.is_some()
    }
}

/// Requests of a dataset, made as far as they were asked for.
pub(super) struct Listed {
    opened: OpenedWorkload,
    tokenizer: Arc<dyn Tokenizer>,
    block_tokens: Option<u32>,
    cancel: Option<Cancellation>,
    seed: Seed,
    classes: ClassAsks,
    remarks: Vec<String>,
    made: Arc<Vec<Ask>>,
    /// The turns of the session that was looked at last.
    session: (Option<u64>, Vec<PlannedTurn>),
    timing: Timing,
    /// The beginnings of the prompts so far.
    seen: SeenPrefixes,
}

impl Listed {
    fn open(plan: &Plan, profile: &Profile, secrets: &Credentials) -> Result<Self, Refusal> {
        let counted = tokenizer(plan, secrets, None)?;
        let mut remarks = counted.notes;
        let means = WorkloadInputs {
            tokenizer: Arc::clone(&counted.tokenizer),
            salt: Seed(plan.seed),
            hub: secrets.hub.clone(),
        };
        let opened = open(plan, means)?;
        let is_live = opened.has_turns() && opened.workload.answers() == Answers::Live;
        if plan.load.cancel.is_some() && is_live {
            return Err(Refusal::usage(
                "cannot predict cancelled turns whose answers the next turn repeats",
                "omit `--cancel`, or measure the conversations",
            ));
        }
        if opened.kept.is_some() && opened.has_turns() {
            return Err(Refusal::usage(
                "cannot predict sessions that end at a context limit",
                "omit `--max-model-len`",
            ));
        }
        remarks.extend(opened.remarks.iter().cloned());
        Ok(Self {
            opened,
            tokenizer: counted.tokenizer,
            block_tokens: shared_blocks(profile),
            cancel: plan.load.cancel,
            seed: Seed(plan.seed),
            classes: ClassAsks::of(plan),
            remarks,
            made: Arc::default(),
            session: (None, Vec::new()),
            timing: plan.load.timing,
            seen: SeenPrefixes::default(),
        })
    }

    fn first(&mut self, count: u64) -> Result<Arc<dyn RequestSource>, Refusal> {
        let has = self.made.len() as u64;
        if has < count {
            let mut list = (*self.made).clone();
            for at in has..count {
                list.push(self.ask(at)?);
            }
            self.made = Arc::new(list);
        } else if has > count {
            let kept = usize::try_from(count).unwrap_or(usize::MAX);
            return Ok(Arc::new(self.made[..kept].to_vec()));
        }
        let made: Arc<dyn RequestSource> = Arc::clone(&self.made) as Arc<dyn RequestSource>;
        Ok(made)
    }

    fn ask(&mut self, at: u64) -> Result<Ask, Refusal> {
        let refused =
            |why: String| Refusal::usage(format!("cannot predict request {at}: {why}"), "");
        let kept = self.opened.kept.as_ref();
        let slot = usize::try_from(at).unwrap_or(usize::MAX);
        let index = kept.map_or(Some(at), |kept| kept.get(slot).copied()).unwrap_or(at);
        let workload = &self.opened.workload;
        let planned = workload.planned(index).map_err(|why| refused(why.to_string()))?;
        let output_tokens = planned.output_tokens.ok_or_else(|| {
            refused("the dataset does not define its output length".to_owned())
                .hint("set it with `--output-len`")
        })?;
        // The engine keeps the blocks of an answer, too, which only a prompt with the real one repeats.
        let answer = planned.answer_piece().filter(|_| workload.answers() == Answers::Live);
        let block = self.block_tokens;
        let (prompt_tokens, hashes) = match (planned.tokens(), planned.named_pieces(), block) {
            (Some(tokens), Some(pieces), Some(block)) => {
                (tokens, blocks_of_names(pieces.into_iter().chain(answer), block))
            }
            (Some(tokens), _, None) => (tokens, Box::default()),
            _ => self.counted(index).map_err(refused)?,
        };
        let seen = self.block_tokens.unwrap_or(USUAL_BLOCK);
        let possible = self.seen.possible_tokens(&planned, answer, seen);
        let ask = Ask {
            due: self.opened.workload.due(index),
            block_hashes: hashes,
            possible_cached_tokens: possible,
            cancel: self.cancel.and_then(|cancel| cancel.of(self.seed, at)),
            ..Ask::new(prompt_tokens, output_tokens)
        };
        let ask = self.classes.put(ask, planned.position.map_or(at, |after| after.session));
        Ok(match planned.position {
            Some(position) => self.placed(position, ask),
            None => ask,
        })
    }

    /// The request of a turn, behind those that it waits for.
    fn placed(&mut self, position: TurnPosition, mut ask: Ask) -> Ask {
        let TurnPosition { session, turn } = position;
        if self.session.0 != Some(session) {
            self.session = (Some(session), self.opened.workload.session(session));
        }
        let turns = &self.session.1;
        let Some(planned) = turns.get(turn as usize).cloned() else { return ask };
        ask.after = planned.waits_for.iter().map(|turn| turns[*turn as usize].index).collect();
        ask.delay = planned.delay.unwrap_or_default();
        ask.place = Some(Box::new(TurnPlace {
            session,
            turn,
            turns: u32::try_from(turns.len()).unwrap_or(u32::MAX),
            parents: planned.waits_for,
            agent: planned.agent.map(String::from),
            recorded: planned.recorded.filter(|_| self.timing == Timing::Trace),
            session_recorded: planned.session_recorded,
        }));
        ask
    }

    /// Length and hashes of a prompt with given text, which only a tokenizer knows.
    fn counted(&self, index: u64) -> Result<(u32, Box<[u64]>), String> {
        let prompt = self.opened.workload.item(index).map_err(|why| why.to_string())?.prompt;
        let (tokens, block) = (prompt.prompt_tokens, self.block_tokens);
        if let (Some(tokens), None) = (tokens, block) {
            return Ok((tokens, Box::default()));
        }
        let ids = self.ids(&prompt)?;
        let counted = u32::try_from(ids.len()).map_err(|_| "its prompt is too long to count")?;
        let hashes = block.map_or_else(Box::default, |block| block_hashes(&ids, block));
        Ok((tokens.unwrap_or(counted), hashes))
    }

    fn ids(&self, prompt: &Prompt) -> Result<Vec<u32>, String> {
        let text = match &prompt.content {
            PromptContent::TokenIds(ids) => return Ok(ids.clone()),
            PromptContent::Text(text) => text.clone(),
            PromptContent::Messages(messages) => messages
                .iter()
                .map(|message| message.content.as_str())
                .collect::<Vec<_>>()
                .join("\n"),
            PromptContent::Inputs(texts) => texts.join("\n"),
            PromptContent::Sound(_) => {
                return Err("the tokens of an audio clip are known only to a server".to_owned());
            }
            PromptContent::Ranking { query, documents } => {
                documents.iter().map(|one| format!("{query}\n{one}")).collect::<Vec<_>>().join("\n")
            }
        };
        self.tokenizer.encode(&text, Specials::Skip).map_err(|why| why.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::plan;

    fn asks(change: &str, engine: &str) -> (Asks, Plan) {
        let (plan, profile) = (plan(change), Profile::shipped(engine).unwrap());
        (Asks::open(&plan, &profile, &Credentials::default()).unwrap(), plan)
    }

    /// Turns of conversations with prompts and answers of these lengths.
    const TURNS: &str = r#""workload": {"dataset": "random", "input_len": 64, "output_len": 16,
        "prefix_len": 0, "range_ratio": 0.0, "content_path": null}"#;

    #[test]
    fn drawn_lengths_are_those_of_the_prompts_that_bench_sends() {
        for family in ["vllm", "sglang"] {
            let change = format!(
                r#"{{"conventions": "{family}", "workload": {{"dataset": "random", "input_len": 50,
                "output_len": 9, "prefix_len": 32, "range_ratio": 0.5, "content_path": null}}}}"#
            );
            let (mut drawn, plan) = asks(&change, "default");
            let source = drawn.source(20, Seed(plan.seed)).unwrap();
            let secrets = Credentials::default();
            let opened = tokenizer(&plan, &secrets, None).unwrap();
            let means =
                WorkloadInputs { tokenizer: opened.tokenizer, salt: Seed(1), hub: secrets.hub };
            let sent = open(&plan, means).unwrap();
            for index in 0..20 {
                let (ask, prompt) = (source.ask(index), sent.workload.item(index).unwrap().prompt);
                assert_eq!(Some(ask.prompt_tokens), prompt.prompt_tokens, "{family} {index}");
                assert_eq!(Some(ask.output_tokens), prompt.output_tokens, "{family} {index}");
                assert_eq!(ask.block_hashes.len(), 2);
            }
        }
    }

    #[test]
    fn prompts_of_a_dataset_share_the_blocks_of_their_common_beginning() {
        let line = r#"{"workload": {"dataset": "prefix_repetition", "prefix_len": 64,
            "suffix_len": 32, "num_prefixes": 1, "output_len": 5}}"#;
        let (mut listed, _) = asks(line, "default");
        let source = listed.source(6, Seed(0)).unwrap();
        let (one, other) = (source.ask(0), source.ask(1));
        assert_eq!(one.output_tokens, 5);
        assert_eq!(one.block_hashes[..3], other.block_hashes[..3]);
        assert_ne!(one.block_hashes.last(), other.block_hashes.last());
        // An engine without a prefix cache needs no hashes.
        let (mut plain, _) = asks(line, "vllm-405b");
        assert!(plain.source(1, Seed(0)).unwrap().ask(0).block_hashes.is_empty());
    }

    #[test]
    fn a_predicted_turn_repeats_what_was_said_and_finds_it_in_the_cache() {
        let turns = r#""turns": {"least": 3, "most": 3, "think_ms": 0.0}"#;
        let line = format!(r#"{{"load": {{"num_prompts": 2}}, "prompts": {{{turns}}}, {TURNS}}}"#);
        let (mut listed, _) = asks(&line, "default");
        assert_eq!(listed.count(), 6);
        let source = listed.source(6, Seed(0)).unwrap();
        let turns: Vec<Ask> = [1, 3, 5].map(|index| source.ask(index)).into();
        let lengths: Vec<u32> = turns.iter().map(|turn| turn.prompt_tokens).collect();
        assert_eq!(lengths, [64, 144, 224]);
        assert!(turns[0].after.is_empty());
        assert_eq!(*turns[2].after, [3]);
        for pair in turns.windows(2) {
            assert!(pair[1].block_hashes.starts_with(&pair[0].block_hashes));
            assert!(pair[1].block_hashes.len() > pair[0].block_hashes.len());
        }
        assert_ne!(source.ask(2).block_hashes.last(), turns[1].block_hashes.last());
    }

    /// A prediction had each turn of a conversation on another adapter, as `bench` did.
    #[test]
    fn a_predicted_conversation_uses_one_adapter() {
        let turns = r#""turns": {"least": 2, "most": 2, "think_ms": 0.0}"#;
        let classes = r#""class_order": "round-robin", "classes": [{"name": "a", "lora": "a"}, {"name": "b", "lora": "b"}]"#;
        let line = format!(
            r#"{{"load": {{"num_prompts": 3}}, "prompts": {{{turns}}}, {classes}, {TURNS}}}"#
        );
        let (mut listed, _) = asks(&line, "default");
        let source = listed.source(6, Seed(0)).unwrap();
        let adapters: Vec<_> = (0..6).map(|index| source.ask(index).lora).collect();
        assert_eq!(adapters, [0, 1, 0, 0, 1, 0].map(Some), "by conversation, not by request");
    }
}
