//! Finds what endangers locks on a server, from what the server reports about itself: a pure function.

use serde::Serialize;

use crate::doctor::facts::{Facts, Module, Unchecked};
use crate::doctor::rights;
use crate::failure::Failure;

/// The module's version for which this program was made: 0.1.0.
const VERSION: u64 = 100;
/// How far apart, in ms, the clocks of a primary and its replica may be. A lease ends at an absolute time, so a failover makes it longer or
/// shorter by the difference.
const CLOCKS_MS: u64 = 500;
/// How many bytes the output buffer for the subscription of a busy package may need: some ten thousand messages.
const BUFFER: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Severity {
    Warning,
    /// The server could not be asked, so the danger may exist.
    NotChecked,
    Danger,
}

#[derive(Debug, Serialize)]
pub(crate) struct Finding {
    /// An identifier for programs that read the findings; it never changes.
    pub(crate) id: &'static str,
    pub(crate) severity: Severity,
    pub(crate) what: String,
    pub(crate) why: &'static str,
    pub(crate) mend: &'static str,
    pub(crate) page: &'static str,
}

use Severity::{Danger, NotChecked, Warning};

/// All findings, the worst first.
pub(crate) fn findings(facts: &Facts) -> Vec<Finding> {
    let mut all = Vec::new();
    module(facts, &mut all);
    memory(facts, &mut all);
    persistence(facts, &mut all);
    replicas(facts, &mut all);
    settings(facts, &mut all);
    connections(facts, &mut all);
    rights::findings(facts, &mut all);
    for Unchecked { what, why, mend } in &facts.unchecked {
        found(
            &mut all,
            "not-checked",
            NotChecked,
            format!("{what}: {why}"),
            [
                "dangers that it shows were not looked for",
                mend,
                "docs/operations/secure.md#rights-of-redislock",
            ],
        );
    }
    all.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    all
}

pub(crate) fn found(
    all: &mut Vec<Finding>,
    id: &'static str,
    severity: Severity,
    what: impl Into<String>,
    [why, mend, page]: [&'static str; 3],
) {
    all.push(Finding { id, severity, what: what.into(), why, mend, page });
}

/// The finding for a primary of a cluster that can't be asked.
pub(crate) fn is_down(why: &Failure) -> Finding {
    Finding {
        id: "down",
        severity: Danger,
        what: why.to_string(),
        why: "its locks can't be acquired, extended or released",
        mend: "bring it back; or at its replica, CLUSTER FAILOVER FORCE",
        page: "docs/operations/failover.md#failover",
    }
}

fn module(facts: &Facts, all: &mut Vec<Finding>) {
    match facts.module {
        Some(Module::No) => found(
            all,
            "no-module",
            Danger,
            "the server has no Redislock module",
            [
                "there are no lock commands: every acquire fails",
                "loadmodule /usr/lib/redis/modules/libredislock.so in the server's configuration",
                "docs/operations/install.md",
            ],
        ),
        Some(Module::Yes(Some(version))) if version < VERSION => {
            found(
                all,
                "old-module",
                Warning,
                format!("the module's version is {version}, this program's {VERSION}"),
                [
                    "options that the packages use may be unknown to it",
                    "upgrade the module",
                    "docs/operations/upgrade.md",
                ],
            );
        }
        _ => {}
    }
}

fn memory(facts: &Facts, all: &mut Vec<Finding>) {
    let Some(policy) = facts.setting("maxmemory-policy") else { return };
    if policy == "noeviction" {
        return;
    }
    // Each lock has an expiry, so every policy but noeviction may evict locks.
    let limit = facts.number("maxmemory").unwrap_or_default();
    let severity = if limit > 0 { Danger } else { Warning };
    let what = match limit {
        0 => format!("maxmemory-policy is {policy}; maxmemory is 0, so nothing is evicted yet"),
        _ => format!("maxmemory-policy is {policy}, with maxmemory {limit}"),
    };
    found(
        all,
        "eviction",
        severity,
        what,
        [
            "a server that is full deletes locks that are held, and the next one gets them",
            "CONFIG SET maxmemory-policy noeviction, or a server of its own for locks",
            "docs/operations/configure.md#maxmemory-policy",
        ],
    );
}

fn persistence(facts: &Facts, all: &mut Vec<Finding>) {
    match (facts.setting("appendonly"), facts.setting("appendfsync")) {
        (Some("no"), _) => {
            let grace = facts.number("lock.failover-grace").unwrap_or_default();
            // If the grace is longer than the leases, the new primary grants nothing until leases that it doesn't know of are over.
            if grace == 0 {
                found(
                    all,
                    "no-aof",
                    Warning,
                    "there is no append-only file (appendonly no), and no lock.failover-grace",
                    [
                        "after a crash or a restart the server has forgotten who holds, while holders still work",
                        "CONFIG SET appendonly yes, or lock.failover-grace as long as the longest lease",
                        "docs/operations/failover.md#persistence",
                    ],
                );
            }
        }
        (Some("yes"), fsync)
            if facts.number("lock.failover-grace").unwrap_or_default() == 0
                && (fsync != Some("always") || facts.setting("no-appendfsync-on-rewrite") == Some("yes")) =>
        {
            found(
                all,
                "aof-not-always",
                Warning,
                "the append-only file is not always on disk before the answer (appendfsync, no-appendfsync-on-rewrite)",
                [
                    "a machine that crashes loses the grants of the last second: two may hold a lock then",
                    "CONFIG SET appendfsync always no-appendfsync-on-rewrite no, or lock.failover-grace as long as the longest lease",
                    "docs/operations/failover.md#persistence",
                ],
            );
        }
        _ => {}
    }
    if facts.is("aof_last_write_status", "err") || facts.is("rdb_last_bgsave_status", "err") {
        found(
            all,
            "writes-fail",
            Danger,
            "the server could not write its file the last time",
            [
                "a restart forgets the locks, and the server may refuse all writes, releases too",
                "look at the server's log, and at the disk",
                "docs/operations/failover.md#persistence",
            ],
        );
    }
}

fn replicas(facts: &Facts, all: &mut Vec<Finding>) {
    if facts.is("role", "slave") {
        found(
            all,
            "replica",
            Danger,
            "this server is a replica",
            [
                "locks are acquired at the primary; a replica refuses",
                "connect to the primary, or through sentinels (--sentinel) or the cluster (--cluster)",
                "docs/operations/failover.md#replicas",
            ],
        );
        return;
    }
    // INFO has this field only if `min-replicas-to-write` is at least 1.
    let asks = facts.number("min-replicas-to-write").unwrap_or(1);
    if facts.info.contains_key("min_slaves_good_slaves") && facts.count("min_slaves_good_slaves") < asks {
        found(
            all,
            "no-replicas",
            Danger,
            "the server refuses all writes with NOREPLICAS: fewer replicas are connected than min-replicas-to-write asks for",
            [
                "no lock can be acquired, extended or released",
                "bring a replica back; without one, CONFIG SET min-replicas-to-write 0",
                "docs/operations/failover.md#failover",
            ],
        );
    }
    let cluster = facts.is("cluster_enabled", "1");
    if facts.count("connected_slaves") > 0 {
        let grace = facts.number("lock.failover-grace").unwrap_or_default();
        let asks = asks_replicas(facts);
        if facts.settings.is_some() && grace == 0 && asks == 0 {
            found(
                all,
                "failover",
                Danger,
                "there are replicas, but neither lock.failover-grace nor min-replicas-to-write is set",
                [
                    "a failover loses the grants that the replica has not got yet: two may hold a lock then",
                    "lock.failover-grace as long as the longest lease on all servers, with min-replicas-to-write 1; or SYNC in each acquire that matters",
                    "docs/operations/failover.md#failover",
                ],
            );
        } else if facts.settings.is_some() && (grace == 0 || asks == 0) {
            let (what, missing) = if grace == 0 {
                ("min-replicas-to-write", "lock.failover-grace")
            } else {
                ("lock.failover-grace", "min-replicas-to-write")
            };
            found(
                all,
                "failover",
                Warning,
                format!("{what} is set, but not {missing}"),
                [
                    "each alone leaves a gap in a failover: a primary that is cut off goes on granting, or its last grants are lost",
                    "set both, or SYNC in each acquire that matters",
                    "docs/operations/failover.md#failover",
                ],
            );
        }
    } else if cluster {
        found(
            all,
            "no-replica",
            Warning,
            "this node of the cluster has no replica",
            [
                "if it ends, its locks can't be acquired until it is back",
                "give each primary a replica",
                "docs/operations/failover.md#failover",
            ],
        );
    }
    for (replica, settings) in &facts.replicas {
        let unlike = OF_PRIMARIES.into_iter().filter_map(|name| {
            let (own, other) = (facts.setting(name)?, settings.get(name)?);
            (own != other).then(|| format!("{name} is {other}, not {own}"))
        });
        let unlike: Vec<String> = unlike.collect();
        if !unlike.is_empty() {
            found(
                all,
                "replica-settings",
                Warning,
                format!("the replica {replica} has other settings than its primary: {}", unlike.join("; ")),
                [
                    "they count once the replica is promoted",
                    "set them on all servers, and in their files",
                    "docs/operations/failover.md#failover",
                ],
            );
        }
    }
    for (replica, ahead) in &facts.clocks {
        if ahead.unsigned_abs() > CLOCKS_MS {
            found(
                all,
                "clocks",
                Danger,
                format!("the clock of the replica {replica} is {ahead} ms ahead of its primary's"),
                [
                    "a lease is a moment of the clock: after a failover it ends by so much too early or too late",
                    "synchronize the clocks (chrony, NTP)",
                    "docs/safety.md#hazards",
                ],
            );
        }
    }
}

/// How many replicas a write needs. If `min-replicas-max-lag` is 0, no write needs any.
fn asks_replicas(facts: &Facts) -> u64 {
    let asks = facts.number("min-replicas-to-write").unwrap_or_default();
    if facts.number("min-replicas-max-lag") == Some(0) { 0 } else { asks }
}

/// The settings that take effect once a replica is promoted.
const OF_PRIMARIES: [&str; 6] = [
    "lock.default-lease",
    "lock.failover-grace",
    "lock.max-lease",
    "maxmemory-policy",
    "min-replicas-max-lag",
    "min-replicas-to-write",
];
/// How long, in ms, servers and sentinels may take to notice a failure and react.
const REACTION_MS: u64 = 5_000;

fn settings(facts: &Facts, all: &mut Vec<Finding>) {
    let of = |name: &str| facts.number(name).unwrap_or_default();
    let (default, most) = (of("lock.default-lease"), of("lock.max-lease"));
    if most > 0 && default > most {
        found(
            all,
            "leases",
            Warning,
            format!("lock.default-lease is {default} ms, above lock.max-lease, {most} ms"),
            [
                "who names no lease gets the shorter one",
                "set lock.default-lease to at most lock.max-lease",
                "docs/operations/configure.md#settings",
            ],
        );
    }
    let claim = of("lock.claim");
    if claim > 0 && claim < 4_000 {
        found(
            all,
            "claim",
            Warning,
            format!("lock.claim is {claim} ms, less than the 4 s after which the packages ask again"),
            [
                "a message that is lost costs a waiter its turn",
                "CONFIG SET lock.claim 5000",
                "docs/operations/configure.md#settings",
            ],
        );
    }
    let grace = of("lock.failover-grace");
    let longest = default.max(most);
    if grace > 0 && grace < longest {
        found(
            all,
            "grace",
            Danger,
            format!("lock.failover-grace is {grace} ms, shorter than leases may be, {longest} ms"),
            [
                "a lease that a failover has lost may still run when the grace is over: two may hold a lock then",
                "set lock.failover-grace to the longest lease, and lock.max-lease so that there is none longer",
                "docs/operations/failover.md#failover",
            ],
        );
    } else if grace > 0 && most == 0 {
        found(
            all,
            "grace-no-cap",
            Warning,
            "lock.failover-grace is set, but lock.max-lease is not",
            [
                "a client may ask for a lease that outlasts the grace",
                "set lock.max-lease to lock.failover-grace",
                "docs/operations/failover.md#failover",
            ],
        );
    }
    // The grace of the new primary must last for as long as the old primary may still grant locks.
    let lag = of("min-replicas-max-lag") * 1_000;
    let timeout = if facts.is("cluster_enabled", "1") { of("cluster-node-timeout") } else { 0 };
    let least = longest.saturating_add(lag.max(timeout)).saturating_add(REACTION_MS);
    let has_both = facts.count("connected_slaves") > 0 && asks_replicas(facts) > 0;
    if most > 0 && has_both && (longest..least).contains(&grace) {
        found(
            all,
            "grace",
            Warning,
            format!(
                "lock.failover-grace is {grace} ms, less than leases, min-replicas-max-lag and 5 s together: {least} ms"
            ),
            [
                "a primary that is cut off may grant a lease that outlasts the grace of the new one: two may hold a lock then",
                "set lock.failover-grace to this sum, or lower lock.max-lease or min-replicas-max-lag",
                "docs/operations/failover.md#failover",
            ],
        );
    }
    if facts.number("lock.max-holders") == Some(0) {
        found(
            all,
            "holders",
            Warning,
            "lock.max-holders is 0: any number of clients may hold one lock",
            [
                "one client can make a lock so large that each command on it is slow",
                "CONFIG SET lock.max-holders 1000",
                "docs/operations/configure.md#many-holders-of-one-lock",
            ],
        );
    }
}

fn connections(facts: &Facts, all: &mut Vec<Finding>) {
    let timeout = facts.number("timeout").unwrap_or_default();
    if timeout > 0 {
        found(
            all,
            "timeout",
            Warning,
            format!("timeout is {timeout} s"),
            [
                "a holder with a session that is silent for that long is cut off, and loses its lock",
                "CONFIG SET timeout 0; tcp-keepalive finds out who has gone",
                "docs/operations/configure.md#how-long-a-session-outlives-its-holder",
            ],
        );
    }
    if facts.setting("tcp-keepalive") == Some("0") {
        found(
            all,
            "keepalive",
            Warning,
            "tcp-keepalive is 0",
            [
                "a host that vanishes keeps the locks of its sessions for hours",
                "CONFIG SET tcp-keepalive 60",
                "docs/operations/configure.md#how-long-a-session-outlives-its-holder",
            ],
        );
    }
    // For example "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60".
    let words: Vec<&str> =
        facts.setting("client-output-buffer-limit").unwrap_or_default().split(' ').collect();
    let pubsub = words.iter().position(|word| *word == "pubsub").map(|at| words.iter().skip(at + 1).take(2));
    if let Some(limits) = pubsub
        && let Some(least) =
            limits.filter_map(|word| word.parse::<u64>().ok()).filter(|limit| *limit > 0).min()
        && least < BUFFER
    {
        found(
            all,
            "pubsub-buffer",
            Warning,
            format!("client-output-buffer-limit cuts subscribers off at {least} bytes"),
            [
                "a package hears of its grants over one subscription: one with thousands of waiters is cut off, and asks anew each time",
                "CONFIG SET client-output-buffer-limit \"pubsub 32mb 8mb 60\"",
                "docs/operations/configure.md#settings-of-the-server",
            ],
        );
    }
    if facts.is("cluster_enabled", "1") && facts.setting("cluster-allow-pubsubshard-when-down") == Some("no")
    {
        found(
            all,
            "cluster-pubsub",
            Warning,
            "cluster-allow-pubsubshard-when-down is no",
            [
                "in a cluster that is partly down, messages of grants don't come, and waits take until they ask again",
                "CONFIG SET cluster-allow-pubsubshard-when-down yes",
                "docs/commands/notify.md",
            ],
        );
    }
}

#[cfg(test)]
mod tests;
