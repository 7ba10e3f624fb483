//! Waiting for one lock on a connection (`BLOCK`). Waiting without one is in `notify`, for several locks in `several`, for room in
//! `shared`.

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
