//! The world: one server, processes with the core as it ships, the network between them, and everything that disturbs them.

use std::collections::{BTreeMap, HashMap, VecDeque};

use redis::{RedisError, RedisResult, Value};

use super::super::server::{Conn, KEYS, Lock, QueuedRequest, Reply, Rules, Server, Writes};
use super::core::request::Request;
use super::core::{Command, Id, LONGEST_PAUSE, Lane, SILENCE, TRY_AGAIN};
use super::process::{Process, Recorder, Task, ms};
use super::trace::Call;
use super::watch::{Fault, Known, Why};
use super::wire;
use crate::encoding::{self, Effect};
use crate::lock::{Deadline, Fence, Millis, Owner, Room};
use crate::waiting::Grace;
use crate::waiting::grace::RETRY;
use crate::waiting::replication::Offset;

/// The most connections that the server accepts.
const CONNS: Conn = 80;

/// The longest lease of a server with a grace.
const LONGEST: Millis = 8_000;

pub(super) struct World {
    pub(super) now: Millis,
    events: BTreeMap<(Millis, u64), Event>,
    serial: u64,
    pub(super) rules: Rules,
    pub(super) server: Server,
    /// The server is stopped until this time.
    stopped: Millis,
    free: Vec<Conn>,
    inbox: VecDeque<Arrived>,
    turns_at: Option<Millis>,
    pub(super) processes: Vec<Process>,
    lines: Vec<Line>,
    luck: u64,
    /// Whether disturbances have ended, and every lock is released as soon as it is held.
    pub(super) calm: bool,
    pub(super) grants: BTreeMap<(Lock, Fence), Known>,
    pub(super) highest: Option<Fence>,
    /// The queues as the server's last step left them.
    pub(super) queues: [Vec<QueuedRequest>; KEYS.len()],
    pub(super) fault: Option<Fault>,
    pub(super) story: Option<Vec<String>>,
    pub(super) steps: u64,
    replica: Server,
    /// The effects that are on their way to the replica.
    stream: VecDeque<(Lock, Effect)>,
    streamed: Millis,
    /// How many servers have been the primary before this one.
    primaries: u32,
    /// By how much the server's clock has been set, in all.
    pub(super) set_by: Millis,
    /// By how much the clock has been set back. If a failover has also lost changes, a new fence may not be above all others.
    pub(super) set_back: Millis,
    /// Until the clock shows this, the server may be late with what was due by the clock before it was set back.
    pub(super) late: Millis,
    pub(super) lost_changes: bool,
    /// Grants whose messages were published in this turn, on channels that nobody listens to.
    pub(super) untold: Vec<(usize, Lock, Fence)>,
    /// The leases that owners have asked for, as long as they have not extended them and no other command uses the name.
    pub(super) leases: HashMap<Owner<'static>, Millis>,
    /// Owners of one task whose last command asks for one lock. (With several locks, the owner may hold some although the reply is null.)
    pub(super) asked: BTreeMap<Vec<u8>, Asked>,
    /// How long messages are on their way.
    delays: &'static [Millis],
    /// How many locks this world has, and which kinds of steps it leaves out: with fewer of both, the others meet more often.
    keys: u64,
    without: u64,
}

/// An acquire that a process has not given up yet.
pub(super) struct Asked {
    pub(super) process: usize,
    pub(super) id: Id,
    /// The last fence before the first of these acquires was sent.
    pub(super) highest: Option<Fence>,
}

enum Event {
    Up(usize, Up),
    Down(usize, Down),
    Turn,
    /// The timer of a process is due.
    Look(usize),
    /// A command has had no reply for too long.
    Patience(usize, u64),
    ClientSees(usize),
    ServerSees(usize),
    /// A process checks whether its subscription is silent.
    Silence(usize),
    Subscribe(usize),
    Operator(Operator),
    /// The server's heartbeat.
    Beat,
    /// The replica gets the next effect. Later, the primary gets the acknowledgement.
    Replica(u32),
    Acked(u32, Offset),
}

enum Up {
    Command(u64, Vec<Vec<u8>>),
    Subscribe,
    Ping,
}

enum Down {
    Reply(u64, RedisResult<Value>),
    Subscribed,
    Pong,
    Message(Vec<u8>),
}

/// What the server finds at the beginning of its turn.
enum Arrived {
    From(usize, Up),
    Closed(usize),
    Operator(Operator),
}

#[derive(Clone, Copy, Debug)]
enum Operator {
    Break(Lock),
    Delete(Lock),
    /// `CLIENT KILL` of a connection.
    Kill(usize),
    /// Deletes the user of a process, which closes its connections, or makes the user again.
    User(usize),
    /// Sets the most waiters that a lock may have.
    Waiters(Option<usize>),
    /// Sets the server's clock forward or back by this much.
    Clock(Millis),
}

/// A connection. Each direction keeps its order.
struct Line {
    process: usize,
    /// What a process uses the connection for; `None`: the subscription.
    lane: Option<Lane>,
    conn: Option<Conn>,
    at_client: bool,
    at_server: bool,
    /// Whether nothing more gets through and, if `lost`, messages on their way are lost, too.
    cut: bool,
    lost: bool,
    subscribed: bool,
    /// When the last message in this direction arrives.
    up: Millis,
    down: Millis,
    /// The commands without a reply.
    open: VecDeque<(u64, Id)>,
    /// The command that waits for replicas, and the commands behind it.
    blocked: Option<(u64, Vec<Vec<u8>>)>,
    later: VecDeque<Up>,
    /// Whether the process has received something since it last checked, and whether it has sent a ping since then.
    heard: bool,
    pinged: bool,
}

/// Returns an effect in the form in which replicas receive it.
fn sent(effect: Effect, now: Millis) -> Effect {
    let state = match &effect {
        Effect::Alone(grant, until) => encoding::state(grant, *until, true),
        Effect::Among(grant, until) => encoding::state(grant, *until, false),
        _ => return effect,
    };
    Effect::parse(Some(&state), || now * 1000).unwrap()
}

fn reset() -> RedisError {
    std::io::Error::from(std::io::ErrorKind::ConnectionReset).into()
}

impl World {
    pub(super) fn new(seed: u64, story: bool) -> Self {
        let mut world = Self {
            now: 1_000_000,
            events: BTreeMap::new(),
            serial: 0,
            rules: Rules { claim: 5_000, ..Rules::PLAIN },
            server: Server::new(CONNS),
            stopped: 0,
            free: (0..CONNS).rev().collect(),
            inbox: VecDeque::new(),
            turns_at: None,
            processes: Vec::new(),
            lines: Vec::new(),
            luck: seed,
            calm: false,
            grants: BTreeMap::new(),
            highest: None,
            queues: Default::default(),
            fault: None,
            story: story.then(Vec::new),
            steps: 0,
            replica: Server::new(CONNS),
            stream: VecDeque::new(),
            streamed: 0,
            primaries: 0,
            set_by: 0,
            set_back: 0,
            late: 0,
            lost_changes: false,
            untold: Vec::new(),
            leases: HashMap::new(),
            asked: BTreeMap::new(),
            delays: &[0, 0, 0, 1, 1, 1, 2, 5, 30, 300],
            keys: KEYS.len() as u64,
            without: 0,
        };
        if world.luck(2) == 0 {
            (world.keys, world.without) = (1 + world.luck(2), world.luck(1 << 32) & world.luck(1 << 32));
        }
        let kind = world.luck(8);
        (world.rules.late, world.rules.keeps_answers) = (kind & 1 > 0, kind & 2 > 0);
        if kind & 4 > 0 {
            // The page on failover asks for a grace that is longer than the longest lease.
            (world.rules.max_lease, world.rules.grace) = (Some(LONGEST), LONGEST + 3_000);
            world.server.grace = Grace::new();
            world.server.promote(world.now - world.rules.grace);
            let begun = world.now - world.rules.grace;
            (begun..world.now).step_by(500).for_each(|now| world.server.beat(now));
            world.at(world.now, Event::Beat);
        }
        for _ in 0..2 + world.luck(2) {
            world.begin(None);
        }
        world
    }

    pub(super) fn say(&mut self, what: impl FnOnce() -> String) {
        let now = self.now - 1_000_000;
        if let Some(story) = &mut self.story {
            story.push(format!("{now:>7} ms  {}", what()));
        }
    }

    /// A number below `most`.
    pub(super) fn luck(&mut self, most: u64) -> u64 {
        self.luck = self.luck.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.luck;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % most
    }

    pub(super) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.luck(all.len() as u64) as usize]
    }

    fn delay(&mut self) -> Millis {
        if self.calm { self.delays[0].max(1) } else { self.one_of(self.delays) }
    }

    fn at(&mut self, at: Millis, event: Event) {
        self.serial += 1;
        self.events.insert((at.max(self.now), self.serial), event);
    }

    /// Records what the core of the first process is told. The order of calls within a millisecond is not defined, so the delays differ.
    pub(super) fn record(&mut self) {
        self.delays = &[3, 3, 5, 7, 30, 300];
        (self.processes[0].drift, self.processes[0].recorder) = (0, Some(Recorder::default()));
    }

    fn note(&mut self, p: usize, call: impl FnOnce(&Recorder) -> Call) {
        let at = self.now - 1_000_000;
        if let Some(recorder) = &mut self.processes[p].recorder {
            let call = call(recorder);
            recorder.calls.push((at, call));
        }
    }

    /// Gives a process the reply to a command.
    fn answer(&mut self, p: usize, serial: u64, id: Id, reply: RedisResult<Value>) {
        self.note(p, |recorder| {
            let command = recorder.sent.iter().position(|(sent, _)| *sent == serial).unwrap();
            Call::Answer(command as u64 + 1, reply.clone())
        });
        self.with(p, |core, now| core.answered(id, reply, now));
    }

    /// A process starts, or is forked: then it has nothing of its parent's but the clock and the name.
    fn begin(&mut self, parent: Option<usize>) {
        let number = self.processes.len();
        let drift = self.one_of(&[0, 0, 0, 1000, -1000]);
        let channel = format!("p{number}");
        self.server.unheard.insert(channel.clone().into_bytes());
        let parent = parent.map(|parent| &self.processes[parent]);
        let (name, drift) = parent.map_or((number, drift), |parent| (parent.name, parent.drift));
        self.processes.push(Process::new(channel, name, 3, drift));
        self.subscribe(number);
    }

    /// Takes the step that this record describes, and lets some time pass.
    pub(super) fn step(&mut self, (action, time, luck): (u8, u8, u32)) {
        self.luck = u64::from(luck);
        let alive: Vec<usize> = (0..self.processes.len()).filter(|p| !self.processes[*p].dead).collect();
        let p = self.one_of(&alive);
        let task = self.luck(self.processes[p].tasks.len() as u64) as usize;
        let left_out = action >= 130 && self.without >> (action / 8) & 1 > 0;
        match if left_out { action % 130 } else { action } {
            0..=89 => self.task(p, task),
            90..=129 => {
                // A task with something to do is chosen more often.
                let busy = |task: &Task| !matches!(task, Task::Idle);
                if let Some(task) = self.processes[p].tasks.iter().position(busy) {
                    self.task(p, task);
                }
            }
            130..=149 => self.disturb_line(),
            150..=157 => {
                let time = self.one_of(&[50, 1_500, 4_000, 9_000]);
                self.say(|| format!("p{p} freezes for {time} ms"));
                self.processes[p].frozen = self.now + time;
                let until = self.now + time - 1_000_000;
                self.note(p, |_| Call::Frozen(until));
            }
            158..=161 => {
                let time = self.one_of(&[50, 900, 3_000]);
                self.say(|| format!("the server stands still for {time} ms"));
                self.stopped = self.now + time;
                self.server.freeze(time);
            }
            162..=165 if self.processes[p].recorder.is_none() => self.die(p),
            166..=177 => {
                let lock = self.luck(self.keys) as Lock;
                let all = [Operator::Break(lock), Operator::Break(lock), Operator::Delete(lock)];
                let operator = self.one_of(&all);
                self.operate(operator);
            }
            182..=184 => self.replace(true),
            185 | 186 => self.replace(false),
            178..=181 => {
                let open: Vec<usize> =
                    (0..self.lines.len()).filter(|line| self.lines[*line].at_server).collect();
                if !open.is_empty() {
                    let line = self.one_of(&open);
                    self.operate(Operator::Kill(line));
                }
            }
            187..=189 => self.arrive(Arrived::Operator(Operator::User(p))),
            190 | 191 => {
                let most = self.one_of(&[None, Some(1)]);
                self.operate(Operator::Waiters(most));
            }
            192 | 193 => {
                let by = self.one_of(&[-5_000, -300, 300, 5_000]);
                self.operate(Operator::Clock(by));
            }
            194 if alive.len() < 5 && self.processes[p].frozen <= self.now => {
                self.say(|| format!("p{p} forks"));
                self.begin(Some(p));
            }
            _ => {}
        }
        let time = match time {
            // No time passes, so the next step is in the same turn of the server.
            0..=39 => return,
            40..=79 => 0,
            80..=159 => 1,
            160..=199 => Millis::from(time) - 150,
            200..=235 => 10 * (Millis::from(time) - 190),
            _ => 100 * (Millis::from(time) - 230),
        };
        self.pass(time);
    }

    /// A task takes a step: it asks for a lock, or does something with the one that it has.
    fn task(&mut self, p: usize, task: usize) {
        if self.processes[p].frozen > self.now {
            return;
        }
        let choice = self.luck(8);
        match &self.processes[p].tasks[task] {
            Task::Idle => self.ask(p, task),
            Task::Waits { id, .. } => {
                let id = *id;
                if choice < 2 {
                    self.note(p, |recorder| Call::Cancel(recorder.task(id)));
                }
                match choice {
                    0 => self.with(p, |core, now| core.cancel(id, now)),
                    1 => {
                        self.processes[p].tasks[task] = Task::Idle;
                        self.with(p, |core, now| core.dropped(id, now));
                    }
                    _ => return,
                }
                self.say(|| format!("p{p}/{id} gives up its wait"));
            }
            Task::Holds { id, granted, .. } => {
                let (id, owner) = (*id, granted.owner.clone());
                match choice {
                    0..=2 => self.end(p, task),
                    3 | 4 => {
                        self.leases.remove(&wire::owner(&owner));
                        let lease = self.one_of(&[None, Some(200), Some(1_000), Some(6_000)]).map(ms);
                        self.say(|| format!("p{p}/{id} extends its lease to {lease:?}"));
                        self.note(p, |recorder| Call::Extend(recorder.task(id), lease));
                        self.with(p, |core, now| _ = core.extend(id, lease, now));
                    }
                    5 => {
                        self.note(p, |recorder| Call::Check(recorder.task(id)));
                        _ = self.with(p, |core, now| core.check(id, now).is_ok());
                    }
                    _ => {}
                }
            }
        }
    }

    /// A task asks for a lock, or several.
    fn ask(&mut self, p: usize, task: usize) {
        self.serial += 1;
        let (name, first) = (self.processes[p].name, self.luck(self.keys) as Lock);
        let locks = match self.luck(6) {
            0 if self.keys > 1 => vec![first, (first + 1) % self.keys as Lock],
            _ => vec![first],
        };
        let keys = locks.iter().map(|lock| KEYS[*lock].to_vec()).collect();
        let mut request = Request::new(keys, format!("p{p}-{}", self.serial).into_bytes());
        // The sets of locks that one owner asks for must be equal or disjoint.
        if locks.len() == 1 && self.luck(4) == 0 {
            (request.owner, request.named) = (format!("p{name}").into_bytes(), true);
        }
        request.wait = self.one_of(&[None, None, None, Some(0), Some(300), Some(6_000)]).map(ms);
        request.lease = self.one_of(&[None, Some(300), Some(1_000), Some(1_000), Some(4_000)]).map(ms);
        request.kept = self.luck(4) > 0;
        request.session = self.luck(6) == 0;
        request.max_hold = self.one_of(&[None, None, None, None, None, Some(2_500)]).map(ms);
        let room = self.one_of(&[Room::ONE, Room::ONE, Room::ANY, Room::limit(2).unwrap()]);
        (request.shared, request.limit) =
            (room == Room::ANY, (room > Room::ONE).then_some(2).filter(|_| room != Room::ANY));
        // All tasks of an owner must agree on this: otherwise, one would end or undo what another one has.
        request.session = if request.named { name % 2 == 1 } else { request.session };
        let synced = if request.named { name / 2 % 2 == 1 } else { self.luck(8) == 0 };
        request.sync = synced.then_some((1, ms(1_000)));
        if !request.named && request.max_hold.is_none() {
            let lease = request.lease.map_or(wire::DEFAULT_LEASE, |lease| lease.as_millis() as Millis);
            self.leases.insert(wire::owner(&request.owner), lease);
        }
        self.note(p, |_| Call::Acquire(request.clone()));
        let clock = self.processes[p].clock(self.now);
        if let Ok((id, acquired)) = self.processes[p].core.acquire(request, clock) {
            if let Some(recorder) = &mut self.processes[p].recorder {
                recorder.ids.push(id);
            }
            self.processes[p].tasks[task] = Task::Waits { id, acquired, locks, room, synced };
            self.settle(p);
        }
    }

    /// A task releases its lock.
    fn end(&mut self, p: usize, task: usize) {
        let Task::Holds { id, .. } = std::mem::take(&mut self.processes[p].tasks[task]) else { return };
        self.say(|| format!("p{p}/{id} releases"));
        self.note(p, |recorder| Call::Release(recorder.task(id)));
        if self.luck(2) == 0 {
            self.with(p, |core, now| _ = core.release(id, now));
        }
        self.with(p, |core, now| core.dropped(id, now));
    }

    /// An operator acts, perhaps at the time at which something is due, before the server has done it.
    fn operate(&mut self, operator: Operator) {
        let due = self.server.next_due().map_or(0, |at| at - self.set_by);
        if due > self.now && self.luck(2) == 0 {
            self.events.insert((due, 0), Event::Operator(operator));
        } else {
            self.arrive(Arrived::Operator(operator));
        }
    }

    fn disturb_line(&mut self) {
        let open = |line: &&usize| self.lines[**line].at_client && !self.lines[**line].cut;
        let all: Vec<usize> = (0..self.lines.len()).collect();
        let open: Vec<usize> = all.iter().filter(open).copied().collect();
        if open.is_empty() {
            return;
        }
        let subscriptions: Vec<usize> =
            open.iter().copied().filter(|line| self.lines[*line].lane.is_none()).collect();
        // The operator prefers a process that works with a lock that it has not claimed yet.
        let began = |task: &Task| {
            matches!(task, Task::Holds { granted, locks, .. } if Fence::new(granted.fences[0])
                .and_then(|fence| self.grants.get(&(locks[0], fence))).is_some_and(|known| !known.claimed))
        };
        let began = |line: &usize| self.processes[self.lines[*line].process].tasks.iter().any(began);
        let begun: Vec<usize> = subscriptions.iter().copied().filter(began).collect();
        let some = match self.luck(4) {
            0 if !begun.is_empty() => &begun,
            0 | 1 if !subscriptions.is_empty() => &subscriptions,
            _ => &open,
        };
        let line = self.one_of(some);
        let (what, p) = (self.luck(6), self.lines[line].process);
        let lane = if self.lines[line].lane.is_some() { "commands" } else { "messages" };
        let time = self.one_of(&[20, 400, 2_000, 7_000]);
        let now = self.now;
        match what {
            0 | 1 => {
                self.say(|| format!("p{p}'s {lane}: nothing reaches the server for {time} ms"));
                self.lines[line].up = self.lines[line].up.max(now + time);
            }
            2 => {
                self.say(|| format!("p{p}'s {lane}: nothing reaches the process for {time} ms"));
                self.lines[line].down = self.lines[line].down.max(now + time);
            }
            _ => {
                let lost = what == 3;
                let (client, server) = (self.one_of(&[0, 1, 300, 5_000]), self.one_of(&[0, 1, 300, 5_000]));
                self.say(|| {
                    let what = if lost { "all of it lost" } else { "what was sent arrives" };
                    format!("p{p}'s {lane} are cut, {what}; seen after {client} ms, by the server after {server} ms")
                });
                self.lines[line].cut = true;
                self.lines[line].lost = lost;
                let (up, down) = (self.lines[line].up, self.lines[line].down);
                self.at(down.max(now + client), Event::ClientSees(line));
                self.at(up.max(now + server), Event::ServerSees(line));
            }
        }
    }

    /// A process dies, and another one takes its place.
    fn die(&mut self, p: usize) {
        self.say(|| format!("p{p} is killed"));
        self.processes[p].dead = true;
        for line in 0..self.lines.len() {
            if self.lines[line].process == p {
                self.hang_up(line);
            }
        }
        self.begin(None);
    }

    /// The primary ends. Its replica takes over, or it restarts from its file.
    fn replace(&mut self, fails_over: bool) {
        let away = self.one_of(&[10, 500, 3_000]);
        let lost = self.stream.len();
        self.say(|| match fails_over {
            true => format!("a replica takes over after {away} ms, without the last {lost} changes"),
            false => format!("the server restarts, within {away} ms"),
        });
        for line in 0..self.lines.len() {
            if std::mem::replace(&mut self.lines[line].at_server, false) {
                (self.lines[line].cut, self.lines[line].lost) = (true, self.luck(2) == 0);
                let after = self.one_of(&[0, 1, 300, 5_000]);
                self.at(self.lines[line].down.max(self.now + after), Event::ClientSees(line));
            }
        }
        let now = self.clock();
        let next = if fails_over { &self.replica } else { &self.server };
        let mut next = next.out_of_file(CONNS, now);
        next.unheard =
            self.processes.iter().map(|process| process.core.channel.clone().into_bytes()).collect();
        self.server = next;
        self.replica = self.server.out_of_file(CONNS, now);
        self.free = (0..CONNS).rev().collect();
        (self.stopped, self.primaries) = (self.now + away, self.primaries + 1);
        self.lost_changes |= fails_over && lost > 0;
        self.stream.clear();
        self.inbox.clear();
        self.queues = Default::default();
        self.server.promote(self.stopped + self.set_by);
        self.watch(if fails_over { Why::Failover } else { Why::Due });
        self.turn_at(self.stopped);
    }

    /// Makes everything happen that happens in the next milliseconds.
    pub(super) fn pass(&mut self, time: Millis) {
        let end = self.now + time;
        while self.fault.is_none() && self.next(end) {}
        self.now = end;
    }

    /// Makes the next event happen, if this is not later than `end`.
    pub(super) fn next(&mut self, end: Millis) -> bool {
        let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= end) else {
            return false;
        };
        let ((at, _), event) = entry.remove_entry();
        self.now = at;
        self.steps += 1;
        self.happen(event);
        self.check_beliefs();
        true
    }

    /// Makes this a small world: one lock, and short delays.
    pub(super) fn small(&mut self) {
        (self.keys, self.without, self.delays) = (1, 0, &[1]);
    }

    fn happen(&mut self, event: Event) {
        let (line, p) = match &event {
            Event::Down(line, _)
            | Event::Patience(line, _)
            | Event::ClientSees(line)
            | Event::Silence(line) => (Some(*line), Some(self.lines[*line].process)),
            Event::Look(p) | Event::Subscribe(p) => (None, Some(*p)),
            _ => (None, None),
        };
        if let Some(process) = p.map(|p| &self.processes[p]) {
            if process.dead || line.is_some_and(|line| !self.lines[line].at_client) {
                return;
            }
            if process.frozen > self.now {
                let at = process.frozen;
                if let Event::Look(p) = event {
                    self.processes[p].looks = Some(at);
                }
                return self.at(at, event);
            }
        }
        match event {
            Event::Up(line, what) => {
                if self.lines[line].at_server && !self.lines[line].lost {
                    self.arrive(Arrived::From(line, what));
                }
            }
            Event::ServerSees(line) => self.arrive(Arrived::Closed(line)),
            Event::Turn => self.turn(),
            Event::Down(line, what) => {
                if !self.lines[line].lost {
                    self.read(line, what);
                }
            }
            Event::ClientSees(line) => self.lose(line),
            Event::Patience(line, serial) => {
                if let Some(place) = self.lines[line].open.iter().position(|(open, _)| *open == serial) {
                    let (_, id) = self.lines[line].open.remove(place).unwrap();
                    let p = self.lines[line].process;
                    self.say(|| format!("p{p}/{id} has had no answer for too long"));
                    let error = std::io::Error::from(std::io::ErrorKind::TimedOut).into();
                    self.answer(p, serial, id, Err(error));
                    self.hang_up(line);
                }
            }
            Event::Look(p) => {
                if self.processes[p].looks == Some(self.now) {
                    self.processes[p].looks = None;
                    self.look(p);
                }
            }
            Event::Silence(line) => self.listen(line),
            Event::Operator(operator) if !self.calm => self.arrive(Arrived::Operator(operator)),
            Event::Operator(_) => {}
            Event::Beat => {
                if self.stopped <= self.now {
                    self.server.beat(self.clock());
                }
                self.at(self.now + 250, Event::Beat);
            }
            Event::Replica(primary) => {
                if primary == self.primaries
                    && let Some(effect) = self.stream.pop_front()
                {
                    self.replica.apply(effect);
                    let offset = self.server.written - self.stream.len() as Offset;
                    let at = self.now + self.delay();
                    self.at(at, Event::Acked(primary, offset));
                }
            }
            Event::Acked(primary, offset) => {
                if primary == self.primaries && offset > self.server.acked {
                    self.server.acked = offset;
                    self.turn_at(self.now);
                }
            }
            Event::Subscribe(p) => self.subscribe(p),
        }
    }

    // Methods for processes

    /// Runs something in the core of a process, and does what the core then asks for.
    pub(super) fn with<R>(
        &mut self,
        p: usize,
        work: impl FnOnce(&mut super::core::Core, std::time::Instant) -> R,
    ) -> R {
        let process = &mut self.processes[p];
        let clock = process.clock(self.now);
        let result = work(&mut process.core, clock);
        self.settle(p);
        result
    }

    fn settle(&mut self, p: usize) {
        loop {
            let out = std::mem::take(&mut self.processes[p].core.out);
            out.told.into_iter().for_each(|tell| tell());
            for command in out.commands {
                self.send(p, command);
            }
            let process = &mut self.processes[p];
            let clock = process.clock(self.now);
            let (told, ended) = process.look();
            for id in &ended {
                process.core.dropped(*id, clock);
            }
            for line in told {
                self.say(|| format!("p{p}/{line}"));
            }
            if ended.is_empty() {
                self.check_ends(p);
                if out.sooner {
                    self.look(p);
                }
                return;
            }
            self.processes[p].core.out.sooner |= out.sooner;
        }
    }

    /// Runs the timer of a process.
    fn look(&mut self, p: usize) {
        let (next, _) = self.with(p, |core, now| core.tick(now));
        let Some(next) = next else { return };
        let at = self.processes[p].time(next).max(self.now);
        if self.processes[p].looks.is_none_or(|before| at < before) {
            self.processes[p].looks = Some(at);
            self.at(at, Event::Look(p));
        }
    }

    fn send(&mut self, p: usize, Command { id, words, lane, patience }: Command) {
        let line = self.processes[p].lanes.get(&lane).copied();
        let line = line.filter(|line| self.lines[*line].at_client).unwrap_or_else(|| {
            let line = self.connect(p, Some(lane));
            self.processes[p].lanes.insert(lane, line);
            line
        });
        let words = wire::words(&words);
        let owner = wire::owner_of(&words);
        if words[0] == b"LOCK.ACQUIRE" && owner != format!("p{}", self.processes[p].name).as_bytes() {
            let first = Asked { process: p, id, highest: self.highest };
            self.asked.entry(owner).or_insert(first).id = id;
        } else {
            self.asked.remove(&owner);
        }
        self.serial += 1;
        let serial = self.serial;
        self.say(|| format!("p{p}/{id} sends {}", wire::shown(&words)));
        self.lines[line].open.push_back((serial, id));
        if let Some(recorder) = &mut self.processes[p].recorder {
            recorder.sent.push((serial, wire::shown(&words)));
        }
        self.up(line, Up::Command(serial, words));
        self.at(self.now + patience.as_millis() as Millis, Event::Patience(line, serial));
    }

    fn connect(&mut self, process: usize, lane: Option<Lane>) -> usize {
        let conn = self.free.pop();
        let now = self.now;
        self.lines.push(Line {
            process,
            lane,
            conn,
            at_client: true,
            at_server: conn.is_some(),
            cut: conn.is_none(),
            lost: false,
            subscribed: false,
            up: now,
            down: now,
            open: VecDeque::new(),
            blocked: None,
            later: VecDeque::new(),
            heard: true,
            pinged: false,
        });
        let line = self.lines.len() - 1;
        if conn.is_none() {
            let delay = self.delay();
            self.at(now + delay, Event::ClientSees(line));
        }
        line
    }

    fn up(&mut self, line: usize, what: Up) {
        let at = self.lines[line].up.max(self.now + self.delay());
        if !self.lines[line].cut {
            self.lines[line].up = at;
            self.at(at, Event::Up(line, what));
        }
    }

    fn down(&mut self, line: usize, what: Down) {
        let at = self.lines[line].down.max(self.now + self.delay());
        if !self.lines[line].cut {
            self.lines[line].down = at;
            self.at(at, Event::Down(line, what));
        }
    }

    /// A process reads what the server has sent.
    fn read(&mut self, line: usize, what: Down) {
        let p = self.lines[line].process;
        self.lines[line].heard = true;
        match what {
            Down::Reply(serial, reply) => {
                // A reply is ignored if the process has waited too long for it.
                let Some(place) = self.lines[line].open.iter().position(|(open, _)| *open == serial) else {
                    return;
                };
                let (_, id) = self.lines[line].open.remove(place).unwrap();
                self.say(|| match &reply {
                    Ok(value) => format!("p{p}/{id} reads {value:?}"),
                    Err(error) => format!("p{p}/{id} reads {error}"),
                });
                self.answer(p, serial, id, reply);
            }
            Down::Subscribed => {
                self.say(|| format!("p{p} is subscribed"));
                self.note(p, |_| Call::Subscribed);
                self.processes[p].subscribed = true;
                self.with(p, |core, now| core.subscribed(now));
            }
            Down::Message(text) => {
                self.say(|| format!("p{p} hears \"{}\"", String::from_utf8_lossy(&text)));
                self.note(p, |_| Call::Heard(text.clone()));
                self.with(p, |core, now| core.heard(&text, now));
                self.check_loss(p, &text);
            }
            Down::Pong => {}
        }
    }

    /// A process finds that a connection is broken.
    fn lose(&mut self, line: usize) {
        let Line { process: p, lane, .. } = self.lines[line];
        self.say(|| format!("p{p} finds a connection broken"));
        self.lines[line].at_client = false;
        for (serial, id) in std::mem::take(&mut self.lines[line].open) {
            self.answer(p, serial, id, Err(reset()));
        }
        if lane.is_none() {
            self.subscribe_later(p);
        }
    }

    /// A process closes a connection.
    fn hang_up(&mut self, line: usize) {
        if !self.lines[line].at_client {
            return;
        }
        if !self.lines[line].cut {
            let at = self.lines[line].up.max(self.now + self.delay());
            self.lines[line].cut = true;
            self.at(at, Event::ServerSees(line));
        }
        if self.processes[self.lines[line].process].dead {
            self.lines[line].at_client = false;
        } else {
            self.lose(line);
        }
    }

    fn subscribe_later(&mut self, p: usize) {
        if !self.processes[p].subscribed {
            self.note(p, |_| Call::Unreachable);
        }
        self.with(p, |core, now| core.unreachable(&reset(), now));
        let pause = self.processes[p].pause;
        self.processes[p].pause =
            (pause + TRY_AGAIN.as_millis() as Millis).min(LONGEST_PAUSE.as_millis() as Millis);
        self.at(self.now + pause, Event::Subscribe(p));
    }

    fn subscribe(&mut self, p: usize) {
        let line = self.connect(p, None);
        self.up(line, Up::Subscribe);
        self.at(self.now + SILENCE.as_millis() as Millis, Event::Silence(line));
    }

    /// Checks whether a subscription is silent.
    fn listen(&mut self, line: usize) {
        let Line { heard, pinged, subscribed, .. } = self.lines[line];
        if !heard && pinged || !subscribed {
            return self.hang_up(line);
        }
        self.lines[line].heard = false;
        self.lines[line].pinged = !heard;
        if !heard {
            self.up(line, Up::Ping);
        }
        self.at(self.now + SILENCE.as_millis() as Millis, Event::Silence(line));
    }

    // Methods for the server

    /// What the server's clock shows.
    pub(super) fn clock(&self) -> Millis {
        self.now + self.set_by
    }

    fn arrive(&mut self, what: Arrived) {
        self.inbox.push_back(what);
        self.turn_at(self.now);
    }

    fn turn_at(&mut self, at: Millis) {
        let at = at.max(self.stopped).max(self.now);
        if self.turns_at.is_none_or(|before| at < before || before < self.now) {
            self.turns_at = Some(at);
            self.at(at, Event::Turn);
        }
    }

    /// A turn of the server's event loop, with any number of events.
    fn turn(&mut self) {
        if self.turns_at != Some(self.now) {
            return;
        }
        self.turns_at = None;
        if self.stopped > self.now {
            return self.turn_at(self.stopped);
        }
        let most = if self.calm { u64::MAX } else { self.one_of(&[1, 2, 3, 5, 100]) };
        for _ in 0..most {
            let Some(what) = self.inbox.pop_front() else { break };
            self.serve(what);
        }
        let (rules, now) = (self.rules, self.clock());
        if self.luck(4) == 0 && !self.calm {
            let told = self.server.answer(rules, now);
            self.tell(told, Why::Due);
        }
        if rules.late {
            let told = self.server.free_done(rules, now);
            self.tell(told, Why::Due);
        }
        let told = self.server.run_due(rules, now, Writes::Taken);
        self.tell(told, Why::Due);
        let next = if self.inbox.is_empty() { self.server.next_due() } else { Some(0) };
        if next.is_none_or(|at| at > now) {
            self.check_queues();
            self.check_told();
        }
        let next = next.map(|at| at - self.set_by);
        if let Some(at) = next {
            // Work that is due but was not done in this turn follows a little later.
            self.turn_at(at.max(self.now + 1));
        }
    }

    fn tell(&mut self, told: Vec<(Conn, Reply)>, why: Why) {
        let mut given = Vec::new();
        for (conn, reply) in told {
            let waits = |line: &&Line| line.at_server && line.conn == Some(conn);
            let Some(line) = self.lines.iter().position(|line| waits(&line)) else { continue };
            let Some((serial, words)) = self.lines[line].blocked.take() else { continue };
            let owner = wire::owner_of(&words);
            if let Some(reply) = wire::value(&reply, &owner, self.clock()) {
                if wire::is_given(&reply) {
                    given.push((self.lines[line].process, owner, wire::asks(&words)));
                }
                self.down(line, Down::Reply(serial, reply));
            }
            while let Some(what) = self.lines[line].later.pop_back() {
                self.inbox.push_front(Arrived::From(line, what));
            }
        }
        self.observe(why);
        given.into_iter().for_each(|(p, owner, asks)| self.claim(p, &owner, asks));
    }

    /// Publishes the server's messages, and notes which grants have begun and ended.
    fn observe(&mut self, why: Why) {
        for (lock, effect) in std::mem::take(&mut self.server.effects) {
            self.server.written += 1;
            self.stream.push_back((lock, sent(effect, self.clock())));
            self.streamed = self.streamed.max(self.now + self.delay());
            self.at(self.streamed, Event::Replica(self.primaries));
        }
        self.watch(why);
        let messages = std::mem::take(&mut self.server.messages);
        self.check_messages(&messages);
        for message in messages {
            let text = message.text();
            for line in 0..self.lines.len() {
                let Line { process, at_server, subscribed, .. } = self.lines[line];
                let channel = self.processes[process].core.channel.as_bytes();
                if at_server && subscribed && *channel == *message.channel.address {
                    self.down(line, Down::Message(text.clone()));
                }
            }
        }
    }

    fn serve(&mut self, what: Arrived) {
        let (rules, now) = (self.rules, self.clock());
        match what {
            Arrived::From(line, _) if !self.lines[line].at_server => {}
            Arrived::From(line, what) if self.lines[line].blocked.is_some() => {
                self.lines[line].later.push_back(what);
            }
            Arrived::From(line, what) if self.processes[self.lines[line].process].denied => match what {
                Up::Command(serial, _) => {
                    let reply = Err(wire::error("NOPERM", "no such user"));
                    self.down(line, Down::Reply(serial, reply));
                }
                Up::Subscribe | Up::Ping => self.kill(line),
            },
            Arrived::From(line, Up::Command(serial, words)) => {
                let conn = self.lines[line].conn.unwrap();
                let asks = wire::asks(&words);
                if asks {
                    let its = self.lines[line].process;
                    self.untold.retain(|(process, ..)| *process != its);
                }
                let reply = wire::run(&mut self.server, rules, now, conn, &words);
                let is_given = reply.as_ref().is_some_and(wire::is_given);
                let p = self.lines[line].process;
                self.say(|| format!("  the server does p{p}'s {}: {reply:?}", wire::shown(&words)));
                match reply {
                    Some(reply) => self.down(line, Down::Reply(serial, reply)),
                    None => self.lines[line].blocked = Some((serial, words.clone())),
                }
                self.observe(if asks { Why::Acquire } else { Why::Command });
                if is_given && (asks || wire::extends(&words)) {
                    self.claim(p, &wire::owner_of(&words), asks);
                }
                if asks && !self.lines[line].at_client {
                    // It may come behind a later acquire, whose answer said that there is nothing.
                    self.asked.remove(&wire::owner_of(&words));
                }
                if !self.lines[line].at_client && wire::extends(&words) {
                    let known = self.grants.values_mut().filter(|known| known.ended.is_none());
                    known.for_each(|known| known.shorter = true);
                }
            }
            Arrived::From(line, Up::Subscribe) => {
                let channel = self.processes[self.lines[line].process].core.channel.clone().into_bytes();
                self.server.unheard.remove(&channel);
                self.lines[line].subscribed = true;
                self.down(line, Down::Subscribed);
            }
            Arrived::From(line, Up::Ping) => self.down(line, Down::Pong),
            Arrived::Closed(line) => self.close(line),
            Arrived::Operator(operator) => {
                self.say(|| format!("  an operator: {operator:?}"));
                match operator {
                    Operator::Break(lock) => {
                        self.server.break_on(rules, now, lock, None);
                        self.check_break(lock);
                    }
                    Operator::Delete(lock) => self.server.delete(lock),
                    Operator::Kill(line) => self.kill(line),
                    Operator::User(p) => {
                        self.processes[p].denied ^= true;
                        for line in 0..self.lines.len() {
                            if self.lines[line].process == p && self.lines[line].at_server {
                                self.kill(line);
                            }
                        }
                    }
                    Operator::Waiters(most) => self.rules.most_waiters = most,
                    Operator::Clock(by) => {
                        if by < 0 {
                            self.late = self.late.max(now + RETRY);
                        }
                        self.set_by += by;
                        self.leases.clear();
                        // What has ended did so as long ago as before.
                        for known in self.grants.values_mut().filter(|known| known.ended.is_some()) {
                            if let Deadline::At(until) = &mut known.until {
                                *until += by;
                            }
                        }
                        self.set_back -= by.min(0);
                        // The grace uses a monotonic clock, which does not change if the wall clock is set.
                        self.server.busy -= by;
                        if by > 0 {
                            self.grants.values_mut().for_each(|known| known.shorter = true);
                        }
                    }
                }
                let breaks = matches!(operator, Operator::Break(_));
                self.observe(if breaks { Why::Break } else { Why::Operator });
            }
        }
    }

    /// Whether a command of this owner waits for replicas.
    pub(super) fn is_blocked(&self, owner: &Owner<'_>) -> bool {
        let commands = self.lines.iter().filter(|line| line.at_server).flat_map(|line| &line.blocked);
        commands.into_iter().any(|(_, words)| wire::owner_of(words) == owner.text().as_ref())
    }

    /// The server closes a connection.
    fn kill(&mut self, line: usize) {
        self.close(line);
        let at = self.lines[line].down.max(self.now + self.delay());
        self.lines[line].cut = true;
        self.at(at, Event::ClientSees(line));
    }

    fn close(&mut self, line: usize) {
        if !std::mem::replace(&mut self.lines[line].at_server, false) {
            return;
        }
        let (p, conn) = (self.lines[line].process, self.lines[line].conn.unwrap());
        self.say(|| format!("  the server sees a connection of p{p} closed"));
        for ((lock, fence), known) in &mut self.grants {
            known.closed |= self.server.session_of(*lock, *fence) == Some(conn);
        }
        self.server.close(self.rules, self.clock(), conn);
        self.free.push(conn);
        if std::mem::replace(&mut self.lines[line].subscribed, false) {
            let channel = self.processes[p].core.channel.as_bytes();
            let others = self.lines.iter().any(|line| line.process == p && line.at_server && line.subscribed);
            if !others {
                self.server.unheard.insert(channel.to_vec());
            }
        }
        self.observe(Why::Closed);
    }

    /// A process closes its client object for locks.
    pub(super) fn close_locks(&mut self, p: usize) {
        self.say(|| format!("p{p} closes its locks"));
        self.note(p, |_| Call::Close);
        self.with(p, |core, now| core.close(now));
    }

    /// Ends all disturbances. Every task releases its lock and asks for no other one, so everything has to come to an end.
    pub(super) fn end_all(&mut self) {
        self.say(|| "from here on, nothing disturbs them".to_string());
        self.calm = true;
        self.inbox.retain(|arrived| !matches!(arrived, Arrived::Operator(_)));
        self.rules.most_waiters = None;
        self.processes.iter_mut().for_each(|process| process.denied = false);
        let now = self.now;
        if self.processes[0].frozen > now {
            self.note(0, |_| Call::Frozen(now - 1_000_000));
        }
        self.processes.iter_mut().for_each(|process| process.frozen = process.frozen.min(now));
        for _ in 0..2_000 {
            for p in 0..self.processes.len() {
                for task in 0..self.processes[p].tasks.len() {
                    if !self.processes[p].dead && matches!(self.processes[p].tasks[task], Task::Holds { .. })
                    {
                        self.end(p, task);
                    }
                }
            }
            self.pass(50);
            if self.fault.is_some() || self.left().is_empty() {
                return;
            }
        }
        let left = self.left();
        self.say(|| format!("left: {}", left.join(", ")));
        self.fault = Some(Fault::NeverEnds);
    }
}
