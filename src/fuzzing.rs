//! The entry points for the fuzzers in `fuzz/`. A fuzzer makes up the input. If the input makes a function here panic, there is a bug. Only
//! builds for fuzzing have this file.

/// Splits the input at blanks into words, and gives the words to the parser of each command.
pub fn command(bytes: &[u8]) {
    crate::commands::fuzzing::parse(bytes);
}

/// Reads the input as a lock from an RDB file or a `RESTORE` payload.
pub fn grant(bytes: &[u8]) {
    crate::keyspace::fuzzing::grant(bytes);
}

/// Reads the input as the part of an RDB file that the module writes outside of any key.
pub fn aux(bytes: &[u8]) {
    crate::keyspace::fuzzing::aux(bytes);
}

/// Makes a series of acquires, releases and other changes of one lock. The input chooses the changes and their arguments, such as times and
/// leases.
pub fn decide(bytes: &[u8]) {
    rules::lock::fuzzing::decide(bytes);
}
