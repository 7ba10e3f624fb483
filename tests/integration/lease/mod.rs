//! How long a grant lasts: its lease, and the greatest age that no lease goes beyond.

mod max_hold;
mod max_hold_end;
mod ttl;
