//! The entry points for the fuzzers of `fuzz/`, each of which makes up the bytes. A panic is a bug. No other build has this file.

/// Gives the parser of each command the words of the input, which are separated by blanks.
pub fn command(bytes: &[u8]) {
    crate::commands::fuzzing::parse(bytes);
}

/// Reads a lock as RDB files and `RESTORE` payloads have it.
pub fn grant(bytes: &[u8]) {
    crate::keyspace::fuzzing::grant(bytes);
}

/// Reads what RDB files have beside the keys.
pub fn aux(bytes: &[u8]) {
    crate::keyspace::fuzzing::aux(bytes);
}

/// Makes a series of decisions about one lock, with numbers of any size.
pub fn decide(bytes: &[u8]) {
    crate::lock::fuzzing::decide(bytes);
}
