//! Waiting for one lock on a connection (`BLOCK`). Other ways to wait: without a connection in `notify`, for several locks in `several`,
//! for a shared lock in `shared`.

mod block;
mod hand_over;
mod keyspace;
mod lapse;
mod leave;
mod many;
mod no_writes;
mod order;
mod same_step;
mod turns;
