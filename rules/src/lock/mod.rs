//! The rules of one lock: how one or several owners acquire, re-enter, extend and release it, when a grant lapses, and which fence a grant
//! gets.
//!
//! All code in this folder, except `Owner::random`, depends only on its arguments: it uses no Redis, no clock and no `unsafe`. A decision
//! (`decide_acquire`, ...) reads the state of the lock and returns what to do, and the caller stores the result. So a refused command can't
//! leave a half-made change, and all code here runs in tests without a server.

mod decide;
mod fields;
#[cfg(fuzzing)]
pub mod fuzzing;
mod grant;
mod map;
mod owner;
mod room;
mod several;
#[cfg(test)]
mod tests;
mod time;
mod value;

pub use decide::{
    AcquireRequest, Acquired, Got, Held, Limits, NotHeld, ReentryError, Released, decide_acquire,
    decide_extend, decide_release, lengthen, release_holds, within_age,
};
pub use fields::{Datum, Extras, FIELDS, MAX_LABEL_LEN};
pub use grant::{Full, Grant, GrantChange, Mover};
pub use owner::Owner;
pub use room::{Others, Room, Slot, SlotRequest, UsedSlots};
pub use time::{Deadline, Fence, FenceClock, LONGEST_LEASE, Micros, Millis, Now};
pub use value::Value;
