//! A client that starts work when the message `start` comes.

use std::num::NonZeroU64;

use super::super::server::{Conn, Reply, Rules, Server};
use crate::lock::{AcquireRequest, Fence, Millis, Owner, Room, Slot, SlotRequest};
use crate::waiting::{Channel, MessageKind, WaitOptions};

/// The lease that clients ask for, in ms. It is longer than the time to claim a grant.
const LEASE: Millis = 3;

/// A rule of the protocol that clients break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Breach {
    /// Clients accept a message with any number, instead of only the number of their last request.
    AnyMessage,
    /// Clients start work if the grant's fence is above the latest fence that came with `QUEUED`, whatever the message's number is.
    Floor,
    /// Clients count the lease from when they hear the message, instead of from when they asked.
    FromMessage,
    /// Clients count an extension from its reply, instead of from when they sent the command.
    FromReply,
    /// Clients start work at the message `granted`, before they have claimed the grant.
    AtGranted,
    /// Clients that have no place to give up don't release the lock.
    NoRelease,
}

/// A command on its way to the server, or its answer on the way back.
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

/// An action that a client may begin by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Send(Command),
    /// The client gives up: it sends `LOCK.LEAVE` or `LOCK.RELEASE` until the server has run the command.
    GiveUp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Answer {
    Granted(Fence, Option<Slot>, Millis),
    /// The client has a place. The latest fence of this server comes with the answer.
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
        /// When the client sent its last request, and the latest fence of the server, if the answer was `QUEUED`.
        queued: Option<(Millis, Option<Fence>)>,
        /// The fence in the last message `lost`.
        lost: Option<Fence>,
    },
    Works(Belief),
    /// The client gives up the grant with this fence, or, with `None`, its place or any grant.
    Leaves(Option<Fence>),
    /// The client had no place to give up, so it releases a grant that it may have.
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
    /// The number of acquires that the client has begun. Each has its own owner.
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
            // The client waits for the answer to its acquire before it gives up.
            State::Waits { .. } if self.sent.is_some() => vec![],
            // The numbers of a client's requests must rise. In this model, the number is the time.
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
                    // Messages are kept until the answer arrives.
                    State::Waits { lost, .. } => State::Waits { queued: None, lost },
                    state => state,
                };
            }
        }
    }

    fn leave(&mut self, fence: Option<Fence>) {
        (self.state, self.sent) = (State::Leaves(fence), None);
    }

    /// Whether the server has a command of this client to run.
    pub(super) fn is_to_serve(&self) -> bool {
        let leaves = matches!(self.state, State::Leaves(_) | State::Releases);
        leaves || self.sent.is_some_and(|sent| sent.answer.is_none())
    }

    /// The server runs the client's command.
    pub(super) fn serve(
        &mut self,
        server: &mut Server,
        rules: Rules,
        room: u32,
        breach: Option<Breach>,
        now: Millis,
    ) {
        let owner = self.owner();
        match self.state {
            State::Leaves(None) => {
                let left = server.leave(rules, now, &owner) || breach == Some(Breach::NoRelease);
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
                let (ask, wait) = request(owner, room, NonZeroU64::new(1 + *at as u64), breach);
                match server.acquire(rules, now, self.who, &ask, &wait) {
                    Reply::Granted { fence, slot, deadline, .. } => {
                        Answer::Granted(fence, slot, deadline.left(now))
                    }
                    Reply::Queued if breach == Some(Breach::Floor) => Answer::Queued(server.fences.last()),
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

    /// The client reads the answer to its command, if the answer is there.
    pub(super) fn read(&mut self, breach: Option<Breach>, now: Millis) {
        let Some(Sent { at, answer: Some(answer), .. }) = self.sent.take() else { return };
        let from = if breach == Some(Breach::FromReply) { now } else { at };
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

    /// The client reads a message. This is the rule under test: work starts if the message has the number of the last request, and the
    /// answer to that request was `QUEUED`. The work ends at the latest when the lease is over, counted from when the request was sent.
    pub(super) fn hear(&mut self, mail: Mail, breach: Option<Breach>, now: Millis) {
        self.state = match (self.state, mail) {
            (
                State::Waits { queued: Some((asked, floor)), lost },
                Mail::Start { fence, lease, slot, number },
            ) if lost != Some(fence) => {
                let begins = match breach {
                    Some(Breach::AnyMessage | Breach::AtGranted) => true,
                    Some(Breach::Floor) => Some(fence) > floor,
                    _ => number == NonZeroU64::new(1 + asked as u64),
                };
                let from = if breach == Some(Breach::FromMessage) { now } else { asked };
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

    /// Ends the client's work if its lease has ended.
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
    breach: Option<Breach>,
) -> (AcquireRequest<'static>, WaitOptions) {
    let start = number.filter(|_| breach != Some(Breach::AtGranted));
    let slot = (room > 1).then_some(SlotRequest::Least);
    let (room, address) = (Room::limit(room).unwrap(), owner.text().as_ref().into());
    let ask = AcquireRequest { once: true, room, slot, ..AcquireRequest::new(owner, LEASE) };
    let channel = Some(Channel { address, wanted: false, start });
    (ask, WaitOptions { timeout: Some(0), channel, ..WaitOptions::default() })
}

/// Returns the message as the client gets it; `None` if the client ignores this kind.
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
