//! The fields of a grant, except its owner and its fence. Files, effects (commands that carry changes to replicas), digests and `LOCK.INFO`
//! use `FIELDS`. A new field needs a row there and a place in `Full`. If a command can change the field, it also needs a place in
//! `GrantChange`. `is_plain` in `encoding::effect` must test the field, unless the short form of effects has it (`IN_SHORT`).
//! `Full::plain_counts` must test a field that is not in `Extras`.

use std::sync::Arc;

use super::{Full, Grant, LONGEST_LEASE, Millis, Room, Slot};

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datum<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// One field of a grant.
pub struct Field {
    /// The name of the field in `LOCK.APPLY` and `LOCK.INFO`.
    pub name: &'static str,
    /// The value that most grants have. Files and effects leave this value out.
    pub usual: Datum<'static>,
    get: fn(&Grant) -> Datum<'_>,
    /// Sets the field of a grant that is being made. Returns `None` if the value is out of range.
    pub set: fn(&mut Full, Datum<'_>) -> Option<()>,
    /// Whether digests (`DEBUG DIGEST`) include the value. Digests may include only values that are the same on all servers.
    is_agreed: bool,
    /// Returns the value that `LOCK.INFO` shows. `None` means that `LOCK.INFO` does not show the field.
    pub shown: Option<fn(&Grant) -> Datum<'_>>,
}

impl Field {
    /// A template for a field that is a number, usually 0.
    const NUMBER: Self = Self {
        name: "",
        usual: Datum::Number(0),
        get: |_| Datum::Number(0),
        set: |_, _| None,
        is_agreed: true,
        shown: None,
    };
}

/// All fields, in their order in files. A new field must come last, because files refer to a field by its index in this list.
pub const FIELDS: [Field; 6] = [
    Field {
        name: "holds",
        usual: Datum::Number(1),
        get: |grant| Datum::Number(grant.holds().into()),
        set: |full, datum| {
            full.holds = small(datum).filter(|holds| *holds > 0)?;
            Some(())
        },
        ..Field::NUMBER
    },
    Field {
        name: "max-hold",
        get: |grant| Datum::Number(grant.max_hold().unwrap_or(0).unsigned_abs()),
        set: |full, datum| {
            let age = millis(datum).filter(|age| *age <= LONGEST_LEASE)?;
            full.change_extras(|extras| extras.max_hold = Some(age).filter(|age| *age > 0));
            Some(())
        },
        ..Field::NUMBER
    },
    // How many holders the grant allows. 0 means any number.
    Field {
        name: "room",
        usual: Datum::Number(1),
        get: |grant| Datum::Number(grant.room().most().unwrap_or(0).into()),
        set: |full, datum| {
            full.room = match small(datum)? {
                0 => Room::ANY,
                most => Room::limit(most)?,
            };
            Some(())
        },
        ..Field::NUMBER
    },
    // When the grant was made, in ms since 1970. 0 means that this is the time of its fence (see `Fence::granted_at`), as usual.
    Field {
        name: "made",
        get: |grant| Datum::Number(grant.explicit_made().unwrap_or(0).unsigned_abs()),
        set: |full, datum| {
            full.made = millis(datum).filter(|made| *made > 0)?;
            Some(())
        },
        is_agreed: false,
        ..Field::NUMBER
    },
    Field {
        name: "slot",
        get: |grant| Datum::Number(grant.explicit_slot().map_or(0, Slot::get).into()),
        set: |full, datum| {
            full.slot = Some(Slot::new(small(datum)?)?);
            Some(())
        },
        shown: Some(|grant| Datum::Number(grant.slot().map_or(0, Slot::get).into())),
        ..Field::NUMBER
    },
    Field {
        name: "label",
        usual: Datum::Bytes(b""),
        get: label,
        set: |full, datum| {
            let Datum::Bytes(label) = datum else { return None };
            let label = Some(label).filter(|label| label.len() <= MAX_LABEL_LEN)?;
            full.change_extras(|extras| extras.label = Some(label.into()).filter(|_| !label.is_empty()));
            Some(())
        },
        shown: Some(label),
        ..Field::NUMBER
    },
];

fn label(grant: &Grant) -> Datum<'_> {
    Datum::Bytes(grant.label())
}

fn small(datum: Datum<'_>) -> Option<u32> {
    u32::try_from(millis(datum)?).ok()
}

fn millis(datum: Datum<'_>) -> Option<Millis> {
    match datum {
        Datum::Number(number) => number.try_into().ok(),
        Datum::Bytes(_) => None,
    }
}

impl Grant {
    /// Returns the fields whose values in this grant differ from their `usual` values, each with its index in `FIELDS`.
    pub fn unusual(&self) -> impl Iterator<Item = (usize, &'static Field, Datum<'_>)> {
        const { &FIELDS }.iter().enumerate().filter_map(|(number, field)| {
            let datum = (field.get)(self);
            (datum != field.usual).then_some((number, field, datum))
        })
    }

    /// Returns the values that differ from the `usual` values of their fields, as far as digests include them, each with the index of its
    /// field. All servers agree about these values.
    pub fn agreed(&self) -> impl Iterator<Item = (usize, Datum<'_>)> {
        let unusual = self.unusual().filter(|(_, field, _)| field.is_agreed);
        unusual.map(|(number, _, datum)| (number, datum))
    }
}

/// The longest label, in bytes.
pub const MAX_LABEL_LEN: usize = 128;

/// Options that few requests and few grants have. The options are behind one pointer, so that a grant without options pays only for the
/// pointer. A waiter's request and the grant that it gets share the options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub struct Extras {
    /// The greatest age in ms that the grant may reach.
    pub(crate) max_hold: Option<Millis>,
    /// The label, which says who the owner is. A request without a label leaves the grant's label as it is. A request with an empty label
    /// removes the grant's label, so no grant has an empty label.
    pub(crate) label: Option<Box<[u8]>>,
}

impl Extras {
    pub fn new(max_hold: Option<Millis>, label: Option<&[u8]>) -> Option<Arc<Self>> {
        Self { max_hold, label: label.map(Into::into) }.shared()
    }

    /// Puts the extras behind a pointer. Returns `None` if no option is set.
    pub(super) fn shared(self) -> Option<Arc<Self>> {
        (self != Self::default()).then(|| Arc::new(self))
    }

    /// Returns the extras of a new grant: the extras of its request (`asked`), without an empty label.
    pub(super) fn granted(asked: &Option<Arc<Self>>) -> Option<Arc<Self>> {
        match asked.as_deref() {
            Some(Self { max_hold, label: Some(label) }) if label.is_empty() => Self::new(*max_hold, None),
            _ => asked.clone(),
        }
    }

    /// Returns the number of bytes on the heap.
    pub(super) fn heap_size(&self) -> usize {
        // An `Arc` has two counters in front of its value.
        2 * size_of::<usize>() + size_of::<Self>() + self.label.as_ref().map_or(0, |label| label.len())
    }
}
