//! A table whose keys stay unique when places are used again.

/// Values under keys that are never given out twice while the table lives (until a place has been
/// used 2^32 times).
#[derive(Debug)]
pub(crate) struct Slots<T> {
    places: Vec<SlotEntry<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct SlotEntry<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

fn split(key: u64) -> (usize, u32) {
    let low = u32::try_from(key & 0xffff_ffff).expect("32 bits were kept");
    let high = u32::try_from(key >> 32).expect("32 bits were kept");
    (low as usize, high)
}

impl<T> Slots<T> {
    /// Values in the table.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(crate) fn insert(&mut self, value: T) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(SlotEntry { generation: 0, value: None });
            u32::try_from(self.places.len() - 1).expect("fewer than 2^32 connections")
        });
        let place = &mut self.places[index as usize];
        place.value = Some(value);
        u64::from(place.generation) << 32 | u64::from(index)
    }

    pub(crate) fn get(&self, key: u64) -> Option<&T> {
        let (index, generation) = split(key);
        let place = self.places.get(index)?;
        if place.generation == generation { place.value.as_ref() } else { None }
    }

    pub(crate) fn get_mut(&mut self, key: u64) -> Option<&mut T> {
        let (index, generation) = split(key);
        let place = self.places.get_mut(index)?;
        if place.generation == generation { place.value.as_mut() } else { None }
    }

    pub(crate) fn remove(&mut self, key: u64) -> Option<T> {
        let (index, generation) = split(key);
        let place = self.places.get_mut(index).filter(|place| place.generation == generation)?;
        let value = place.value.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(u32::try_from(index).expect("indexes are 32 bits"));
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_key_does_not_open_a_place_that_is_used_again() {
        let mut slots = Slots::default();
        let old = slots.insert('a');
        assert_eq!((slots.len(), slots.remove(old), slots.len()), (1, Some('a'), 0));
        let new = slots.insert('b');
        assert_ne!(old, new);
        assert_eq!(slots.get(old), None);
        assert_eq!(slots.remove(old), None);
        assert_eq!(slots.get_mut(new), Some(&mut 'b'));
    }
}
