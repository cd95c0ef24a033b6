//! Numbers of chance: for waits of many that must not be in step, and for names that must differ. None of them is a secret.
//! The engine has none: it is handed its seed.

use std::hash::BuildHasher;
use std::hash::RandomState;
use std::time::Duration;

/// Some number, another one at each call. The hasher of std is seeded by the system, so no two processes have the same.
pub fn number() -> u64 {
    RandomState::new().hash_one(0)
}

/// Some number from 0 to 1.
pub fn share() -> f64 {
    (number() >> 11) as f64 / (1_u64 << 53) as f64
}

/// A length of time, or up to a part of it more or less: `by` is from 0 to 1.
pub fn around(length: Duration, by: f64) -> Duration {
    length.mul_f64(1.0 - by + 2.0 * by * share())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_spread_over_all_that_is_allowed_and_no_more() {
        let all: Vec<Duration> = (0..1000).map(|_| around(Duration::from_secs(10), 0.1)).collect();
        let (least, most) = (all.iter().min().unwrap(), all.iter().max().unwrap());
        assert!(*least >= Duration::from_secs(9) && *most <= Duration::from_secs(11), "{least:?} {most:?}");
        assert!(*most - *least > Duration::from_millis(1800), "{least:?} {most:?}");
        assert_eq!(around(Duration::from_secs(10), 0.0), Duration::from_secs(10));
    }
}
