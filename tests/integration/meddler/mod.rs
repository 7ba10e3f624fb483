//! Another module (`examples/meddler.rs`) runs commands in events: the server survives, and a lock has one owner.
//!
//! - `events`: in the lock's own events, after the step.
//! - `opening`: while a command opens its keys, of which one has expired.
//! - `midst`: while a command has its keys open.
//! - `call`: in a call without a user.
//! - `soak_meddled`: any commands, at random.

mod call;
mod events;
mod midst;
mod opening;
mod soak_meddled;

use crate::support::{Client, Server, Setup, meddler_path};

/// The error for a command that another module runs inside a command on locks.
const NESTED: &str = "ERR not in the midst of another command on locks";

/// The error for a command whose keys are changed each time it opens them.
const DISTURBED: &str = "ERR not done: another module changed keys in the midst of this command";

fn setup() -> Setup {
    Setup::new().set("loadmodule", &format!("\"{}\"", meddler_path().display()))
}

/// Returns a server with both modules, which deletes expired keys only when a command finds them.
fn server() -> (Server, Client) {
    let (server, mut client) = setup().start_and_client();
    client.ask::<()>("DEBUG SET-ACTIVE-EXPIRE 0");
    (server, client)
}

/// Makes a lock or string that has expired but still exists.
fn expired(client: &mut Client, line: &str) {
    client.ask_all::<redis::Value, _>(&[line, "DEBUG SLEEP 0.01"]);
}

/// Makes the other module run a command at the next event of this kind.
fn meddle(client: &mut Client, event: &str, line: &str) {
    client.ask::<()>(&format!("MEDDLE {event} {line}"));
}

/// Returns the owner of a lock, or `None` if it is free.
fn owner(client: &mut Client, key: &str) -> Option<String> {
    client.holder(key).map(|holder| holder.owner)
}
