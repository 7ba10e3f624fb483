//! One world with a seed and a time of its own: the server's rules behind the small server of these tests, and processes that run the core
//! of the Rust client; both as they ship. The network between them delays and loses messages and cuts connections; clients freeze, die and
//! fork; operators break and delete locks; a server restarts from its file, or its replica takes over. `watch` says what must hold at each
//! step, and which wrong beliefs no client can avoid without more messages.
//!
//! `REDISLOCK_WORLD_SECONDS=60 REDISLOCK_SEED=1 cargo test -p redislock-rules sim:: -- --nocapture` tries seeds for a minute. A failing
//! seed is shrunk, and its events are printed. `REDISLOCK_WORLD_SEEDS` is the most seeds that are tried.

#[expect(
    dead_code,
    unexpected_cfgs,
    unreachable_pub,
    reason = "another package's folder; the world does not use all of it"
)]
#[path = "../../../../../clients/rust/src/core/mod.rs"]
mod core;
mod process;
mod trace;
mod traces;
mod watch;
mod wire;
mod world;

use std::cell::Cell;
use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

use watch::Fault;
use world::World;

/// A step: what happens, how much time passes afterwards, and the seed of all other choices.
type Step = (u8, u8, u32);

/// Runs a world. Returns its fault, its story, and the number of its events.
fn run(seed: u64, steps: &[Step], story: bool) -> (Option<Fault>, Vec<String>, u64) {
    let mut world = World::new(seed, story);
    for step in steps {
        world.step(*step);
        if world.fault.is_some() {
            break;
        }
    }
    if world.fault.is_none() {
        world.end_all();
    }
    (world.fault, world.story.unwrap_or_default(), world.steps)
}

#[test]
fn what_is_believed_is_granted() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first: u64 = number("REDISLOCK_SEED").unwrap_or(1);
    let (begun, budget) = (Instant::now(), number("REDISLOCK_WORLD_SECONDS").map(Duration::from_secs));
    let most = number("REDISLOCK_WORLD_SEEDS").unwrap_or(if budget.is_some() { u64::MAX } else { 1_300 });
    let (mut seeds, steps, found) = (0, Cell::new(0), Cell::new(None));
    while seeds < most && budget.is_none_or(|budget| begun.elapsed() < budget) {
        let seed = first + seeds;
        seeds += 1;
        let bytes: Vec<u8> = (0..4).flat_map(|part: u64| (seed << 2 | part).to_le_bytes()).collect();
        let config = Config {
            cases: 1,
            failure_persistence: None,
            max_shrink_iters: 100_000,
            max_shrink_time: 20_000,
            ..Config::default()
        };
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut runner = TestRunner::new_with_rng(config, rng);
        let result = runner.run(&vec(any::<Step>(), 20..300), |plan| {
            let (fault, _, events) = run(seed, &plan, false);
            steps.set(steps.get() + events);
            if fault.is_some() {
                found.set(found.get().or(Some(begun.elapsed())));
            }
            prop_assert!(fault.is_none());
            Ok(())
        });
        if let Err(TestError::Fail(_, plan)) = result {
            let (fault, story, _) = run(seed, &plan, true);
            panic!("seed {seed}, after {:?}: {fault:?}\n{}", found.get(), story.join("\n"));
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "figure: world: {:.0} seeds/s, {:.0} steps/s",
        seeds as f64 / seconds,
        steps.get() as f64 / seconds
    );
}

/// The kinds of disturbance in a small world, as in `Step`. 0 lets a task act.
const KINDS: [u8; 10] = [0, 90, 130, 150, 158, 166, 178, 182, 185, 187];
const LUCK: u32 = 4;

/// How many small worlds there are.
const SMALL: u64 = 3;

/// How many events happen in a small world before its locks are released.
const MOMENTS: u32 = 50;

/// Runs a small world, in which two tasks ask for one lock. Each disturbance comes after the given number of events.
fn run_small(seed: u64, what: &[(u32, u8, u32)], story: bool) -> (Option<Fault>, Vec<String>) {
    let mut world = World::new(seed, story);
    world.small();
    for moment in 0..MOMENTS {
        if moment == 4 || moment == 8 {
            world.step((0, 0, seed as u32 ^ moment));
        }
        for (_, kind, luck) in what.iter().filter(|(at, ..)| *at == moment) {
            world.step((*kind, 0, *luck));
        }
        if world.fault.is_some() || !world.next(i64::MAX) {
            break;
        }
    }
    if world.fault.is_none() {
        world.end_all();
    }
    (world.fault, world.story.unwrap_or_default())
}

/// Tries every disturbance at every moment of some small worlds. With `REDISLOCK_WORLD_SECONDS`, pairs of them follow, until the time is up.
#[test]
fn small_worlds_whole() {
    let all = (0..MOMENTS).flat_map(|at| KINDS.map(|kind| (at, kind)));
    let all: Vec<_> = all.flat_map(|(at, kind)| (0..LUCK).map(move |luck| (at, kind, luck))).collect();
    let (begun, mut runs) = (Instant::now(), 0);
    let mut run = |seed, what: &[_]| {
        runs += 1;
        if run_small(seed, what, false).0.is_some() {
            let (fault, story) = run_small(seed, what, true);
            panic!("seed {seed}, {what:?}: {fault:?}\n{}", story.join("\n"));
        }
    };
    let ones = |seed| all.iter().map(move |one| (seed, one));
    let pairs = (0..).flat_map(ones).flat_map(|(seed, one)| {
        all.iter().filter(|other| one.0 <= other.0).map(move |other| (seed, vec![*one, *other]))
    });
    let ones = (0..SMALL).flat_map(ones).map(|(seed, one)| (seed, vec![*one]));
    match std::env::var("REDISLOCK_WORLD_SECONDS") {
        Ok(seconds) => {
            let budget = Duration::from_secs(seconds.parse().unwrap());
            let all = ones.chain(pairs).take_while(|_| begun.elapsed() < budget);
            all.for_each(|(seed, what)| run(seed, &what));
        }
        Err(_) => ones.for_each(|(seed, what)| run(seed, &what)),
    }
    println!("figure: small worlds: {runs}, {:.0}/s", f64::from(runs) / begun.elapsed().as_secs_f64());
}
