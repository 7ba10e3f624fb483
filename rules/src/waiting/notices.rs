//! Who has to be told something, in this order.

use std::collections::VecDeque;

use super::lock_id::LockId;
use super::message::Message;
use super::queue::RequestId;
use crate::lock::Fence;

#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(super) enum Notice {
    Waiter(RequestId),
    Message(Message),
    /// The holder of this grant has to be told that somebody waits.
    Wanted(LockId, Fence),
}

/// A list in pieces. A list grows by copying all that it has, and a turn must not wait until a hundred thousand notices are copied.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(super) struct Notices {
    first: VecDeque<Notice>,
    rest: VecDeque<VecDeque<Notice>>,
}

/// The most notices of a piece.
const PIECE: usize = 512;

impl Notices {
    pub(super) const fn new() -> Self {
        Self { first: VecDeque::new(), rest: VecDeque::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_empty() && self.rest.is_empty()
    }

    #[inline]
    pub(super) fn push(&mut self, notice: Notice) {
        let last = self.rest.back_mut().unwrap_or(&mut self.first);
        if last.len() < PIECE {
            last.push_back(notice);
        } else {
            self.rest.push_back(VecDeque::from([notice]));
        }
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<Notice> {
        if self.first.is_empty() {
            self.first = self.rest.pop_front()?;
        }
        self.first.pop_front()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Notice> {
        self.first.iter().chain(self.rest.iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;

    #[test]
    fn many_notices_keep_their_order_and_are_never_copied_at_once() {
        let (mut notices, mut pushed, mut popped) = (Notices::new(), 0, 0);
        for round in 0..100 {
            for _ in 0..1_000 {
                pushed += 1;
                notices.push(Notice::Waiter(RequestId(NonZeroU64::new(pushed).unwrap())));
            }
            let pieces = notices.rest.iter().chain([&notices.first]);
            assert!(pieces.map(VecDeque::capacity).all(|room| room <= 2 * PIECE));
            for _ in 0..if round < 99 { 300 } else { u64::MAX } {
                let Some(Notice::Waiter(request)) = notices.pop() else { break };
                popped += 1;
                assert_eq!(request.0.get(), popped);
            }
        }
        assert!(notices.is_empty() && (pushed, popped) == (100_000, 100_000));
    }
}
