//! Another module (`examples/meddler.rs`) that runs commands from within events: the server lives on, and a lock has one owner.
//!
//! - `events`: from within the lock's own events, when the step is over.
//! - `call`: by a call for no user.

mod call;
mod events;

use crate::support::{Setup, meddler_path};

fn setup() -> Setup {
    Setup::new().set("loadmodule", &format!("\"{}\"", meddler_path().display()))
}
