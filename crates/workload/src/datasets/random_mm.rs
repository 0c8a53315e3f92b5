//! Random text with generated images behind it, as vLLM's `random-mm` makes them.
//!
//! Each request has a random number of images around the asked one; each image draws its size from
//! weighted buckets. Images are new in every run, like words.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tokometer_base::Conventions;
use tokometer_base::seed::{unit_float, whole_between};

use super::random::{self, Random};
use crate::media::{Filling, Format, ImageGenerator, ImageSide, ImageSize, SIDE_MAX};
use crate::prompts::PromptMaker;
use crate::{DatasetContext, DatasetNote, Error, PlannedPrompt, Ratio, Result, Source, WireForm};

/// The quality at which common libraries write JPEG.
const QUALITY: u8 = 75;

/// Sizes of images with the share of each: `{(height, width, frames): share, …}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct SizeBuckets(Vec<Bucket>);

#[derive(Debug, Clone, Copy, PartialEq)]
struct Bucket {
    height: u16,
    width: u16,
    frames: u32,
    share: f64,
}

impl Default for SizeBuckets {
    fn default() -> Self {
        let bucket = |height, width, share| Bucket { height, width, frames: 1, share };
        Self(vec![bucket(256, 256, 0.5), bucket(720, 1_280, 0.5)])
    }
}

impl fmt::Display for SizeBuckets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = |Bucket { height, width, frames, share }: &Bucket| {
            format!("({height}, {width}, {frames}): {share}")
        };
        write!(f, "{{{}}}", self.0.iter().map(one).collect::<Vec<_>>().join(", "))
    }
}

impl From<SizeBuckets> for String {
    fn from(buckets: SizeBuckets) -> Self {
        buckets.to_string()
    }
}

impl TryFrom<String> for SizeBuckets {
    type Error = String;

    fn try_from(text: String) -> std::result::Result<Self, String> {
        text.parse()
    }
}

impl FromStr for SizeBuckets {
    type Err = String;

    /// Reads Python's form, with or without quotes around a size.
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let bad = || format!("`{text}` is not of the form {{(HEIGHT, WIDTH, FRAMES): SHARE, …}}");
        let inner = text.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        let mut buckets = Vec::new();
        let mut rest = inner.ok_or_else(bad)?.trim();
        while !rest.is_empty() {
            let (key, after) = rest
                .trim_start_matches(['"', '\'', ' '])
                .strip_prefix('(')
                .and_then(|rest| rest.split_once(')'))
                .ok_or_else(bad)?;
            let sides: Vec<u32> = key
                .split(',')
                .map(|side| side.trim().parse().map_err(|_| bad()))
                .collect::<std::result::Result<_, _>>()?;
            let after = after.trim_start_matches(['"', '\'', ' ']).strip_prefix(':');
            let (share, next) =
                after.map(|after| after.split_once(',').unwrap_or((after, ""))).ok_or_else(bad)?;
            let share: f64 = share.trim().parse().map_err(|_| bad())?;
            let [height, width, frames] = sides[..] else { return Err(bad()) };
            let side = |side: u32| {
                let side = u16::try_from(side).ok().filter(|side| (1..=SIDE_MAX).contains(side));
                side.ok_or_else(|| {
                    format!("a side of `{text}` is not between 1 and {SIDE_MAX} pixels")
                })
            };
            if !(0.0..=1.0).contains(&share) {
                return Err(format!("the share `{share}` is not between 0 and 1"));
            }
            buckets.push(Bucket { height: side(height)?, width: side(width)?, frames, share });
            rest = next.trim();
        }
        Ok(Self(buckets))
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Options {
    pub input_len: u32,
    pub output_len: u32,
    /// The spread of both, by the conventions followed.
    pub range_ratio: Ratio,
    pub prefix_len: u32,
    pub mm_items: u32,
    /// The spread of their number: 0.5 draws between half and one and a half of it.
    pub mm_items_ratio: f64,
    pub mm_images_max: u32,
    pub mm_buckets: SizeBuckets,
}

impl Default for Options {
    fn default() -> Self {
        let random::Options { input_len, output_len, range_ratio, .. } =
            random::Options::by_conventions(Conventions::Vllm);
        Self {
            input_len,
            output_len,
            range_ratio,
            prefix_len: 0,
            mm_items: 1,
            mm_items_ratio: 0.0,
            mm_images_max: 255,
            mm_buckets: SizeBuckets::default(),
        }
    }
}

pub(crate) struct RandomMm {
    texts: Random,
    maker: PromptMaker,
    images: ImageGenerator,
    context: DatasetContext,
    buckets: Vec<Bucket>,
    least: u32,
    most: u32,
}

pub(crate) fn open(options: &Options, context: &DatasetContext) -> Result<RandomMm> {
    let refused = |reason: String| Error::Options { dataset: "random-mm", reason };
    if context.form != WireForm::Chat {
        return Err(refused("images need a chat route; use `--backend openai-chat`".to_owned()));
    }
    let ratio = options.mm_items_ratio;
    if !(0.0..=1.0).contains(&ratio) {
        return Err(refused(format!("the range ratio `{ratio}` of the images is not in 0 to 1")));
    }
    let used = options.mm_buckets.0.iter().filter(|bucket| bucket.share > 0.0);
    let buckets: Vec<Bucket> = used.copied().collect();
    if buckets.iter().any(|bucket| bucket.frames > 1) {
        let reason = "video is not generated; give buckets of more than one frame a share of 0, or \
                      use `custom` with `video_url` parts";
        return Err(refused(reason.to_owned()));
    }
    if buckets.is_empty() && options.mm_items > 0 {
        return Err(refused("no bucket has a share above 0".to_owned()));
    }
    let lengths = [options.input_len, options.output_len];
    let text = random::Options {
        prefix_len: options.prefix_len,
        ..random::Options::of_lengths(lengths, options.range_ratio)
    };
    let around = f64::from(options.mm_items);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a product of a u32 with a ratio of at most 2; casts saturate"
    )]
    let (least, most) =
        ((around * (1.0 - ratio)).floor() as u32, (around * (1.0 + ratio)).ceil() as u32);
    Ok(RandomMm {
        texts: random::open(&text, context)?,
        maker: PromptMaker::new(context),
        images: ImageGenerator::new(context.salt, Format::Jpeg, Filling::Random, QUALITY),
        context: context.clone(),
        buckets,
        least,
        most: most.min(options.mm_images_max),
    })
}

impl RandomMm {
    fn sizes(&self, index: u64) -> Vec<ImageSize> {
        let mut generator = self.context.seed.stream("pictures").at(index);
        let least = u64::from(self.least.min(self.most));
        let count = whole_between(&mut generator, least, u64::from(self.most));
        let all: f64 = self.buckets.iter().map(|bucket| bucket.share).sum();
        let size = |_| {
            let mut left = unit_float(&mut generator) * all;
            let is_reached = |bucket: &&Bucket| {
                left -= bucket.share;
                left < 0.0
            };
            let bucket = self.buckets.iter().find(is_reached).or(self.buckets.last())?;
            Some(ImageSize { height: bucket.height, width: bucket.width })
        };
        (0..count).filter_map(size).collect()
    }
}

impl Source for RandomMm {
    fn len(&self) -> u64 {
        self.context.count
    }

    fn prompt(&self, index: u64) -> Result<PlannedPrompt> {
        let mut item = self.maker.item(index, self.texts.prompt(index)?, &[])?;
        self.images.put(&mut item, self.sizes(index), ImageSide::BehindText);
        Ok(PlannedPrompt::given(item.prompt, item.asked_tokens))
    }

    fn notes(&self) -> Vec<DatasetNote> {
        self.texts.notes()
    }
}

#[cfg(test)]
mod tests {
    use tokometer_base::PromptContent;

    use super::*;
    use crate::{Spec, open};

    fn context(form: WireForm) -> DatasetContext {
        DatasetContext { form, ..DatasetContext::for_test(7, 20) }
    }

    #[test]
    fn buckets_are_read_as_vllm_s_users_write_them() {
        let text = "{(256, 256, 1): 0.5, (720, 1280, 1): 0.5, (720, 1280, 16): 0.0}";
        let buckets: SizeBuckets = text.parse().unwrap();
        assert_eq!(buckets.0.len(), 3);
        assert_eq!((buckets.0[1].height, buckets.0[1].width), (720, 1_280));
        assert_eq!(buckets.to_string().parse::<SizeBuckets>().unwrap(), buckets);
        assert!(r#"{"(64,64,1)": 1}"#.parse::<SizeBuckets>().is_ok());
        for bad in ["", "{(1,2): 1}", "{(1,2,1): x}", "{(9000,2,1): 1}", "{(1,1,1): 2}", "[]"] {
            assert!(bad.parse::<SizeBuckets>().is_err(), "{bad}");
        }
    }

    #[test]
    fn each_request_has_its_text_first_and_images_of_its_own() {
        let options = Options {
            input_len: 12,
            mm_items: 2,
            mm_items_ratio: 0.5,
            mm_buckets: "{(32, 48, 1): 1.0}".parse().unwrap(),
            ..Options::default()
        };
        let workload = open(&Spec::RandomMm(options), &context(WireForm::Chat)).unwrap();
        let mut counts = std::collections::BTreeSet::new();
        let mut bodies = std::collections::BTreeSet::new();
        for index in 0..20 {
            let item = workload.item(index).unwrap();
            let PromptContent::Messages(messages) = &item.prompt.content else { panic!("no chat") };
            let message: serde_json::Value =
                serde_json::from_str(messages[0].verbatim.as_ref().unwrap()).unwrap();
            let parts = message["content"].as_array().unwrap();
            assert_eq!(parts[0]["type"], "text");
            let url = parts[1]["image_url"]["url"].as_str().unwrap();
            assert!(url.starts_with("data:image/jpeg;base64,/9j/"), "{url}");
            counts.insert(parts.len() - 1);
            bodies.insert(url.to_owned());
            assert_eq!(item.prompt.prompt_tokens, Some(12), "of the text only");
        }
        assert_eq!(counts.into_iter().collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(bodies.len(), 20);
    }

    #[test]
    fn what_cannot_be_generated_is_refused() {
        let check = |options: Options, form: WireForm, expected: &str| {
            let error = open(&Spec::RandomMm(options), &context(form)).err().unwrap().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(Options::default(), WireForm::Text, "use `--backend openai-chat`");
        let video =
            Options { mm_buckets: "{(32, 48, 16): 1.0}".parse().unwrap(), ..Options::default() };
        check(video, WireForm::Chat, "video is not generated");
    }
}
