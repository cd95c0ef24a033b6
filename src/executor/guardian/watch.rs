//! What the guardian remembers, and what it does when. Pure: time and the state of processes are handed in.

use super::protocol::Message;
use crate::clock::Boot;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long after a KILL it is looked again whether anything is left, and how often.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
const LOOKS_MOST: u32 = 50;

/// The process that was adopted for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Leader {
    pub(super) pid: i32,
    /// When it was started, if it was seen to be the daemon's child: proves later that the number is still its own.
    pub(super) started: Option<u64>,
}

/// What to look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Quarry {
    pub(super) run: String,
    pub(super) replica: String,
    pub(super) leader: Option<Leader>,
}

/// What to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blow {
    Terminate,
    Kill,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// TERM at `term_at`.
    Armed,
    /// KILL at `term_at + kill_after`.
    Terminated,
    /// KILL was sent so many times; once more then.
    Killing { at: Boot, looks: u32 },
    /// Nothing was left. It stays known as long as the daemon may still report a process.
    Spent,
}

#[derive(Debug)]
struct Entry {
    start: u32,
    term_at: Boot,
    kill_after: Duration,
    stage: Stage,
    quarry: Quarry,
}

impl Entry {
    /// When there is something to do. After KILL's time TERM is left out.
    fn next(&self) -> Option<Boot> {
        match self.stage {
            Stage::Armed => Some(self.term_at),
            Stage::Terminated => Some(self.term_at + self.kill_after),
            Stage::Killing { at, .. } => Some(at),
            Stage::Spent => None,
        }
    }
}

/// All runs that are armed. One entry for each run: a later start of it takes the place of an earlier one.
#[derive(Debug, Default)]
pub(super) struct Watch {
    entries: BTreeMap<String, Entry>,
    is_alone: bool,
}

impl Watch {
    /// Does as told. Messages about another start than the one that is armed are old, and change nothing.
    pub(super) fn obey(&mut self, message: Message, look: impl FnOnce(i32) -> Leader) {
        match message {
            Message::Arm { run, start, replica, term_at, kill_after } => {
                if self.entries.get(&run).is_some_and(|entry| entry.start > start) {
                    return;
                }
                let quarry = Quarry { run: run.clone(), replica, leader: None };
                self.entries.insert(run, Entry { start, term_at, kill_after, stage: Stage::Armed, quarry });
            }
            Message::Adopt { run, start, pid } => {
                if let Some(entry) = self.entry(&run, start) {
                    entry.quarry.leader = Some(look(pid));
                    // After its deadline: whatever was done before was done without knowing of this process.
                    entry.stage = Stage::Armed;
                }
            }
            Message::Extend { run, start, term_at } => {
                // Once TERM is sent there is no way back: the run is ending already.
                if let Some(entry) = self.entry(&run, start).filter(|entry| entry.stage == Stage::Armed) {
                    entry.term_at = entry.term_at.max(term_at);
                }
            }
            Message::Disarm { run, start } => {
                if self.entry(&run, start).is_some() {
                    self.entries.remove(&run);
                }
            }
        }
    }

    fn entry(&mut self, run: &str, start: u32) -> Option<&mut Entry> {
        self.entries.get_mut(run).filter(|entry| entry.start == start)
    }

    /// The daemon is gone: nothing will be moved, reported or disarmed any more.
    pub(super) fn be_alone(&mut self) {
        self.is_alone = true;
    }

    /// Whether there is nothing left to do, ever.
    pub(super) fn is_over(&self) -> bool {
        self.is_alone && self.entries.values().all(|entry| entry.stage == Stage::Spent)
    }

    /// When to wake up.
    pub(super) fn next(&self) -> Option<Boot> {
        self.entries.values().filter_map(Entry::next).min()
    }

    /// What is due. `strike` does it, and says whether it found anything.
    pub(super) fn act(&mut self, now: Boot, mut strike: impl FnMut(&Quarry, Blow) -> bool) {
        for entry in self.entries.values_mut().filter(|entry| entry.next().is_some_and(|next| next <= now)) {
            if now < entry.term_at + entry.kill_after {
                strike(&entry.quarry, Blow::Terminate);
                entry.stage = Stage::Terminated;
                continue;
            }
            let looks = if let Stage::Killing { looks, .. } = entry.stage { looks + 1 } else { 1 };
            let found = strike(&entry.quarry, Blow::Kill);
            // What is found again and again is stuck in the kernel, and dead when it comes out of it.
            entry.stage =
                if found && looks < LOOKS_MOST { Stage::Killing { at: now + LOOK_AGAIN, looks } } else { Stage::Spent };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Boot {
        Boot::from_nanos(seconds * 1_000_000_000)
    }

    fn tell(watch: &mut Watch, line: &str) {
        let message = Message::parse(line.as_bytes()).unwrap();
        watch.obey(message, |pid| Leader { pid, started: Some(1) });
    }

    /// Armed for TERM at 15 s and KILL at 20 s.
    fn armed() -> Watch {
        let mut watch = Watch::default();
        tell(&mut watch, "arm 2 15000000000 5000000000 web-1 r");
        watch
    }

    /// What is done at an instant, and when the next look is.
    fn act(watch: &mut Watch, seconds: u64, found: bool) -> (Vec<Blow>, Option<Boot>) {
        let mut blows = Vec::new();
        watch.act(at(seconds), |_, blow| {
            blows.push(blow);
            found
        });
        (blows, watch.next())
    }

    #[test]
    fn without_an_extension_it_is_term_at_the_deadline_and_kill_after_the_grace() {
        let mut watch = armed();
        assert_eq!(act(&mut watch, 14, true), (vec![], Some(at(15))));
        assert_eq!(act(&mut watch, 15, true), (vec![Blow::Terminate], Some(at(20))));
        assert_eq!(act(&mut watch, 19, true), (vec![], Some(at(20))));
        assert_eq!(act(&mut watch, 20, true), (vec![Blow::Kill], Some(at(20) + LOOK_AGAIN)));
        assert_eq!(act(&mut watch, 21, false), (vec![Blow::Kill], None));
    }

    #[test]
    fn an_extension_moves_the_deadline_forward_only_and_not_after_term() {
        let mut watch = armed();
        tell(&mut watch, "extend 2 30000000000 r");
        tell(&mut watch, "extend 2 10000000000 r");
        tell(&mut watch, "extend 1 90000000000 r");
        assert_eq!(act(&mut watch, 29, true), (vec![], Some(at(30))));
        act(&mut watch, 30, true);
        tell(&mut watch, "extend 2 90000000000 r");
        assert_eq!(act(&mut watch, 35, true).0, vec![Blow::Kill]);
    }

    #[test]
    fn disarmed_is_disarmed_but_only_by_the_same_start() {
        let mut watch = armed();
        tell(&mut watch, "disarm 1 r");
        assert_eq!(watch.next(), Some(at(15)));
        tell(&mut watch, "disarm 2 r");
        assert_eq!(act(&mut watch, 99, true), (vec![], None));
    }

    #[test]
    fn a_later_start_takes_the_place_of_an_earlier_one_and_not_the_other_way_round() {
        let mut watch = armed();
        tell(&mut watch, "arm 1 1000000000 0 web-1 r");
        assert_eq!(watch.next(), Some(at(15)));
        tell(&mut watch, "arm 3 16000000000 0 web-1 r");
        assert_eq!(watch.next(), Some(at(16)));
    }

    #[test]
    fn a_process_that_is_adopted_after_the_deadline_is_killed_at_once() {
        let mut watch = armed();
        act(&mut watch, 15, false);
        act(&mut watch, 20, false);
        assert_eq!(watch.next(), None);
        tell(&mut watch, "adopt 2 4711 r");
        assert_eq!(act(&mut watch, 25, true).0, vec![Blow::Kill]);
    }

    #[test]
    fn after_a_suspend_beyond_both_deadlines_it_is_kill_at_once() {
        assert_eq!(act(&mut armed(), 3600, true).0, vec![Blow::Kill]);
    }

    #[test]
    fn alone_it_keeps_its_deadlines_and_is_over_when_nothing_is_left() {
        let mut watch = armed();
        watch.be_alone();
        assert!(!watch.is_over());
        act(&mut watch, 15, true);
        act(&mut watch, 20, true);
        assert!(!watch.is_over(), "something was found: it is looked for again");
        act(&mut watch, 21, false);
        assert!(watch.is_over());
    }

    #[test]
    fn what_cannot_be_killed_does_not_keep_it_for_ever() {
        let mut watch = armed();
        watch.be_alone();
        let looks = (20..).take_while(|second| {
            act(&mut watch, *second, true);
            !watch.is_over()
        });
        assert!(looks.count() <= 60);
    }
}
