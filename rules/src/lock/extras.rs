//! Options that few grants have: `MAXHOLD` and `LABEL`.

use std::sync::Arc;

use super::Millis;

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
