//! Limits how many lines of one kind the log gets in a second, and counts the lines that were left out.

use crate::lock::Millis;

/// The most lines of one kind in one second.
const MOST: usize = 10;

#[derive(Debug)]
pub struct RateLimit {
    /// The present second, since 1970.
    second: Millis,
    /// The number of lines that this second has.
    taken: usize,
    /// The number of lines that were left out in this second.
    left_out: u64,
    /// The number of lines that were left out in earlier seconds, and have not been reported.
    unreported: u64,
}

impl RateLimit {
    pub const fn new() -> Self {
        Self { second: 0, taken: 0, left_out: 0, unreported: 0 }
    }

    /// Returns how many more lines the log may have in this second.
    pub fn left(&mut self, now: Millis) -> usize {
        let second = now.div_euclid(1000);
        if second != self.second {
            let unreported = self.unreported + self.left_out;
            *self = Self { second, taken: 0, left_out: 0, unreported };
        }
        MOST - self.taken
    }

    /// Whether the log may have one more line now. If so, the line counts as written, and otherwise as left out.
    pub fn take(&mut self, now: Millis) -> bool {
        let may = self.left(now) > 0;
        if may {
            self.taken += 1;
        } else {
            self.left_out += 1;
        }
        may
    }

    pub fn leave_out(&mut self, count: u64) {
        self.left_out += count;
    }

    /// Returns how many lines were left out in earlier seconds. Each line is counted in only one result.
    pub fn unreported(&mut self, now: Millis) -> u64 {
        self.left(now);
        std::mem::take(&mut self.unreported)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_so_many_and_what_is_left_out_is_told_once_it_is_over() {
        let mut limit = RateLimit::new();
        let taken = (0..25).filter(|_| limit.take(5_100)).count();
        assert_eq!((taken, limit.left(5_900)), (MOST, 0));
        limit.leave_out(4);
        assert_eq!(limit.unreported(5_999), 0);
        assert!(limit.take(6_000));
        assert_eq!((limit.left(6_000), limit.unreported(6_000), limit.unreported(6_000)), (MOST - 1, 19, 0));
        assert_eq!(limit.unreported(9_000), 0);
    }

    /// Nothing asks for the unreported lines for some seconds.
    #[test]
    fn what_several_seconds_leave_out_adds_up() {
        let mut limit = RateLimit::new();
        for second in 1..=3 {
            (0..MOST + 2).for_each(|_| _ = limit.take(second * 1000));
        }
        assert_eq!(limit.unreported(4_000), 6);
    }

    /// If the clock is set back, another second begins.
    #[test]
    fn a_clock_that_is_set_back_keeps_nothing_back() {
        let mut limit = RateLimit::new();
        (0..MOST + 1).for_each(|_| _ = limit.take(50_000));
        assert!(limit.take(-1));
        assert_eq!(limit.unreported(-1), 1);
    }
}
