//! A module for tests only: it deletes a lock from within the lock's own event, as other modules may.
//!
//! `MEDDLE event` has it delete the key of the next such event (`lock.acquired`, ...), once. `MEDDLED` answers how often it has.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use redis_module::{Context, NextArg as _, NotifyEvent, RedisResult, RedisString, RedisValue, redis_module};

/// The event to wait for.
static WANTED: Mutex<Option<String>> = Mutex::new(None);
static DONE: AtomicI64 = AtomicI64::new(0);

fn meddle(_ctx: &Context, args: Vec<RedisString>) -> RedisResult {
    let event = args.into_iter().skip(1).next_string()?;
    *WANTED.lock().unwrap() = Some(event);
    Ok("OK".into())
}

fn meddled(_ctx: &Context, _args: Vec<RedisString>) -> RedisResult {
    Ok(RedisValue::Integer(DONE.load(Ordering::Relaxed)))
}

fn on_event(ctx: &Context, _class: NotifyEvent, event: &str, key: &[u8]) {
    // Deleting a key may make events, too: what is wanted is forgotten first.
    let wanted = WANTED.lock().unwrap().take_if(|wanted| wanted == event);
    if wanted.is_some() {
        ctx.call("DEL", &[key]).unwrap();
        DONE.fetch_add(1, Ordering::Relaxed);
    }
}

redis_module! {
    name: "meddler",
    version: 1,
    allocator: (redis_module::alloc::RedisAlloc, redis_module::alloc::RedisAlloc),
    data_types: [],
    commands: [
        ["meddle", meddle, "", 0, 0, 0, ""],
        ["meddled", meddled, "readonly", 0, 0, 0, ""],
    ],
    event_handlers: [
        [@MODULE: on_event],
    ],
}
