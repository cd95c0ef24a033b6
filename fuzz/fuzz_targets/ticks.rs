//! See `checks::ticks`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::ticks(data));
