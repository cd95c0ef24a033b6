//! What the record of a run says of the other runs of its job.

use super::RunRecord;
use super::RunState;
use super::STARTS_MOST;
use super::Tick;

impl RunRecord {
    /// Whether somebody else may start it again when its owner vanished. One whose stop was asked for is not started
    /// again.
    pub fn may_run_again(&self) -> bool {
        self.rerun && self.start < STARTS_MOST && self.stop_asked.is_none()
    }

    /// Whether it keeps another run of its job, one that must not overlap, from beginning: it has the slot, or is going
    /// without it, or it began (and may begin again) under a definition that allowed overlaps. One that must not overlap
    /// goes without the slot where the store forgot both it and the end of the run before it, and their owners spoke up
    /// for that one first: then only its own record says that it is going.
    pub fn is_in_the_way_of(&self, other: Tick, slot: Option<Tick>) -> bool {
        let is_going = matches!(self.state, RunState::Begun | RunState::Lost);
        let may_begin_again = !self.exclusive && self.state == RunState::Claimed && self.start > 0;
        self.scheduled_for != other && (slot == Some(self.scheduled_for) || is_going || may_begin_again)
    }

    /// Whether it waits, in line or to replace the run that is going.
    pub fn is_waiting(&self) -> bool {
        self.waiting_since > 0 && matches!(self.state, RunState::Claimed | RunState::Abandoned)
    }
}
