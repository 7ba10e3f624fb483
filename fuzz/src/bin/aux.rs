//! See `redislock::fuzzing::aux`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| redislock::fuzzing::aux(bytes));
