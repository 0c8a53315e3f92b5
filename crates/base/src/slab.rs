//! A table whose keys stay unique when its entries are used again.

/// Values under keys that are never given out twice (until an entry has been used 2^32 times), so that a
/// late event of something removed finds nothing.
#[derive(Debug)]
pub struct Slab<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Entry<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the two halves of a key are cut out of it")]
fn parts(key: u64) -> (u32, u32) {
    (key as u32, (key >> 32) as u32)
}

impl<T> Slab<T> {
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A new key, still without a value.
    pub fn reserve(&mut self) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry { generation: 0, value: None });
            u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
        });
        u64::from(self.entries[index as usize].generation) << 32 | u64::from(index)
    }

    /// Gives a reserved key its value. An old key takes none.
    pub fn put(&mut self, key: u64, value: T) {
        if let Some(entry) = self.entry(key) {
            entry.value = Some(value);
        }
    }

    pub fn insert(&mut self, value: T) -> u64 {
        let key = self.reserve();
        self.put(key, value);
        key
    }

    fn entry(&mut self, key: u64) -> Option<&mut Entry<T>> {
        let (index, generation) = parts(key);
        self.entries.get_mut(index as usize).filter(|entry| entry.generation == generation)
    }

    pub fn get(&self, key: u64) -> Option<&T> {
        let (index, generation) = parts(key);
        let entry = self.entries.get(index as usize);
        entry.filter(|entry| entry.generation == generation)?.value.as_ref()
    }

    pub fn get_mut(&mut self, key: u64) -> Option<&mut T> {
        self.entry(key)?.value.as_mut()
    }

    /// Takes a value out while it is worked on. Its key stays reserved until it is released.
    pub fn take(&mut self, key: u64) -> Option<T> {
        self.entry(key)?.value.take()
    }

    pub fn release(&mut self, key: u64) {
        let (index, _) = parts(key);
        if let Some(entry) = self.entry(key) {
            entry.generation = entry.generation.wrapping_add(1);
            entry.value = None;
            self.free.push(index);
        }
    }

    pub fn remove(&mut self, key: u64) -> Option<T> {
        let value = self.take(key)?;
        self.release(key);
        Some(value)
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().filter_map(|entry| entry.value.as_ref())
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().filter_map(|entry| entry.value.as_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_key_does_not_open_an_entry_that_is_used_again() {
        let mut slab = Slab::default();
        let old = slab.insert('a');
        assert_eq!((slab.len(), slab.remove(old), slab.len()), (1, Some('a'), 0));
        let new = slab.insert('b');
        assert_ne!(old, new);
        assert_eq!(parts(old).0, parts(new).0, "the entry is used again, the key is not");
        assert_eq!((slab.get(old).copied(), slab.take(old)), (None, None));
        slab.release(old);
        assert_eq!(slab.get_mut(new), Some(&mut 'b'), "releasing an old key frees nothing");
        assert_eq!((slab.take(new), slab.len()), (Some('b'), 1), "its key is still reserved");
    }
}
