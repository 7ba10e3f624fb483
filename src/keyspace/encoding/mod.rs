//! Writes locks to RDB files, `DUMP` payloads and rewritten append-only files, and reads them.
//!
//! Encoding 2 has each grant in one string of bytes, the oldest grant first. `first.rs` describes encoding 1.
//!
//! | bytes | content |
//! |---|---|
//! | flags | bit 0: the owner is a UUID; 1: another grant follows; 2: the lease that ends last has no end; 3: there is an `end`. From bit 4 on, a bit for each field of `lock::FIELDS`: whether `fields` has it. Other fields have their usual values |
//! | fence | 7 bytes, the lowest first: 1 to 2^53 - 1 |
//! | end | by how many ms the lease is shorter than the latest (the lease that ends last); if the latest has no end, the end in ms since 1970. If absent, this lease is the latest |
//! | fields | each a number, or a number of bytes and then the bytes |
//! | owner | a UUID in 16 bytes, or the name |
//!
//! Numbers, including the flags but not the fence, have seven bits in each byte, the lowest first. The highest bit of a byte says that
//! another byte follows.
//!
//! The end of the latest lease is the key's TTL, which the server writes itself. Because `PEXPIRE` can set any TTL that the server accepts,
//! the ends of leases, and the differences between them, may be any number below 2^63.
//!
//! From Redis 7.2 on, RDB files also have the last fence, so that the next fence is greater even if the wall clock is set back while the
//! server is down. The last fence is left out when its grant is more than ten minutes old (`CLOCKS_DIFFER`), so that a file without locks
//! can be loaded without the module.

mod deadlines;
mod first;
mod grants;
mod packed;

use std::ffi::CStr;

use deadlines::latest;
use grants::{Grants, fence, truncated};
use packed::{Unpacked, pack, unpack};

use crate::keyspace::effects::{self, APPLY};
use crate::keyspace::fences::{self, CLOCKS_DIFFER, last_fence, observe_fence};
use crate::server::{self, AofRewrite, Arg, Defrag, Digest, NativeType, RdbReader, RdbWriter, TypeHandle};
use rules::lock::{Datum, Mover, Value};

/// The number of the encoding that earlier versions wrote.
const FIRST: i32 = 1;

static HANDLE: TypeHandle = TypeHandle::new();

impl NativeType for Value {
    const NAME: &'static CStr = c"lockstate";
    const ENCODING: i32 = 2;

    fn handle() -> &'static TypeHandle {
        &HANDLE
    }

    fn save(&self, rdb: &mut RdbWriter) {
        let (endless, count) = (self.is_endless(), self.count());
        for (number, held) in self.all(latest(endless)).enumerate() {
            rdb.bytes(&pack(held, endless, number + 1 < count));
        }
    }

    fn load(rdb: &mut RdbReader, encoding: i32) -> Result<Self, String> {
        check_encoding(encoding)?;
        let value = if encoding == FIRST { first::value(rdb) } else { load(rdb) }?;
        fences::loaded(&value, rdb.is_from_client())?;
        Ok(value)
    }

    fn rewrite(&self, key: Arg<'_>, aof: &mut AofRewrite) {
        // If the key has a TTL, the server writes a `PEXPIREAT` after the commands of this method, and the `PEXPIREAT` moves all leases
        // with the TTL. So the ends of several leases are written relative to the last end, and `-1` then removes the TTL.
        let hang = !self.is_one() && !self.is_endless();
        for (number, held) in self.all(latest(!hang)).enumerate() {
            aof.bytes(APPLY, key, &effects::state(held.grant, held.deadline, number == 0));
        }
        if hang {
            aof.bytes(APPLY, key, b"-1");
        }
    }

    fn digest(&self, digest: &mut Digest) {
        for held in self.all(latest(false)) {
            let grant = held.grant;
            digest.bytes(grant.owner().text().as_ref());
            digest.integer(grant.fence().get().cast_signed());
            if !self.is_one() {
                digest.integer(held.deadline.left(0));
            }
            for (number, datum) in grant.agreed() {
                digest.integer(number as i64);
                match datum {
                    Datum::Number(number) => digest.integer(number.cast_signed()),
                    Datum::Bytes(bytes) => digest.bytes(bytes),
                }
            }
        }
        digest.end_sequence();
    }

    fn save_aux(rdb: &mut RdbWriter) {
        let recent = server::now().saturating_sub(CLOCKS_DIFFER);
        if let Some(fence) = last_fence().filter(|fence| fence.granted_at() > recent) {
            rdb.unsigned(fence.get());
        }
    }

    fn load_aux(rdb: &mut RdbReader, encoding: i32) -> Result<(), String> {
        check_encoding(encoding)?;
        observe_fence(fence(rdb)?);
        Ok(())
    }

    fn defrag(&mut self, defrag: &mut Defrag) {
        self.relocate(&mut Boxes(defrag));
    }

    fn heap_size(&self) -> usize {
        Self::heap_size(self)
    }

    fn free_effort(&self) -> usize {
        self.count()
    }
}

fn check_encoding(encoding: i32) -> Result<(), String> {
    let known = Value::ENCODING;
    if (FIRST..=known).contains(&encoding) {
        return Ok(());
    }
    Err(format!(
        "it is in encoding {encoding}; this version of the module reads encodings {FIRST} to {known}"
    ))
}

/// Reads a value that `save` wrote.
fn load(rdb: &mut RdbReader) -> Result<Value, String> {
    let mut grants = Grants::default();
    loop {
        let bytes = rdb.bytes().map_err(truncated)?;
        let Unpacked { grant, deadline, endless, more } = unpack(&bytes, server::now() / 1000)?;
        grants.add(grant, deadline)?;
        if !more {
            return grants.value(endless);
        }
    }
}

struct Boxes<'a>(&'a mut Defrag);

impl Mover for Boxes<'_> {
    fn moved<T>(&mut self, value: Box<T>) -> Box<T> {
        self.0.boxed(value)
    }

    fn moved_bytes(&mut self, bytes: Box<[u8]>) -> Box<[u8]> {
        self.0.bytes(bytes)
    }
}
