//! See `checks::table`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::table(data));
