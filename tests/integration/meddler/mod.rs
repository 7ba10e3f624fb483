//! Another module (`examples/meddler.rs`) that runs commands from within events: the server lives on, and a lock has one owner.
//!
//! - `events`: from within the lock's own events, when the step is over.
//! - `opening`: while a command opens its keys, of which one has expired.
//! - `midst`: while a command has its keys open.
//! - `call`: by a call for no user.
//! - `soak_meddled`: anything, at random.

mod call;
mod events;
mod midst;
mod opening;
mod soak_meddled;

use crate::support::{Client, Server, Setup, meddler_path};

/// What a command is refused with that another module runs in the midst of one on locks.
const NESTED: &str = "ERR not in the midst of another command on locks";

/// What a command is refused with whose keys are changed as often as it opens them.
const DISTURBED: &str = "ERR not done: another module changed keys in the midst of this command";

fn setup() -> Setup {
    Setup::new().set("loadmodule", &format!("\"{}\"", meddler_path().display()))
}

/// A server with both modules, on which expired keys stay until a command finds them.
fn server() -> (Server, Client) {
    let (server, mut client) = setup().start_and_client();
    client.ask::<()>("DEBUG SET-ACTIVE-EXPIRE 0");
    (server, client)
}

/// Makes a key that has expired, and is there: a lock, or a string.
fn expired(client: &mut Client, line: &str) {
    client.ask_all::<redis::Value, _>(&[line, "DEBUG SLEEP 0.01"]);
}

/// Has the other module run a command at the next such event.
fn meddle(client: &mut Client, event: &str, line: &str) {
    client.ask::<()>(&format!("MEDDLE {event} {line}"));
}

/// The owner of a lock; none where it is free.
fn owner(client: &mut Client, key: &str) -> Option<String> {
    client.holder(key).map(|holder| holder.owner)
}
