//! Publishes messages, and reads from a channel's name which process listens there.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use foldhash::fast::FixedState;

use crate::server::{Ctx, ServerCell};
use crate::stats;
use rules::waiting::Message;

/// How many addresses `RECENT` keeps.
const KEPT: usize = 1_024;

/// Addresses that were used a short time ago, by hash. A client process always uses one address, so its grants and places share it.
static RECENT: ServerCell<[Option<Arc<[u8]>>; KEPT]> = ServerCell::new([const { None }; KEPT]);

/// Returns the address for messages to a user: the user's name, a NUL, and the channel's name.
pub(super) fn address(user: &[u8], channel: &[u8]) -> Arc<[u8]> {
    let new = || Arc::from([user, b"\0", channel].concat());
    RECENT.with(|recent| {
        let hash = FixedState::default().hash_one((user, channel)) as usize;
        let Some(slot) = recent.get_mut(hash % KEPT) else { return new() };
        slot.take_if(|known| user_and_channel(known) != (user, channel));
        slot.get_or_insert_with(new).clone()
    })
}

/// Splits an address at its first NUL. The user's name has none, because servers refuse such names.
fn user_and_channel(address: &[u8]) -> (&[u8], &[u8]) {
    let mut parts = address.splitn(2, |&byte| byte == 0);
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
}

/// Returns what a client says of itself, for operators: the process that its channel names, or the whole channel, or the name of its
/// connection. The whole channel may let its reader hear and forge messages, so only a user who may write to the lock is shown it.
pub(crate) fn client_name(
    ctx: &Ctx<'_>,
    client: Option<u64>,
    address: Option<&[u8]>,
    may_write: bool,
) -> Vec<u8> {
    let channel = address.map(|address| user_and_channel(address).1);
    match channel.and_then(|channel| process(channel).or(may_write.then_some(channel))) {
        Some(shown) => shown.to_vec(),
        None => client.and_then(|client| ctx.name_of(client)).unwrap_or_default(),
    }
}

/// Returns an owner and, in parentheses, who this is: the label, or else what the client says of itself.
pub(crate) fn named(owner: &[u8], label: &[u8], name: impl FnOnce() -> Vec<u8>) -> String {
    let name = if label.is_empty() { name() } else { label.to_vec() };
    let who = if name.is_empty() { String::new() } else { format!(" ({})", name.escape_ascii()) };
    format!("owner \"{}\"{who}", owner.escape_ascii())
}

/// Returns `HOST:PID` of a channel `redislock:HOST:PID:SECRET`.
fn process(channel: &[u8]) -> Option<&[u8]> {
    let named = channel.strip_prefix(b"redislock:")?;
    let mut parts = named.splitn(3, |&byte| byte == b':');
    let (host, pid, secret) = (parts.next()?, parts.next()?, parts.next()?);
    let is_host = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._".contains(byte);
    let is_process = host.iter().all(is_host) && !pid.is_empty() && pid.iter().all(u8::is_ascii_digit);
    named.get(..host.len() + 1 + pid.len()).filter(|_| is_process && !secret.is_empty())
}

/// Publishes a message, unless its user has lost the right to the channel. Returns whether somebody may have received the message. In a
/// cluster, this is so for every published message, because this server knows only its own subscribers.
pub(super) fn publish(ctx: &Ctx<'_>, message: &Message) -> bool {
    let (user, channel) = user_and_channel(&message.channel.address);
    let may = ctx.user_may_publish(user, channel);
    let heard = may && (ctx.publish(channel, &message.text()) > 0 || ctx.is_cluster());
    stats::MESSAGES.count();
    if !heard {
        stats::MESSAGES_UNHEARD.count();
    }
    heard
}
