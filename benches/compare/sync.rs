//! Grants that replicas confirm: `SYNC`, beside `WAIT` sent by the client, and beside a pair that nobody confirms; on one machine
//! with one replica and with two. Through clients, beside Redisson, which has each lock confirmed by default.

use std::rc::Rc;

use crate::clients;
use crate::load::{Load, Success};
use crate::report::{Report, Row};
use crate::resp::{owner, words};
use crate::rivals::LEASE;
use crate::rounds::{Plan, Rounds, percentiles, times};
use crate::server::{Server, Setup};
use crate::stats::Spread;

const SYNC: &str = "LOCK.ACQUIRE ... SYNC + LOCK.RELEASE";
const WAIT: &str = "LOCK.ACQUIRE, WAIT + LOCK.RELEASE";
const NOBODY: &str = "LOCK.ACQUIRE + LOCK.RELEASE";

/// The longest that one client may wait for a grant on a machine with its replica: the median, in ms.
const MOST_MS: f64 = 2.0;

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    for replicas in [1, 2] {
        for clients in [1, 16] {
            pairs(plan, report, replicas, clients);
        }
    }
    clients::mixes(plan, report, "sync");
}

/// Clients with a lock each, which have it confirmed in that way.
fn load(who: &str, server: &Rc<Server>, clients: usize, replicas: usize) -> Load {
    let mut success: Success<'_> = [vec![b"*4\r\n"], vec![b":0\r\n"]];
    if who == WAIT {
        success[0].push(b":");
    }
    let pair = |client| {
        let (key, owner) = (format!("lock:{client}"), owner(client));
        let acquire = format!("LOCK.ACQUIRE {key} OWNER {owner} PX {LEASE}");
        let take = match who {
            SYNC => words(&format!("{acquire} SYNC {replicas} 1000")),
            // In one go: the client need not wait for the first reply.
            WAIT => [words(&acquire), words(&format!("WAIT {replicas} 1000"))].concat(),
            _ => words(&acquire),
        };
        vec![[take, words(&format!("LOCK.RELEASE {key} {owner}"))]]
    };
    Load::of(clients, success, server, 1, pair).timed()
}

fn pairs(plan: &Plan, report: &mut Report, replicas: usize, clients: usize) {
    let plural =
        |count: usize, one: &str| if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") };
    let replicas_named = plural(replicas, "replica");
    let work = format!("acquire + release, {replicas_named}, {}", plural(clients, "client"));
    let (turns, length) = (plan.pick(10, 4), plan.ms(500, 250));
    let start = || {
        let server = Server::shared(Setup::MODULE);
        (0..replicas).for_each(|_| server.add_replica(Setup::MODULE));
        [SYNC, WAIT, NOBODY].map(|who| (who.into(), load(who, &server, clients, replicas))).into()
    };
    let rounds = Rounds::play(&work, "per second", 1, 0..=turns, start, |load| load.run(length));
    if clients == 1 {
        let [median, ..] = percentiles(&times(rounds.of(SYNC).unwrap_or_default()));
        let work = format!("until a grant is told, {replicas_named}");
        let row = Row::new(work, "on the same machine", " ms", Spread::one(median));
        report.rows.push(row.at_most((replicas == 1).then_some(MOST_MS)));
    }
    report.rows.extend([WAIT, NOBODY].iter().filter_map(|other| rounds.row(&work, SYNC, other)));
    report.figures.extend(rounds.figures(|samples| {
        let [median, p99, _] = percentiles(&times(samples));
        format!("told after {median:.2} ms, p99 {p99:.2} ms")
    }));
}
