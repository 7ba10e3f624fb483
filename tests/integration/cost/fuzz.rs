//! Looks for what costs most: random programs, and those that were the worst of their kind once more, altered. See `maker`.

use std::collections::BTreeMap;
use std::env;
use std::thread::panicking;
use std::time::{Duration, Instant};

use super::maker::Maker;
use super::program::{Program, Step};
use super::replay::seeds;
use super::run::{Cost, Stage};
use crate::support::{Rng, figure, size};

/// A `PING` may take so much longer than it does by itself, in ms: what is beyond that is tried again.
const SLOW: f64 = 10.0;
/// How long a server is watched before a program, where the `PING`s are of interest.
const QUIET: Duration = Duration::from_millis(100);

/// No more kinds of steps than that are told apart.
const MOST_KINDS: usize = 1_000;

/// A program, and what it cost.
struct Tried {
    program: Program,
    cost: Cost,
}

/// The worst program of each kind: by the step in which the worst came.
#[derive(Default)]
struct Worst(BTreeMap<String, Tried>);

impl Worst {
    fn keep(&mut self, program: &Program, cost: &Cost, by: &str, is_worse: impl Fn(&Cost, &Cost) -> bool) {
        let known = self.0.get(by).is_some_and(|known| !is_worse(cost, &known.cost));
        if !known {
            self.0.insert(by.into(), Tried { program: program.clone(), cost: cost.clone() });
        }
    }

    fn any(&self, random: &mut Rng) -> Option<&Program> {
        let number = random.below(MOST_KINDS);
        self.0.values().nth(number % self.0.len().max(1)).map(|tried| &tried.program)
    }

    fn most(&self, of: impl Fn(&Cost) -> f64) -> Option<&Tried> {
        self.0.values().max_by(|one, other| of(&one.cost).total_cmp(&of(&other.cost)))
    }
}

/// The word that tells what a step does.
fn kind(step: &str) -> String {
    let mut words = step.split(' ').filter(|word| word.parse::<usize>().is_err());
    match words.next() {
        // A connection: the command follows.
        Some(word) if !matches!(word, "close" | "pass" | "until") => words.next().unwrap_or(word).into(),
        word => word.unwrap_or_default().into(),
    }
}

fn try_out(program: &Program, quiet: Duration) -> Cost {
    let _shown = Shown(program);
    let mut stage = Stage::new();
    stage.look_at_quiet(quiet);
    stage.run(program);
    stage.cost
}

/// A program that is printed where it makes the test fail.
struct Shown<'a>(&'a Program);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if panicking() {
            println!("--- the program\n{}", self.0);
        }
    }
}

/// By how much the longest `PING` was longer than without the program, in ms, each time that it was tried: one that was slow once
/// may be the machine's.
fn slow_each_time(program: &Program, cost: &mut Cost) {
    for _ in 0..2 {
        if cost.more() <= SLOW {
            return;
        }
        let again = try_out(program, QUIET);
        if again.more() < cost.more() {
            *cost = Cost { work: cost.work.max(again.work), by: cost.by.clone(), ..again };
        }
    }
}

/// A program that is to be altered: what it waits for may not come about any more.
fn seed(text: &str) -> Program {
    let steps = Program::parse(text).0.into_iter();
    Program(steps.filter(|step| !matches!(step, Step::Until { .. })).collect())
}

/// Tries programs until the time is over, or so many: the worst by work, and by `PING`, of each kind. In its short form the seeds are
/// altered, and not what was the worst: so the programs are the same in each run.
fn search(mut random: Rng, most: usize, time: Duration) -> (Worst, Worst, usize) {
    let (mut works, mut pings) = (Worst::default(), Worst::default());
    let seeds = seeds().into_iter().map(|(_, text)| seed(&text));
    let seeds: Vec<Program> = seeds.filter(|seed| seed.words() <= size(60_000, usize::MAX)).collect();
    let (began, mut tried) = (Instant::now(), 0);
    while tried < most && began.elapsed() < time {
        let climbs = size(false, tried >= seeds.len());
        let worst = if random.percent(50) { &works } else { &pings };
        let known =
            worst.any(&mut random).filter(|_| climbs).unwrap_or_else(|| random.one_of(&seeds)).clone();
        let other =
            works.any(&mut random).filter(|_| climbs).unwrap_or_else(|| random.one_of(&seeds)).clone();
        let mut maker = Maker::new(&mut random, size(10_000, 100_000));
        let program = match seeds.get(tried).filter(|_| size(false, true)) {
            Some(seed) => seed.clone(),
            None if tried % 3 == 0 => maker.program(),
            None => maker.alter(&known, &other),
        };
        let mut cost = try_out(&program, size(Duration::ZERO, QUIET));
        tried += 1;
        if size(false, true) {
            slow_each_time(&program, &mut cost);
        }
        works.keep(&program, &cost, &kind(&cost.by), |new, known| new.work > known.work);
        pings.keep(&program, &cost, &kind(&cost.ping_by), |new, known| new.more() > known.more());
    }
    (works, pings, tried)
}

#[track_caller]
fn judge(worst: &Worst) {
    let beyond = worst.0.values().filter(|tried| tried.cost.work > tried.cost.bound);
    let beyond: String = beyond.map(|Tried { program, cost }| format!("{cost:?}\n{program}\n")).collect();
    assert!(beyond.is_empty(), "more work than there may be:\n{beyond}");
}

#[test]
fn no_random_program_costs_more_than_the_bound() {
    let (works, _, tried) = search(Rng::of(1), 60, Duration::from_secs(15));
    let most = works.most(|cost| cost.work as f64).unwrap();
    figure("random programs, the most work of one", format!("{} ({tried} programs)", most.cost.work));
    judge(&works);
}

/// For `REDISLOCK_SOAK_SECONDS`, an hour by default.
#[test]
fn soak_programs_that_cost_as_much_as_can_be() {
    if size(true, false) {
        return;
    }
    let seconds = env::var("REDISLOCK_SOAK_SECONDS").map_or(3_600, |seconds| seconds.parse().unwrap());
    let (works, pings, tried) = search(Rng::new(), usize::MAX, Duration::from_secs(seconds));
    for (kind, Tried { program, cost }) in &works.0 {
        println!("--- by work, {kind}: {} of {}, in: {}\n{program}", cost.work, cost.bound, cost.by);
    }
    for (kind, Tried { program, cost }) in &pings.0 {
        println!(
            "--- by PING, {kind}: {:.1} ms ({:.1} without), in: {}\n{program}",
            cost.ping, cost.quiet, cost.ping_by
        );
    }
    figure("programs tried", tried);
    let work = works.most(|cost| cost.work as f64).unwrap();
    figure(
        "the most work of one",
        format!("{} of {}, in: {}", work.cost.work, work.cost.bound, work.cost.by),
    );
    let ping = pings.most(Cost::more).unwrap();
    let Cost { ping, quiet, ping_by, .. } = &ping.cost;
    figure("the longest PING", format!("{ping:.1} ms ({quiet:.1} without), in: {ping_by}"));
    judge(&works);
}
