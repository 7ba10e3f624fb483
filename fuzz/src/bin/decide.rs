//! See `redislock::fuzzing::decide`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| redislock::fuzzing::decide(bytes));
