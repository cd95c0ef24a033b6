//! See `checks::schedule`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::schedule(data));
