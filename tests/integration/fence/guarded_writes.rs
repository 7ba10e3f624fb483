//! A stale holder can't write to the server of its lock: `WATCH` the lock, check that the grant is one's own, `MULTI`, write, `EXEC`.

use redis::Value;

use crate::support::{Client, Grant, Server, convert, grant, wait_for, wait_until};

/// Alice holds `k`. One connection writes under this grant, and the other one disturbs it.
struct Scene {
    _server: Server,
    writer: Client,
    other: Client,
    grant: Grant,
}

impl Scene {
    #[track_caller]
    fn new() -> Self {
        let (server, [mut writer, other]) = Server::and_clients();
        let grant = writer.acquire("k", "OWNER alice PX 600000").unwrap();
        Self { _server: server, writer, other, grant }
    }

    /// Watches the lock. Returns whether alice's grant holds it.
    #[track_caller]
    fn watch(&mut self) -> bool {
        self.writer.ask::<()>("WATCH k");
        let holder = self.writer.holder("k");
        holder.is_some_and(|holder| {
            (holder.owner, holder.fence) == (self.grant.owner.clone(), self.grant.fence)
        })
    }

    /// Writes in a transaction. Returns whether it succeeded.
    #[track_caller]
    fn write(&mut self) -> bool {
        write(&mut self.writer)
    }

    /// Watches, checks the holder and writes, as a program does.
    #[track_caller]
    fn try_write(&mut self) -> bool {
        let mine = self.watch();
        assert!(mine, "not alice's");
        self.write()
    }
}

#[track_caller]
fn write(client: &mut Client) -> bool {
    client.ask::<()>("DEL data");
    client.ask::<()>("MULTI");
    client.ask::<()>("SET data written");
    let reply: Value = client.ask("EXEC");
    let written = client.ask::<i64>("EXISTS data") == 1;
    assert_eq!(reply != Value::Nil, written, "{reply:?}");
    written
}

/// The same transaction can also release the lock.
#[test]
fn a_write_goes_through_while_the_lock_is_held() {
    let mut scene = Scene::new();
    assert!(scene.try_write());
    assert!(scene.watch());
    scene.writer.ask::<()>("MULTI");
    scene.writer.ask::<()>("SET data written");
    scene.writer.ask::<()>("LOCK.RELEASE k alice");
    assert_eq!(scene.writer.ask::<(String, i64)>("EXEC"), ("OK".into(), 0));
    assert_eq!(scene.other.holder("k"), None);
}

#[test]
fn nothing_is_written_once_somebody_has_ended_the_grant() {
    for lines in [
        &["LOCK.BREAK k"][..],
        &["LOCK.RELEASE k alice"],
        &["DEL k"],
        &["UNLINK k"],
        &["RENAME k other"],
        &["SET k text"],
        &["FLUSHALL"],
        &["SWAPDB 0 1"],
        &["LOCK.BREAK k", "LOCK.ACQUIRE k OWNER bob"],
        &["DEL k", "LOCK.ACQUIRE k OWNER alice"],
    ] {
        let mut scene = Scene::new();
        assert!(scene.watch());
        for line in lines {
            scene.other.ask::<()>(line);
        }
        assert!(!scene.write(), "{lines:?}");
        if lines == ["SET k text"] {
            assert!(scene.other.refused("LOCK.INFO k").starts_with("WRONGTYPE"));
        } else {
            assert!(!scene.watch(), "{lines:?}");
        }
    }
}

/// Acquires and watches in one round trip, because the lease is too short for more. Returns when the lease ends.
#[track_caller]
fn watch_a_short_lease(client: &mut Client) -> i64 {
    let lines = ["LOCK.ACQUIRE k OWNER alice PX 300", "WATCH k", "LOCK.INFO k", "PEXPIRETIME k"]
        .map(|line| line.split(' '));
    client.begin_together(&lines.map(|words| words.collect::<Vec<_>>()));
    let fence = grant(client.finish().unwrap()).unwrap().fence;
    client.finish().unwrap();
    let info: Vec<String> = convert(client.finish().unwrap());
    assert_eq!((&info[1], &info[3]), (&"alice".to_owned(), &fence.to_string()));
    convert(client.finish().unwrap())
}

/// The server deletes a key some time after its expiry, or when a command accesses it.
#[test]
fn nothing_is_written_once_the_lease_is_over_though_the_key_is_still_there() {
    let (_server, [mut writer, mut other]) = Server::and_clients();
    other.ask::<()>("DEBUG SET-ACTIVE-EXPIRE 0");
    let ends = watch_a_short_lease(&mut writer);
    wait_until(&mut other, ends);
    assert_eq!(other.ask::<i64>("DBSIZE"), 1);
    assert!(!write(&mut writer));
}

/// The server does not fail a transaction for a key that had expired when it was first watched. So a program must check the lock after
/// `WATCH`.
#[test]
fn a_lease_that_is_over_before_it_is_watched_is_told_by_the_look_at_the_lock() {
    let (_server, [mut writer, mut other]) = Server::and_clients();
    other.ask::<()>("DEBUG SET-ACTIVE-EXPIRE 0");
    let lapsed = |writer: &mut Client, other: &mut Client| {
        let ends = watch_a_short_lease(writer);
        writer.ask::<()>("UNWATCH");
        wait_until(other, ends);
        assert_eq!(other.ask::<i64>("EXISTS data") + 1, other.ask::<i64>("DBSIZE"), "its key is there");
        writer.ask::<()>("WATCH k");
    };
    lapsed(&mut writer, &mut other);
    assert!(write(&mut writer), "without a look");
    other.ask::<i64>("DEL k");

    lapsed(&mut writer, &mut other);
    assert_eq!(writer.holder("k"), None);
    assert!(write(&mut writer), "the look has deleted the key, and nothing else has happened to it");

    lapsed(&mut writer, &mut other);
    other.acquire("k", "OWNER bob").unwrap();
    assert!(!write(&mut writer), "somebody has taken the lock since");
}

/// The key lives as long as the last lease, so the end of another lease shows only with the next write to the lock. A new writer needs such
/// a write, so none has come in between.
#[test]
fn the_end_of_one_of_several_leases_fails_the_transaction_only_once_somebody_writes_to_the_lock() {
    let (_server, [mut writer, mut other]) = Server::and_clients();
    let watch_both = |writer: &mut Client, other: &mut Client| {
        other.acquire("k", "OWNER bob PX 600000 SHARED").unwrap();
        other.acquire("k", "OWNER alice PX 200 SHARED").unwrap();
        writer.ask::<()>("WATCH k");
        wait_for("the end of alice's lease", || other.holding("k") == ["bob"]);
    };
    watch_both(&mut writer, &mut other);
    assert!(write(&mut writer), "nobody has written to the lock");
    other.ask::<()>("DEL k");

    watch_both(&mut writer, &mut other);
    assert_eq!(other.acquire("k", "OWNER carol"), None);
    assert!(!write(&mut writer), "a refused try has taken out what had lapsed");
    other.ask::<()>("DEL k");

    watch_both(&mut writer, &mut other);
    other.ask::<()>("LOCK.RELEASE k bob");
    other.acquire("k", "OWNER carol").unwrap();
    assert!(!write(&mut writer), "a writer has come in");
}
