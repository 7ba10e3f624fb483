//! What an acquire costs that joins a queue, on a server where 10,000 others wait: as it is, and with `DETECT`, which has the server
//! look for more before it waits.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use crate::net::Net;
use crate::report::Report;
use crate::resp::{owner, words};
use crate::rivals::LONG_LEASE;
use crate::rounds::{Plan, Rounds, Sample};
use crate::server::{Server, Setup};

/// How many wait.
const WAITS: usize = 10_000;
/// How many join in a turn.
const JOINS: usize = 500;

const WITHOUT: &str = "LOCK.ACQUIRE ... BLOCK 0 NOTIFY";
const WITH: &str = "LOCK.ACQUIRE ... BLOCK 0 NOTIFY DETECT";

/// For what so many others wait: in a chain, a search that follows who waits for whom finds another one at each step.
const OTHERS: [(&str, usize, Others); 4] = [
    ("nobody else waits", 0, Others::Apart),
    ("10,000 others wait, each for a lock of its own", WAITS, Others::Apart),
    ("10,000 others wait for that lock", WAITS, Others::OneLock),
    ("10,000 others wait, each for what the next one holds", WAITS, Others::Chain),
];

#[derive(Clone, Copy)]
enum Others {
    Apart,
    OneLock,
    Chain,
}

impl Others {
    /// Which lock the one of that number waits for.
    fn lock(self, number: usize) -> usize {
        match self {
            Self::Apart => number,
            Self::OneLock => 0,
            Self::Chain => number + 1,
        }
    }
}

/// Who joins. Each holds a lock that another one waits for, so that a circle through it is not out of the question.
fn joiner(number: usize) -> String {
    owner(2 * WAITS + 1 + number)
}

fn take(key: &str, owner: &str) -> String {
    format!("LOCK.ACQUIRE {key} OWNER {owner} PX {LONG_LEASE}")
}

/// It waits with `NOTIFY`: then there is a reply when it has joined.
fn join(key: &str, owner: &str) -> String {
    format!("{} BLOCK 0 NOTIFY told", take(key, owner))
}

/// Those who wait, on a server of their own.
struct Scene {
    server: Server,
    net: Net,
    others: Others,
}

impl Scene {
    fn new(others: Others, waits: usize) -> Self {
        let server = Server::start(Setup::MODULE);
        // One connection has more places here than it may by default.
        server.ask("CONFIG SET lock.max-places 0");
        let mut net = Net::with(1, server.port);
        let (lock, own) = (|number| format!("lock:{number}"), |number| format!("own:{number}"));
        // Only in a chain a holder is one of those who wait.
        let holder = if matches!(others, Others::Chain) { 0 } else { WAITS };
        net.fill(1, (0..=WAITS).map(|number| take(&lock(number), &owner(holder + number))), b"*4\r\n");
        let waits = (0..waits).map(|number| join(&lock(others.lock(number)), &owner(number)));
        net.fill(1, waits, b"+QUEUED\r\n");
        net.fill(1, (0..JOINS).map(|number| take(&own(number), &joiner(number))), b"*4\r\n");
        let wanted = (0..JOINS).map(|number| join(&own(number), &owner(3 * WAITS + number)));
        net.fill(1, wanted, b"+QUEUED\r\n");
        Self { server, net, others }
    }

    /// Some join, each the queue of another lock where there are several, and leave. What one took to join, in µs.
    fn run(&mut self, word: &str) -> Sample {
        let Self { server, net, others } = self;
        let key = |number| format!("lock:{}", others.lock(number));
        let mut each = |request: &dyn Fn(usize) -> String, expected: &[u8]| {
            let cpu = server.cpu_ns();
            (0..JOINS).for_each(|number| net.out.send(0, &words(&request(number))));
            let begin = Instant::now();
            net.replies(JOINS, |_, reply| assert_eq!(reply, expected, "{}", reply.escape_ascii()));
            let wall = begin.elapsed();
            Sample::each(JOINS, wall, server.cpu_ns() - cpu)
        };
        let sample = each(&|number| join(&key(number), &joiner(number)) + word, b"+QUEUED\r\n");
        each(&|number| format!("LOCK.LEAVE {} {}", key(number), joiner(number)), b":1\r\n");
        sample
    }
}

/// The time of an acquire that joins a queue, with the word and without it.
pub(crate) fn run(plan: &Plan, report: &mut Report) {
    for (name, waits, others) in OTHERS {
        let start = || {
            let scene = Rc::new(RefCell::new(Scene::new(others, waits)));
            let with = |who: &str, word| (who.into(), (Rc::clone(&scene), word));
            vec![with(WITHOUT, ""), with(WITH, " DETECT")]
        };
        let work = format!("joining a queue, {name}");
        let rounds = Rounds::play(&work, "µs", 1, 0..=plan.pick(30, 10), start, |(scene, word)| {
            scene.borrow_mut().run(word)
        });
        let row = rounds.row(&format!("joining a queue with DETECT, {name}"), WITH, WITHOUT);
        report.rows.extend(row.map(|row| row.beside("without DETECT")));
        report.figures.extend(rounds.figures(|_| format!("{JOINS} at once")));
    }
}
