//! The fields of a command's reply are those of the table on its page, and so are the fields of nested maps. (`gauges` compares the fields
//! of `INFO lock` with their page.)

use std::collections::{BTreeMap, BTreeSet};

use redis::Value;

use super::page::{Page, pages};
use crate::support::{Client, Server, Setup, Waiter, convert};

/// Fields, each with the names that belong to it: the fields of its map in a reply, or the names in its row on a page.
type Fields = BTreeMap<String, BTreeSet<String>>;

/// The fields of a command's replies, and of the maps in them, in all situations.
#[derive(Default)]
struct Shown(Fields);

impl Shown {
    /// Notes the fields of a reply in RESP3.
    #[track_caller]
    fn add(&mut self, reply: Value) {
        for (name, value) in pairs(reply) {
            let inner = self.0.entry(name).or_default();
            if let Value::Array(parts) = value {
                let maps = parts.into_iter().filter(|part| matches!(part, Value::Map(_)));
                inner.extend(maps.flat_map(pairs).map(|(name, _)| name));
            }
        }
    }

    /// Notes the fields of each entry in a reply of `LOCK.WAITS`.
    #[track_caller]
    fn add_page(&mut self, client: &mut Client, line: &str) {
        let (_, shown): (String, Vec<Value>) = client.ask(line);
        assert!(!shown.is_empty(), "{line}");
        shown.into_iter().for_each(|map| self.add(map));
    }

    /// Checks that the fields are those of the table, and that the fields of a map are named in its row.
    #[track_caller]
    fn are_those_of(&self, table: &Fields) {
        let names = |fields: &Fields| fields.keys().cloned().collect::<BTreeSet<_>>();
        assert_eq!(names(&self.0), names(table), "the server's fields, and those of the table");
        for (name, inner) in self.0.iter().filter(|(_, inner)| !inner.is_empty()) {
            assert_eq!(inner, &table[name], "the server's fields in {name}, and those of the table");
        }
    }
}

#[track_caller]
fn pairs(map: Value) -> Vec<(String, Value)> {
    let Value::Map(pairs) = map else { panic!("no map: {map:?}") };
    pairs.into_iter().map(|(name, value)| (convert(name), value)).collect()
}

#[track_caller]
fn page(command: &str) -> Page {
    pages().into_iter().find(|page| page.command == command).unwrap()
}

/// Returns the tables of fields in the page's section on the reply.
#[track_caller]
fn tables(page: &Page) -> Vec<Fields> {
    let paragraphs = page.section("Reply").split("\n\n");
    let tables = paragraphs.filter(|paragraph| paragraph.starts_with("| name | value |\n"));
    tables.map(|table| table.lines().skip(2).flat_map(row).collect()).collect()
}

/// Returns the names in the first column, each with the field names in the second.
fn row(line: &str) -> Vec<(String, BTreeSet<String>)> {
    let mut columns = line.trim_matches('|').splitn(2, '|').map(quoted);
    let (names, inner) = (columns.next().unwrap(), columns.next().unwrap());
    names.into_iter().map(|name| (name, inner.clone())).collect()
}

/// The field names between backticks.
fn quoted(text: &str) -> BTreeSet<String> {
    let words = text.split('`').skip(1).step_by(2).map(String::from);
    words.filter(|word| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')).collect()
}

/// Bob waits for `k` and `l`, which alice and dave hold. Alice has released `k`, so `k` is free and reserved. Carol waits for `k` alone.
struct Jam {
    server: Server,
    client: Client,
    _waiters: [Waiter; 2],
}

impl Jam {
    fn new() -> Self {
        let server = Server::start();
        let mut client = server.client_resp3();
        client.acquire("l", "OWNER alice SHARED SESSION").unwrap();
        client.acquire("l", "OWNER dave SHARED").unwrap();
        let words = "LOCK.MACQUIRE 2 k l OWNER bob BLOCK 0".split(' ');
        let bob = Waiter::of_words(&server, server.client(), words);
        let carol = Waiter::new(&server, "k", "OWNER carol");
        Self { server, client, _waiters: [bob, carol] }
    }
}

#[test]
fn the_fields_of_a_lock_are_those_of_its_page() {
    let mut shown = Shown::default();
    let mut jam = Jam::new();
    for line in ["LOCK.INFO k", "LOCK.INFO k FULL", "LOCK.INFO l", "LOCK.INFO l FULL"] {
        shown.add(jam.client.ask(line));
    }
    let server = Setup::new().module_args("failover-grace 600000").start();
    let _waiter = Waiter::new(&server, "k", "OWNER bob");
    shown.add(server.client_resp3().ask("LOCK.INFO k FULL"));

    let [table] = &tables(&page("LOCK.INFO"))[..] else { panic!("one table") };
    shown.are_those_of(table);
}

#[test]
fn the_fields_of_waiters_and_busy_locks_are_those_of_their_pages() {
    let mut jam = Jam::new();
    let (mut waiters, mut busy) = (Shown::default(), Shown::default());
    waiters.add_page(&mut jam.client, "LOCK.WAITS");
    busy.add_page(&mut jam.server.client_resp3(), "LOCK.WAITS TOP");

    let [of_waiters, of_busy] = &tables(&page("LOCK.WAITS"))[..] else { panic!("two tables") };
    waiters.are_those_of(of_waiters);
    busy.are_those_of(of_busy);
}
