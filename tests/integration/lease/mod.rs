//! How long a grant lasts: its lease, and the maximum age that limits all leases.

mod max_hold;
mod max_hold_end;
mod ttl;
