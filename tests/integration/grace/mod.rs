//! `lock.failover-grace`: after a start, a promotion or an awakening nothing new is granted for a while.

mod clock;
mod occasions;
mod shown;
