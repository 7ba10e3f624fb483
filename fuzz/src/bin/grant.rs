//! See `redislock::fuzzing::grant`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| redislock::fuzzing::grant(bytes));
