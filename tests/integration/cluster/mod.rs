//! Locks in a cluster: redirections, slots that move with waiters, failovers.

mod atomic;
mod importing;
mod nodes;
mod notify;
mod several;
mod slots;
mod sync;
mod under_load;
mod waits;

pub(crate) use nodes::Cluster;
