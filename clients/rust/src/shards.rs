//! In a cluster: which node serves which slot, and the subscriptions at the primaries of the shards in which this process waits or holds.
//! `SSUBSCRIBE` keeps messages in the shard. Each subscription also uses `SUBSCRIBE`, for messages from other nodes, such as one to which a
//! slot is moving. If a shard's subscription fails, the one for all shards takes its place.
//!
//! Commands use our own connections to the nodes: the cluster connection of redis-rs blocks all commands while one node is silent.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redis::{
    Arg, Client, Cmd, ConnectionAddr, ProtocolVersion, RedisError, RedisResult, Value, from_redis_value,
};

use crate::core::error::passes;
use crate::core::{Command, LONGEST_PAUSE, Lane};
use crate::shared::Shared;

/// After this time, the slots are read again when a lock is asked for.
const STALE: Duration = Duration::from_secs(60);

/// The host and the port of a primary.
pub(crate) type Node = Arc<(String, u16)>;

/// What a connection is for: commands of this kind and, in a cluster, to this node, or to any node if it is not known.
pub(crate) type Route = (Lane, Option<Node>);

const SLOTS: u16 = 1 << 14;

/// How often one command may be redirected to another node.
pub(crate) const REDIRECTS: u32 = 5;

/// The primary of each slot.
#[derive(Clone)]
pub(crate) struct Slots(Vec<Option<Node>>);

impl Slots {
    /// Reads the answer to `CLUSTER SLOTS`. If a node does not know its own host, the host is the one that was asked.
    pub(crate) fn read(reply: Value, asked: &Client) -> RedisResult<Self> {
        let asked = match asked.get_connection_info().addr() {
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host.as_str(),
            _ => "",
        };
        let mut slots = vec![None; usize::from(SLOTS)];
        for range in from_redis_value::<Vec<Vec<Value>>>(reply)? {
            let [Value::Int(first), Value::Int(last), Value::Array(primary), ..] = range.as_slice() else {
                continue;
            };
            let [host, Value::Int(port), ..] = primary.as_slice() else { continue };
            let host = match host {
                Value::BulkString(host) if !host.is_empty() => String::from_utf8_lossy(host),
                _ => asked.into(),
            };
            let node = Arc::new((host.into_owned(), u16::try_from(*port).unwrap_or_default()));
            let range =
                usize::try_from(*first).unwrap_or_default()..=usize::try_from(*last).unwrap_or_default();
            slots.get_mut(range).unwrap_or_default().fill(Some(node));
        }
        Ok(Self(slots))
    }

    fn of(&self, key: &[u8]) -> Option<&Node> {
        self.0.get(usize::from(slot(key)))?.as_ref()
    }

    fn tag(&self, node: &Node) -> Option<u32> {
        (0..1 << 17).find(|tag: &u32| self.of(tag.to_string().as_bytes()) == Some(node))
    }
}

/// The hash slot of a key: computed from the text in its first braces, unless this is empty or missing.
fn slot(key: &[u8]) -> u16 {
    let (_, behind) = key.split_at(key.iter().position(|byte| *byte == b'{').map_or(key.len(), |at| at + 1));
    let tag = behind.iter().position(|byte| *byte == b'}').and_then(|end| behind.get(..end));
    let bit = |sum: u16, _| if sum & 0x8000 == 0 { sum << 1 } else { sum << 1 ^ 0x1021 };
    let named = tag.filter(|tag| !tag.is_empty()).unwrap_or(key);
    named.iter().fold(0, |sum, byte| (0..8).fold(sum ^ u16::from(*byte) << 8, bit)) % SLOTS
}

/// The work to be done without the mutex.
#[derive(Default)]
pub(crate) struct Todo {
    /// Commands, and the node for each; without a node, any node is asked.
    pub(crate) send: Vec<(Command, Option<Node>)>,
    pub(crate) jobs: Vec<Job>,
}

pub(crate) enum Job {
    /// Read the slots, by asking one node after the other.
    Read,
    /// Subscribe to this channel at this node.
    Follow(Node, String),
    /// Make the subscription for all shards.
    Listen,
}

enum Feed {
    /// The channel, and the commands that wait for its subscription.
    Opening(String, Vec<Command>),
    Open(String),
    Failed(Instant),
}

#[derive(Default)]
struct State {
    /// The channel for all shards. The channels of shards begin with it, too.
    base: String,
    slots: Option<Arc<Slots>>,
    /// Until when the slots can be used. None: commands wait until they are read.
    fresh: Option<Instant>,
    /// Whether slots have just moved: then the node that was asked may not know it yet.
    changed: bool,
    reading: bool,
    kept: Vec<Command>,
    feeds: HashMap<Node, Feed>,
    listening: bool,
}

#[derive(Default)]
pub(crate) struct Shards(Mutex<State>);

impl Shards {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The primaries, as far as known.
    pub(crate) fn nodes(&self) -> BTreeSet<Node> {
        self.state().slots.iter().flat_map(|slots| slots.0.iter().flatten()).cloned().collect()
    }

    /// The node to which to send a refused command again, and whether to send `ASKING` first.
    pub(crate) fn redirected(
        &self,
        error: &RedisError,
        asked: Option<&Node>,
        shared: &Arc<Shared>,
    ) -> Option<(Node, bool)> {
        let (address, slot) = error.redirect_node()?;
        let (host, port) = address.rsplit_once(':')?;
        let host = if host.is_empty() { &asked?.0 } else { host };
        let (node, asking) = (Arc::new((host.to_string(), port.parse().ok()?)), error.code() == Some("ASK"));
        let mut state = self.state();
        if !asking
            && let Some(slots) = &mut state.slots
            && let Some(owner) = Arc::make_mut(slots).0.get_mut(usize::from(slot))
        {
            *owner = Some(node.clone());
            drop(state);
            shared.with(|core, now| core.doubt_those(|key| self::slot(key) == slot, now));
        }
        Some((node, asking))
    }

    /// Handles an error: perhaps another node has to be asked.
    pub(crate) fn failed(&self, error: &RedisError) -> Todo {
        let (mut todo, mut state, now) = (Todo::default(), self.state(), Instant::now());
        let just_read = state.fresh.is_some_and(|until| now < until && until <= now + LONGEST_PAUSE);
        if passes(error) && !state.reading && !just_read {
            (state.reading, state.changed) = (true, true);
            todo.jobs.push(Job::Read);
        }
        todo
    }

    /// Adds the channel to a command that asks for a lock, as soon as the channel is subscribed.
    pub(crate) fn place(&self, command: Command, shared: &Arc<Shared>) -> Todo {
        let (mut todo, mut state) = (Todo::default(), self.state());
        if state.base.is_empty() {
            state.base = shared.with(|core, _| core.channel.clone());
        }
        state.place(command, Instant::now(), &mut todo);
        todo
    }

    /// Handles the result of reading the slots. Locks whose slots have moved are asked for again.
    pub(crate) fn learned(&self, slots: Option<Slots>, shared: &Arc<Shared>) -> Todo {
        let (mut todo, mut state, now) = (Todo::default(), self.state(), Instant::now());
        state.reading = false;
        let changed = std::mem::take(&mut state.changed) || slots.is_none();
        state.fresh = Some(now + if changed { LONGEST_PAUSE } else { STALE });
        let (before, after) = (state.slots.clone(), slots.map(Arc::new));
        if after.is_some() {
            state.slots.clone_from(&after);
        }
        for command in std::mem::take(&mut state.kept) {
            state.place(command, now, &mut todo);
        }
        drop(state);
        if let (Some(before), Some(after)) = (before, after) {
            shared.with(|core, now| core.doubt_those(|key| before.of(key) != after.of(key), now));
        }
        todo
    }

    pub(crate) fn opened(&self, node: &Node) -> Todo {
        let (mut todo, mut state) = (Todo::default(), self.state());
        if let Some(Feed::Opening(channel, kept)) = state.feeds.remove(node) {
            let placed = |command| (named(command, &state.base, &channel), Some(node.clone()));
            todo.send = kept.into_iter().map(placed).collect();
            state.feeds.insert(node.clone(), Feed::Open(channel));
        }
        todo
    }

    /// Handles the end of a subscription, or a failure to subscribe: the locks there are asked for again. `slots` are given if the node no
    /// longer serves the channel's slot: other nodes may not know of the move yet.
    pub(crate) fn ended(&self, node: &Node, slots: Option<Slots>, shared: &Arc<Shared>) -> Todo {
        let (mut todo, mut state, now) = (Todo::default(), self.state(), Instant::now());
        (state.fresh, state.changed) = (slots.is_some().then_some(now + LONGEST_PAUSE), true);
        let (before, moved) = (state.slots.clone(), slots.is_some());
        state.slots = slots.map(Arc::new).or(before.clone());
        let after = state.slots.clone();
        if let Some(Feed::Opening(_, kept)) = state.feeds.remove(node) {
            if !moved {
                state.feeds.insert(node.clone(), Feed::Failed(now));
                kept.into_iter().for_each(|command| state.send_plain(command, &mut todo));
                return todo;
            }
            kept.into_iter().for_each(|command| state.place(command, now, &mut todo));
        }
        drop(state);
        if let (Some(before), Some(after)) = (before, after) {
            let those = |key: &[u8]| before.of(key) == Some(node) || before.of(key) != after.of(key);
            shared.with(|core, now| core.doubt_those(those, now));
        }
        todo
    }

    /// Whether nobody needs that subscription. From then on, no lock gets it.
    pub(crate) fn unused(&self, node: &Node, shared: &Arc<Shared>) -> bool {
        let mut state = self.state();
        let slots = state.slots.clone();
        let needed =
            slots.is_some_and(|slots| shared.with(|core, _| core.needs(|key| slots.of(key) == Some(node))));
        if !needed {
            state.feeds.remove(node);
        }
        !needed
    }

    /// Handles a message of a shard.
    pub(crate) fn heard(&self, message: &[u8], shared: &Arc<Shared>) {
        if message.starts_with(b"gone ") {
            let mut state = self.state(); // a slot has moved, or the primary has changed
            (state.fresh, state.changed) = (None, true);
        }
        shared.with(|core, now| core.heard(message, now));
    }
}

impl State {
    fn node(&self, command: &Command) -> Option<Node> {
        self.slots.as_ref()?.of(key(&command.words)?).cloned()
    }

    fn place(&mut self, command: Command, now: Instant, todo: &mut Todo) {
        if !asks(&command.words) {
            let node = self.node(&command);
            return todo.send.push((command, node));
        }
        if !self.reading && self.fresh.is_none_or(|until| until < now) {
            self.reading = true;
            todo.jobs.push(Job::Read);
        }
        if self.fresh.is_none() {
            return self.kept.push(command);
        }
        let (Some(node), Some(slots)) = (self.node(&command), &self.slots) else {
            return self.send_plain(command, todo);
        };
        match self.feeds.get_mut(&node) {
            Some(Feed::Opening(_, kept)) => kept.push(command),
            Some(Feed::Open(channel)) => {
                todo.send.push((named(command, &self.base, channel), Some(node)));
            }
            Some(Feed::Failed(at)) if now < *at + LONGEST_PAUSE => self.send_plain(command, todo),
            _ => {
                let Some(tag) = slots.tag(&node) else { return self.send_plain(command, todo) };
                let channel = format!("{}:{{{tag}}}", self.base);
                todo.jobs.push(Job::Follow(node.clone(), channel.clone()));
                self.feeds.insert(node, Feed::Opening(channel, vec![command]));
            }
        }
    }

    fn send_plain(&mut self, command: Command, todo: &mut Todo) {
        if !self.listening {
            self.listening = true;
            todo.jobs.push(Job::Listen);
        }
        let node = self.node(&command);
        todo.send.push((command, node));
    }
}

/// A client for this node, with the settings of another one.
pub(crate) fn client_of(one: &Client, node: &Node) -> RedisResult<Client> {
    let info = one.get_connection_info();
    let (host, port) = (node.0.clone(), node.1);
    Client::open(info.clone().set_addr(match info.addr().clone() {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
            ConnectionAddr::TcpTls { host, port, insecure, tls_params }
        }
        _ => ConnectionAddr::Tcp(host, port),
    }))
}

/// redis-rs hears messages of shards only over RESP3.
pub(crate) fn for_messages(client: &Client) -> RedisResult<Client> {
    let info = client.get_connection_info();
    let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    Client::open(info.clone().set_redis_settings(settings))
}

fn word(words: &Cmd, at: usize) -> Option<&[u8]> {
    match words.args_iter().nth(at)? {
        Arg::Simple(word) => Some(word),
        _ => None,
    }
}

fn asks(words: &Cmd) -> bool {
    word(words, 0).is_some_and(|verb| verb.ends_with(b"ACQUIRE"))
}

/// The first key. In a command for several locks, it follows the number of keys.
fn key(words: &Cmd) -> Option<&[u8]> {
    word(words, if word(words, 0)?.starts_with(b"LOCK.M") { 2 } else { 1 })
}

/// The command with this channel, instead of the one for all shards.
fn named(mut command: Command, base: &str, channel: &str) -> Command {
    let mut words = Cmd::new();
    for word in command.words.args_iter() {
        if let Arg::Simple(word) = word {
            words.arg(if word == base.as_bytes() { channel.as_bytes() } else { word });
        }
    }
    command.words = words;
    command
}

/// The payload of a message.
pub(crate) fn payload(push: &[Value]) -> &[u8] {
    if let Some(Value::BulkString(payload)) = push.last() { payload } else { &[] }
}

#[cfg(test)]
mod tests {
    use super::slot;

    #[test]
    fn slots_are_those_of_the_servers() {
        let keys: [(&[u8], u16); 5] =
            [(b"foo", 12182), (b"a{foo}b", 12182), (b"{}foo", 9500), (b"{foo", 13308), (b"", 0)];
        for (key, expected) in keys {
            assert_eq!(slot(key), expected, "{}", String::from_utf8_lossy(key));
        }
    }
}
