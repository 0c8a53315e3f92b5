//! Generated images: noise or white, of any size, another one for every request.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use rand::RngCore;
use serde::{Deserialize, Serialize};
use tokometer_base::seed::{Generator, shuffle};
use tokometer_base::{PromptContent, Seed};

use super::jpeg::Jpeg;
use super::{Attachment, png, text_part, user_message};
use crate::Item;

pub(crate) const SIDE_MAX: u16 = 8_192;

/// Images of fewer lines have too few rows for every request to get another order of them: each is
/// coded on its own, which takes little time.
const SHUFFLED_FROM: u16 = 192;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ImageSize {
    pub(crate) height: u16,
    pub(crate) width: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// With losses; noise takes about six bits per pixel.
    #[default]
    Jpeg,
    /// Without losses; noise takes 24 bits per pixel.
    Png,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Filling {
    #[default]
    Random,
    Blank,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ImageSide {
    BeforeText,
    BehindText,
}

/// Makes images. Coded ones are kept by their size.
pub(crate) struct ImageGenerator {
    salt: Seed,
    format: Format,
    filling: Filling,
    quality: u8,
    coded: Mutex<BTreeMap<ImageSize, Arc<Jpeg>>>,
}

impl ImageGenerator {
    pub(crate) fn new(salt: Seed, format: Format, filling: Filling, quality: u8) -> Self {
        Self { salt, format, filling, quality, coded: Mutex::default() }
    }

    /// Image `number`: always the same, and another one for every number.
    pub(crate) fn make(&self, number: u64, size: ImageSize) -> Attachment {
        let mut generator = self.salt.stream("pictures").at(number);
        let sides = (size.width, size.height);
        match self.format {
            Format::Png => {
                let bytes = match self.filling {
                    Filling::Random => png::encode(sides, || pixel(&mut generator)),
                    Filling::Blank => png::encode(sides, || [255; 3]),
                };
                Attachment { kind: "image/png", bytes }
            }
            Format::Jpeg if self.filling == Filling::Random && size.height < SHUFFLED_FROM => {
                let coded = Jpeg::encode(sides, self.quality, || pixel(&mut generator));
                let order: Vec<usize> = (0..coded.rows()).collect();
                Attachment { kind: "image/jpeg", bytes: coded.in_order(&order) }
            }
            Format::Jpeg => {
                let coded = self.coded(size);
                let mut order: Vec<usize> = (0..coded.rows()).collect();
                shuffle(&mut order, &mut generator);
                Attachment { kind: "image/jpeg", bytes: coded.in_order(&order) }
            }
        }
    }

    /// Puts images of these sizes into the prompt, which is text so far, before or behind it.
    pub(crate) fn put(&self, item: &mut Item, sizes: Vec<ImageSize>, side: ImageSide) {
        let PromptContent::Text(text) = &item.prompt.content else { return };
        let image = |(number, size): (u64, ImageSize)| {
            self.make(item.index.wrapping_mul(1 << 16).wrapping_add(number), size).part()
        };
        let mut parts: Vec<String> = (0..).zip(sizes).map(image).collect();
        let at = if side == ImageSide::BeforeText { parts.len() } else { 0 };
        parts.insert(at, text_part(text));
        item.prompt.content = PromptContent::Messages(vec![user_message(text, &parts)]);
    }

    fn coded(&self, size: ImageSize) -> Arc<Jpeg> {
        let mut known = self.coded.lock().unwrap_or_else(PoisonError::into_inner);
        let coded = known.entry(size).or_insert_with(|| {
            let mut generator = self.salt.stream("noise").at(u64::from(size.height));
            let sides = (size.width, size.height);
            Arc::new(match self.filling {
                Filling::Random => Jpeg::encode(sides, self.quality, || pixel(&mut generator)),
                Filling::Blank => Jpeg::encode(sides, self.quality, || [255; 3]),
            })
        });
        Arc::clone(coded)
    }
}

fn pixel(generator: &mut Generator) -> [u8; 3] {
    let [red, green, blue, _] = generator.next_u32().to_be_bytes();
    [red, green, blue]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_its_own_image_and_keeps_it() {
        let sizes = [160, 192].map(|height| ImageSize { height, width: 48 });
        let formats = [Format::Jpeg, Format::Png];
        for (format, size) in formats.into_iter().flat_map(|one| sizes.map(|size| (one, size))) {
            let images = ImageGenerator::new(Seed(3), format, Filling::Random, 75);
            let again = ImageGenerator::new(Seed(3), format, Filling::Random, 75);
            assert_eq!(images.make(7, size), again.make(7, size));
            assert_ne!(images.make(7, size), images.make(8, size));
        }
    }
}
