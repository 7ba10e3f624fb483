//! The entry points for the fuzzers of `fuzz/`, which make up the bytes. A panic is a bug. Only builds for fuzzing have this file.

/// Splits the input at blanks into words, and gives them to the parser of each command.
pub fn command(bytes: &[u8]) {
    crate::commands::fuzzing::parse(bytes);
}

/// Reads the input as a lock from an RDB file or a `RESTORE` payload.
pub fn grant(bytes: &[u8]) {
    crate::keyspace::fuzzing::grant(bytes);
}

/// Reads the input as the module's data in an RDB file that belongs to no key.
pub fn aux(bytes: &[u8]) {
    crate::keyspace::fuzzing::aux(bytes);
}

/// Makes a series of decisions about one lock. The input chooses the decisions and their numbers.
pub fn decide(bytes: &[u8]) {
    crate::lock::fuzzing::decide(bytes);
}
