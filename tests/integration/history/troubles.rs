//! Histories of servers with trouble that neither kills nor replaces them: a lossy network, a full or failing disk, too little memory.

use std::thread::sleep;
use std::time::Duration;

use super::check::Figures;
use super::clients::Shared;
use super::{LONG, histories, history, judge, record};
use crate::memory::POLICIES;
use crate::support::{Network, Own, Rng, Server, Setup, SmallDisk, Syncs, Way, apart, wait_for};

/// Records and judges one history of such a server.
fn in_trouble(name: &str, server: Server, mut trouble: impl FnMut(&mut Server, &mut Rng)) -> Figures {
    history(name, server, LONG, |server, _: &Shared, rng| trouble(server, rng))
}

/// Returns a server that acknowledges only what is on the disk.
fn durable() -> Setup {
    Setup::new().set("appendonly", "yes").set("appendfsync", "always").set("auto-aof-rewrite-min-size", "4mb")
}

/// Now and then, some packets in both directions are lost, or all in one direction.
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

/// With `appendfsync always`, a server that can't write ends. What it had acknowledged must be there after its restart.
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

/// With RDB files or `appendfsync everysec`, a server that can't write continues, refuses changes, and recovers later.
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
                            // The server refuses this while another save is running.
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

/// With `appendfsync always`, a server waits for its disk, and ends if the disk fails.
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

/// With `noeviction`, requests are refused, and held locks stay.
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

/// With other policies, locks are evicted, and nobody is told. Fences must still rise.
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
