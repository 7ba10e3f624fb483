//! See `redislock::fuzzing::command`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| redislock::fuzzing::command(bytes));
