//! Worlds that differ in nothing that matters are made the same, so that they are looked at once: names of replicas,
//! the height of renewal numbers, the order of what is under way, and requests that can do nothing any more.

use super::client::Local;
use super::client::Phase;
use super::steps::TICKS;
use super::steps::Verb;
use super::steps::View;
use super::store::Names;
use super::store::Stores;
use super::world::Bounds;
use super::world::REPLICAS;
use super::world::World;
use onecron::job::RunState;

impl World {
    pub fn make_same(&mut self, stores: &mut Stores, bounds: &Bounds) {
        self.drop_dead_requests(stores, bounds);
        let runs = stores.brief(self.store).runs;
        let mut numbers = runs.map(|run| run.map_or(0, |view| view.number));
        for (tick, current) in numbers.iter_mut().enumerate() {
            self.lower_numbers(tick, current);
        }
        let names = if bounds.symmetric { self.names(bounds) } else { [0, 1, 2] };
        self.rename(names);
        self.store = stores.renamed(self.store, names, numbers);
        self.late.sort_unstable();
        self.processes.sort_unstable();
    }

    /// A late request that would change nothing now, and nothing ever: the run is done, or its number has passed. Only
    /// with one tick, whose record is never dropped, and a store that does not forget.
    fn drop_dead_requests(&mut self, stores: &Stores, bounds: &Bounds) {
        if bounds.ticks > 1 || bounds.forgets > 0 {
            return;
        }
        let Some(run) = stores.brief(self.store).runs[0] else { return };
        self.late.retain(|ask| match ask.verb {
            Verb::Complete(_) => true,
            Verb::Lost(view) | Verb::Drained(view) => run.state != RunState::Done && view.number >= run.number,
            _ => run.state != RunState::Done,
        });
    }

    /// Numbers are only compared with one another, and grow: their ranks say the same.
    fn lower_numbers(&mut self, tick: usize, current: &mut u8) {
        let mut used = 1_u64 << *current; // bit by number
        self.each_view(tick, &mut |view| used |= 1 << view.number);
        let claimed = u8::from(used & 1 == 0); // 0 stays that of a record that nobody claimed
        let rank = |number: u8| (used & ((1 << number) - 1)).count_ones() as u8 + claimed;
        *current = rank(*current);
        self.each_view(tick, &mut |view| view.number = rank(view.number));
    }

    fn each_view(&mut self, tick: usize, act: &mut dyn FnMut(&mut View)) {
        for replica in &mut self.replicas {
            replica.ticks[tick].each_view(act);
        }
        for ask in self.late.iter_mut().filter(|ask| usize::from(ask.tick) == tick) {
            ask.verb.view().map(&mut *act);
        }
    }

    /// Replicas in the order of what they do, apart from their names.
    fn names(&self, bounds: &Bounds) -> Names {
        let mut order: Vec<u8> = (0..bounds.replicas).collect();
        let key = |replica: u8| {
            let mut this = self.replicas[replica as usize];
            for local in &mut this.ticks {
                local.each_view(&mut |view| view.owner.replica = u8::from(view.owner.replica != replica));
            }
            this
        };
        order.sort_by_key(|replica| key(*replica));
        let mut names = [0, 1, 2];
        for (new, old) in order.into_iter().enumerate() {
            names[old as usize] = new as u8;
        }
        names
    }

    fn rename(&mut self, names: Names) {
        if names == [0, 1, 2] {
            return;
        }
        let mut replicas = self.replicas;
        for old in 0..REPLICAS {
            replicas[names[old] as usize] = self.replicas[old];
        }
        self.replicas = replicas;
        for tick in 0..TICKS {
            self.each_view(tick, &mut |view| view.owner = view.owner.named(names));
        }
        for ask in &mut self.late {
            ask.owner = ask.owner.named(names);
        }
        for process in &mut self.processes {
            process.owner = process.owner.named(names);
        }
    }
}

impl Local {
    fn each_view(&mut self, act: &mut dyn FnMut(&mut View)) {
        if let Phase::Watching { view, .. } = &mut self.phase {
            act(view);
        }
        if let Some(asked) = &mut self.ask {
            asked.verb.view().map(&mut *act);
            if let Some(reply) = &mut asked.reply
                && let Some(view) = &mut reply.view
            {
                act(view);
            }
        }
    }
}
