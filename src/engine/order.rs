//! An order of things that differs from replica to replica and is the same every time.

use crate::job::ReplicaId;
use std::fmt::Display;
use std::fmt::Write;

/// FNV-1a, 64 bits, of the replica and the thing's text. Not secret, not stored: it only spreads.
pub fn order(me: &ReplicaId, thing: &impl Display) -> u64 {
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    write!(hash, "{me} {thing}").expect("hashing cannot fail");
    // FNV's high bits hardly differ for texts that differ at their end: fold the low ones over them.
    hash.0 ^ hash.0.rotate_left(32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

struct Fnv(u64);

impl Write for Fnv {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(())
    }
}
