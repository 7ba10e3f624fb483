//! Reading what the encoding has written. Nothing that is out of range becomes a lock.

use super::ends::{end_of, latest};
use crate::keyspace::effects;
use crate::lock::{
    Deadline, Extras, Fence, Grant, LONGEST_LEASE, MAX_LABEL_LEN, Millis, Owner, Room, Slot, Value,
};
use crate::server::{self, RdbReader, Truncated};

/// What a key holds; the error says what is wrong with the data.
pub(super) fn value(rdb: &mut RdbReader) -> Result<Value, String> {
    let grants = rdb.unsigned().map_err(truncated)?;
    let form = if grants == 0 { Some(rdb.unsigned().map_err(truncated)?) } else { None };
    match (grants, form) {
        (1, _) => Ok(Value::One(Parts::load(rdb)?.grant(None, Room::ONE, b""))),
        (_, Some(1)) => {
            let parts = Parts::load(rdb)?;
            let made = made(rdb)?;
            Ok(Value::One(parts.grant(Some(made), Room::ONE, b"")))
        }
        (_, Some(form @ (2 | 3))) => several(rdb, form == 3),
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

fn several(rdb: &mut RdbReader, has_more: bool) -> Result<Value, String> {
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
        let grant = parts.grant(made, room, &label).with_slot(slot);
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

pub(super) fn fence(rdb: &mut RdbReader) -> Result<Fence, String> {
    let fence = rdb.unsigned().map_err(truncated)?;
    Fence::new(fence).ok_or_else(|| format!("the fence {fence}"))
}

fn truncated(_: Truncated) -> &'static str {
    "the data ends early or is of another kind"
}
