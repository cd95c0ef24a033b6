//! What is taken away, one at a time.

/// Each must be found out. The first seven are those of the study that the rules come from; then those of the rules
/// S2, S4 and S5 of the design.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    None,
    /// The record of a run is deleted when the run is over.
    DeleteOnCompletion,
    /// Who has the claim starts, without asking again.
    NoBegin,
    /// One flag per tick, and nobody looks after it.
    FlagWithoutLease,
    /// A claim without a reply is taken for a lost one.
    LostReplyIsLoss,
    /// A begin without a reply is taken for a confirmed one.
    LostReplyIsWin,
    /// Begin does not look at owner and start.
    BeginWithoutFence,
    /// The store forgets, and remembers from the beginning.
    StoreForgetsUnnoticed,
    /// Records are dropped, and what remains does not say that they were there.
    DropWithoutFloor,
    /// A watcher counts the lease from the claim that it first saw.
    LeaseCountedFromClaim,
    /// A watcher does not wait until the owner of a lost run must have stopped it.
    NoWaitAfterLost,
    /// A watcher does not look at the renewal number.
    NumberIgnored,
    /// The store compares nothing but the state when a watcher decides.
    CompareStateOnly,
    /// The slot is free as soon as its run is called lost, and nobody asks whether that one is still going.
    SlotFreedAtLost,
    /// An earlier tick may begin after a later one.
    NoSupersededCheck,
    /// Whose end is not taken, since the run is another's by now, does not look after it.
    UnrecordedIsForgotten,
    /// A second begin of a replica may look like its first one.
    RequestsRepeat,
    /// The owner counts its lease from the reply.
    LeaseCountedFromReply,
}
