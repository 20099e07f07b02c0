//! A bounded table that many threads use: what it has no room for pushes out the oldest.

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Entries of one hash stand beside each other, this many.
const WAYS: usize = 8;
/// Number of locks: more than there are threads, so that they hardly ever meet.
const SHARDS: usize = 64;

/// Values by key, as many as there is room for. Where an entry goes is by a hash that nobody
/// outside can know, so that nobody can choose what to push out.
#[derive(Debug)]
pub struct Table<K, V> {
    shards: Box<[Mutex<Shard<K, V>>]>,
    hasher: RandomState,
}

/// Sets of [`WAYS`] entries, one after the other.
type Shard<K, V> = Box<[Option<Slot<K, V>>]>;

#[derive(Debug)]
struct Slot<K, V> {
    key: K,
    /// When it was last used, in any unit that does not go back.
    used: u64,
    value: V,
}

impl<K: Hash + Eq + Copy, V> Table<K, V> {
    /// Room for about `entries`, never more than twice as many.
    pub fn new(entries: usize) -> Table<K, V> {
        let sets = entries.div_ceil(SHARDS * WAYS).next_power_of_two();
        let shard = || Mutex::new((0..sets * WAYS).map(|_| None).collect());
        Table { shards: (0..SHARDS).map(|_| shard()).collect(), hasher: RandomState::new() }
    }

    /// Calls `act` on the entry of this key, which is made by `fresh` if there is none.
    pub fn with<R>(
        &self,
        key: K,
        now: u64,
        fresh: impl FnOnce() -> V,
        act: impl FnOnce(&mut V) -> R,
    ) -> Option<R> {
        let (mut shard, start) = self.shard(&key);
        let set = shard.get_mut(start..start + WAYS)?;
        let slot = match set.iter().position(|slot| is_of(slot, &key)) {
            Some(at) => set.get_mut(at)?,
            None => set.iter_mut().min_by_key(|slot| slot.as_ref().map(|slot| slot.used))?,
        };
        if !is_of(slot, &key) {
            *slot = Some(Slot { key, used: now, value: fresh() });
        }
        let slot = slot.as_mut()?;
        slot.used = now;
        Some(act(&mut slot.value))
    }

    /// Changes the entry of this key, if there is one.
    pub fn change(&self, key: K, act: impl FnOnce(&mut V)) {
        let (mut shard, start) = self.shard(&key);
        let set = shard.get_mut(start..start + WAYS).unwrap_or_default();
        if let Some(slot) = set.iter_mut().flatten().find(|slot| slot.key == key) {
            act(&mut slot.value);
        }
    }

    /// Takes the entry of this key out.
    pub fn take(&self, key: K) -> Option<V> {
        let (mut shard, start) = self.shard(&key);
        let set = shard.get_mut(start..start + WAYS)?;
        let at = set.iter().position(|slot| is_of(slot, &key))?;
        set.get_mut(at)?.take().map(|slot| slot.value)
    }

    /// The part that the key is in, and where its set begins there.
    fn shard(&self, key: &K) -> (MutexGuard<'_, Shard<K, V>>, usize) {
        let hash = self.hasher.hash_one(key) as usize;
        let shard =
            self.shards.get(hash % SHARDS).unwrap_or_else(|| unreachable!("as many shards"));
        // Nothing is left half-done by a thread that panics.
        let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        let set = hash / SHARDS % (shard.len() / WAYS).max(1);
        (shard, set * WAYS)
    }
}

fn is_of<K: Eq, V>(slot: &Option<Slot<K, V>>, key: &K) -> bool {
    slot.as_ref().is_some_and(|slot| slot.key == *key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count<K, V>(table: &Table<K, V>) -> usize {
        table.shards.iter().map(|s| s.lock().unwrap().iter().flatten().count()).sum()
    }

    #[test]
    fn it_keeps_what_it_has_room_for_and_no_more() {
        let table = Table::new(1024);
        for key in 0..100_000u32 {
            assert_eq!(
                table.with(
                    key,
                    key.into(),
                    || 0,
                    |value| {
                        *value += 1;
                        *value
                    }
                ),
                Some(1)
            );
        }
        assert_eq!(count(&table), 1024);
        // Of the newest few none was pushed out: 8 of 16 million alike would have to share a set.
        assert!((99_990..100_000).all(|key| table.take(key) == Some(1)));
        assert_eq!(count(&table), 1014);
        assert_eq!(table.take(99_999), None);
    }

    #[test]
    fn an_entry_in_use_stays() {
        let table = Table::new(64);
        for now in 0..10_000u64 {
            table.with(u64::MAX, now, || 0u64, |value| *value += 1);
            table.with(now, now, || 0, |_| ());
        }
        table.change(u64::MAX, |value| *value += 7);
        table.change(u64::MAX - 1, |_| unreachable!());
        assert_eq!(table.take(u64::MAX), Some(10_007));
    }
}
