//! Finds the processes of a run and signals them.

use super::super::proc;
use super::super::proc::Process;
use super::REPLICA;
use super::RUN_ID;
use super::watch::Blow;
use super::watch::Leader;
use super::watch::Quarry;
use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::sys::signal::killpg;
use nix::unistd::Pid;
use std::collections::BTreeSet;

/// What is known of a process that the daemon says it has started. It is still the daemon's child, dead or alive, and
/// leads its group: then nothing else can have its number, and its start time will prove that later. Otherwise only
/// the environment counts.
pub(super) fn look(pid: i32, daemon: i32) -> Leader {
    let leader = proc::process(pid).filter(|process| process.parent == daemon && process.group == pid);
    Leader { pid, started: leader.map(|process| process.started) }
}

/// Signals whatever there is of a run, and says whether there was anything.
pub(super) fn strike(quarry: &Quarry, blow: Blow) -> bool {
    let found = Found::of(quarry);
    let signals: &[Signal] = match blow {
        // A stopped process would hear of TERM only when somebody continues it.
        Blow::Terminate => &[Signal::SIGTERM, Signal::SIGCONT],
        Blow::Kill => &[Signal::SIGKILL],
    };
    for signal in signals {
        // Errors: it has ended meanwhile, or has become another user's.
        for group in &found.groups {
            let _ = killpg(Pid::from_raw(*group), *signal);
        }
        for pid in &found.singles {
            let _ = kill(Pid::from_raw(*pid), *signal);
        }
    }
    !(found.groups.is_empty() && found.singles.is_empty())
}

/// Groups that are the run's, and its processes in other groups.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    groups: BTreeSet<i32>,
    singles: Vec<i32>,
}

impl Found {
    fn of(quarry: &Quarry) -> Self {
        let marks = [format!("{RUN_ID}={}", quarry.run), format!("{REPLICA}={}", quarry.replica)];
        let all: Vec<Process> = proc::all().collect();
        let carries = |process: &&Process| !process.is_dead && proc::environ_has(process.pid, &marks);
        let marked: Vec<Process> = all.iter().filter(carries).copied().collect();
        Self::among(&all, &marked, quarry.leader)
    }

    /// A group is the run's when its leader is the process that was adopted, or carries the run's marks, or when it
    /// has the adopted number and some member carries them. No other group is signalled as a whole: a process may
    /// have joined one that it shares with strangers.
    fn among(all: &[Process], marked: &[Process], leader: Option<Leader>) -> Self {
        let is_adopted = |group: i32| {
            leader.is_some_and(|leader| {
                let same = |process: &Process| process.pid == group && Some(process.started) == leader.started;
                leader.pid == group && (all.iter().any(same) || marked.iter().any(|process| process.group == group))
            })
        };
        let lives = |group: i32| all.iter().any(|process| process.group == group && !process.is_dead);
        let led = marked.iter().filter(|process| process.pid == process.group).map(|process| process.group);
        let adopted = leader.map(|leader| leader.pid).filter(|group| is_adopted(*group) && lives(*group));
        let groups: BTreeSet<i32> = led.chain(adopted).collect();
        let singles = marked.iter().filter(|process| !groups.contains(&process.group)).map(|process| process.pid);
        Self { singles: singles.collect(), groups }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn process(pid: i32, group: i32) -> Process {
        Process { pid, parent: 1, group, is_dead: false, started: 7 }
    }

    fn found(all: &[Process], marked: &[Process], leader: Option<Leader>) -> (Vec<i32>, Vec<i32>) {
        let found = Found::among(all, marked, leader);
        (found.groups.into_iter().collect(), found.singles)
    }

    #[test]
    fn a_recycled_number_is_not_signalled() {
        let stranger = [process(50, 50)];
        for started in [None, Some(6)] {
            assert_eq!(found(&stranger, &[], Some(Leader { pid: 50, started })), (vec![], vec![]));
        }
    }

    #[test]
    fn the_leader_that_was_adopted_proves_its_group_even_dead() {
        let dead = Process { is_dead: true, ..process(50, 50) };
        let leader = Some(Leader { pid: 50, started: Some(7) });
        assert_eq!(found(&[dead, process(51, 50)], &[], leader), (vec![50], vec![]));
        assert_eq!(found(&[dead], &[], leader), (vec![], vec![]), "nobody is left");
    }

    #[test]
    fn a_member_with_the_marks_proves_the_group_when_the_leader_is_gone() {
        let (all, leader) = ([process(51, 50), process(52, 50)], Some(Leader { pid: 50, started: Some(7) }));
        assert_eq!(found(&all, &all[..1], leader), (vec![50], vec![]));
    }

    #[test]
    fn without_adoption_marked_leaders_give_their_groups_and_others_stand_alone() {
        let all = [process(50, 50), process(51, 50), process(60, 9), process(61, 9)];
        let marked = [process(50, 50), process(60, 9)];
        assert_eq!(found(&all, &marked, None), (vec![50], vec![60]));
    }
}
