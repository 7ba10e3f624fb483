//! Files and payloads as earlier versions of the module wrote them: each server reads them, for ever.
//!
//! They lie in `tests/golden`; its README says with which versions they were made, and `make` how.

mod load;
mod make;
mod permits;
mod table;

use std::path::PathBuf;

use crate::support::root;

/// The file of that name.
fn golden(name: &str) -> PathBuf {
    root().join("tests/golden").join(name)
}
