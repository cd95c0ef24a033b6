//! The Lua scripts: the rules of [`transition`](crate::store::transition), where Redis can apply them in one piece.

use crate::job::Step;
use crate::store::fields::JOB_FIELDS;
use crate::store::fields::RUN_FIELDS;

const COMMON: &str = include_str!("lua/common.lua");

/// A script's text, and the hash that the server calls it by.
#[derive(Debug)]
pub(super) struct Script {
    pub code: String,
    pub hash: String,
}

/// One script per step, one that retires a job, and the one of members who meet. Parsed by the server once, called by their hash.
#[derive(Debug)]
pub(super) struct Scripts {
    register: Script,
    claim: Script,
    begin: Script,
    ask_stop: Script,
    order: Script,
    pause: Script,
    call_stale: Script,
    renew: Script,
    reassert: Script,
    complete: Script,
    abandon: Script,
    settle: Script,
    read: Script,
    pub retire: Script,
    pub meet: Script,
}

impl Scripts {
    pub fn new() -> Self {
        // The names come from the records themselves, so that the two lists cannot drift apart.
        let list = |fields: &[&str]| format!("{{'{}'}}", fields.join("','"));
        let names = format!("local JOB_FIELDS = {}\nlocal RUN_FIELDS = {}\n", list(&JOB_FIELDS), list(&RUN_FIELDS));
        let script = |step: &str| whole(format!("{names}{COMMON}\n{step}"));
        Self {
            register: script(include_str!("lua/register.lua")),
            claim: script(include_str!("lua/claim.lua")),
            begin: script(include_str!("lua/begin.lua")),
            ask_stop: script(include_str!("lua/ask_stop.lua")),
            order: script(include_str!("lua/order.lua")),
            pause: script(include_str!("lua/pause.lua")),
            call_stale: script(include_str!("lua/call_stale.lua")),
            renew: script(include_str!("lua/renew.lua")),
            // Where there is nothing to make again, it is a renewal.
            reassert: script(concat!(include_str!("lua/reassert.lua"), include_str!("lua/renew.lua"))),
            complete: script(include_str!("lua/complete.lua")),
            abandon: script(include_str!("lua/abandon.lua")),
            settle: script(include_str!("lua/settle.lua")),
            read: script(include_str!("lua/read.lua")),
            retire: script(include_str!("lua/retire.lua")),
            meet: whole(include_str!("lua/meet.lua").to_owned()),
        }
    }

    /// A script of its own: it is about no job.
    pub fn heartbeat() -> Script {
        let code = include_str!("lua/heartbeat.lua").to_owned();
        whole(code)
    }

    pub fn of(&self, step: &Step) -> &Script {
        match step {
            Step::Register(_) => &self.register,
            Step::Claim(_) => &self.claim,
            Step::Begin { .. } | Step::Wait { .. } => &self.begin,
            Step::AskStop { .. } => &self.ask_stop,
            Step::Order(_) => &self.order,
            Step::Pause { .. } => &self.pause,
            Step::CallStale { .. } => &self.call_stale,
            Step::Renew { .. } => &self.renew,
            Step::Reassert(_) => &self.reassert,
            Step::Complete { .. } => &self.complete,
            Step::Abandon { .. } => &self.abandon,
            Step::Settle { .. } => &self.settle,
            Step::Read { .. } => &self.read,
        }
    }

    pub fn all(&self) -> [&Script; 15] {
        [
            &self.register,
            &self.claim,
            &self.begin,
            &self.ask_stop,
            &self.order,
            &self.pause,
            &self.call_stale,
            &self.renew,
            &self.reassert,
            &self.complete,
            &self.abandon,
            &self.settle,
            &self.read,
            &self.retire,
            &self.meet,
        ]
    }
}

fn whole(code: String) -> Script {
    let hash = redis::Script::new(&code).get_hash().to_owned();
    Script { code, hash }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::EARLY_TOLERANCE_MS;
    use crate::job::FORMAT;
    use crate::job::FORMER_MOST;
    use crate::job::NUMBER_LEAP;
    use crate::job::STARTS_MOST;
    use crate::store::transition::DROPPED_MOST;

    #[test]
    fn the_scripts_know_the_same_numbers() {
        for (name, value) in [
            ("FORMAT", i64::from(FORMAT)),
            ("EARLY_TOLERANCE_MS", EARLY_TOLERANCE_MS),
            ("STARTS_MOST", i64::from(STARTS_MOST)),
            ("NUMBER_LEAP", i64::try_from(NUMBER_LEAP).unwrap()),
            ("FORMER_MOST", i64::try_from(FORMER_MOST).unwrap()),
            ("DROPPED_MOST", i64::try_from(DROPPED_MOST).unwrap()),
        ] {
            assert!(COMMON.contains(&format!("local {name} = {value}\n")), "{name} is not {value} in common.lua");
        }
    }
}
