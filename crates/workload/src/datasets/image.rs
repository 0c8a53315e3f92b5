//! Random text behind generated images, as SGLang's `image` makes them.

use serde::Serialize;
use tokometer_base::Conventions;
use tokometer_base::seed::whole_between;

use super::random::{self, Random};
use crate::media::{ImageGenerator, ImageSide, ImageSize, SIDE_MAX};
use crate::prompts::PromptMaker;
use crate::{DatasetContext, DatasetNote, Error, PlannedPrompt, Ratio, Result, Source, WireForm};

pub use crate::media::{Filling, Format};

/// SGLang's quality of JPEG.
const QUALITY: u8 = 85;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Options {
    pub input_len: u32,
    pub output_len: u32,
    /// The spread of both, by the conventions followed.
    pub range_ratio: Ratio,
    /// Images per request, or the most of them.
    pub image_count: u32,
    /// Whether a request has between one and that many.
    pub is_image_count_random: bool,
    /// `4k`, `1080p`, `720p`, `360p`, `HxW`, or `random:HxW-HxW`.
    pub image_resolution: String,
    pub image_format: Format,
    pub image_content: Filling,
}

impl Default for Options {
    fn default() -> Self {
        let random::Options { input_len, output_len, range_ratio, .. } =
            random::Options::by_conventions(Conventions::Sglang);
        Self {
            input_len,
            output_len,
            range_ratio,
            image_count: 1,
            is_image_count_random: false,
            image_resolution: "1080p".to_owned(),
            image_format: Format::Jpeg,
            image_content: Filling::Random,
        }
    }
}

/// Sizes between two, both possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sizes {
    least: ImageSize,
    most: ImageSize,
}

fn sizes(text: &str) -> Option<Sizes> {
    let fixed = |height, width| {
        let size = ImageSize { height, width };
        Some(Sizes { least: size, most: size })
    };
    let size = |text: &str| {
        let (height, width) = text.split_once(['x', 'X'])?;
        let side =
            |text: &str| text.trim().parse().ok().filter(|side| (1..=SIDE_MAX).contains(side));
        Some(ImageSize { height: side(height)?, width: side(width)? })
    };
    match text.to_ascii_lowercase().as_str() {
        "4k" => fixed(2_160, 3_840),
        "1080p" => fixed(1_080, 1_920),
        "720p" => fixed(720, 1_280),
        "360p" => fixed(360, 640),
        other => match other.strip_prefix("random:") {
            Some(range) => {
                let (least, most) = range.split_once('-')?;
                let (least, most) = (size(least)?, size(most)?);
                let is_range = least.height <= most.height && least.width <= most.width;
                is_range.then_some(Sizes { least, most })
            }
            None => size(other).and_then(|size| fixed(size.height, size.width)),
        },
    }
}

pub(crate) struct ImagePrompts {
    texts: Random,
    maker: PromptMaker,
    images: ImageGenerator,
    context: DatasetContext,
    options: Options,
    sizes: Sizes,
}

pub(crate) fn open(options: &Options, context: &DatasetContext) -> Result<ImagePrompts> {
    let refused = |reason: String| Error::Options { dataset: "image", reason };
    if context.form != WireForm::Chat {
        let reason = "images need a chat route; use `--backend sglang-oai-chat` or `openai-chat`";
        return Err(refused(reason.to_owned()));
    }
    let sizes = sizes(&options.image_resolution).ok_or_else(|| {
        let typed = &options.image_resolution;
        refused(format!(
            "the resolution `{typed}` is not one of 4k, 1080p, 720p, 360p, HxW, random:HxW-HxW"
        ))
    })?;
    let lengths = [options.input_len, options.output_len];
    let text = random::Options::of_lengths(lengths, options.range_ratio);
    let (format, filling) = (options.image_format, options.image_content);
    Ok(ImagePrompts {
        texts: random::open(&text, context)?,
        maker: PromptMaker::new(context),
        images: ImageGenerator::new(context.salt, format, filling, QUALITY),
        context: context.clone(),
        options: options.clone(),
        sizes,
    })
}

impl Source for ImagePrompts {
    fn len(&self) -> u64 {
        self.context.count
    }

    fn prompt(&self, index: u64) -> Result<PlannedPrompt> {
        let mut item = self.maker.item(index, self.texts.prompt(index)?, &[])?;
        let mut generator = self.context.seed.stream("pictures").at(index);
        let most = u64::from(self.options.image_count);
        let count = if self.options.is_image_count_random {
            whole_between(&mut generator, 1.min(most), most)
        } else {
            most
        };
        let Sizes { least, most } = self.sizes;
        let mut length = |least: u16, most: u16| {
            let drawn = whole_between(&mut generator, u64::from(least), u64::from(most));
            u16::try_from(drawn).unwrap_or(most)
        };
        let mut size = |_| {
            let height = length(least.height, most.height);
            ImageSize { height, width: length(least.width, most.width) }
        };
        let sizes = (0..count).map(&mut size).collect();
        self.images.put(&mut item, sizes, ImageSide::BeforeText);
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

    #[test]
    fn resolutions_are_read_in_sglang_s_words() {
        let check = |text: &str, expected: Option<[u16; 4]>| {
            let found = sizes(text).map(|found| {
                [found.least.height, found.least.width, found.most.height, found.most.width]
            });
            assert_eq!(found, expected, "{text}");
        };
        check("720p", Some([720, 1_280, 720, 1_280]));
        check("32x64", Some([32, 64, 32, 64]));
        check("random:16x16-32x64", Some([16, 16, 32, 64]));
        check("random:32x16-16x64", None);
        check("huge", None);
        check("0x5", None);
    }

    #[test]
    fn images_come_before_the_text() {
        let context = DatasetContext { form: WireForm::Chat, ..DatasetContext::for_test(7, 3) };
        let options = Options {
            input_len: 9,
            range_ratio: Ratio::both(0.0),
            image_count: 2,
            image_resolution: "16x16".to_owned(),
            image_format: Format::Png,
            ..Options::default()
        };
        let workload = open(&Spec::Image(options), &context).unwrap();
        let PromptContent::Messages(messages) = workload.item(0).unwrap().prompt.content else {
            panic!("no chat");
        };
        let verbatim = messages[0].verbatim.as_ref().unwrap();
        let message: serde_json::Value = serde_json::from_str(verbatim).unwrap();
        let kinds: Vec<&str> = message["content"]
            .as_array()
            .unwrap()
            .iter()
            .map(|part| part["type"].as_str().unwrap())
            .collect();
        assert_eq!(kinds, ["image_url", "image_url", "text"]);
    }
}
