//! Tests of the core alone, without a server or a clock: for what the scenarios of tests/clients/conformance don't reach.

use std::time::{Duration, Instant};

use redis::{ErrorKind, RedisError, Value};

use super::Error;
use super::request::Request;
use super::{Acquired, Core, Id, Lane};

const SECOND: Duration = Duration::from_secs(1);

/// A core that has its subscription, and a simulated clock.
struct Bench {
    core: Core,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        let (mut core, now) = (Core::new("channel".to_string()), Instant::now());
        core.subscribed(now);
        Self { core, now }
    }

    fn wanted(owner: &str) -> Request {
        let mut request = Request::new(vec![b"k".to_vec()], b"new".to_vec());
        (request.owner, request.named, request.lease) = (owner.into(), true, Some(9 * SECOND));
        request
    }

    fn acquire(&mut self, request: Request) -> (Id, Acquired) {
        self.core.acquire(request, self.now).unwrap()
    }

    /// The commands since the last call, each with the acquire that sent it.
    fn sent(&mut self) -> Vec<(Id, String)> {
        let out = std::mem::take(&mut self.core.out);
        out.told.into_iter().for_each(|tell| tell());
        let words = |command: super::Command| {
            let words = command.words.args_iter().map(|word| match word {
                redis::Arg::Simple(word) => String::from_utf8_lossy(word).into_owned(),
                _ => "cursor".to_string(),
            });
            (command.id, words.collect::<Vec<_>>().join(" "))
        };
        out.commands.into_iter().map(words).collect()
    }

    fn granted(&mut self, id: Id, fence: i64, lease: i64) {
        let grant = [Value::BulkString(b"a".to_vec()), Value::Int(fence), Value::Int(1), Value::Int(lease)];
        self.core.answered(id, Ok(Value::Array(grant.to_vec())), self.now);
    }

    fn pass(&mut self, time: Duration) -> Option<Instant> {
        self.now += time;
        self.core.tick(self.now).0
    }

    fn held(&mut self, owner: &str, fence: i64) -> (Id, Acquired) {
        let (id, acquired) = self.acquire(Self::wanted(owner));
        self.granted(id, fence, 9000);
        self.sent();
        (id, acquired)
    }
}

fn cut() -> RedisError {
    (ErrorKind::Io, "cut").into()
}

fn not_held() -> RedisError {
    redis::make_extension_error("NOTHELD".to_string(), None)
}

#[test]
fn it_asks_only_once_there_is_a_subscription() {
    let mut bench = Bench { core: Core::new("channel".to_string()), now: Instant::now() };
    let (id, _) = bench.acquire(Bench::wanted("a"));
    assert!(bench.sent().is_empty());
    bench.core.subscribed(bench.now);
    let [(of, words)] = bench.sent().try_into().unwrap();
    assert_eq!(of, id);
    let channel = bench.core.channel.clone();
    assert_eq!(words, format!("LOCK.ACQUIRE k OWNER a NOTIFY {channel} ONCE PX 9000 BLOCK 0"));
}

#[test]
fn without_any_subscription_one_that_asks_once_fails_after_two_tries_or_one_silence() {
    let silence = std::io::Error::from(std::io::ErrorKind::TimedOut).into();
    for (trouble, tries) in [(cut(), 2), (silence, 1)] {
        let mut bench = Bench { core: Core::new("channel".to_string()), now: Instant::now() };
        let mut request = Bench::wanted("a");
        request.wait = Some(Duration::ZERO);
        let (_, acquired) = bench.acquire(request);
        for _ in 0..tries {
            assert!(acquired.wait(Some(Duration::ZERO)).is_none());
            bench.core.unreachable(&trouble, bench.now);
            assert!(bench.sent().is_empty());
        }
        assert!(matches!(acquired.wait(Some(Duration::ZERO)), Some(Err(Error::Redis(_)))));
    }
}

#[test]
fn it_renews_at_a_third_and_is_lost_at_the_end_of_what_it_believes() {
    let mut bench = Bench::new();
    let (id, acquired) = bench.held("a", 7);
    let lost = acquired.wait(None).unwrap().unwrap().lost;
    bench.pass(3 * SECOND - Duration::from_millis(1));
    assert!(bench.sent().is_empty());
    bench.pass(Duration::from_millis(1));
    assert_eq!(bench.sent(), [(id, "LOCK.EXTEND k a PX 9000 FENCE 7".to_string())]);
    let begun = bench.now;
    bench.now += SECOND;
    bench.core.answered(id, Ok(Value::Int(9000)), bench.now);
    assert_eq!(bench.core.tick(bench.now).0, Some(begun + 3 * SECOND), "counted from before it was sent");
    bench.pass(2 * SECOND);
    bench.sent();
    bench.core.answered(id, Err(cut()), bench.now);
    bench.pass(6 * SECOND - Duration::from_millis(1));
    bench.core.check(id, bench.now).unwrap();
    bench.pass(Duration::from_millis(1));
    bench.sent();
    assert!(matches!(lost.wait(Some(Duration::ZERO)), Some(Error::Lost(_))));
}

#[test]
fn what_no_renewal_makes_longer_is_not_renewed_on_but_a_shorter_default_is() {
    for lowered in [false, true] {
        let mut bench = Bench::new();
        let mut request = Bench::wanted("a");
        request.lease = None;
        let (id, _) = bench.acquire(request);
        bench.granted(id, 7, 9000);
        bench.sent();
        let mut renew = |after: u64, lease: i64| {
            bench.pass(Duration::from_millis(after));
            assert_eq!(bench.sent(), [(id, "LOCK.EXTEND k a FENCE 7".to_string())], "after {after} ms");
            bench.core.answered(id, Ok(Value::Int(lease)), bench.now);
        };
        renew(3000, 9000);
        if lowered {
            renew(3000, 4000);
            renew(1334, 4000);
        } else {
            renew(3000, 6000); // here, the maximum age is 12 s
            renew(2000, 4000);
        }
        bench.pass(2 * SECOND);
        assert_eq!(bench.sent().len(), usize::from(lowered));
        bench.pass(2 * SECOND);
        let told = bench.core.check(id, bench.now);
        assert!(matches!(&told, Err(Error::Lost(why)) if why.contains("maximum age") != lowered), "{told:?}");
    }
}

#[test]
fn a_loss_at_the_maximum_age_is_named_whoever_tells_of_it() {
    type Tell = fn(&mut Bench, Id);
    let tell: [Tell; 3] = [
        |bench, _| bench.core.heard(b"lost 7 a", bench.now),
        |bench, id| bench.core.answered(id, Err(not_held()), bench.now),
        |bench, _| _ = bench.core.tick(bench.now),
    ];
    for tell in tell {
        let mut bench = Bench::new();
        let (id, _) = bench.acquire(Bench::wanted("a"));
        bench.granted(id, 7, 6000); // less than the 9 s that were asked for
        bench.pass(2 * SECOND); // now a renewal is pending
        bench.now += 4 * SECOND;
        tell(&mut bench, id);
        let told = bench.core.check(id, bench.now);
        assert!(matches!(&told, Err(Error::Lost(why)) if why.contains("maximum age")), "{told:?}");
    }
}

#[test]
fn a_grant_whose_lease_is_over_when_its_answer_is_read_is_lost() {
    let mut bench = Bench::new();
    let (id, acquired) = bench.acquire(Bench::wanted("a"));
    bench.sent();
    bench.now += 9 * SECOND; // the process was suspended
    bench.granted(id, 7, 9000);
    bench.sent();
    let lost = acquired.wait(Some(Duration::ZERO)).unwrap().unwrap().lost;
    assert!(matches!(lost.wait(Some(Duration::ZERO)), Some(Error::Lost(_))));
}

#[test]
fn a_lease_that_is_over_is_seen_before_anything_is_asked() {
    let mut bench = Bench::new();
    let (id, _) = bench.held("a", 7);
    bench.now += 9 * SECOND; // the process was suspended
    bench.core.subscribed(bench.now);
    assert_eq!(bench.sent(), [(id + 1, "LOCK.RELEASE k a FENCE 7".to_string())]);
}

#[test]
fn an_extension_that_is_overtaken_ends_what_the_later_command_reads() {
    for (session, leaves) in [(false, false), (true, false), (true, true)] {
        let mut bench = Bench::new();
        let mut request = Bench::wanted("a");
        request.session = session;
        let [one, other] = [0, 1].map(|_| {
            let (id, _) = bench.acquire(request.clone());
            bench.granted(id, 7, 9000);
            id
        });
        bench.core.extend(one, Some(SECOND), bench.now);
        if leaves {
            bench.core.release(one, bench.now);
        }
        bench.now += Duration::from_millis(5);
        let ends = bench.now + SECOND; // the server handles the extension after the acquire below
        bench.core.heard(b"gone a", bench.now);
        bench.now += Duration::from_millis(5);
        bench.granted(other, 7, 9000); // this answer overtakes the extension's
        assert_eq!(bench.core.belief(other).unwrap().1, Some(ends));
        bench.core.answered(one, Ok(Value::Int(1000)), bench.now);
        bench.core.extend(other, None, bench.now);
        bench.core.answered(other, Ok(Value::Int(9000)), bench.now);
        assert_eq!(bench.core.belief(other).unwrap().1, Some(bench.now + 9 * SECOND));
    }
}

#[test]
fn a_release_waits_for_the_answer_that_is_on_its_way() {
    let mut bench = Bench::new();
    let (id, _) = bench.held("a", 7);
    bench.core.heard(b"gone a", bench.now);
    assert!(bench.sent()[0].1.starts_with("LOCK.ACQUIRE k OWNER a"));
    let released = bench.core.release(id, bench.now);
    assert!(bench.sent().is_empty());
    bench.granted(id, 7, 9000);
    assert_eq!(bench.sent(), [(id, "LOCK.RELEASE k a FENCE 7".to_string())]);
    bench.core.answered(id, Ok(Value::Int(0)), bench.now);
    bench.sent();
    assert!(matches!(released.wait(Some(Duration::ZERO)), Some(Ok(()))));
}

#[test]
fn what_a_wait_may_have_is_given_up_whatever_the_answer_was() {
    let mut bench = Bench::new();
    let mut request = Bench::wanted("a");
    request.named = false;
    let (id, _) = bench.acquire(request);
    bench.core.dropped(id, bench.now);
    bench.sent();
    bench.core.answered(id, Err(cut()), bench.now);
    assert_eq!(bench.sent(), [(id, "LOCK.LEAVE k a".to_string())]);
    bench.core.answered(id, Ok(Value::Int(0)), bench.now);
    assert_eq!(bench.sent(), [(id, "LOCK.RELEASE k a".to_string())]);
    bench.core.answered(id, Err(not_held()), bench.now);
    bench.core.unused = true;
    assert!(bench.core.is_over());
}

#[test]
fn what_waits_for_replicas_holds_up_nobody_else() {
    let mut bench = Bench::new();
    let mut request = Bench::wanted("a");
    request.sync = Some((1, 2 * SECOND));
    bench.acquire(request);
    let command = bench.core.out.commands.remove(0);
    assert!(matches!(command.lane, Lane::Sync(_)));
    assert!(command.patience > 2 * SECOND);
}
