//! One world with a seed and a time of its own: the rules of the server, behind the small server of these tests, and processes that run the
//! core of the Rust client, both as they ship. Between them is a network that delays, loses and cuts; clients freeze and die; operators
//! break and delete; a server restarts out of its file, or its replica takes over. `watch` says what must hold at each step, and which
//! beliefs a protocol without more messages can't keep right.
//!
//! `REDISLOCK_WORLD_SECONDS=60 REDISLOCK_SEED=1 cargo test -p redislock-rules sim:: -- --nocapture` tries seeds for a minute. A seed that
//! fails is made small, and its events are told. Without a time, the first seeds are tried: later ones still find faults that nobody has mended.

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

/// A step: what happens, how much time passes then, and the seed of what else is chosen.
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

/// How many seeds are tried without `REDISLOCK_WORLD_SECONDS`.
const SEEDS: u64 = 1_300;

#[test]
fn what_is_believed_is_granted() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first: u64 = number("REDISLOCK_SEED").unwrap_or(1);
    let (begun, budget) = (Instant::now(), number("REDISLOCK_WORLD_SECONDS").map(Duration::from_secs));
    let (mut seeds, steps) = (0, Cell::new(0));
    while budget.map_or(seeds < SEEDS, |budget| begun.elapsed() < budget) {
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
            prop_assert!(fault.is_none());
            Ok(())
        });
        if let Err(TestError::Fail(_, plan)) = result {
            let (fault, story, _) = run(seed, &plan, true);
            let after = begun.elapsed();
            panic!("seed {seed}, after {after:?}: {fault:?}\n{}", story.join("\n"));
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "figure: world: {:.0} seeds/s, {:.0} steps/s",
        seeds as f64 / seconds,
        steps.get() as f64 / seconds
    );
}
