//! From wall-clock times to instants: what happens where a zone's clocks are set.
//!
//! A job whose minute or hour field begins with `*` follows elapsed time: it has nothing to make up for in a gap and
//! runs in both passes of a fold. Any other is a fixed-time job, and for it a [`DstRule`] decides. The size of the
//! shift plays no part, and neither does its reason: the law that moves a whole zone by a day is treated alike.

use super::calendar::Calendar;
use super::calendar::LAST_YEAR;
use super::zone::Zone;

/// No tick is computed before 1900 …
pub(super) const EARLIEST: i64 = -2_208_988_800;

/// … nor from 2200 on: zones are known that far.
pub(super) const HORIZON: i64 = 7_258_118_400;

/// Longer than any distance between two offsets from UTC: a clock that was set back further ago is past that again.
const SHIFT_MAX: i64 = 2 * 86_400;

impl Gap {
    /// The word in `jobs.yaml`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RunAfter => "RunAfter",
            Self::Skip => "Skip",
        }
    }
}

impl Fold {
    /// The word in `jobs.yaml`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::First => "First",
            Self::Both => "Both",
        }
    }
}

/// What a fixed-time job does where its zone's clocks are set. The default is Vixie cron's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct DstRule {
    /// For a time that does not exist.
    pub gap: Gap,
    /// For a time that exists twice.
    pub fold: Fold,
}

impl DstRule {
    /// Reads `gap/fold`, as records have it.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (gap, fold) = text.split_once('/')?;
        let gap = [Gap::RunAfter, Gap::Skip].into_iter().find(|rule| rule.as_str() == gap)?;
        let fold = [Fold::First, Fold::Both].into_iter().find(|rule| rule.as_str() == fold)?;
        Some(Self { gap, fold })
    }
}

/// A wall-clock time that was skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Gap {
    /// One run at the first instant after the gap, however many times were skipped.
    #[default]
    RunAfter,
    /// No run.
    Skip,
}

/// A wall-clock time that comes twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Fold {
    /// One run, on the first pass.
    #[default]
    First,
    /// A run on each pass.
    Both,
}

/// A job that follows elapsed time runs whenever its wall clock matches, and at no other instant.
pub(super) const ELAPSED: DstRule = DstRule { gap: Gap::Skip, fold: Fold::Both };

/// The first instant strictly later than `instant` (both seconds since the epoch) at which `calendar` is due in `zone`.
///
/// It walks from one shift of the zone's clocks to the next; between two shifts the local time is instant + offset.
pub(super) fn after(zone: &Zone, rule: DstRule, calendar: &Calendar, instant: i64) -> Option<i64> {
    const { assert!(LAST_YEAR >= 2200, "the calendar must reach the horizon in every zone") };
    let instant = instant.max(EARLIEST - 1);
    if instant >= HORIZON {
        return None;
    }
    let mut stretch = zone.stretch_at(instant);
    let mut local = instant + stretch.offset;
    if rule.fold == Fold::First {
        local = local.max(latest_shown(zone, instant));
    }
    let (mut asked, mut due) = (local, calendar.next(local)?);
    loop {
        let Some(shift) = stretch.end.filter(|end| due - stretch.offset >= *end) else {
            return Some(due - stretch.offset).filter(|found| *found < HORIZON);
        };
        let next = zone.stretch_at(shift);
        if rule.gap == Gap::RunAfter && due < shift + next.offset {
            return Some(shift).filter(|found| *found < HORIZON); // `due` lies in the gap
        }
        let shown = shift - 1 + stretch.offset;
        local = shift - 1 + next.offset;
        if rule.fold == Fold::First {
            local = local.max(shown).max(asked);
        }
        stretch = next;
        // Nothing matches between `asked` and `due`, so the calendar is only asked again from elsewhere. This keeps
        // 29 February cheap, with its many shifts on the way.
        if !(asked..due).contains(&local) {
            (asked, due) = (local, calendar.next(local)?);
        }
    }
}

/// The latest local time that the zone's clocks have shown up to `instant`: more than now in the second pass of a fold.
fn latest_shown(zone: &Zone, instant: i64) -> i64 {
    let mut stretch = zone.stretch_at(instant);
    let mut latest = instant + stretch.offset;
    while let Some(start) = stretch.start.filter(|start| instant - start < SHIFT_MAX) {
        stretch = zone.stretch_at(start - 1);
        latest = latest.max(start - 1 + stretch.offset);
    }
    latest
}
