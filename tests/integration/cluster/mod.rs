//! Locks in a cluster: redirections, slots that move with waiters, failovers.

mod atomic;
mod importing;
mod nodes;
mod notify;
mod slots;
mod under_load;
