//! Seeds that have failed, and why. What was mended has a test of its own as well; these stay, since a day that found one
//! thing may find another.

use super::campaign::failures;
use super::world::Faults;

/// Seed, what may happen in its day, what it found.
const FAILED: [(u64, Faults, &str); 19] = [
    (4, Faults::AMNESIA, "an owner settled what its watcher had settled alike, and both said that the tick was missed"),
    (
        327,
        Faults::AMNESIA,
        "a run that was known before its tick was claimed and watched, and skipped as somebody else's by its owner",
    ),
    (275, Faults::AMNESIA, "a claim that somebody had settled as missed was said to be run by that one"),
    (
        784,
        Faults::AMNESIA,
        "the owner of a run from before a loss told its end late, and took the slot from a run that went on",
    ),
    (1241, Faults::AMNESIA, "a run that was given back to a store that had forgotten it was not spoken of again"),
    (
        210,
        Faults::ALL,
        "a tick that was passed over was offered again when its job was registered again, and skipped twice",
    ),
    (358, Faults::ALL, "a run that was given back, and found no place until its deadline, stayed open"),
    (
        10_499,
        Faults::ALL,
        "a run that was stopped before its process was there, for its lease, was skipped as its own owner's",
    ),
    (10_591, Faults::ALL, "a claim that was won after its deadline was said to be missed, and so was its tick"),
    (
        11_084,
        Faults::AMNESIA,
        "what the fleet was told is forgotten was claimed again by the word of an owner that never began it",
    ),
    (11_241, Faults::AMNESIA, "a tick began while an older one, of a job that runs all of them, was being given back"),
    (
        37,
        Faults::AMNESIA,
        "a claim whose reply was lost, and that another replica settled meanwhile, was not spoken of by its owner",
    ),
    (
        2038,
        Faults::AMNESIA,
        "a claim whose reply was lost, and that another replica had taken over, was asserted after a loss and ran beside it",
    ),
    (
        124,
        Faults::AMNESIA,
        "a run that went on without its slot, since one that was over spoke up first, kept nobody out",
    ),
    (
        16_455,
        Faults::ALL,
        "an owner that heard late of its begin, after others had closed the run as lost, said no more of it",
    ),
    (
        4786,
        Faults::ALL,
        "a run that was never begun ran twice by the table of whoever had given it back, and not its own",
    ),
    (6438, Faults::AMNESIA, "a tick was reported missed twice by one replica, whose table had lost its job in between"),
    (
        10_010,
        Faults::PEOPLE,
        "a run that was taken over, and skipped, was spoken of as one that somebody had just ordered",
    ),
    (
        3114,
        Faults::AMNESIA,
        "a store went back to before a run was lost, and whoever had seen it lost never judged it again",
    ),
];

#[test]
fn seeds_that_failed_once_do_not_fail_again() {
    for (seed, faults, why) in FAILED {
        let (failures, _) = failures(seed..seed + 1, faults);
        assert!(failures.is_empty(), "{why}: {failures:#?}");
    }
}
