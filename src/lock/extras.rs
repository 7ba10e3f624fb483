//! What few grants have beside what all have.

use std::sync::Arc;

use super::Millis;

/// The longest label, in bytes.
pub(crate) const MAX_LABEL_LEN: usize = 128;

/// What few ask for, and few grants have: behind one pointer, so that the others pay for no more than that. A waiter and the grant
/// that comes of it share it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct Extras {
    /// The greatest age in ms that the grant may reach.
    pub(crate) max_hold: Option<Millis>,
    /// The label: it says in words who holds the lock. A request without it changes no label; an empty one takes it away, so no grant has that.
    pub(crate) label: Option<Box<[u8]>>,
}

impl Extras {
    pub(crate) fn new(max_hold: Option<Millis>, label: Option<&[u8]>) -> Option<Arc<Self>> {
        Self { max_hold, label: label.map(Into::into) }.shared()
    }

    /// None where there is nothing in it.
    pub(super) fn shared(self) -> Option<Arc<Self>> {
        (self != Self::default()).then(|| Arc::new(self))
    }

    /// What a grant has of which a primary or a file tells. An age of 0: none of its own.
    pub(crate) fn of_grant(max_hold: Millis, label: &[u8]) -> Option<Arc<Self>> {
        Self::new(Some(max_hold).filter(|age| *age > 0), Some(label).filter(|label| !label.is_empty()))
    }

    /// What a grant has of what was asked for.
    pub(super) fn granted(asked: &Option<Arc<Self>>) -> Option<Arc<Self>> {
        match asked.as_deref() {
            Some(Self { max_hold, label: Some(label) }) if label.is_empty() => Self::new(*max_hold, None),
            _ => asked.clone(),
        }
    }

    /// Bytes on the heap.
    pub(super) fn heap_size(&self) -> usize {
        // Two counters stand in front of it.
        2 * size_of::<usize>() + size_of::<Self>() + self.label.as_ref().map_or(0, |label| label.len())
    }
}
