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

use std::ffi::CStr;

use crate::keyspace::effects::{self, APPLY};
use crate::keyspace::fences::{self, CLOCKS_DIFFER, last_fence, observe_fence};
use crate::lock::{
    Deadline, Extras, Fence, Grant, LONGEST_LEASE, MAX_LABEL_LEN, Millis, Mover, Owner, Room, Slot, Value,
};
use crate::server::{
    self, AofRewrite, Arg, Defrag, Digest, NativeType, RdbReader, RdbWriter, Truncated, TypeHandle,
};

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
        let value = load(rdb)?;
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
        for held in self.all(Deadline::At(FAR)) {
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
        observe_fence(fence(rdb)?);
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

/// Where the latest of several leases ends, for as long as nobody knows the TTL of the key: as late as can be, so that no other one,
/// however much shorter, ends before 1970.
const FAR: Millis = Millis::MAX;

struct Boxes<'a>(&'a mut Defrag);

impl Mover for Boxes<'_> {
    fn moved<T>(&mut self, value: Box<T>) -> Box<T> {
        self.0.boxed(value)
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

/// The end of the latest of several leases, as they are written.
fn latest(endless: bool) -> Deadline {
    if endless { Deadline::Never } else { Deadline::At(FAR) }
}

/// How the end of one of several leases is written.
fn number_of(end: Deadline, endless: bool) -> u64 {
    match end {
        Deadline::Never => 0,
        Deadline::At(end) if endless => end.max(1).unsigned_abs(),
        Deadline::At(end) => FAR.saturating_sub(end).unsigned_abs(),
    }
}

/// The end that was written as that.
fn end_of(number: u64, endless: bool) -> Option<Deadline> {
    let number = Millis::try_from(number).ok()?;
    Some(match (endless, number) {
        (true, 0) => Deadline::Never,
        (true, end) => Deadline::At(end),
        (false, shorter) => Deadline::At(FAR - shorter),
    })
}

fn load(rdb: &mut RdbReader) -> Result<Value, String> {
    let grants = rdb.unsigned().map_err(truncated)?;
    let form = if grants == 0 { Some(rdb.unsigned().map_err(truncated)?) } else { None };
    match (grants, form) {
        (1, _) => Ok(Value::One(Parts::load(rdb)?.grant(None, Room::ONE, b""))),
        (_, Some(1)) => {
            let parts = Parts::load(rdb)?;
            let made = made(rdb)?;
            Ok(Value::One(parts.grant(Some(made), Room::ONE, b"")))
        }
        (_, Some(form @ (2 | 3))) => load_several(rdb, form == 3),
        (_, Some(form)) => Err(format!("the form {form}")),
        (grants, None) => Err(format!("{grants} grants where 1 is expected")),
    }
}

/// What all forms tell of a grant.
struct Parts {
    owner: Owner<'static>,
    fence: Fence,
    holds: u32,
    /// 0: none of its own.
    max_hold: Millis,
}

impl Parts {
    fn load(rdb: &mut RdbReader) -> Result<Self, String> {
        let owner = rdb.bytes().map_err(truncated)?;
        let owner =
            Owner::new(&owner).ok_or_else(|| format!("an owner of {} bytes", owner.len()))?.into_owned();
        let fence = fence(rdb)?;
        let holds = rdb.unsigned().map_err(truncated)?;
        let holds =
            u32::try_from(holds).ok().filter(|&holds| holds > 0).ok_or_else(|| format!("{holds} holds"))?;
        let max_hold = rdb.unsigned().map_err(truncated)?;
        let max_hold = i64::try_from(max_hold)
            .ok()
            .filter(|&ms| ms <= LONGEST_LEASE)
            .ok_or_else(|| format!("a greatest age of {max_hold} ms"))?;
        Ok(Self { owner, fence, holds, max_hold })
    }

    fn grant(self, made: Option<Millis>, room: Room, label: &[u8]) -> Grant {
        let Self { owner, fence, holds, max_hold } = self;
        let extras = Extras::of_grant(max_hold, label);
        Grant::told(owner, fence, holds, extras, made, server::now() / 1000).with_room(room)
    }
}

fn load_several(rdb: &mut RdbReader, has_more: bool) -> Result<Value, String> {
    let count = rdb.unsigned().map_err(truncated)?;
    let endless = match rdb.unsigned().map_err(truncated)? {
        0 => false,
        1 => true,
        other => return Err(format!("the number {other} for whether there is no end")),
    };
    let mut value: Option<Value> = None;
    let mut until = Deadline::Never;
    let mut last = None;
    for _ in 0..count {
        let parts = Parts::load(rdb)?;
        let made = Some(made(rdb)?).filter(|&made| made > 0);
        let room = rdb.unsigned().map_err(truncated)?;
        let room =
            i64::try_from(room).ok().and_then(effects::room).ok_or_else(|| format!("room for {room}"))?;
        let end = rdb.unsigned().map_err(truncated)?;
        let end = end_of(end, endless).ok_or_else(|| format!("the end {end}"))?;
        if last.replace(parts.fence) >= Some(parts.fence) {
            return Err(format!("the fence {} behind another", parts.fence.get()));
        }
        let (slot, label) = if has_more { (slot(rdb, room)?, label(rdb)?) } else { (None, Vec::new()) };
        if let Some(twice) = slot.filter(|slot| value.as_ref().is_some_and(|value| value.slots().has(*slot)))
        {
            return Err(format!("the slot {} twice", twice.get()));
        }
        let grant = slot.into_iter().fold(parts.grant(made, room, &label), Grant::with_slot);
        until = match &mut value {
            None => {
                value = Some(Value::One(grant));
                end
            }
            Some(value) => value.put(grant, end, until),
        };
    }
    let value = value.filter(|value| value.count() as u64 == count).ok_or("two grants of one owner")?;
    if until != latest(endless) {
        return Err("no lease that is the latest".into());
    }
    if value.room().most().is_some_and(|most| u64::from(most) < count) {
        return Err(format!("{count} grants where one has not the room"));
    }
    Ok(value)
}

/// The slot of a grant with that room.
fn slot(rdb: &mut RdbReader, room: Room) -> Result<Option<Slot>, String> {
    let number = rdb.unsigned().map_err(truncated)?;
    let slot = i64::try_from(number).ok().and_then(|number| effects::slot(room, number));
    slot.ok_or_else(|| format!("the slot {number} with room for {}", room.most().unwrap_or(0)))
}

fn label(rdb: &mut RdbReader) -> Result<Vec<u8>, String> {
    let label = rdb.bytes().map_err(truncated)?;
    if label.len() > MAX_LABEL_LEN {
        return Err(format!("a label of {} bytes", label.len()));
    }
    Ok(label)
}

/// When a grant was made, in ms since 1970.
fn made(rdb: &mut RdbReader) -> Result<Millis, String> {
    let made = rdb.unsigned().map_err(truncated)?;
    i64::try_from(made).map_err(|_| format!("a grant made at {made} ms"))
}

fn fence(rdb: &mut RdbReader) -> Result<Fence, String> {
    let fence = rdb.unsigned().map_err(truncated)?;
    Fence::new(fence).ok_or_else(|| format!("the fence {fence}"))
}

fn truncated(_: Truncated) -> &'static str {
    "the data ends early or is of another kind"
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::lock::GrantChange;

    /// The earliest time that a lease is not over by.
    const NOW: Millis = 1;

    /// Near any of the ends of what there can be, and anywhere.
    fn end() -> impl Strategy<Value = Deadline> {
        let at = prop_oneof![
            NOW..=Millis::MAX,
            NOW..=NOW + 9,
            Millis::MAX - 9..=Millis::MAX,
            LONGEST_LEASE - 9..LONGEST_LEASE + 9
        ];
        prop_oneof![6 => at.prop_map(Deadline::At), 1 => Just(Deadline::Never)]
    }

    /// A grant is made or its lease changed, after what was over has been ended, as each command does.
    fn set(value: &mut Value, owner: u8, end: Deadline, until: Deadline, number: u64) -> Deadline {
        let mut until = until;
        for fence in value.lapsed(until, NOW).collect::<Vec<_>>() {
            until = value.end(fence, until).unwrap();
        }
        let fence = Fence::new(number).unwrap();
        let grant = Grant::told(Owner::new(&[owner]).unwrap().into_owned(), fence, 1, None, None, NOW);
        let old = value.grant_of(&grant.owner()).cloned();
        match old {
            Some(old) => value.update(old.fence(), GrantChange::NONE, end, until),
            None => value.put(grant.with_room(Room::ANY), end, until),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        /// Whatever the leases are, and however the TTL of the key is moved in between, by whatever TTL they are seen afterwards.
        #[test]
        fn leases_come_back_as_they_were(
            steps in vec((b'a'..b'e', end(), proptest::option::of(end())), 1..12),
            seen_by in vec(end(), 3),
        ) {
            let first = Grant::told(Owner::new(b"x").unwrap(), Fence::new(1).unwrap(), 1, None, None, NOW);
            let (mut value, mut until) = (Value::One(first.with_room(Room::ANY)), Deadline::At(NOW));
            for (number, (owner, end, moved)) in (2..).zip(steps) {
                until = set(&mut value, owner, end, until, number);
                until = moved.unwrap_or(until);
            }
            let endless = value.is_endless();
            let mut loaded: Option<(Value, Deadline)> = None;
            for held in value.all(latest(endless)) {
                prop_assert!(held.deadline >= Deadline::At(0), "what replicas and files would take for none");
                let (grant, end) = (held.grant.clone(), end_of(number_of(held.deadline, endless), endless).unwrap());
                loaded = Some(match loaded {
                    None => (Value::One(grant), end),
                    Some((mut value, until)) => {
                        let until = value.put(grant, end, until);
                        (value, until)
                    }
                });
            }
            let (loaded, latest_loaded) = loaded.unwrap();
            prop_assert_eq!(latest_loaded, latest(endless));
            let ends = |value: &Value, until| -> Vec<Deadline> { value.all(until).map(|held| held.deadline).collect() };
            for until in seen_by.into_iter().chain([until]) {
                prop_assert_eq!(ends(&loaded, until), ends(&value, until));
            }
        }
    }

    #[test]
    fn an_end_beyond_what_there_can_be_is_none() {
        for endless in [false, true] {
            assert_eq!(end_of(1 << 63, endless), None);
            assert_eq!(end_of(u64::MAX, endless), None);
        }
    }
}
