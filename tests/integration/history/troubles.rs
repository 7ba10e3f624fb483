//! Histories of servers in trouble that neither kills nor replaces them: a network that loses packets, a disk that is full or
//! fails, memory that runs short.

use std::thread::sleep;
use std::time::Duration;

use super::check::Figures;
use super::clients::Shared;
use super::{LONG, histories, history, judge, record};
use crate::memory::POLICIES;
use crate::support::{Network, Own, Rng, Server, Setup, SmallDisk, Syncs, Way, apart, wait_for};

/// One history, with such a server.
fn in_trouble(name: &str, server: Server, mut trouble: impl FnMut(&mut Server, &mut Rng)) -> Figures {
    history(name, server, LONG, |server, _: &Shared, rng| trouble(server, rng))
}

/// What is acknowledged is on the disk.
fn durable() -> Setup {
    Setup::new().set("appendonly", "yes").set("appendfsync", "always").set("auto-aof-rewrite-min-size", "4mb")
}

/// All packets get lost at times: some of both ways, or all of one.
#[test]
fn soak_history_of_lost_packets() {
    apart(Own::Network, || {
        let network = Network::new();
        histories(|| {
            in_trouble("lost packets", Server::start(), |server, rng| {
                let port = server.port();
                if rng.percent(50) {
                    network.lose([(Way::To(port), 50), (Way::From(port), 50)]);
                } else {
                    network.lose([(*rng.one_of(&[Way::To(port), Way::From(port)]), 1000)]);
                }
                sleep(rng.up_to(700));
                network.lose([]);
            })
        });
    });
}

/// With `appendfsync always`, a server ends that can't write; what it acknowledged is there once it runs again.
#[test]
fn soak_history_of_a_full_disk() {
    apart(Own::Mounts, || {
        histories(|| {
            let disk = SmallDisk::new();
            in_trouble("a full disk, appendfsync always", disk.of(durable()).start(), |server, _| {
                disk.fill();
                server.wait_for_end();
                disk.free();
                server.relaunch();
            })
        });
    });
}

/// With RDB files or `appendfsync everysec`, a server goes on without writing, refuses what changes locks, and recovers.
#[test]
fn soak_history_of_a_full_disk_and_refusals() {
    apart(Own::Mounts, || {
        let mut turn = 0;
        histories(|| {
            let disk = SmallDisk::new();
            let setup = Setup::new().set("auto-aof-rewrite-min-size", "4mb");
            let setup =
                setup.set("appendonly", "yes").set("appendfsync", "everysec").set("save", "3600 100000000");
            in_trouble("a full disk, refusals", disk.of(setup).start(), |server, rng| {
                turn += 1;
                let mut client = server.client();
                let field = if turn % 2 == 0 { "aof_last_write_status" } else { "rdb_last_bgsave_status" };
                let mut becomes = |status: &str| {
                    wait_for(status, || {
                        if turn % 2 == 1 {
                            // Refused while one is at work.
                            let _ = client.send("BGSAVE");
                        }
                        sleep(Duration::from_millis(10));
                        client.info("persistence", field) == status
                    });
                };
                disk.fill();
                becomes("err");
                sleep(rng.up_to(500));
                disk.free();
                becomes("ok");
            })
        });
    });
}

/// With `appendfsync always`, a server waits for its disk, and ends where that fails.
#[test]
fn soak_history_of_failing_and_hanging_syncs() {
    let syncs = Syncs::new();
    histories(|| {
        in_trouble("syncs that fail or hang", syncs.of(durable()).start(), |server, rng| {
            if rng.percent(50) {
                syncs.fail();
                server.wait_for_end();
                syncs.work();
                server.relaunch();
            } else {
                syncs.hang();
                sleep(rng.up_to(700));
                syncs.work();
            }
        })
    });
}

/// With `noeviction`, whoever asks is refused, and what is held stays.
#[test]
fn soak_history_of_memory_that_runs_short() {
    histories(|| {
        in_trouble(
            "memory that runs short",
            Setup::new().set("maxmemory-policy", "noeviction").start(),
            |server, rng| {
                let mut client = server.client();
                client.ask::<()>("CONFIG SET maxmemory 1");
                sleep(rng.up_to(300));
                client.ask::<()>("CONFIG SET maxmemory 0");
            },
        )
    });
}

/// With the other policies, locks are evicted, and nobody is told. Fences rise all the same.
#[test]
fn soak_history_of_evictions() {
    let mut policies = POLICIES[1..].iter().cycle();
    histories(|| {
        let shared = record(Server::start(), LONG, |server, _, rng| {
            let mut client = server.client();
            let policy = policies.next().unwrap();
            client.ask::<()>(&format!("CONFIG SET maxmemory-policy {policy}"));
            client.ask::<()>("CONFIG SET maxmemory 1");
            sleep(rng.up_to(100));
            client.ask::<()>("CONFIG SET maxmemory 0");
        });
        judge("evictions", &shared, "2:")
    });
}
