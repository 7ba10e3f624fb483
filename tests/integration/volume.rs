//! Many clients at work on a server whose own clock runs fast or slow, and is set.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support::{
    Belief, Ledger, Load, Outcome, PATIENCE, Rng, Route, Setup, WallClock, Work, figure, server_time, size,
    wait_for, wall_clock,
};

const CLIENTS: usize = 60;

/// The lease of the clients, in ms.
const LEASE: u64 = 1000;

/// `DRIFT`: by how much the server's clock is fast or slow, as a part of the time. `SHARE`: the part of a lease on which owners rely, which
/// allows for a larger drift.
const DRIFT: f64 = 0.1;
const SHARE: f64 = 0.8;

/// A route to the only server.
struct Straight(u16);

impl Route for Straight {
    fn port(&mut self, _key: &str) -> Option<u16> {
        Some(self.0)
    }

    fn learn(&mut self, _key: &str, _port: u16, _outcome: &Outcome) {}
}

/// Returns the part of a belief that a step of the clock can't invalidate: a clock that is set ahead ends leases early (docs/safety.md),
/// and one that is set back may shorten leases that the server gives or looks at in the same turn.
fn counted_on(belief: &Belief, steps: &[(Instant, Instant)]) -> Option<Belief> {
    let most = belief.asked + Duration::from_millis(LEASE).mul_f64(SHARE);
    let until = belief.until.min(most);
    let disturbed = steps.iter().any(|(from, to)| belief.asked < *to && *from < until);
    (!disturbed).then(|| Belief { until, ..belief.clone() })
}

/// Fences rise, and no owner gets the lock inside another one's lease.
#[test]
fn soak_volume_while_the_clock_is_set_and_drifts() {
    const TICK: Duration = Duration::from_millis(5);
    let clock = WallClock::new();
    let (server, mut client) = clock.of(Setup::new()).start_and_client();
    let keys = ["a", "b", "c", "d", "e", "f"].map(String::from);
    let routes = (0..CLIENTS).map(|_| Straight(server.port())).collect();
    let load = Load::start(routes, &Work::new(&keys, LEASE).mixed(), &[PATIENCE]);
    let (mut rng, began, mut steps) = (Rng::new(), Instant::now(), Vec::new());
    let (mut ahead, mut drift) = (0.0, DRIFT);
    while began.elapsed() < Duration::from_secs(size(5, 60)) {
        for _ in 0..100 + rng.below(200) {
            let tick = Instant::now();
            sleep(TICK);
            ahead += tick.elapsed().as_secs_f64().min(2.0 * TICK.as_secs_f64()) * drift;
            clock.set(ahead);
        }
        drift = -drift;
        let step = 0.1 + rng.below(2000) as f64 / 1000.0;
        let by = if rng.percent(50) { -step } else { step };
        ahead += by;
        let from = Instant::now();
        clock.set(ahead);
        // Valkey 9 uses the processor's counter, and reads the clock about once in a millisecond.
        wait_for("the server to see it", || {
            let shown = server_time(&mut client) - wall_clock();
            (shown as f64 / 1000.0 - ahead).abs() < 0.05
        });
        steps.push((from, Instant::now()));
    }
    let ledger = load.ledger.clone();
    let met = load.stop();
    let certain = Ledger::default();
    let counted = ledger.all().iter().filter_map(|belief| counted_on(belief, &steps)).collect::<Vec<_>>();
    let count = counted.len();
    counted.into_iter().for_each(|belief| certain.add(belief));
    let overlaps = certain.overlaps();
    let (disorder, repeats) = (ledger.disorder(true), ledger.repeats());
    figure("volume, clock steps", format_args!("{count} of {} grants judged, {met:?}", ledger.len()));
    assert!(overlaps.is_empty(), "{} overlaps, such as {:#?}", overlaps.len(), overlaps[0]);
    assert!(disorder.is_empty(), "{} fences did not rise, such as {:#?}", disorder.len(), disorder[0]);
    assert!(repeats.is_empty(), "{} fences twice, such as {:#?}", repeats.len(), repeats[0]);
    assert!(count > 50, "nothing to judge");
}
