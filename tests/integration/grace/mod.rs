//! `lock.failover-grace`: after a start, a promotion or a freeze, nothing new is granted for a while.

mod clock;
mod occasions;
mod shown;
