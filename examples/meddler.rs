//! A module for tests only: it runs commands from within events, as other modules may.
//!
//! - `MEDDLE event [word ...]` has it run that command at the next such event, once: `DEL @` where none is named; `@` stands for the
//!   key of the event. Events are those of keys (`expired`, `new`, `lock.acquired`, ...) and, where the server has them, those of
//!   values that go (`gone:deleted`, `gone:expired`, `gone:evicted`, `gone:overwritten`).
//! - `MEDDLE.MIX seed chance line ...` has it run one of those lines at every event, with that chance in a hundred; but what servers
//!   don't survive themselves.
//! - `MEDDLED` answers how often it has run something, and `MEDDLE.REPLY` what the last reply was.
//! - `MEDDLE.CALL word ...` runs a command for no user, and lets it block where the server allows that to a module.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs)]
// What the crate does not wrap: calls that may block, and events of values that go.
#![allow(unsafe_code, clippy::multiple_unsafe_ops_per_block)]

use std::ffi::{CString, c_int, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use redis_module::{
    CallOptionsBuilder, CallReply, CallResult, Context, NotifyEvent, RedisError, RedisResult, RedisString,
    RedisValue, Status, raw, redis_module,
};

/// What is to be done at the next event of that name.
static WANTED: Mutex<Vec<(String, Vec<Vec<u8>>)>> = Mutex::new(Vec::new());
static MIX: Mutex<Option<Mix>> = Mutex::new(None);
/// The keys that have expired, and of which it is told now: one within another.
static EXPIRING: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());
static DONE: AtomicI64 = AtomicI64::new(0);
static REPLY: Mutex<String> = Mutex::new(String::new());

struct Mix {
    seed: u64,
    chance: u64,
    lines: Vec<Vec<Vec<u8>>>,
}

impl Mix {
    /// xorshift64*
    fn below(&mut self, end: u64) -> u64 {
        self.seed ^= self.seed >> 12;
        self.seed ^= self.seed << 25;
        self.seed ^= self.seed >> 27;
        (self.seed.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
    }

    fn line(&mut self, event: &str, key: &[u8]) -> Option<Vec<Vec<u8>>> {
        let wanted = self.below(100) < self.chance;
        let number = self.below(self.lines.len() as u64) as usize;
        let expiring = EXPIRING.lock().unwrap();
        let survived = |line: &&Vec<Vec<u8>>| {
            survives(line, event, key) && expiring.iter().all(|key| leaves_absent(line, key))
        };
        Some(&self.lines[number]).filter(|line| wanted && survived(line)).cloned()
    }
}

/// Whether a server lives on after that line in that event, with or without locks. Many commands go on with their key after they have
/// told of it (`setKey`, `setGenericCommand`); where a value goes (`dbGenericDelete`), the place of its key is known already, and even a
/// look at another key may move it.
fn survives(line: &[Vec<u8>], event: &str, key: &[u8]) -> bool {
    if event == "expired" || event == "del" || event.starts_with("lock.") {
        return true;
    }
    !(event.starts_with("gone:") || names(line, key) || begins(line, &["FLUSH", "SWAPDB"]))
}

/// Whether a key that has expired is absent after that line, too. Whoever writes one has found it absent (`dbAdd`):
/// `MEDDLE expired SET k text`, then `SET k v` where `k` has expired, ends each Redis up to 8.6 and Valkey 8.0.
fn leaves_absent(line: &[Vec<u8>], key: &[u8]) -> bool {
    !(begins(line, &["SWAPDB"]) || names(line, key) && begins(line, &["SET", "RENAME", "LOCK."]))
}

fn names(line: &[Vec<u8>], key: &[u8]) -> bool {
    line.iter().any(|word| word == key)
}

fn begins(line: &[Vec<u8>], words: &[&str]) -> bool {
    words.iter().any(|word| line[0].starts_with(word.as_bytes()))
}

fn meddle(_ctx: &Context, args: Vec<RedisString>) -> RedisResult {
    let mut words: Vec<Vec<u8>> = args.iter().skip(1).map(|word| word.as_slice().to_vec()).collect();
    if words.is_empty() {
        return Err(RedisError::WrongArity);
    }
    let event = String::from_utf8(words.remove(0)).unwrap();
    if words.is_empty() {
        words = vec![b"DEL".to_vec(), b"@".to_vec()];
    }
    WANTED.lock().unwrap().push((event, words));
    Ok("OK".into())
}

fn mix(_ctx: &Context, args: Vec<RedisString>) -> RedisResult {
    let (seed, chance) = (args[1].parse_unsigned_integer()?, args[2].parse_unsigned_integer()?);
    let words =
        |line: &RedisString| line.as_slice().split(|&byte| byte == b' ').map(<[u8]>::to_vec).collect();
    let lines: Vec<_> = args.iter().skip(3).map(words).collect();
    *MIX.lock().unwrap() = (!lines.is_empty()).then_some(Mix { seed: seed | 1, chance, lines });
    Ok("OK".into())
}

fn meddled(_ctx: &Context, _args: Vec<RedisString>) -> RedisResult {
    Ok(RedisValue::Integer(DONE.load(Ordering::Relaxed)))
}

fn reply(_ctx: &Context, _args: Vec<RedisString>) -> RedisResult {
    Ok(REPLY.lock().unwrap().clone().into())
}

fn call(ctx: &Context, args: Vec<RedisString>) -> RedisResult {
    let command = CString::new(args[1].as_slice()).unwrap();
    let words: Vec<_> = args[2..].iter().map(|word| word.inner).collect();
    // The first that knows "K".
    let may_block = ctx.get_redis_version().is_ok_and(|version| (version.major, version.minor) >= (7, 2));
    let format = if may_block { c"EKv" } else { c"Ev" };
    // SAFETY: the context is that of a running command; the format names one array, and that and its length follow.
    let called = unsafe {
        raw::RedisModule_Call.unwrap()(
            ctx.ctx,
            command.as_ptr(),
            format.as_ptr(),
            words.as_ptr(),
            words.len(),
        )
    };
    // SAFETY: the server takes null, too.
    let kind = unsafe { raw::RedisModule_CallReplyType.unwrap()(called) };
    let shown = match kind {
        NONE => "none".into(),
        PROMISE => "promise".into(),
        _ => {
            let mut len = 0;
            // SAFETY: the reply is a valid one; `len` is ours to write to.
            let text = unsafe { raw::RedisModule_CallReplyProto.unwrap()(called, &raw mut len) };
            // SAFETY: the server's buffer of that length, which lives as long as the reply.
            let bytes = unsafe { std::slice::from_raw_parts(text.cast(), len) };
            String::from_utf8_lossy(bytes).trim().to_string()
        }
    };
    if !called.is_null() {
        // SAFETY: the reply is ours, and not used any more.
        unsafe { raw::RedisModule_FreeCallReply.unwrap()(called) };
    }
    Ok(shown.into())
}

/// The kinds of no reply, and of one that comes later.
const NONE: c_int = raw::REDISMODULE_REPLY_UNKNOWN as c_int;
const PROMISE: c_int = raw::REDISMODULE_REPLY_PROMISE as c_int;

fn on_event(ctx: &Context, _class: NotifyEvent, event: &str, key: &[u8]) {
    // The second is told within the first.
    let expires = event == "expired" || event == "lock.lapsed";
    if expires {
        EXPIRING.lock().unwrap().push(key.to_vec());
    }
    run(ctx, event, key);
    if expires {
        EXPIRING.lock().unwrap().pop();
    }
}

fn run(ctx: &Context, event: &str, key: &[u8]) {
    // What it runs may make events, too: what is wanted is forgotten first.
    let wanted = {
        let mut wanted = WANTED.lock().unwrap();
        wanted.iter().position(|(name, _)| name == event).map(|place| wanted.remove(place).1)
    };
    let mixed = || MIX.try_lock().ok().and_then(|mut mix| mix.as_mut()?.line(event, key));
    let Some(line) = wanted.or_else(mixed) else { return };
    let words: Vec<&[u8]> = line.iter().map(|word| if word == b"@" { key } else { word }).collect();
    let options = CallOptionsBuilder::new().replicate().errors_as_replies().build();
    let command = String::from_utf8(words[0].to_vec()).unwrap();
    let reply: CallResult<'_> = ctx.call_ext(&command, &options, &words[1..]);
    *REPLY.lock().unwrap() = match reply {
        Ok(CallReply::String(text)) => text.to_string().unwrap_or_default(),
        Ok(CallReply::I64(number)) => number.to_i64().to_string(),
        Ok(CallReply::Null(_)) => "null".into(),
        Ok(_) => "other".into(),
        Err(error) => error.to_utf8_string().unwrap_or_default(),
    };
    DONE.fetch_add(1, Ordering::Relaxed);
}

/// What the server tells of a value that goes.
#[repr(C)]
struct KeyInfo {
    version: u64,
    key: *mut raw::RedisModuleKey,
}

/// # Safety
/// Called by the server, with the data of this event.
unsafe extern "C" fn on_gone(
    ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    kind: u64,
    data: *mut c_void,
) {
    // SAFETY: the caller's promise.
    let info = unsafe { &*data.cast::<KeyInfo>() };
    // SAFETY: the server has opened the key for this event.
    let name = unsafe { raw::RedisModule_GetKeyNameFromModuleKey.unwrap()(info.key) };
    let mut len = 0;
    // SAFETY: a string of the server's; `len` is ours to write to.
    let start = unsafe { raw::RedisModule_StringPtrLen.unwrap()(name, &raw mut len) };
    // SAFETY: the server's buffer of that length, which lives until this event is over.
    let name = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), len) };
    let event = ["gone:deleted", "gone:expired", "gone:evicted", "gone:overwritten"][kind as usize];
    on_event(&Context::new(ctx), NotifyEvent::GENERIC, event, name);
}

fn init(ctx: &Context, _args: &[RedisString]) -> Status {
    // Redis 7.0 has no such event.
    const KEY_EVENT: u64 = 17;
    let event = raw::RedisModuleEvent { id: KEY_EVENT, dataver: 1 };
    // SAFETY: the context is that of loading; the callback takes the data of this event, in this version.
    unsafe { raw::RedisModule_SubscribeToServerEvent.unwrap()(ctx.ctx, event, Some(on_gone)) };
    Status::Ok
}

redis_module! {
    name: "meddler",
    version: 1,
    allocator: (redis_module::alloc::RedisAlloc, redis_module::alloc::RedisAlloc),
    data_types: [],
    init: init,
    commands: [
        ["meddle", meddle, "", 0, 0, 0, ""],
        ["meddle.mix", mix, "", 0, 0, 0, ""],
        ["meddle.call", call, "", 0, 0, 0, ""],
        ["meddle.reply", reply, "readonly", 0, 0, 0, ""],
        ["meddled", meddled, "readonly", 0, 0, 0, ""],
    ],
    event_handlers: [
        [@ALL @NEW @MODULE @MISSED: on_event],
    ],
}
