//! One client, which works as soon as it is told that it may.

use std::num::NonZeroU64;

use super::super::server::{Conn, Reply, Rules, Server};
use crate::lock::{AcquireRequest, Fence, Millis, Owner, Room, Slot, SlotRequest};
use crate::waiting::{Channel, MessageKind, WaitOptions};

/// The lease that clients ask for: longer than the time to claim a grant.
const LEASE: Millis = 3;

/// A rule that clients don't follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slip {
    /// They take a message for one about their last request, whatever number it says.
    AnyMessage,
    /// Clients begin their work if the grant's fence is above the latest fence that the server told them with `QUEUED`.
    Floor,
    /// Clients count the lease from the time at which they hear the message, not from the time at which they asked.
    FromMessage,
    /// They count an extension from its reply.
    FromReply,
    /// Clients work from the message `granted` on, although they have not claimed the grant.
    AtGranted,
    /// They don't release what they can't leave.
    NoRelease,
}

/// A command on its way: to the server, or back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sent {
    pub(super) command: Command,
    at: Millis,
    pub(super) answer: Option<Answer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Command {
    Acquire,
    Extend(Fence),
}

/// What it does next of its own accord.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Send(Command),
    /// From then on it leaves, or releases, until that is done.
    GiveUp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Answer {
    Granted(Fence, Option<Slot>, Millis),
    /// With the latest fence of that server.
    Queued(Option<Fence>),
    Extended(Millis),
    NotHeld,
}

/// A message on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Mail {
    Start { fence: Fence, lease: Millis, slot: Option<Slot>, number: Option<NonZeroU64> },
    Lost(Fence),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum State {
    Idle,
    Waits {
        /// When it sent the last request, if that was answered with `QUEUED`, and the latest fence of that server.
        queued: Option<(Millis, Option<Fence>)>,
        /// A grant that it has heard to be over.
        lost: Option<Fence>,
    },
    Works(Belief),
    /// It gives up that grant; or its place, or whatever it has.
    Leaves(Option<Fence>),
    /// It has no place to give up: so it may have a grant.
    Releases,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Belief {
    pub(super) fence: Fence,
    pub(super) slot: Option<Slot>,
    pub(super) until: Millis,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) who: Conn,
    /// The number of acquires that the client has begun, each with an owner of its own.
    pub(super) acquires: u8,
    pub(super) state: State,
    pub(super) sent: Option<Sent>,
}

impl Client {
    pub(super) fn new(who: Conn) -> Self {
        Self { who, acquires: 0, state: State::Idle, sent: None }
    }

    pub(super) fn owner(&self) -> Owner<'static> {
        owner(self.who, self.acquires)
    }

    pub(super) fn wishes(&self, now: Millis, most: u8) -> Vec<Wish> {
        let acquire = Wish::Send(Command::Acquire);
        match self.state {
            State::Idle if self.acquires < most => vec![acquire],
            // It waits for the answer to an acquire before it leaves.
            State::Waits { .. } if self.sent.is_some() => vec![],
            // Its numbers rise: here they are the time.
            State::Waits { queued: Some((asked, _)), .. } if asked == now => vec![Wish::GiveUp],
            State::Waits { .. } => vec![acquire, Wish::GiveUp],
            State::Works(_) if self.sent.is_some() => vec![Wish::GiveUp],
            State::Works(Belief { fence, .. }) => vec![Wish::Send(Command::Extend(fence)), Wish::GiveUp],
            _ => vec![],
        }
    }

    pub(super) fn begin(&mut self, wish: Wish, now: Millis) {
        match (wish, self.state) {
            (Wish::GiveUp, State::Works(belief)) => self.leave(Some(belief.fence)),
            (Wish::GiveUp, _) => self.leave(None),
            (Wish::Send(command), state) => {
                self.sent = Some(Sent { command, at: now, answer: None });
                self.state = match state {
                    State::Idle => {
                        self.acquires += 1;
                        State::Waits { queued: None, lost: None }
                    }
                    // Messages are kept until the answer is there.
                    State::Waits { lost, .. } => State::Waits { queued: None, lost },
                    state => state,
                };
            }
        }
    }

    fn leave(&mut self, fence: Option<Fence>) {
        (self.state, self.sent) = (State::Leaves(fence), None);
    }

    /// Whether the server has something of it to do.
    pub(super) fn is_to_serve(&self) -> bool {
        let leaves = matches!(self.state, State::Leaves(_) | State::Releases);
        leaves || self.sent.is_some_and(|sent| sent.answer.is_none())
    }

    /// The server does what it was sent.
    pub(super) fn serve(
        &mut self,
        server: &mut Server,
        rules: Rules,
        room: u32,
        slip: Option<Slip>,
        now: Millis,
    ) {
        let owner = self.owner();
        match self.state {
            State::Leaves(None) => {
                let left = server.leave(rules, now, &owner) || slip == Some(Slip::NoRelease);
                self.state = if left { State::Idle } else { State::Releases };
            }
            State::Leaves(_) | State::Releases => {
                let fence = if let State::Leaves(fence) = self.state { fence.map(Fence::get) } else { None };
                server.release(rules, now, &owner, fence, false);
                self.state = State::Idle;
            }
            _ => {}
        }
        let Some(Sent { command, at, answer }) = &mut self.sent else { return };
        *answer = Some(match *command {
            Command::Acquire => {
                let (ask, wait) = request(owner, room, NonZeroU64::new(1 + *at as u64), slip);
                match server.acquire(rules, now, self.who, &ask, &wait) {
                    Reply::Granted { fence, slot, deadline, .. } => {
                        Answer::Granted(fence, slot, deadline.left(now))
                    }
                    Reply::Queued if slip == Some(Slip::Floor) => Answer::Queued(server.fences.last()),
                    Reply::Queued => Answer::Queued(None),
                    reply => panic!("{reply:?}"),
                }
            }
            Command::Extend(fence) => match server.extend(rules, now, &owner, Some(fence.get()), LEASE) {
                Some(until) => Answer::Extended(until.left(now)),
                None => Answer::NotHeld,
            },
        });
    }

    /// The client reads the answer to its command.
    pub(super) fn read(&mut self, slip: Option<Slip>, now: Millis) {
        let Some(Sent { at, answer: Some(answer), .. }) = self.sent.take() else { return };
        let from = if slip == Some(Slip::FromReply) { now } else { at };
        self.state = match (self.state, answer) {
            (State::Waits { lost, .. }, Answer::Granted(fence, ..)) if lost == Some(fence) => {
                State::Leaves(lost)
            }
            (State::Waits { .. }, Answer::Granted(fence, slot, lease)) => {
                State::Works(Belief { fence, slot, until: at + lease })
            }
            (State::Waits { lost, .. }, Answer::Queued(floor)) => {
                State::Waits { queued: Some((at, floor)), lost }
            }
            (State::Works(belief), Answer::Extended(lease)) => {
                State::Works(Belief { until: from + lease, ..belief })
            }
            (State::Works(Belief { fence, .. }), Answer::NotHeld) => State::Leaves(Some(fence)),
            (state, _) => state,
        };
        self.look_at_the_clock(now);
    }

    /// It hears a message. The rule of all this: the work begins if the number is that of the last request, which was answered with
    /// `QUEUED`; and what it believes ends so long after it sent that, no later.
    pub(super) fn hear(&mut self, mail: Mail, slip: Option<Slip>, now: Millis) {
        self.state = match (self.state, mail) {
            (
                State::Waits { queued: Some((asked, floor)), lost },
                Mail::Start { fence, lease, slot, number },
            ) if lost != Some(fence) => {
                let begins = match slip {
                    Some(Slip::AnyMessage | Slip::AtGranted) => true,
                    Some(Slip::Floor) => Some(fence) > floor,
                    _ => number == NonZeroU64::new(1 + asked as u64),
                };
                let from = if slip == Some(Slip::FromMessage) { now } else { asked };
                match begins && now <= from + lease {
                    true => State::Works(Belief { fence, slot, until: from + lease }),
                    false => self.state,
                }
            }
            (State::Waits { queued, .. }, Mail::Lost(fence)) => State::Waits { queued, lost: Some(fence) },
            (State::Works(belief), Mail::Lost(fence)) if belief.fence == fence => {
                return self.leave(Some(fence));
            }
            (state, _) => state,
        };
    }

    /// What it believes may be over.
    pub(super) fn look_at_the_clock(&mut self, now: Millis) {
        if let State::Works(Belief { fence, until, .. }) = self.state
            && until < now
        {
            self.leave(Some(fence));
        }
    }
}

pub(super) fn owner(who: Conn, acquire: u8) -> Owner<'static> {
    Owner::new(&[b'a' + who, b'0' + acquire]).unwrap().into_owned()
}

fn request(
    owner: Owner<'static>,
    room: u32,
    number: Option<NonZeroU64>,
    slip: Option<Slip>,
) -> (AcquireRequest<'static>, WaitOptions) {
    let start = number.filter(|_| slip != Some(Slip::AtGranted));
    let slot = (room > 1).then_some(SlotRequest::Least);
    let (room, address) = (Room::limit(room).unwrap(), owner.text().as_ref().into());
    let ask = AcquireRequest { once: true, room, slot, ..AcquireRequest::new(owner, LEASE) };
    let channel = Some(Channel { address, wanted: false, start });
    (ask, WaitOptions { timeout: Some(0), channel, ..WaitOptions::default() })
}

/// What a message comes to for its client.
pub(super) fn mail(kind: MessageKind, rules: Rules) -> Option<Mail> {
    match kind {
        MessageKind::Start { fence, lease, slot, number } => {
            Some(Mail::Start { fence, lease, slot, number: Some(number) })
        }
        MessageKind::Granted(fence) => {
            Some(Mail::Start { fence, lease: rules.claim, slot: None, number: None })
        }
        MessageKind::Lost(fence) => Some(Mail::Lost(fence)),
        _ => None,
    }
}
