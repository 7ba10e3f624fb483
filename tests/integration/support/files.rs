//! Every kind of file that a data set survives a crash by.

use super::{Client, Server, Setup};

/// For an RDB file, an append-only file, and one that was rewritten with an RDB preamble or without: what `make` has done is
/// looked at by `check` on a server that was killed and started again.
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
