//! Grants by the million, at full speed: nothing is written down. Each grant is judged as it is told, by a table of who is inside
//! which lock (`table`); `crowd` has the clients.

mod crowd;
mod table;

use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use crate::support::{
    Ends, Rng, Server, Setup, WallClock, figure, freeze, server_time, size, tally, wait_for, wake, wall_clock,
};
use crowd::{patient, work};
use table::Table;

/// How many threads have clients that never wait, and how many clients each.
const CROWDS: usize = 2;
const MEMBERS: usize = 40;

/// How many clients wait for locks.
const PATIENT: usize = 16;

/// How often something happens to the server, in ms.
const TROUBLE: usize = 1000;

/// Has clients take locks while that happens to the server again and again.
fn trial(
    name: &str,
    troubles: &[&str],
    server: &Server,
    share: f64,
    mut trouble: impl FnMut(&Table, &mut Rng),
) {
    let mut rng = Rng::new();
    let (table, port) = (Table::new(share), server.port());
    let (all, began) = (&table, Instant::now());
    scope(|scope| {
        for crowd in 0..CROWDS {
            let rng = rng.fork();
            scope.spawn(move || work(all, port, crowd * MEMBERS..(crowd + 1) * MEMBERS, rng));
        }
        for number in 0..PATIENT {
            let rng = rng.fork();
            scope.spawn(move || patient(all, port, CROWDS * MEMBERS + number, rng));
        }
        let _over = Ends(&table.over);
        while began.elapsed() < Duration::from_secs(size(3, 60)) && !table.is_over() {
            sleep(rng.up_to(TROUBLE));
            trouble(&table, &mut rng);
        }
    });
    let (commands, took) = (table.count("commands"), began.elapsed());
    let name = format!("volume, {name}");
    let faults = table.faults();
    for what in ["commands", "grants", "connections closed"].into_iter().chain(troubles.iter().copied()) {
        tally(&name, what, table.count(what));
    }
    tally(&name, "violations", faults.len());
    let speed = commands as f64 / took.as_secs_f64();
    figure(&name, format_args!("{speed:.0} commands a second, {:?}", table.counts()));
    assert!(
        faults.is_empty(),
        "{} faults, such as\n{}",
        faults.len(),
        faults[..faults.len().min(5)].join("\n")
    );
    // On a busy machine there may be too few to have all of them.
    if commands >= 20_000 {
        for what in [
            "granted at once",
            "granted after a wait",
            "by a session",
            "shared",
            "several",
            "connections closed",
        ] {
            assert!(table.count(what) > 0, "nobody was {what}");
        }
    }
}

#[test]
fn soak_volume_while_the_server_stands_still_at_times() {
    let server = Server::start();
    trial("freezes", &["freezes"], &server, 1.0, |table, rng| {
        freeze(&server);
        sleep(rng.up_to(300));
        wake(&server);
        table.note("freezes");
    });
}

/// By how much the server's clock is fast or slow, as a part of the time; and how much of a lease an owner counts on that allows
/// for more than that.
const DRIFT: f64 = 0.1;
const SHARE: f64 = 0.8;

/// The clock of the server alone runs fast or slow, and is set. Where it is set ahead, leases end early (docs/safety.md); so may those
/// that a server gives or looks at in the very turn in which it is set back. So nobody who asked before counts as a holder. All else
/// holds: fences rise, and nobody is inside somebody else's lease.
#[test]
fn soak_volume_while_the_clock_is_set_and_drifts() {
    const TICK: Duration = Duration::from_millis(5);
    let clock = WallClock::new();
    let server = clock.of(Setup::new()).start();
    let (mut ahead, mut drift) = (0.0, DRIFT);
    trial("clock steps", &["steps back", "steps ahead"], &server, SHARE, |table, rng| {
        for _ in 0..rng.below(100) {
            let began = Instant::now();
            sleep(TICK);
            ahead += began.elapsed().as_secs_f64().min(2.0 * TICK.as_secs_f64()) * drift;
            clock.set(ahead);
        }
        drift = -drift;
        let step = 0.1 + rng.below(2000) as f64 / 1000.0;
        let (by, what) = if rng.percent(50) { (-step, "steps back") } else { (step, "steps ahead") };
        ahead += by;
        table.forget_while(|| {
            clock.set(ahead);
            let mut client = server.client();
            // Valkey 9 counts the processor's ticks, and looks at the clock about once in a millisecond.
            wait_for("the server to see it", || {
                let shown = server_time(&mut client) - wall_clock();
                (shown as f64 / 1000.0 - ahead).abs() < 0.05
            });
        });
        table.note(what);
    });
}
