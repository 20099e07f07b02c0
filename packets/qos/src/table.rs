//! The table of flows, of bounded size.

use std::collections::HashMap;

use crate::flow::{Flow, FlowKey};

/// Flows by key. When it is full, one that had no packet for long makes room (second chance: the
/// first that was not used since the search came by the last time).
#[derive(Debug)]
pub(crate) struct Table {
    limit: usize,
    slots: Vec<Flow>,
    places: HashMap<FlowKey, usize>,
    numbers: HashMap<u64, usize>,
    hand: usize,
    made: u64,
}

impl Table {
    pub(crate) fn new(limit: usize) -> Table {
        Table {
            limit: limit.max(2),
            slots: Vec::new(),
            places: HashMap::new(),
            numbers: HashMap::new(),
            hand: 0,
            made: 0,
        }
    }

    pub(crate) fn find(&mut self, key: &FlowKey) -> Option<&mut Flow> {
        self.places.get(key).and_then(|place| self.slots.get_mut(*place))
    }

    pub(crate) fn by_number(&mut self, number: u64) -> Option<&mut Flow> {
        self.numbers.get(&number).and_then(|place| self.slots.get_mut(*place))
    }

    /// A flow with this key, made if there is none; and the one that had to make room.
    pub(crate) fn get(
        &mut self,
        key: &FlowKey,
        make: impl FnOnce(u64) -> Flow,
    ) -> (Option<&mut Flow>, Option<Flow>) {
        if let Some(&place) = self.places.get(key) {
            return (self.slots.get_mut(place), None);
        }
        self.made += 1;
        let flow = make(self.made);
        let (place, out) = if self.slots.len() < self.limit {
            self.slots.push(flow);
            (self.slots.len() - 1, None)
        } else {
            let place = self.idle();
            let out = self.slots.get_mut(place).map(|slot| std::mem::replace(slot, flow));
            if let Some(out) = &out {
                self.places.remove(&out.key);
                self.numbers.remove(&out.number);
            }
            (place, out)
        };
        self.places.insert(*key, place);
        self.numbers.insert(self.made, place);
        (self.slots.get_mut(place), out)
    }

    fn idle(&mut self) -> usize {
        loop {
            let place = self.hand;
            self.hand = (self.hand + 1) % self.slots.len().max(1);
            match self.slots.get_mut(place) {
                Some(flow) if flow.touched => flow.touched = false,
                _ => return place,
            }
        }
    }

    pub(crate) fn numbered(&self, number: u64) -> Option<&Flow> {
        self.numbers.get(&number).and_then(|place| self.slots.get(*place))
    }

    pub(crate) fn keyed(&self, key: &FlowKey) -> Option<&Flow> {
        self.places.get(key).and_then(|place| self.slots.get(*place))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Flow> {
        self.slots.iter()
    }

    pub(crate) fn made(&self) -> u64 {
        self.made
    }
}
