//! The commands of pairs, the ways to send a pair, and the kinds of waiters.
//!
//! Alice holds `k` and `j`, `s` is a string, `r` and `c` are free, and `w0` and `w1` wait. Each case has its own names: see `scene::NAMES`.
//! `{h}` is the id of alice's client or, with `SYNC`, of a client whose re-entry no replica confirms; `{w0}` is the id of the first waiter,
//! the only client of the user `guest`.

/// The commands of a pair. Flushes have `ASYNC`, because otherwise Redis 8 delays the rest of a pipeline.
pub(super) const COMMANDS: [&[&str]; 45] = [
    &["LOCK.ACQUIRE k OWNER alice PX 600000 NOTIFY ch"],
    &["LOCK.ACQUIRE k OWNER carol PX 600000 NOTIFY ch"],
    &["LOCK.ACQUIRE k OWNER w0 PX 600000 NOTIFY ch"],
    &["LOCK.MACQUIRE 2 k j OWNER carol PX 600000 NOTIFY ch"],
    &["LOCK.RELEASE k alice"],
    &["LOCK.RELEASE k w0"],
    &["LOCK.MRELEASE 2 k j alice"],
    &["LOCK.EXTEND k alice PX 500000"],
    &["LOCK.EXTEND k w0 PX 500000"],
    &["LOCK.MEXTEND 2 k j alice PX 500000"],
    &["LOCK.EXTEND k alice PX 1", "DEBUG SLEEP 0.003"],
    &["LOCK.LEAVE k w0"],
    &["LOCK.BREAK k"],
    &["LOCK.BREAK k FENCE {fence}"],
    &["LOCK.INFO k FULL"],
    &["LOCK.WAITS KEY k"],
    &["LOCK.WAITS TOP"],
    &["DEL k"],
    &["UNLINK k j"],
    &["FLUSHDB ASYNC"],
    &["FLUSHALL ASYNC"],
    &["SWAPDB 0 1"],
    &["RENAME k r"],
    &["RENAME s k"],
    &["MOVE k 1"],
    &["COPY k c"],
    &["COPY j k REPLACE"],
    &["RESTORE k 0 {dump} REPLACE"],
    &["SET k text"],
    &["PEXPIRE k 0"],
    &["EXPIRE k 500"],
    &["PERSIST k"],
    &["CLIENT KILL ID {w0}"],
    &["CLIENT KILL ID {h}"],
    &["CLIENT UNBLOCK {w0} ERROR"],
    &["CLIENT UNBLOCK {w0} TIMEOUT"],
    &["CLIENT PAUSE 600000 WRITE"],
    &["CLIENT UNPAUSE"],
    &["ACL DELUSER guest"],
    &["ACL SETUSER guest off"],
    &["ACL SETUSER guest -@all"],
    &["CONFIG SET lock.max-waiters 1"],
    &["REPLICAOF NO ONE"],
    &["DEBUG SLEEP 0"],
    &["DEBUG SET-ACTIVE-EXPIRE 0"],
];

/// How the server receives both commands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Way {
    Multi,
    Pipeline,
    /// On two connections, while the server is stopped.
    Connections,
}

/// How alice holds the locks, and how the others wait.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    /// The options of alice's acquire.
    pub(super) holds: &'static str,
    /// The waiters' command.
    pub(super) waits: &'static str,
}

#[derive(Clone, Copy)]
pub(super) struct Case {
    pub(super) kind: Kind,
    pub(super) way: Way,
    pub(super) pair: [&'static [&'static str]; 2],
}

/// Returns all cases of this kind. Cases that delete everything come last.
pub(super) fn cases(kind: Kind) -> Vec<Case> {
    let mut cases = Vec::new();
    for first in COMMANDS {
        for second in COMMANDS {
            let all = [Way::Multi, Way::Pipeline, Way::Connections];
            cases.extend(all.map(|way| Case { kind, way, pair: [first, second] }));
        }
    }
    cases.sort_by_key(Case::wipes);
    cases
}

impl Case {
    pub(super) fn has(&self, start: &str) -> bool {
        self.pair.iter().any(|lines| lines.iter().any(|line| line.starts_with(start)))
    }

    pub(super) fn wipes(&self) -> bool {
        self.has("FLUSH")
    }

    /// Whether a grant may be under another name afterwards, or in two places.
    pub(super) fn moves_grants(&self) -> bool {
        ["SWAPDB", "RENAME k", "MOVE", "COPY", "RESTORE"].iter().any(|start| self.has(start))
    }

    pub(super) fn waits_by_message(&self) -> bool {
        self.kind.waits.contains("NOTIFY")
    }

    pub(super) fn has_bob(&self) -> bool {
        self.kind.holds.contains("LIMIT")
    }

    pub(super) fn is_unconfirmed(&self) -> bool {
        self.kind.waits.contains("SYNC")
    }

    pub(super) fn starts(&self) -> bool {
        self.kind.waits.contains("START")
    }

    pub(super) fn several(&self) -> bool {
        self.kind.waits.contains("MACQUIRE")
    }
}

/// Shows the case in a form that one can type into `redis-cli`.
impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let limit =
            if self.has_bob() { "\n  bob: LOCK.ACQUIRE k OWNER bob PX 600000 LIMIT 2 NOTIFY ch" } else { "" };
        let sync = if self.is_unconfirmed() {
            "\n  h: LOCK.ACQUIRE k OWNER alice PX 600000 SYNC 2 600000   (blocks: there is one replica)"
        } else {
            ""
        };
        write!(f, "  ACL SETUSER guest on nopass ~* &* +@all; SET s text; SUBSCRIBE ch elsewhere")?;
        write!(
            f,
            "\n  h: LOCK.MACQUIRE 2 k j OWNER alice PX 600000 NOTIFY ch {}{limit}{sync}",
            self.kind.holds
        )?;
        for (who, before) in [("w0", "AUTH guest x; "), ("w1", "")] {
            write!(f, "\n  {who}: {before}{}", self.kind.waits.replace("{w}", who))?;
        }
        write!(f, "\n  then, {:?}: {}  |  {}", self.way, self.pair[0].join("; "), self.pair[1].join("; "))
    }
}
