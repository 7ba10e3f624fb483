//! What the fuzzers of `fuzz/` call, each with bytes that it makes up; a panic is a find. Not in any other build.

/// A command's words between blanks, given to the parser of each command.
pub fn command(bytes: &[u8]) {
    crate::commands::fuzzing::parse(bytes);
}

/// A lock as RDB files and `RESTORE` payloads have it.
pub fn grant(bytes: &[u8]) {
    crate::keyspace::fuzzing::grant(bytes);
}

/// What RDB files have beside the keys.
pub fn aux(bytes: &[u8]) {
    crate::keyspace::fuzzing::aux(bytes);
}

/// A row of decisions about one lock, with numbers of any size.
pub fn decide(bytes: &[u8]) {
    crate::lock::fuzzing::decide(bytes);
}
