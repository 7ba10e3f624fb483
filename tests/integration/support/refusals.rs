//! Error texts that many tests expect. Each begins with the code that clients compare, and continues with a description.

pub(crate) const FREE: &str = "NOTHELD the lock is not held by this owner: it is free";
pub(crate) const HELD_BY_ANOTHER: &str =
    "NOTHELD the lock is not held by this owner: it is held by another owner";
pub(crate) const OTHER_FENCE: &str =
    "NOTHELD the lock is not held by this owner: it is held with another fence";

/// Returns the error for a word that the command does not accept at this place.
pub(crate) fn syntax_at(word: &str) -> String {
    format!("ERR syntax error at '{word}'")
}

/// Returns the error for an option's value that is no integer.
pub(crate) fn no_integer(range: &str) -> String {
    format!("ERR value is not an integer or out of range: {range}")
}

/// Returns the error for an option's value below 1.
pub(crate) fn not_positive(range: &str) -> String {
    format!("ERR value is out of range, must be positive: {range}")
}
