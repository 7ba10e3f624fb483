//! Native data types, whose values the server keeps, saves, loads and frees through the module.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use redis_module::raw;

use super::callback::{guard, log};
use super::{AofRewrite, Arg, Ctx, LogLevel, RdbReader, RdbWriter, key};

/// A type of values that keys can have.
///
/// Values are `Send`, because the server may drop them on a background thread (`UNLINK`, `FLUSHALL ASYNC`).
pub(crate) trait NativeType: Sized + Send + 'static {
    /// The type's name, as `TYPE` shows it: nine characters.
    const NAME: &'static CStr;
    /// The version of the encoding that `save` writes, from 0 to 1023.
    const ENCODING: i32;

    /// Returns the handle, in which the registered type is stored.
    fn handle() -> &'static TypeHandle;

    fn save(&self, rdb: &mut RdbWriter);

    /// Reads a value that `save` wrote in this encoding. After an error, the server refuses the file or payload, and the log has the
    /// error's text.
    fn load(rdb: &mut RdbReader, encoding: i32) -> Result<Self, String>;

    /// Writes commands that make the value anew, without its TTL, which the server adds.
    fn rewrite(&self, key: Arg<'_>, aof: &mut AofRewrite);

    fn digest(&self, digest: &mut Digest);

    /// Saves data that belongs to no key. If this function writes nothing, a file without keys of this type can be loaded without the
    /// module. Servers before 7.2 don't call this function.
    fn save_aux(rdb: &mut RdbWriter);

    /// Reads what `save_aux` wrote. An error is handled as in `load`.
    fn load_aux(rdb: &mut RdbReader, encoding: i32) -> Result<(), String>;

    /// Lets the server move the memory that the value owns, against fragmentation.
    fn defrag(&mut self, defrag: &mut Defrag);

    /// Returns the number of bytes that the value owns on the heap.
    fn heap_size(&self) -> usize;

    /// Returns about how many allocations are freed with the value, at least 1. Above 64, `UNLINK` frees the value in the background.
    fn free_effort(&self) -> usize;
}

/// A registered type, and counts of its values.
pub(crate) struct TypeHandle {
    registered: AtomicPtr<raw::RedisModuleType>,
    made: AtomicU64,
    freed: AtomicU64,
}

impl TypeHandle {
    pub(crate) const fn new() -> Self {
        Self {
            registered: AtomicPtr::new(std::ptr::null_mut()),
            made: AtomicU64::new(0),
            freed: AtomicU64::new(0),
        }
    }

    pub(super) fn raw(&self) -> *mut raw::RedisModuleType {
        self.registered.load(Ordering::Relaxed)
    }

    /// Returns the number of values that the server keeps.
    pub(crate) fn values(&self) -> u64 {
        // `freed` is read before `made`, because a background thread may free values between the two reads, and `made` must count each
        // value that `freed` counts.
        let freed = self.freed.load(Ordering::Acquire);
        self.made.load(Ordering::Relaxed).saturating_sub(freed)
    }

    /// Counts a value that the server keeps from now on.
    pub(super) fn count_made(&self) {
        // Callbacks that make values run one at a time, so a load and a store are enough.
        self.made.store(self.made.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }
}

/// Callbacks for values of a type. `TypeSpec` connects a type with its callbacks, so that the type does not depend on them.
pub(crate) trait ValueEvents<T: NativeType> {
    /// The value is being removed from the keyspace, to be dropped or moved (`RENAME`, `MOVE`). This callback is not called when a database
    /// is flushed, or when the module itself deletes the key. The server may be in the middle of a change of keys, so the callback may note
    /// the event, but not touch any key.
    fn unlinked(value: &T, from: &Unlinked);

    /// A client has sent a value (`RESTORE`), which is not in the keyspace yet, and which the server may still refuse.
    fn sent(ctx: &Ctx<'_>);

    /// Returns the log level for a client's value that can't be loaded.
    fn refused() -> LogLevel;
}

/// A type and its callbacks (`ValueEvents`), in the table of what the module adds to the server (`Module`).
pub(crate) struct TypeSpec {
    pub(super) register: fn(*mut raw::RedisModuleCtx) -> bool,
}

impl TypeSpec {
    pub(crate) const fn of<T: NativeType, E: ValueEvents<T>>() -> Self {
        Self { register: register::<T, E> }
    }
}

fn register<T: NativeType, E: ValueEvents<T>>(ctx: *mut raw::RedisModuleCtx) -> bool {
    let mut methods = raw::RedisModuleTypeMethods {
        // Redis 7.0 knows version 4, and ignores `aux_save2`, which is new in version 5.
        version: 5,
        rdb_load: Some(load::<T, E>),
        rdb_save: Some(save::<T>),
        aof_rewrite: Some(rewrite::<T>),
        digest: Some(digest::<T>),
        free: Some(free::<T>),
        mem_usage2: Some(memory::<T>),
        // `mem_usage2` replaces this callback.
        mem_usage: None,
        aux_load: Some(load_aux::<T>),
        aux_save_triggers: raw::REDISMODULE_AUX_BEFORE_RDB as c_int,
        aux_save2: Some(save_aux::<T>),
        // `aux_save` is left out, because with it the server always writes something, so the file could never be loaded without the module.
        aux_save: None,
        free_effort: Some(free_effort::<T>),
        // `free_effort2` is left out, because it only gets the database's number in addition, which the module does not need.
        free_effort2: None,
        unlink2: Some(unlinked::<T, E>),
        // `unlink2` replaces this callback.
        unlink: None,
        // Without `copy`, the server refuses `COPY`, which would put the same grant, with the same fence, into two locks.
        copy: None,
        copy2: None,
        defrag: Some(defrag::<T>),
    };
    // SAFETY: the server gave us the context for the time of loading, copies name and methods, and calls the methods with values of this
    // type only.
    let registered =
        unsafe { api!(RedisModule_CreateDataType(ctx, T::NAME.as_ptr(), T::ENCODING, &raw mut methods)) };
    T::handle().registered.store(registered, Ordering::Relaxed);
    !registered.is_null()
}

/// # Safety
/// `rdb` is the stream that the server reads.
unsafe extern "C" fn load<T: NativeType, E: ValueEvents<T>>(
    rdb: *mut raw::RedisModuleIO,
    encoding: c_int,
) -> *mut c_void {
    let loaded = guard(c"rdb-load", || {
        let mut rdb = RdbReader(rdb);
        let loaded = T::load(&mut rdb, encoding);
        let is_from_client = rdb.is_from_client();
        if is_from_client && loaded.is_ok() {
            // SAFETY: the context is the server's own for this callback.
            E::sent(&unsafe { Ctx::new(rdb.context()) });
        }
        loaded.map_err(|reason| (reason, if is_from_client { E::refused() } else { LogLevel::Warning }))
    });
    match loaded {
        Some(Ok(value)) => {
            T::handle().count_made();
            Box::into_raw(Box::new(value)).cast()
        }
        Some(Err((reason, level))) => {
            refuse::<T>(&reason, level);
            std::ptr::null_mut()
        }
        None => std::ptr::null_mut(),
    }
}

/// # Safety
/// `value` is a value of this type in the keyspace; `rdb` is the stream that the server writes.
unsafe extern "C" fn save<T: NativeType>(rdb: *mut raw::RedisModuleIO, value: *mut c_void) {
    // SAFETY: the caller promises a value of this type, and the server changes no value while saving it.
    let value = unsafe { &*value.cast::<T>() };
    guard(c"rdb-save", || value.save(&mut RdbWriter(rdb)));
}

/// # Safety
/// `rdb` is the stream that the server reads.
unsafe extern "C" fn load_aux<T: NativeType>(
    rdb: *mut raw::RedisModuleIO,
    encoding: c_int,
    _when: c_int,
) -> c_int {
    match guard(c"aux-load", || T::load_aux(&mut RdbReader(rdb), encoding)) {
        Some(Ok(())) => raw::REDISMODULE_OK as c_int,
        Some(Err(reason)) => {
            refuse::<T>(&reason, LogLevel::Warning);
            raw::REDISMODULE_ERR as c_int
        }
        None => raw::REDISMODULE_ERR as c_int,
    }
}

/// # Safety
/// `rdb` is the stream that the server writes.
unsafe extern "C" fn save_aux<T: NativeType>(rdb: *mut raw::RedisModuleIO, _when: c_int) {
    guard(c"aux-save", || T::save_aux(&mut RdbWriter(rdb)));
}

/// Logs why a file or a payload is refused.
fn refuse<T: NativeType>(reason: &str, level: LogLevel) {
    let name = T::NAME.to_string_lossy();
    let line = format!("cannot load a {name}: {reason}");
    guard(c"rdb-load", || log(std::ptr::null_mut(), level, &line));
}

/// # Safety
/// As for `save`, and `key` is valid until this function returns.
unsafe extern "C" fn rewrite<T: NativeType>(
    aof: *mut raw::RedisModuleIO,
    key: *mut raw::RedisModuleString,
    value: *mut c_void,
) {
    // SAFETY: the caller promises a value of this type, and the server changes no value while saving it.
    let value = unsafe { &*value.cast::<T>() };
    // SAFETY: the caller promises that the key is valid.
    let key = unsafe { Arg::new(key) };
    guard(c"aof-rewrite", || value.rewrite(key, &mut AofRewrite(aof)));
}

/// # Safety
/// `value` is a value of this type in the keyspace.
unsafe extern "C" fn digest<T: NativeType>(digest: *mut raw::RedisModuleDigest, value: *mut c_void) {
    // SAFETY: the caller promises a value of this type.
    let value = unsafe { &*value.cast::<T>() };
    guard(c"digest", || value.digest(&mut Digest(digest)));
}

/// # Safety
/// `value` is a value of this type that the server is done with.
unsafe extern "C" fn free<T: NativeType>(value: *mut c_void) {
    // SAFETY: `Box::into_raw` in `load` or `Key::set_value` made the pointer, and the server calls `free` once for each value.
    let value = unsafe { Box::from_raw(value.cast::<T>()) };
    // Background threads also free values, so the addition is atomic.
    T::handle().freed.fetch_add(1, Ordering::Release);
    guard(c"free", || drop(value));
}

/// # Safety
/// `value` is a value of this type in the keyspace.
unsafe extern "C" fn unlinked<T: NativeType, E: ValueEvents<T>>(
    context: *mut raw::RedisModuleKeyOptCtx,
    value: *const c_void,
) {
    if !key::is_ours(value) {
        // SAFETY: the caller promises what `taken_out` requires.
        unsafe { taken_out::<T, E>(context, value) };
    }
}

/// Reports that something other than the module is removing this value. The function is not inlined, so that the module's own deletions,
/// which do not call it, stay fast.
///
/// # Safety
///
/// As for `unlinked`.
#[inline(never)]
unsafe fn taken_out<T: NativeType, E: ValueEvents<T>>(
    context: *mut raw::RedisModuleKeyOptCtx,
    value: *const c_void,
) {
    key::taken_out(value);
    // SAFETY: the caller promises a value of this type.
    let value = unsafe { &*value.cast::<T>() };
    guard(c"unlink", || E::unlinked(value, &Unlinked(context)));
}

/// # Safety
/// `value` is a value of this type in the keyspace.
unsafe extern "C" fn memory<T: NativeType>(
    _context: *mut raw::RedisModuleKeyOptCtx,
    value: *const c_void,
    _samples: usize,
) -> usize {
    // SAFETY: the caller promises a value of this type.
    let value = unsafe { &*value.cast::<T>() };
    guard(c"mem-usage", || size_of::<T>() + value.heap_size()).unwrap_or(0)
}

/// # Safety
/// `value` is a value of this type that the server has taken out of the keyspace.
unsafe extern "C" fn free_effort<T: NativeType>(
    _key: *mut raw::RedisModuleString,
    value: *const c_void,
) -> usize {
    // SAFETY: the caller promises a value of this type.
    let value = unsafe { &*value.cast::<T>() };
    // For a result of 0, the server would always use the background thread.
    guard(c"free-effort", || value.free_effort()).unwrap_or(1).max(1)
}

/// # Safety
/// `value` points to the keyspace's pointer to a value of this type.
unsafe extern "C" fn defrag<T: NativeType>(
    context: *mut raw::RedisModuleDefragCtx,
    _key: *mut raw::RedisModuleString,
    value: *mut *mut c_void,
) -> c_int {
    guard(c"defrag", || {
        let mut defrag = Defrag(context);
        // SAFETY: the caller promises that `value` points to the keyspace's pointer.
        let old = unsafe { *value };
        let new = defrag.moved(old);
        // SAFETY: the server lets the callback replace the server's pointer to the value, and the value is now at `new`.
        unsafe { *value = new };
        // SAFETY: the value of this type was moved byte by byte, and nobody else uses it now.
        let moved = unsafe { &mut *new.cast::<T>() };
        moved.defrag(&mut defrag);
    });
    0
}

/// Moves allocations to other places, against fragmentation.
pub(crate) struct Defrag(*mut raw::RedisModuleDefragCtx);

impl Defrag {
    /// Returns the box, which the server may have moved.
    pub(crate) fn boxed<T>(&mut self, value: Box<T>) -> Box<T> {
        let new = self.moved(Box::into_raw(value).cast());
        // SAFETY: the pointer is from `into_raw`, or points to a copy of the same size whose original is gone.
        unsafe { Box::from_raw(new.cast()) }
    }

    /// Returns the bytes, which the server may have moved.
    pub(crate) fn bytes(&mut self, bytes: Box<[u8]>) -> Box<[u8]> {
        let len = bytes.len();
        if len == 0 {
            // An empty slice has no allocation.
            return bytes;
        }
        let new = self.moved(Box::into_raw(bytes).cast());
        // SAFETY: as in `boxed`, and the number of bytes is the same.
        unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(new.cast(), len)) }
    }

    /// Lets the server move an allocation, if it wants to. Returns where the allocation is now.
    fn moved(&mut self, old: *mut c_void) -> *mut c_void {
        // SAFETY: `defrag` made `self` from the server's pointer, `self` does not outlive the callback, and the caller owns `old`.
        let new = unsafe { api!(RedisModule_DefragAlloc(self.0, old)) };
        if new.is_null() { old } else { new }
    }
}

/// The key from which a value is being removed.
pub(crate) struct Unlinked(*mut raw::RedisModuleKeyOptCtx);

impl Unlinked {
    pub(crate) fn db(&self) -> i32 {
        // SAFETY: `unlinked` made `self` from the server's pointer, and `self` does not outlive the callback.
        unsafe { api!(RedisModule_GetDbIdFromOptCtx(self.0)) }
    }

    pub(crate) fn key(&self) -> Arg<'_> {
        // SAFETY: as in `db`.
        let key = unsafe { api!(RedisModule_GetKeyNameFromOptCtx(self.0)) };
        // SAFETY: the name outlives `self`, because it outlives the callback.
        unsafe { Arg::new(key.cast_mut()) }
    }
}

/// Adds data to the digest that `DEBUG DIGEST` shows.
pub(crate) struct Digest(*mut raw::RedisModuleDigest);

impl Digest {
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        // SAFETY: `digest` made `self` from the server's pointer, `self` does not outlive the callback, and the server reads `len` bytes.
        unsafe { api!(RedisModule_DigestAddStringBuffer(self.0, bytes.as_ptr().cast(), bytes.len())) };
    }

    pub(crate) fn integer(&mut self, value: i64) {
        // SAFETY: as in `bytes`.
        unsafe { api!(RedisModule_DigestAddLongLong(self.0, value)) };
    }

    /// Ends a sequence of elements whose order matters.
    pub(crate) fn end_sequence(&mut self) {
        // SAFETY: as in `bytes`.
        unsafe { api!(RedisModule_DigestEndSequence(self.0)) };
    }
}
