//! Plays one case: alice and the waiters connect, the server gets the pair in one turn, and the state is observed until it rests.

use std::collections::{BTreeMap, HashMap};
use std::thread::sleep;
use std::time::Duration;

use redis::Value;

use super::rules::{Holding, Shown, Told, View, Wait, fault, said};
use super::table::{Case, Way};
use crate::support::{Client, Mailbox, SOON, Server, Stopwatch, convert, wait_for, while_stopped};

/// The keys and owners of the table; in each case, they get a suffix of their own.
const NAMES: [&str; 10] = ["k", "j", "r", "s", "c", "alice", "bob", "carol", "w0", "w1"];

type Reply = Result<Value, String>;

/// A client of one case.
struct Person {
    name: &'static str,
    id: i64,
    client: Client,
    answer: Option<Reply>,
    gone: bool,
}

/// The values for placeholders: ids, a fence and a payload.
type Words = BTreeMap<&'static str, Vec<u8>>;

/// The connections that all cases use.
pub(super) struct Scene<'a> {
    server: &'a Server,
    operators: [Client; 2],
    observer: Client,
    mail: Mailbox,
    /// The number of the case.
    number: usize,
}

impl<'a> Scene<'a> {
    pub(super) fn new(server: &'a Server) -> Self {
        let operators = [server.client(), server.client()];
        Self { server, operators, observer: server.client(), mail: Mailbox::of(server, "ch"), number: 0 }
    }

    /// Plays the case. The error is its fault.
    pub(super) fn play(&mut self, case: &Case, number: usize) -> Result<(), String> {
        self.number = number;
        let (mut people, mut view, words) = self.set(case);
        let mut ended = Vec::new();
        let replies = self.turn(case, &words);
        for (half, replies) in replies.iter().enumerate() {
            for (line, reply) in case.pair[half].iter().zip(replies) {
                view.pair[half].extend(said(line, reply));
                let ends = *line == "ACL DELUSER guest" || line.starts_with("CLIENT KILL");
                if ends && reply.is_ok() && *reply != Ok(Value::Int(0)) {
                    ended.push(if line.contains("{h}") { "h" } else { "w0" });
                }
            }
        }
        let watch = Stopwatch::start();
        let mut right = 0;
        while right < 2 {
            self.look(case, &mut people, &mut view);
            let there = |who: &&Shown| !who.gone && ended.contains(&who.name);
            let found = match view.people.iter().find(there) {
                Some(who) => Some(format!("is not gone: {who:?}")),
                None => fault(case, &view),
            };
            right = if found.is_none() { right + 1 } else { 0 };
            let Some(found) = found else { continue };
            if watch.worked() > SOON {
                return Err(format!("{found}\n{case}\n  replies: {replies:?}\n  seen: {view:#?}"));
            }
            sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Returns the line with this case's names.
    fn line(&self, line: &str) -> String {
        let name = |word: &str| {
            if NAMES.contains(&word) { format!("{word}.{}", self.number) } else { word.into() }
        };
        line.split(' ').map(name).collect::<Vec<_>>().join(" ")
    }

    /// Returns the name in the table, or `None` if it belongs to another case.
    fn name(&self, text: &str) -> Option<String> {
        text.strip_suffix(&format!(".{}", self.number)).map(Into::into)
    }

    fn person(&self, name: &'static str) -> Person {
        let mut client = self.server.client();
        let id = client.ask("CLIENT ID");
        Person { name, id, client, answer: None, gone: false }
    }

    /// Makes alice hold the locks, and the others wait.
    fn set(&mut self, case: &Case) -> ([Person; 3], View, Words) {
        let lines = [
            "ACL SETUSER guest reset on nopass ~* &* +@all",
            "CONFIG SET lock.max-waiters 0",
            "DEBUG SET-ACTIVE-EXPIRE 1",
            "SET s text",
        ];
        let lines = lines.map(|line| self.line(line));
        self.operators[0].ask_all::<Value, _>(&lines);
        let mut h = self.person("h");
        let line = format!("LOCK.MACQUIRE 2 k j OWNER alice PX 600000 NOTIFY ch {}", case.kind.holds);
        let mut before = said(&line, &h.client.send(&self.line(line.trim_end())));
        let Told::Got(_, _, fence, _) = before[0] else { panic!("alice holds nothing") };
        if case.has_bob() {
            let line = "LOCK.ACQUIRE k OWNER bob PX 600000 LIMIT 2 NOTIFY ch";
            before.extend(said(line, &self.operators[0].send(&self.line(line))));
        }
        if case.is_unconfirmed() {
            h.client.begin(&self.line("LOCK.ACQUIRE k OWNER alice PX 600000 SYNC 2 600000"));
            before.push(Told::Got("alice".into(), "k".into(), fence, 2));
            self.wait_for("holds", 2);
        }
        let mut waiters = ["w0", "w1"].map(|name| self.person(name));
        waiters[0].client.ask::<()>("AUTH guest x");
        for (count, who) in (1..).zip(&mut waiters) {
            who.client.begin(&self.line(&case.kind.waits.replace("{w}", who.name)));
            if case.waits_by_message() {
                assert_eq!(who.client.finish(), Ok(Value::SimpleString("QUEUED".into())));
            }
            self.wait_for("waiters", count);
        }
        let dump: Vec<u8> = self.operators[0].ask(&self.line("DUMP j"));
        let [w0, w1] = waiters;
        let number = |number: i64| number.to_string().into_bytes();
        let words =
            [("{h}", number(h.id)), ("{w0}", number(w0.id)), ("{fence}", number(fence)), ("{dump}", dump)];
        ([h, w0, w1], View { before, ..View::default() }, words.into())
    }

    fn wait_for(&mut self, field: &str, number: i64) {
        let line = self.line("LOCK.INFO k");
        wait_for(field, || {
            let info: HashMap<String, Value> = self.observer.ask(&line);
            info.get(field) == Some(&Value::Int(number))
        });
    }

    /// Makes the server run the pair in one turn. Returns the reply to each line.
    fn turn(&mut self, case: &Case, words: &Words) -> [Vec<Reply>; 2] {
        let words_of = |line: &&str| {
            let line = self.line(line);
            let word = |word: &str| words.get(word).cloned().unwrap_or_else(|| word.into());
            line.split(' ').map(word).collect::<Vec<_>>()
        };
        let [first, second] = case.pair.map(|lines| lines.iter().map(words_of).collect::<Vec<_>>());
        let [one, other] = &mut self.operators;
        let is_multi = case.way == Way::Multi;
        match case.way {
            Way::Connections => while_stopped(self.server, || {
                one.begin_together(&first);
                other.begin_together(&second);
            }),
            Way::Pipeline => one.begin_together(&[&first[..], &second[..]].concat()),
            Way::Multi => {
                let [begin, end] = ["MULTI", "EXEC"].map(|word| [vec![word.into()]]);
                one.begin_together(&[&begin[..], &first[..], &second[..], &end[..]].concat());
            }
        }
        // Commands that the pause has delayed run only now.
        if case.has("CLIENT PAUSE") {
            self.observer.ask_all::<Value, _>(&["PING", "PING", "CLIENT UNPAUSE"]);
        }
        if is_multi {
            let queued = 1 + first.len() + second.len();
            (0..queued).for_each(|_| _ = one.finish());
            let Ok(Value::Array(mut all)) = one.finish() else { panic!("no array: {case}") };
            let later = all.split_off(first.len());
            let reply = |reply| match reply {
                Value::ServerError(error) => Err(format!("{error:?}")),
                reply => Ok(reply),
            };
            return [all, later].map(|all| all.into_iter().map(reply).collect());
        }
        let replies = first.iter().map(|_| one.finish()).collect();
        let other = if case.way == Way::Pipeline { one } else { other };
        [replies, second.iter().map(|_| other.finish()).collect()]
    }

    /// Adds everything that can be observed now.
    fn look(&mut self, case: &Case, people: &mut [Person; 3], view: &mut View) {
        let ids = people.iter().map(|who| who.id.to_string()).collect::<Vec<_>>().join(" ");
        let places: Vec<(i64, &str)> =
            [0, 1].iter().flat_map(|db| NAMES[..5].iter().map(move |key| (*db, *key))).collect();
        let mut lines = vec![format!("CLIENT LIST ID {ids}"), "LOCK.WAITS COUNT 1000".into()];
        for (db, key) in &places {
            lines.extend([format!("SELECT {db}"), self.line(&format!("LOCK.INFO {key} FULL"))]);
        }
        lines.push("SELECT 0".into());
        let mut replies = self.observer.send_all(&lines).into_iter();
        let clients: String = convert(replies.next().unwrap().unwrap());
        for who in people.iter_mut() {
            let line = clients.lines().find(|line| line.starts_with(&format!("id={} ", who.id)));
            who.gone = line.is_none();
            let blocked = line.is_some_and(|line| line.contains(" flags=b"));
            let asked = !case.waits_by_message() && who.name != "h";
            if asked && !blocked && who.answer.is_none() {
                // The client may have been answered before it was closed.
                who.answer = who.client.try_finish().ok();
                let line = case.kind.waits.replace("{w}", who.name);
                view.after.extend(who.answer.iter().flat_map(|answer| said(&line, answer)));
            }
        }
        let (_, waits): (Value, Vec<HashMap<String, Value>>) = convert(replies.next().unwrap().unwrap());
        view.waits = waits.into_iter().filter_map(|wait| self.wait(&wait)).collect();
        view.holdings.clear();
        for (db, key) in &places {
            replies.next();
            // `LOCK.INFO` of a string is an error.
            let Some(Ok(info)) = replies.next() else { continue };
            let info: Option<HashMap<String, Value>> = convert(info);
            let grants =
                info.map(|mut info| convert::<Vec<HashMap<String, String>>>(info.remove("grants").unwrap()));
            view.holdings.extend(grants.into_iter().flatten().map(|grant| {
                let number = |field: &str| grant[field].parse().unwrap();
                Holding {
                    db: *db,
                    key: (*key).into(),
                    owner: self.name(&grant["owner"]).unwrap_or_else(|| grant["owner"].clone()),
                    fence: number("fence"),
                    holds: number("holds"),
                    client: number("client-id"),
                    room: number("limit"),
                }
            }));
        }
        for message in self.mail.rest(&mut self.operators[0]) {
            let words: Vec<&str> = message.split(' ').collect();
            let Some(owner) = self.name(words[words.len() - 1]) else { continue };
            let keys = if case.several() && owner.starts_with('w') { &["k", "j"][..] } else { &["k"] };
            let fence = || words[1].parse().unwrap();
            match words[0] {
                "granted" | "start" => {
                    let got = |key: &&str| Told::Got(owner.clone(), (*key).into(), fence(), 0);
                    view.after.extend(keys.iter().map(got));
                }
                "lost" => view.after.push(Told::Lost(owner, fence())),
                _ => view.after.push(Told::Other(owner)),
            }
        }
        view.people = people
            .iter()
            .map(|who| Shown { name: who.name, id: who.id, gone: who.gone, answer: who.answer.clone() })
            .collect();
    }

    fn wait(&self, wait: &HashMap<String, Value>) -> Option<Wait> {
        let text = |field: &str| wait.get(field).map_or(String::new(), |value| convert(value.clone()));
        let number = |field: &str| convert(wait[field].clone());
        Some(Wait {
            owner: self.name(&text("owner"))?,
            holders: number("holders-count"),
            reserved_for: self.name(&text("reserved-for")).unwrap_or_default(),
            room: number("limit"),
        })
    }
}
