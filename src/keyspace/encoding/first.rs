//! Reads encoding 1, which only earlier versions of the module wrote. All numbers are in the server's own variable-length form:
//!
//! | field | content |
//! |---|---|
//! | grants | 1: one grant follows. 0: the number of a wider form (see below) follows |
//! | owner | its bytes, 1 to 128 |
//! | fence | 1 to 2^53 - 1 |
//! | holds | 1 to 2^32 - 1 |
//! | max-hold | the greatest age that the grant may reach, in ms; 0: no limit of its own |
//!
//! A fence is usually the time of its grant, in microseconds since 1970. The wider form 1 is for one grant that was made in another
//! millisecond than its fence says. After the grant comes the time when it was made, in ms since 1970. The wider form 2 is for grants with
//! room for several holders:
//!
//! | field | content |
//! |---|---|
//! | grants | the number of grants that follow, at least 1 |
//! | endless | 1: the latest lease (the lease that ends last) has no end; else 0 |
//! | owner, fence, holds, max-hold | as above, for each grant, the oldest first |
//! | made | when the grant was made, in ms since 1970; 0: at the time of its fence |
//! | room | how many owners may hold the lock, the owner of this grant included; 0: any number |
//! | end | by how many ms its lease is shorter than the latest; if the latest has no end, the end in ms since 1970, or 0: no end |
//!
//! The wider form 3 is for several grants, at least one of which has a slot or a label. This form is like form 2, with two more fields at
//! the end of each grant:
//!
//! | field | content |
//! |---|---|
//! | slot | the number of its permit; 0: no slot, or the slot 1 of an exclusive grant. All slots differ. A slot is at most the room, unless the grant has become exclusive |
//! | label | its bytes, 0 to 128 |

use super::{fence, truncated};
use crate::server::{self, RdbReader};
use rules::encoding::{self, Grants, deadline_of};
use rules::lock::{Extras, Fence, Grant, LONGEST_LEASE, MAX_LABEL_LEN, Millis, Owner, Room, Slot, Value};

/// Reads the value of a key. Returns an error that says what is wrong with the data.
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

/// The fields of a grant that all forms have.
struct Parts {
    owner: Owner<'static>,
    fence: Fence,
    holds: u32,
    /// The greatest age in ms. 0 means that the grant has no limit of its own.
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
        Grant::received(owner, fence, holds, extras, made, server::now() / 1000).with_room(room)
    }
}

fn several(rdb: &mut RdbReader, has_more: bool) -> Result<Value, String> {
    let count = rdb.unsigned().map_err(truncated)?;
    let endless = match rdb.unsigned().map_err(truncated)? {
        0 => false,
        1 => true,
        other => return Err(format!("the number {other} for whether there is no end")),
    };
    let mut grants = Grants::default();
    for _ in 0..count {
        let parts = Parts::load(rdb)?;
        let made = Some(made(rdb)?).filter(|&made| made > 0);
        let room = rdb.unsigned().map_err(truncated)?;
        let room =
            i64::try_from(room).ok().and_then(encoding::room).ok_or_else(|| format!("room for {room}"))?;
        let deadline = rdb.unsigned().map_err(truncated)?;
        let deadline = deadline_of(deadline, endless).ok_or_else(|| format!("the end {deadline}"))?;
        let (slot, label) = if has_more { (slot(rdb, room)?, label(rdb)?) } else { (None, Vec::new()) };
        grants.add(parts.grant(made, room, &label).with_slot(slot), deadline)?;
    }
    let value = grants.value(endless)?;
    if value.count() as u64 == count { Ok(value) } else { Err("two grants of one owner".into()) }
}

/// Reads the slot of a grant with this room.
fn slot(rdb: &mut RdbReader, room: Room) -> Result<Option<Slot>, String> {
    let number = rdb.unsigned().map_err(truncated)?;
    let slot = i64::try_from(number).ok().and_then(|number| encoding::slot(room, number));
    slot.ok_or_else(|| format!("the slot {number} with room for {}", room.most().unwrap_or(0)))
}

fn label(rdb: &mut RdbReader) -> Result<Vec<u8>, String> {
    let label = rdb.bytes().map_err(truncated)?;
    if label.len() > MAX_LABEL_LEN {
        return Err(format!("a label of {} bytes", label.len()));
    }
    Ok(label)
}

/// Reads when a grant was made, in ms since 1970.
fn made(rdb: &mut RdbReader) -> Result<Millis, String> {
    let made = rdb.unsigned().map_err(truncated)?;
    i64::try_from(made).map_err(|_| format!("a grant made at {made} ms"))
}
