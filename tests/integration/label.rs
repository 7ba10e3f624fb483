//! `LABEL`: a description of the holder, as text.

use std::collections::HashMap;

use redis::Value;

use crate::support::{Client, Server, Waiter, convert, grant, heard, in_each_kind_of_file, soon};

/// The label has any bytes, including the module's own separators.
const ODD: &[u8] = b"host 7,\0/3:\r\n\xff~<=+";

#[track_caller]
fn label(client: &mut Client, key: &str) -> String {
    client.lock_info(key).expect("a held lock")["label"].clone()
}

/// Returns the labels that `LOCK.INFO ... FULL` shows, of holders or of waiters.
#[track_caller]
fn labels(client: &mut Client, part: &str) -> Vec<String> {
    let mut info: HashMap<String, Value> = client.ask("LOCK.INFO k FULL");
    let all: Vec<HashMap<String, String>> = convert(info.remove(part).unwrap());
    all.into_iter().map(|mut one| one.remove("label").unwrap()).collect()
}

#[test]
fn a_holder_has_the_label_that_it_gave_last() {
    let (_server, mut client) = Server::and_client();
    client.acquire("k", "OWNER a LABEL one").unwrap();
    assert_eq!(label(&mut client, "k"), "one");
    let before = client.snapshot();
    client.acquire("k", "OWNER a ONCE PX 1").unwrap();
    client.acquire("k", "OWNER a ONCE PX 1 LABEL one").unwrap();
    assert_eq!(client.snapshot(), before, "nothing new");
    client.acquire("k", "OWNER a ONCE PX 1 LABEL two").unwrap();
    assert_eq!(label(&mut client, "k"), "two");
    client.ask::<i64>("LOCK.EXTEND k a PX 60000");
    assert_eq!(label(&mut client, "k"), "two");
    client.ask_words::<Value, _>(["LOCK.ACQUIRE", "k", "OWNER", "a", "ONCE", "LABEL", ""]);
    assert_eq!(label(&mut client, "k"), "");
    // The label ends with the grant.
    client.acquire("k", "OWNER a LABEL three").unwrap();
    client.ask::<i64>("LOCK.RELEASE k a ALL");
    client.acquire("k", "OWNER a").unwrap();
    assert_eq!(label(&mut client, "k"), "");
}

#[test]
fn waiters_have_labels_too() {
    let (server, mut client, mut mail) = heard("");
    client.acquire("k", "OWNER a LABEL first").unwrap();
    let mut blocked = Waiter::new(&server, "k", "OWNER b LABEL second SHARED");
    let place = |label: &str| format!("LOCK.ACQUIRE k OWNER c ONCE BLOCK 0 NOTIFY ch SHARED LABEL {label}");
    assert_eq!(client.ask::<String>(&place("third")), "QUEUED");
    assert_eq!(labels(&mut client, "queue"), ["second", "third"]);
    assert_eq!(client.ask::<String>(&place("again")), "QUEUED");
    let (_, waits): (String, Vec<HashMap<String, Value>>) = client.ask("LOCK.WAITS KEY k");
    let shown: Vec<String> = waits.iter().map(|one| convert(one["label"].clone())).collect();
    assert_eq!(shown, ["second", "again"]);
    let holders: Vec<HashMap<String, String>> = convert(waits[0]["holders"].clone());
    assert_eq!(holders[0]["label"], "first");
    client.ask::<i64>("LOCK.RELEASE k a");
    blocked.granted();
    assert!(mail.next().starts_with("granted "));
    assert_eq!(labels(&mut client, "grants"), ["second", "again"]);
    grant(client.ask(&place("claimed"))).unwrap();
    assert_eq!(labels(&mut client, "grants"), ["second", "claimed"]);
}

/// Acquires `odd` with unusual bytes, and `k` with three holders, of which one has a label.
fn take(client: &mut Client) {
    let words: [&[u8]; 7] = [b"LOCK.ACQUIRE", b"odd", b"OWNER", b"a,b", b"EX", b"600", b"LABEL"];
    client.ask_words::<Value, _>(words.into_iter().chain([ODD]));
    for (owner, options) in [("a", "LIMIT 3"), ("b", "LIMIT 3 LABEL bob"), ("c", "SHARED LABEL carol")] {
        client.acquire("k", &format!("OWNER {owner} EX 600 {options}")).unwrap();
    }
}

#[track_caller]
fn are_there(client: &mut Client) {
    let info: HashMap<String, Value> = client.ask("LOCK.INFO odd");
    assert_eq!(convert::<Vec<u8>>(info["label"].clone()), ODD);
    assert_eq!(convert::<String>(info["owner"].clone()), "a,b");
    assert_eq!(labels(client, "grants"), ["", "bob", "carol"]);
    let slots: Vec<_> = client.holders("k").iter().map(|one| one.slot).collect();
    assert_eq!(slots, [1, 2, 0]);
}

#[test]
fn labels_come_back_from_each_kind_of_file() {
    in_each_kind_of_file(take, |server, ()| are_there(&mut server.client()));
}

#[test]
fn replicas_and_payloads_have_labels() {
    let primary = Server::start();
    let replica = primary.replica();
    let (mut client, mut there) = (primary.client(), replica.client());
    take(&mut client);
    replica.wait_for_sync_with(&primary);
    are_there(&mut there);
    let digest = |client: &mut Client| client.ask::<Vec<String>>("DEBUG DIGEST-VALUE k odd");
    assert_eq!(digest(&mut there), digest(&mut client));
    for key in ["k", "odd"] {
        let dump: Vec<u8> = client.ask(&format!("DUMP {key}"));
        client.ask_words::<(), _>([b"RESTORE", key.as_bytes(), b"600000", &dump, b"REPLACE"]);
    }
    are_there(&mut client);
    soon("the replica to have it", || digest(&mut there) == digest(&mut client));
}

/// A lock with a label stays exclusive, and nothing remains of the label after it is removed.
#[test]
fn a_label_taken_away_leaves_a_plain_lock() {
    let (_server, mut client) = Server::and_client();
    client.acquire("k", "EX 600").unwrap();
    let owner = client.holder("k").unwrap().owner;
    let look = |client: &mut Client| (client.ask("DUMP k"), client.ask("MEMORY USAGE k"));
    let plain: (Vec<u8>, i64) = look(&mut client);
    client.acquire("k", &format!("OWNER {owner} ONCE LABEL x")).unwrap();
    assert_ne!(look(&mut client), plain);
    assert_eq!(client.lock_info("k").unwrap()["mode"], "exclusive");
    client.ask_words::<Value, _>(["LOCK.ACQUIRE", "k", "OWNER", &owner, "ONCE", "LABEL", ""]);
    assert_eq!(look(&mut client), plain);
}

/// An owner's name is enough to release a lock, so it is shown only to users that may write to the lock.
#[test]
fn owners_are_shown_to_those_who_may_write_and_labels_to_all_who_may_read() {
    let (server, mut client) = Server::and_client();
    client.acquire("k", "OWNER secret PX 600000 SHARED LABEL web-1").unwrap();
    client.acquire("{k}l", "OWNER secret PX 600000").unwrap();
    let _waiter = Waiter::new(&server, "k", "OWNER hidden LABEL web-2");
    let _reserved = Waiter::of_words(
        &server,
        server.client(),
        "LOCK.MACQUIRE 2 {k}free {k}l OWNER hidden LABEL web-3 BLOCK 0".split(' '),
    );
    let rights = "+@all -lock.acquire -dump";
    for (key, may_write) in [("%R~*", false), ("%RW~*", true), ("%R~* %W~other", false)] {
        let mut guest = server.client_of(&format!("{rights} {key}"));
        let mut all = Vec::new();
        for command in
            ["LOCK.INFO k", "LOCK.INFO k FULL", "LOCK.INFO {k}free", "LOCK.WAITS", "LOCK.WAITS KEY k"]
        {
            all.push(format!("{:?}", guest.ask::<Value>(command)));
            let script = format!("return redis.call('{}')", command.replace(' ', "','"));
            all.push(format!("{:?}", guest.ask_words::<Value, _>(["EVAL_RO", &script, "1", "k"])));
        }
        for (number, shown) in all.iter().enumerate() {
            assert_eq!(
                shown.contains("secret") || shown.contains("hidden"),
                may_write,
                "{key}, {number}: {shown}"
            );
            assert_eq!(shown.contains("web-"), !(4..6).contains(&number), "{key}, {number}: {shown}");
        }
    }
}
