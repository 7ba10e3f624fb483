//! All kinds of files from which a server can recover its data set.

use super::{Client, Server, Setup};

/// Calls `make` on a server, kills and restarts it, and calls `check`: with an RDB file, an AOF, and a rewritten AOF with and without an
/// RDB preamble.
#[track_caller]
pub(crate) fn in_each_kind_of_file<T>(make: impl Fn(&mut Client) -> T, check: impl Fn(&Server, T)) {
    let aof = || Setup::new().set("appendonly", "yes").set("appendfsync", "always");
    let plain = aof().set("aof-use-rdb-preamble", "no");
    for (way, setup) in [Setup::new(), aof(), aof(), plain].into_iter().enumerate() {
        let mut server = setup.start();
        let mut client = server.client();
        let made = make(&mut client);
        match way {
            0 => client.ask("SAVE"),
            1 => (),
            _ => client.rewrite_aof(),
        }
        server.kill_and_restart();
        check(&server, made);
    }
}
