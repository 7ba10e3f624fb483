//! How a lock is written to RDB files, `DUMP` payloads and rewritten append-only files.
//!
//! Encoding 1, all numbers in the server's own variable-length form:
//!
//! | field | what |
//! |---|---|
//! | grants | how many follow: 1. 0: a wider form, of which the next number says which |
//! | owner | its bytes, 1 to 128 |
//! | fence | 1 to 2^53 - 1 |
//! | holds | 1 to 2^32 - 1 |
//! | max-hold | the greatest age that the grant may reach, in ms; 0: none of its own |
//!
//! The wider form 1 has one grant, and behind it when that was made, in ms since 1970, where its fence does not say that. The wider
//! form 2 is for grants with room for several:
//!
//! | field | what |
//! |---|---|
//! | grants | how many follow, at least 1 |
//! | endless | 1: the latest lease has no end; else 0 |
//! | owner, fence, holds, max-hold | as above, for each grant, the oldest first |
//! | made | as above; 0: the fence says it |
//! | room | how many may hold the lock while it does; 0: any number |
//! | end | by how many ms its lease is shorter than the latest; where that has no end, the end in ms since 1970, or 0: none |
//!
//! The wider form 3 is for grants of which one has a slot or a label. It is form 2 with two fields more at the end of each grant:
//!
//! | field | what |
//! |---|---|
//! | slot | the number of its permit; 0: none, or the one that its room says. No two are the same, and none is above the room, unless the grant has become exclusive |
//! | label | its bytes, 0 to 128 |
//!
//! The latest lease is the key's TTL, which the server writes itself. Ends, and how much shorter a lease is, go up to 2^63 - 1, as the
//! server's own TTLs do: `PEXPIRE` brings leases as far away as that.
//!
//! Beside the keys, in RDB files only, the last fence, so that the next one is above it even if the wall clock is set back
//! while the server is away. It is left out ten minutes after the grant (`CLOCKS_DIFFER`), so that a file that holds nothing of the
//! module can be loaded without it.

mod ends;
mod load;

use std::ffi::CStr;

use ends::{latest, number_of};

use crate::keyspace::effects::{self, APPLY};
use crate::keyspace::fences::{self, CLOCKS_DIFFER, last_fence, observe_fence};
use crate::lock::{Grant, Mover, Slot, Value};
use crate::server::{self, AofRewrite, Arg, Defrag, Digest, NativeType, RdbReader, RdbWriter, TypeHandle};

static HANDLE: TypeHandle = TypeHandle::new();

impl NativeType for Value {
    const NAME: &'static CStr = c"lockstate";
    const ENCODING: i32 = 1;

    fn handle() -> &'static TypeHandle {
        &HANDLE
    }

    fn save(&self, rdb: &mut RdbWriter) {
        match self {
            Self::One(grant) if grant.room().is_exclusive() && !has_more(grant) => save_one(grant, rdb),
            _ => save_several(self, rdb),
        }
    }

    fn load(rdb: &mut RdbReader, encoding: i32) -> Result<Self, String> {
        check_encoding(encoding)?;
        let value = load::value(rdb)?;
        fences::loaded(&value, rdb.is_from_client())?;
        Ok(value)
    }

    fn rewrite(&self, key: Arg<'_>, aof: &mut AofRewrite) {
        // The server adds the TTL with a `PEXPIREAT` of its own: the leases hang on that, wherever they are now.
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
            digest.integer(grant.holds().into());
            digest.integer(grant.max_hold().unwrap_or(0));
            if !grant.room().is_exclusive() {
                digest.integer(grant.room().most().unwrap_or(0).into());
                digest.integer(held.deadline.left(0));
            }
            if let Some(slot) = grant.slot_apart() {
                digest.integer(slot.get().into());
            }
            if !grant.label().is_empty() {
                digest.bytes(grant.label());
            }
        }
        digest.end();
    }

    fn save_aux(rdb: &mut RdbWriter) {
        let recent = server::now().saturating_sub(CLOCKS_DIFFER);
        if let Some(fence) = last_fence().filter(|fence| fence.granted_at() > recent) {
            rdb.unsigned(fence.get());
        }
    }

    fn load_aux(rdb: &mut RdbReader, encoding: i32) -> Result<(), String> {
        check_encoding(encoding)?;
        observe_fence(load::fence(rdb)?);
        Ok(())
    }

    fn defrag(&mut self, defrag: &mut Defrag) {
        self.relocate(&mut Boxes(defrag));
    }

    fn heap_size(&self) -> usize {
        Self::heap_size(self)
    }
}

fn check_encoding(encoding: i32) -> Result<(), String> {
    let known = Value::ENCODING;
    if encoding == known {
        return Ok(());
    }
    Err(format!("it is in encoding {encoding}; this version of the module reads encoding {known}"))
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

fn save_one(grant: &Grant, rdb: &mut RdbWriter) {
    let made = grant.made_apart();
    if made.is_some() {
        rdb.unsigned(0);
    }
    rdb.unsigned(1);
    save_parts(grant, rdb);
    if let Some(made) = made {
        rdb.unsigned(made.unsigned_abs());
    }
}

fn save_parts(grant: &Grant, rdb: &mut RdbWriter) {
    rdb.bytes(grant.owner().text().as_ref());
    rdb.unsigned(grant.fence().get());
    rdb.unsigned(grant.holds().into());
    rdb.unsigned(grant.max_hold().unwrap_or(0).unsigned_abs());
}

fn save_several(value: &Value, rdb: &mut RdbWriter) {
    let endless = value.is_endless();
    let has_more = value.all(latest(endless)).any(|held| has_more(held.grant));
    rdb.unsigned(0);
    rdb.unsigned(if has_more { 3 } else { 2 });
    rdb.unsigned(value.count() as u64);
    rdb.unsigned(endless.into());
    for held in value.all(latest(endless)) {
        save_parts(held.grant, rdb);
        rdb.unsigned(held.grant.made_apart().unwrap_or(0).unsigned_abs());
        rdb.unsigned(held.grant.room().most().unwrap_or(0).into());
        rdb.unsigned(number_of(held.deadline, endless));
        if has_more {
            rdb.unsigned(held.grant.slot_apart().map_or(0, Slot::get).into());
            rdb.bytes(held.grant.label());
        }
    }
}

/// Whether a grant has what only form 3 has.
fn has_more(grant: &Grant) -> bool {
    grant.slot_apart().is_some() || !grant.label().is_empty()
}
