//! The number behind `H`: equal on every replica, in every release.

/// FNV-1a with 64 bits over the UTF-8 bytes of `text`, say `h`; the answer is `h ^ (h >> 32)` with all its 64 bits, because
/// a remainder looks at low bits and FNV mixes those least. Not the lower 32 bits alone: those have other remainders.
///
/// Frozen: jobs with `H` in their schedule move when this changes, so a test holds its values.
///
/// For `H` the text is `<job name>/<field>` with the field's name as in error messages (`minute`, `day-of-month`, …).
/// Plain `H` and `H(a-b)` are `low + hash mod count` of the values from low to high; `H/step` starts at
/// `low + hash mod min(step, count)`. `H` alone takes days of the month from 1 to 28 and weekdays from 0 to 6.
pub fn stable_hash(text: &str) -> u64 {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    hash ^ (hash >> 32)
}
