//! How a lock is written to RDB files, `DUMP` payloads and rewritten append-only files.
//!
//! Encoding 1, all numbers in the server's own variable-length form:
//!
//! | field | what |
//! |---|---|
//! | grants | how many follow: 1. 0: the wider form, of which the next number says which: 1, with the last field |
//! | owner | its bytes, 1 to 128 |
//! | fence | 1 to 2^53 - 1 |
//! | holds | 1 to 2^32 - 1 |
//! | max-hold | the greatest age that the grant may reach, in ms; 0: none of its own |
//! | made | only in the wider form: when the grant was made, in ms since 1970, where its fence does not say that |
//!
//! The lease is the key's TTL, which the server writes itself.
//!
//! Beside the keys, in RDB files only, the last fence, so that the next one is above it even if the wall clock is set back
//! while the server is away. It is left out ten minutes after the grant: a clock that is set back by more than that is
//! another matter, and a file that holds nothing of the module can be loaded without it.

use std::ffi::CStr;

use crate::keyspace::{effects, last_fence, observe_fence};
use crate::lock::{Deadline, Fence, Grant, LONGEST_LEASE, Micros, Owner};
use crate::server::{
    self, AofRewrite, Arg, Defrag, Digest, NativeType, RdbReader, RdbWriter, Truncated, TypeHandle,
};

/// For how long the last fence is written beside the keys: ten minutes.
const FENCE_KEPT_FOR: Micros = 600_000_000;

static HANDLE: TypeHandle = TypeHandle::new();

impl NativeType for Grant {
    const NAME: &'static CStr = c"lockstate";
    const ENCODING: i32 = 1;

    fn handle() -> &'static TypeHandle {
        &HANDLE
    }

    fn save(&self, rdb: &mut RdbWriter) {
        let made = self.made_apart();
        if made.is_some() {
            rdb.unsigned(0);
        }
        rdb.unsigned(1);
        rdb.bytes(self.owner().text().as_ref());
        rdb.unsigned(self.fence().get());
        rdb.unsigned(self.holds().into());
        rdb.unsigned(self.max_hold().unwrap_or(0).unsigned_abs());
        if let Some(made) = made {
            rdb.unsigned(made.unsigned_abs());
        }
    }

    fn load(rdb: &mut RdbReader, encoding: i32) -> Result<Self, String> {
        check_encoding(encoding)?;
        let grants = rdb.unsigned().map_err(truncated)?;
        let wider = grants == 0;
        let form = if wider { rdb.unsigned().map_err(truncated)? } else { 1 };
        if grants > 1 {
            return Err(format!("{grants} grants where 1 is expected"));
        }
        if form != 1 {
            return Err(format!("the form {form}"));
        }
        let owner = rdb.bytes().map_err(truncated)?;
        let owner = Owner::new(&owner).ok_or_else(|| format!("an owner of {} bytes", owner.len()))?;
        let fence = fence(rdb)?;
        let holds = rdb.unsigned().map_err(truncated)?;
        let holds =
            u32::try_from(holds).ok().filter(|&holds| holds > 0).ok_or_else(|| format!("{holds} holds"))?;
        let max_hold = rdb.unsigned().map_err(truncated)?;
        let max_hold = i64::try_from(max_hold)
            .ok()
            .filter(|&ms| ms <= LONGEST_LEASE)
            .ok_or_else(|| format!("a greatest age of {max_hold} ms"))?;
        let made = if wider { Some(rdb.unsigned().map_err(truncated)?) } else { None };
        let made = made
            .map(|made| i64::try_from(made).map_err(|_| format!("a grant made at {made} ms")))
            .transpose()?;
        observe_fence(fence);
        let max_hold = Some(max_hold).filter(|&ms| ms > 0);
        Ok(Self::told(owner, fence, holds, max_hold, made, server::now() / 1000))
    }

    fn rewrite(&self, key: Arg<'_>, aof: &mut AofRewrite) {
        // The server adds the TTL with a `PEXPIREAT` of its own.
        aof.bytes(effects::APPLY, key, &effects::state(self, Deadline::Never));
    }

    fn digest(&self, digest: &mut Digest) {
        digest.bytes(self.owner().text().as_ref());
        digest.integer(self.fence().get().cast_signed());
        digest.integer(self.holds().into());
        digest.integer(self.max_hold().unwrap_or(0));
        digest.end();
    }

    fn save_aux(rdb: &mut RdbWriter) {
        let recent = server::now().saturating_sub(FENCE_KEPT_FOR);
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
        self.relocate(|full| defrag.boxed(full));
    }

    fn heap_size(&self) -> usize {
        Self::heap_size(self)
    }
}

fn check_encoding(encoding: i32) -> Result<(), String> {
    let known = Grant::ENCODING;
    if encoding == known {
        return Ok(());
    }
    Err(format!("it is in encoding {encoding}; this version of the module reads encoding {known}"))
}

fn fence(rdb: &mut RdbReader) -> Result<Fence, String> {
    let fence = rdb.unsigned().map_err(truncated)?;
    Fence::new(fence).ok_or_else(|| format!("the fence {fence}"))
}

fn truncated(_: Truncated) -> &'static str {
    "the data ends early or is of another kind"
}
