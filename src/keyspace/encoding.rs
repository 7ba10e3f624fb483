//! Writes locks to RDB files, `DUMP` payloads and rewritten append-only files, and reads them.
//!
//! `rules::encoding` describes the encoding.
//!
//! From Redis 7.2 on, RDB files also have the last fence, so that the next fence is greater even if the wall clock is set back while the
//! server is down. The last fence is left out when its grant is more than ten minutes old (`CLOCKS_DIFFER`), so that a file without locks
//! can be loaded without the module.

use std::ffi::CStr;

use rules::encoding::{self, latest};

use super::fences::{self, CLOCKS_DIFFER, last_fence, observe_fence};
use super::lock_key::APPLY;
use crate::server::{
    self, AofRewrite, Arg, Defrag, Digest, NativeType, RdbReader, RdbWriter, Truncated, TypeHandle,
};
use rules::lock::{Datum, Fence, Mover, Value};

static HANDLE: TypeHandle = TypeHandle::new();

impl NativeType for Value {
    const NAME: &'static CStr = c"lockstate";
    const ENCODING: i32 = 2;

    fn handle() -> &'static TypeHandle {
        &HANDLE
    }

    fn save(&self, rdb: &mut RdbWriter) {
        encoding::save(self).for_each(|grant| rdb.bytes(&grant));
    }

    fn load(rdb: &mut RdbReader, encoding: i32) -> Result<Self, String> {
        check_encoding(encoding)?;
        let value = encoding::load(|| Ok(rdb.bytes().map_err(truncated)?), server::now() / 1000)?;
        fences::loaded(&value, rdb.is_from_client())?;
        Ok(value)
    }

    fn rewrite(&self, key: Arg<'_>, aof: &mut AofRewrite) {
        // If the key has a TTL, the server writes a `PEXPIREAT` after the commands of this method, and the `PEXPIREAT` moves all leases
        // with the TTL. So the ends of several leases are written relative to the last end, and `-1` then removes the TTL.
        let hang = !self.is_one() && !self.is_endless();
        for (number, held) in self.all(latest(!hang)).enumerate() {
            aof.bytes(APPLY, key, &encoding::state(held.grant, held.deadline, number == 0));
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
        let fence = rdb.unsigned().map_err(truncated)?;
        observe_fence(Fence::new(fence).ok_or_else(|| format!("the fence {fence}"))?);
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
    if encoding == known {
        return Ok(());
    }
    Err(format!("it is in encoding {encoding}; this version of the module reads encoding {known}"))
}

fn truncated(_: Truncated) -> &'static str {
    "the data ends early or is of another kind"
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
