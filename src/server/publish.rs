//! Publish/Subscribe.

use super::Ctx;

impl Ctx<'_> {
    /// Publishes a message: how many subscribers of this server were sent it. In a cluster it goes to the other nodes too, and
    /// theirs are not counted.
    pub(crate) fn publish(&self, channel: &[u8], message: &[u8]) -> usize {
        let receivers = self.with_string(channel, |channel| {
            self.with_string(message, |message| {
                // SAFETY: context and strings are valid (see their `new`); the server copies what it sends.
                unsafe { api!(RedisModule_PublishMessage(self.raw(), channel.raw(), message.raw())) }
            })
        });
        usize::try_from(receivers).unwrap_or(0)
    }
}
