//! `kill -9` while many clients acquire, wait for, extend and release several locks. With `appendfsync always`, everything acknowledged
//! must be there afterwards. A command's changes must be complete or missing, also in an RDB file.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{scope, sleep};

use super::{counted, grants};
use crate::support::{Client, Rng, Server, Setup, convert, figure, size, wait_for};

const KEYS: usize = 8;
/// The number of locks that the keeper acquires together before each kill, and keeps.
const KEPT: usize = 3;
const CLIENTS: usize = 6;

/// An owner, which asks once.
struct Story {
    owner: String,
    keys: Vec<usize>,
    /// The fence that the owner was told.
    fence: Option<i64>,
    end: End,
}

#[derive(Clone, Copy, PartialEq)]
enum End {
    Lasts,
    /// The owner's release has been sent, but not answered.
    MayBeOver,
    Over,
}

fn name(key: usize) -> String {
    format!("k{key}")
}

/// Works until the server is gone.
fn work(client: &mut Client, rng: &mut Rng, prefix: &str, granted: &AtomicUsize) -> Vec<Story> {
    let mut stories = Vec::new();
    while step(client, rng, prefix, &mut stories).is_some() {
        granted.fetch_add(1, Ordering::Relaxed);
    }
    stories
}

/// Plays one owner's story. Returns `None` if the server is gone.
fn step(client: &mut Client, rng: &mut Rng, prefix: &str, stories: &mut Vec<Story>) -> Option<()> {
    let mut left: Vec<usize> = (0..KEYS).collect();
    let keys: Vec<usize> = (0..1 + rng.below(3)).map(|_| left.swap_remove(rng.below(left.len()))).collect();
    let names = counted(&keys.iter().map(|key| name(*key)).collect::<Vec<_>>().join(" "));
    let owner = format!("{prefix}-{}", stories.len());
    stories.push(Story { owner: owner.clone(), keys: keys.clone(), fence: None, end: End::Lasts });
    let story = stories.last_mut()?;
    let reply = client.try_send(&format!("LOCK.MACQUIRE {names} OWNER {owner} PX 600000 BLOCK 0")).ok()?;
    let all = grants(reply.unwrap()).unwrap();
    assert_eq!(all.fences, vec![all.fences[0]; keys.len()]);
    story.fence = Some(all.fences[0]);
    if rng.percent(20) {
        client.try_send(&format!("LOCK.MEXTEND {names} {owner} PX 700000")).ok()?.unwrap();
    }
    sleep(rng.up_to(3));
    story.end = End::MayBeOver;
    let reply = client.try_send(&format!("LOCK.MRELEASE {names} {owner}")).ok()?;
    assert_eq!(convert::<Vec<i64>>(reply.unwrap()), vec![0; keys.len()]);
    story.end = End::Over;
    Some(())
}

/// An owner that acquires its locks and keeps them.
fn keeper(client: &mut Client, round: usize) -> Story {
    let keys: Vec<usize> = (KEYS..KEYS + KEPT).collect();
    let names = counted(&keys.iter().map(|key| name(*key)).collect::<Vec<_>>().join(" "));
    let owner = format!("keeper-{round}");
    let all = grants(client.ask(&format!("LOCK.MACQUIRE {names} OWNER {owner} PX 600000"))).unwrap();
    Story { owner, keys, fence: Some(all.fences[0]), end: End::Lasts }
}

/// Kills the server after some grants, shortly after `before`, and restarts it. Returns all owners' stories, the keeper's first.
fn killed(server: &mut Server, rng: &mut Rng, round: usize, before: impl Fn(&mut Client)) -> Vec<Story> {
    let (granted, target) = (AtomicUsize::new(0), 100 + rng.below(400));
    let stories = scope(|scope| {
        let workers = (0..CLIENTS).map(|number| {
            let (mut client, mut rng, granted) = (server.client(), rng.fork(), &granted);
            scope.spawn(move || work(&mut client, &mut rng, &format!("{round}-{number}"), granted))
        });
        let workers: Vec<_> = workers.collect();
        let so_far = || granted.load(Ordering::Relaxed);
        wait_for("grants", || so_far() > target);
        let mut client = server.client();
        let keeper = keeper(&mut client, round);
        before(&mut client);
        let then = so_far();
        wait_for("some more grants", || so_far() > then + 20);
        server.kill();
        let known = workers.into_iter().flat_map(|worker| worker.join().unwrap());
        [keeper].into_iter().chain(known).collect()
    });
    server.relaunch();
    stories
}

/// Returns the owner and the fence of each lock.
fn held(client: &mut Client) -> Vec<Option<(String, i64)>> {
    (0..KEYS + KEPT).map(|key| client.holder(&name(key)).map(|grant| (grant.owner, grant.fence))).collect()
}

/// Returns the stories of owners that hold locks, and checks that each holds all of its locks, with one fence.
#[track_caller]
fn all_or_nothing<'a>(held: &[Option<(String, i64)>], stories: &'a [Story]) -> Vec<&'a Story> {
    let of: HashMap<&str, &Story> = stories.iter().map(|story| (&story.owner[..], story)).collect();
    let mut holding = Vec::new();
    for (owner, fence) in held.iter().flatten() {
        let story = of[&owner[..]];
        assert!(story.fence.is_none_or(|told| told == *fence), "{owner}");
        for key in &story.keys {
            assert_eq!(
                held[*key].as_ref(),
                Some(&(owner.clone(), *fence)),
                "{owner} has {held:?} of {:?}",
                story.keys
            );
        }
        holding.push(story);
    }
    holding
}

/// Frees all locks for the next round, and checks that new fences are greater than all earlier ones.
fn free_all(client: &mut Client, stories: &[Story]) {
    (0..KEYS + KEPT).for_each(|key| client.ask(&format!("LOCK.BREAK {}", name(key))));
    let next = client.acquire("next", "").unwrap().fence;
    assert!(stories.iter().filter_map(|story| story.fence).all(|fence| fence < next));
    client.ask::<()>("LOCK.BREAK next");
}

#[test]
fn what_was_acknowledged_is_in_the_append_only_file() {
    let mut server = Setup::new()
        .set("appendonly", "yes")
        .set("appendfsync", "always")
        .set("auto-aof-rewrite-percentage", "50")
        .set("auto-aof-rewrite-min-size", "32kb")
        .start();
    let mut rng = Rng::new();
    let (mut granted, mut lasting, mut on_the_way) = (0, 0, 0);
    for round in 0..size(4, 60) {
        let stories = killed(&mut server, &mut rng, round, |_| {});
        let mut client = server.client();
        let held = held(&mut client);
        let holding = all_or_nothing(&held, &stories);
        assert!(
            holding.iter().all(|story| story.end != End::Over),
            "{held:?}: one of them had given them back"
        );
        for story in stories.iter().filter(|story| story.fence.is_some()) {
            granted += 1;
            if story.end == End::Lasts {
                lasting += 1;
                assert!(
                    holding.iter().any(|other| other.owner == story.owner),
                    "{} has lost {:?}",
                    story.owner,
                    story.keys
                );
            }
        }
        on_the_way +=
            stories.iter().filter(|story| story.fence.is_none() || story.end == End::MayBeOver).count();
        free_all(&mut client, &stories);
    }
    figure(
        "several locks, killed under load, appendfsync always",
        format_args!(
            "{granted} commands granted, {lasting} of them held and {on_the_way} commands on the way at the kills"
        ),
    );
    assert!(granted > 400 && on_the_way > 0, "nothing to judge");
}

#[test]
fn an_rdb_file_that_was_saved_under_load_has_all_or_nothing() {
    let mut server = Server::start();
    let (mut rng, mut found) = (Rng::new(), 0);
    for round in 0..size(4, 60) {
        let stories = killed(&mut server, &mut rng, round, |client| {
            if round % 2 == 0 {
                client.ask::<()>("SAVE");
            } else {
                client.ask::<()>("BGSAVE");
                wait_for("the file", || client.info("persistence", "rdb_bgsave_in_progress") == "0");
            }
        });
        let mut client = server.client();
        let held = held(&mut client);
        let holding = all_or_nothing(&held, &stories);
        assert!(holding.iter().any(|story| story.owner == stories[0].owner), "{held:?} without the keeper");
        found += holding.len();
        free_all(&mut client, &stories);
    }
    figure("several locks, an RDB file saved under load", format_args!("{found} locks held in the files"));
}
