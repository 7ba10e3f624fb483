//! Which tests of those that a server, or the module alone, has: by what is in their names.

/// What takes long is not for `scripts/test`: long sleeps, failovers, crowds and floods, wide worlds, and what random clients do.
pub(super) const LONG: [&str; 12] = [
    "worlds::promotion::",
    "worlds::wide::",
    "soak_",
    "history::",
    "failover::",
    "under_load",
    "cost::",
    "transfers::",
    "many::",
    "flood::",
    "threads::",
    // The command has to be built for them.
    "program::",
];

/// What servers do in ways of their own: events, expiry, the cluster, threads, rights, nested commands.
pub(super) const DIFFERING: [&str; 14] = [
    "keyspace",
    "events",
    "cluster::",
    "security::",
    "memory::",
    "transactions::",
    "meddler::",
    "pairs::",
    "persistence::",
    "replication::",
    "detect::looks::",
    "same_step",
    "wait::lapse::",
    "message_says",
];

/// Which tests of those that a server or the module alone has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slice {
    All,
    Short,
    /// Those that `Short` leaves out.
    Long,
    Differing,
    ShortDiffering,
    /// Those that `Differing` leaves out.
    Others,
}

impl Slice {
    /// For the program of the tests.
    pub(super) fn arguments(self) -> Vec<&'static str> {
        let without =
            |names: &[&'static str]| names.iter().flat_map(|name| ["--skip", name]).collect::<Vec<_>>();
        match self {
            Slice::All => Vec::new(),
            Slice::Short => without(&LONG),
            Slice::Long => LONG.to_vec(),
            Slice::Differing => DIFFERING.to_vec(),
            Slice::ShortDiffering => [DIFFERING.to_vec(), without(&LONG)].concat(),
            Slice::Others => without(&DIFFERING),
        }
    }
}
