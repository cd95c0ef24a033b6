//! Breadth first through all worlds: the first rule that is broken has the shortest story.

use super::store::Stores;
use super::world::Action;
use super::world::Bounds;
use super::world::World;
use std::collections::HashMap;
use std::collections::VecDeque;
use std::hash::BuildHasherDefault;
use std::hash::Hash;
use std::hash::Hasher;

/// What was found.
#[derive(Debug)]
pub struct Found {
    pub states: usize,
    pub steps: usize,
    /// How many actions the longest shortest way has.
    pub depth: usize,
    /// Whether all states within the bounds were looked at.
    pub complete: bool,
    pub violation: Option<String>,
    /// How it came to that.
    pub story: Vec<String>,
}

/// Multiply and fold, as wyhash does: states are known by 64 bits, so one of a million is taken for another with a
/// probability of three in a hundred million.
#[derive(Default)]
struct Fold(u64);

impl Hasher for Fold {
    fn finish(&self) -> u64 {
        let product = u128::from(self.0 ^ 0x9e37_79b9_7f4a_7c15) * 0xe703_7ed1_a0b4_28db;
        (product >> 64) as u64 ^ product as u64
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as u64);
    }

    fn write_u64(&mut self, value: u64) {
        let product = u128::from(self.0 ^ value ^ 0xa076_1d64_78bd_642f) * 0xe703_7ed1_a0b4_28db;
        self.0 = (product >> 64) as u64 ^ (product as u64).rotate_left(17);
    }
}

struct Search {
    bounds: Bounds,
    stores: Stores,
    known: HashMap<u64, u32, BuildHasherDefault<Fold>>,
    /// From where, and how.
    parents: Vec<(u32, Action)>,
    /// Fair steps, from and to.
    fair: Vec<(u32, u32)>,
    settled: Vec<bool>,
}

pub fn explore(bounds: Bounds) -> Found {
    let stores = Stores::new(bounds.kind, bounds.mutant);
    let search = Search {
        bounds,
        stores,
        known: HashMap::default(),
        parents: Vec::new(),
        fair: Vec::new(),
        settled: Vec::new(),
    };
    search.explore()
}

impl Search {
    fn explore(mut self) -> Found {
        let first = World::first(&mut self.stores, &self.bounds);
        self.number(&first, (0, Action::Unit));
        let mut queue = VecDeque::from([(0, first, 0)]);
        let mut found = Found { states: 0, steps: 0, depth: 0, complete: true, violation: None, story: Vec::new() };
        let mut actions = Vec::new();
        while let Some((number, world, depth)) = queue.pop_front() {
            found.depth = depth;
            if world.is_beyond(&self.stores) {
                self.settled[number as usize] = true; // nothing is said of what follows
                continue;
            }
            world.actions(&self.stores, &self.bounds, &mut actions);
            for action in &actions {
                found.steps += 1;
                let next = match world.next(&mut self.stores, &self.bounds, *action) {
                    Ok(next) => next,
                    Err(violation) => {
                        found.states = self.known.len();
                        found.violation = Some(violation);
                        found.story = self.story(number, Some(*action));
                        return found;
                    }
                };
                let (at, new) = self.number(&next, (number, *action));
                if action.is_fair() {
                    self.fair.push((number, at));
                }
                if new && self.known.len() < self.bounds.states {
                    queue.push_back((at, next, depth + 1));
                } else if new {
                    self.settled[at as usize] = true;
                    found.complete = false;
                }
            }
        }
        found.states = self.known.len();
        if let Some(stuck) = self.stuck() {
            found.violation = Some("from here a tick is never decided".into());
            found.story = self.story(stuck, None);
        }
        found
    }

    fn number(&mut self, world: &World, parent: (u32, Action)) -> (u32, bool) {
        let mut hasher = Fold::default();
        world.hash(&mut hasher);
        let fresh = u32::try_from(self.parents.len()).expect("fewer states than that");
        let number = *self.known.entry(hasher.finish()).or_insert(fresh);
        if number == fresh {
            self.parents.push(parent);
            self.settled.push(world.is_settled(&self.stores, &self.bounds));
        }
        (number, number == fresh)
    }

    /// The first state from which no fair steps lead to one where all is decided.
    fn stuck(&self) -> Option<u32> {
        let count = self.parents.len();
        let mut first = vec![0_u32; count + 1];
        for (_, to) in &self.fair {
            first[*to as usize + 1] += 1;
        }
        for at in 0..count {
            first[at + 1] += first[at];
        }
        let mut from = vec![0_u32; self.fair.len()];
        let mut place = first.clone();
        for (source, to) in &self.fair {
            from[place[*to as usize] as usize] = *source;
            place[*to as usize] += 1;
        }
        let mut good = self.settled.clone();
        let mut open: Vec<usize> = (0..count).filter(|at| good[*at]).collect();
        while let Some(at) = open.pop() {
            for source in &from[first[at] as usize..first[at + 1] as usize] {
                if !std::mem::replace(&mut good[*source as usize], true) {
                    open.push(*source as usize);
                }
            }
        }
        good.iter().position(|good| !good).map(|at| at as u32)
    }

    fn story(&mut self, mut at: u32, last: Option<Action>) -> Vec<String> {
        let mut actions: Vec<Action> = last.into_iter().collect();
        while at != 0 {
            let (from, action) = self.parents[at as usize];
            actions.push(action);
            at = from;
        }
        actions.reverse();
        let mut world = World::first(&mut self.stores, &self.bounds);
        let mut story = Vec::new();
        for action in actions {
            story.push(world.told(action));
            match world.next(&mut self.stores, &self.bounds, action) {
                Ok(next) => world = next,
                Err(violation) => story.push(violation),
            }
        }
        story.push(format!("{:?} {world:?}", self.stores.brief(world.store)));
        story
    }
}
