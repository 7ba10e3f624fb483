//! Tells a waiter its answer, and handles a waiter that goes away.

use super::access::{Environment, Host};
use super::sessions;
use super::table::{
    Answer, Channel, Message, MessageKind, Moved, RequestId, RequestedLocks, Told, WaitTable,
};
use crate::lock::{AcquireRequest, Deadline, Got, Now};

/// Returns the answer for a waiter that is told now. If it was to be told of grants or extensions, and one of these grants has ended or will
/// end with the next look at its lock, or its lease is shorter by now, the answer says so. Returns `None` if the waiter has already been
/// told. An answer from before a demotion stays as it is: what it says was so when this server was the primary, and a replica's keys may be
/// those of another moment.
fn answer_of<H: Host>(host: &mut H, request: RequestId, now: Now) -> Option<Told> {
    let doubtful = host.table(|table| table.doubtful(request));
    let until = doubtful.iter().try_fold(Deadline::Never, |first, (id, fence)| {
        Some(first.min(host.deadline_of(id, *fence, now.millis())?))
    });
    let tell = |table: &mut WaitTable<H::Client>| {
        match until {
            _ if doubtful.is_empty() => (),
            Some(until) => table.shorten_answer(request, until),
            None => table.untell(request),
        }
        table.tell(request)
    };
    host.table(|table| table.with_table_of(request, tell))
}

/// Returns the answer for a waiter that the server has unblocked. The waiter counts as told from now on. If it asked for a session and was
/// granted its locks, the session begins. Returns `None` if the waiter has already been told.
pub fn tell<H: Host>(host: &mut H, request: RequestId, now: Now) -> Option<Told> {
    let told = answer_of(host, request, now)?;
    if let Answer::Granted { until: confirmed } = told.answer
        && told.ask.session
    {
        let lease = host.limits().allowed(told.ask.lease);
        for (id, fence) in &told.binds {
            let (fence, client) = (*fence, told.client_id);
            if let Some((_, until)) = host.alive_with(id, fence, now.millis()) {
                host.table(|table| {
                    sessions::bind(table, id.to_ref(), client, fence, lease, until, now.millis());
                    table.sessions().confirm(id.to_ref(), fence, told.confirm);
                    if confirmed < until {
                        // The lease ends later than the answer says (`confirmed`). Either somebody has made the lease longer since replicas
                        // confirmed its end, or the request was for several locks, and `confirmed` is the end of another lock's lease. The
                        // longer lease counts as a renewal that replicas still have to confirm.
                        let moved = Moved { from: confirmed, to: until };
                        table.sessions().await_renewal(id.to_ref(), fence, moved, now.millis());
                    }
                });
            } else if told.confirm.is_none() {
                sessions::bind_overdue(host, id.to_ref(), client, fence, lease, now);
            }
        }
    }
    Some(told)
}

/// Answers a place (a waiter that is not blocked) by a message. If the answer is a grant, but nobody receives the message, the module takes
/// the grant back. If somebody receives the message, the owner still has to claim the grant, unless the message tells the owner to start
/// its work (`START`).
pub(super) fn tell_place<H: Host>(host: &mut H, request: RequestId, now: Now) {
    let told = answer_of(host, request, now);
    let Some(Told { locks, ask, answer, channel: Some(channel), .. }) = told else { return };
    let kind = match answer {
        Answer::Granted { .. } => granted(&locks, &ask, &channel),
        Answer::TimedOut => MessageKind::Timeout,
        _ => MessageKind::Gone,
    };
    let heard = host.publish(&Message { channel, kind, owner: ask.owner });
    let go_on = |table: &mut WaitTable<H::Client>| match (kind, heard) {
        (MessageKind::Granted(_), true) => {}
        (MessageKind::Start { .. }, true) => table.start(request),
        (MessageKind::Granted(_) | MessageKind::Start { .. }, false) => _ = table.give_up(request),
        _ => table.forget(request),
    };
    host.table(|table| table.with_table_of(request, go_on));
}

/// Returns the message about a waiter's grants. The message has the highest fence, which is the fence of all new grants of the request.
fn granted(locks: &RequestedLocks, ask: &AcquireRequest<'_>, channel: &Channel) -> MessageKind {
    let all = locks.all().iter().filter_map(|lock| lock.got);
    let Some(Got { fence, slot, .. }) = all.max_by_key(|got| got.fence) else {
        return MessageKind::Gone;
    };
    match channel.start {
        Some(number) => MessageKind::Start { fence, lease: ask.lease, slot, number },
        None => MessageKind::Granted(fence),
    }
}

/// The server calls this when it is done with a blocked waiter. `gone` says that the connection closed, or that an operator sent the waiter
/// away. If so, and if the module had already made the reply that tells the waiter of its grant, this function takes the grant back, unless
/// `arrived` says that the reply has certainly reached the client. The arguments of `arrived` are the id of the client, and whether the
/// module unblocked the client for the reply (otherwise an operator did).
pub fn finished<A: Environment>(
    env: &mut A,
    request: RequestId,
    gone: bool,
    arrived: impl FnOnce(u64, bool) -> bool,
) {
    let told = env.table(|table| table.with_table_of(request, |table| table.waiters.told_client(request)));
    if told.filter(|_| gone).is_some_and(|(client, unblocked)| !arrived(client, unblocked)) {
        env.table(|table| table.with_table_of(request, |table| table.depart(request)));
    }
}

/// A connection has closed, perhaps before the server sent the reply that tells the client of its grant: the server closes some connections
/// only at the end of a turn of its event loop, for example those of a deleted user. `is_lost` says whether the reply was not sent. If so,
/// this function takes the grant back. Returns whether work may be due.
pub fn closed<A: Environment>(env: &mut A, client: u64, is_lost: impl FnOnce() -> bool) -> bool {
    let sent: Vec<_> = env.table(|table| table.sent.extract_if(.., |sent| sent.0 == client).collect());
    let lost = !sent.is_empty() && is_lost();
    env.table(|table| {
        for &(_, request) in &sent {
            table.with_table_of(request, |table| {
                if lost {
                    table.depart(request);
                }
                table.forget(request);
            });
        }
        table.connections.close(client) || !sent.is_empty()
    })
}
