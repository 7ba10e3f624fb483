//! `LOCK.RELEASE key owner [ALL] [FENCE fence]`
//!
//! Replies with the number of holds that are left. At 0, the grant has ended, and the next waiters get the lock. Otherwise the lease stays
//! as it is.
//!
//! `LOCK.MRELEASE numkeys key [key ...] owner [ALL] [FENCE fence]`
//!
//! Releases one hold, or with `ALL` all holds, of each of these locks that the owner holds. For each lock, replies with the number of holds
//! that are left, or null if the owner does not hold the lock.

use super::parse::{self, Words};
use crate::error::Error;
use crate::server::{Arg, Args, Argument, Change, Command, Ctx, Definition, KeyUse, Keys};
use crate::serving;
use rules::lock::Owner;
use rules::waiting::{self, Refusal};

/// `ALL` releases all holds of the owner at once.
const ALL: Argument = Argument::flag(c"all", c"ALL");

pub(crate) struct Release<'a> {
    key: Arg<'a>,
    pub(super) given: ReleaseArgs<'a>,
}

/// The arguments that `LOCK.RELEASE` and `LOCK.MRELEASE` share.
pub(super) struct ReleaseArgs<'a> {
    pub(super) owner: Owner<'a>,
    pub(super) all: bool,
    pub(super) fence: Option<u64>,
}

impl Command for Release<'_> {
    const DEFINITION: Definition = Definition {
        name: c"lock.release",
        summary: c"Releases one hold of a lock, or all of them.",
        complexity: c"O(1) if nobody else holds the lock or waits. O(log H) for H holders, and O(log N) for N waiters.",
        since: c"0.1.0",
        flags: c"write fast",
        acl: &[c"write", c"fast", c"lock"],
        tips: c"",
        key: KeyUse { keys: Keys::First, tells: true, change: Some(Change::Delete) },
        arguments: &[Argument::KEY, parse::OWNER, ALL, parse::FENCE],
    };
    type Error = Error;

    fn run(ctx: &Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        let Release { key, given } = Release::parse(args)?;
        let left = serving::release(ctx, key, given.asked())?;
        let left = left.map_err(|why| Refusal::NotHeld(why, None))?;
        ctx.reply_integer(left.into());
        Ok(())
    }
}

impl<'a> Release<'a> {
    pub(super) fn parse(args: Args<'a>) -> Result<Self, Error> {
        let key = parse::required(args, 1, "key")?;
        Ok(Self { key, given: ReleaseArgs::parse(Words::new(args, 2))? })
    }
}

pub(crate) struct Mrelease<'a> {
    pub(super) keys: Vec<Arg<'a>>,
    pub(super) given: ReleaseArgs<'a>,
}

impl Command for Mrelease<'_> {
    const DEFINITION: Definition = Definition {
        name: c"lock.mrelease",
        summary: c"Releases one hold of each of several locks, or all of them.",
        complexity: c"O(K) for K locks if nobody else holds them or waits. O(K log H) for H holders, and O(K log N) for N waiters.",
        since: c"0.1.0",
        flags: c"write",
        acl: &[c"write", c"slow", c"lock"],
        tips: c"",
        key: KeyUse { keys: Keys::Counted, tells: true, change: Some(Change::Delete) },
        arguments: &[parse::NUMKEYS, parse::KEYS, parse::OWNER, ALL, parse::FENCE],
    };
    type Error = Error;

    fn run(ctx: &Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        let Mrelease { keys, given } = Mrelease::parse(args)?;
        let left = serving::release_all(ctx, &keys, given.asked())?;
        ctx.reply_array(left.len());
        for holds in left {
            match holds {
                Ok(holds) => ctx.reply_integer(holds.into()),
                Err(_) => ctx.reply_null(),
            }
        }
        Ok(())
    }
}

impl<'a> Mrelease<'a> {
    pub(super) fn parse(args: Args<'a>) -> Result<Self, Error> {
        let (keys, words) = parse::keys(args)?;
        Ok(Self { keys, given: ReleaseArgs::parse(words)? })
    }
}

impl<'a> ReleaseArgs<'a> {
    /// Reads the arguments after the keys.
    #[inline(always)]
    fn parse(mut words: Words<'a>) -> Result<Self, Error> {
        let owner = words.owner()?;
        let (mut all, mut fence) = (None, None);
        while let Some(word) = words.next() {
            if parse::is(word, "ALL") {
                words.set(&mut all, ())?;
            } else if parse::is(word, "FENCE") {
                words.read(&mut fence)?;
            } else {
                return Err(words.error());
            }
        }
        Ok(Self {
            owner: parse::owner(owner)?,
            all: all.is_some(),
            fence: fence.map(parse::fence).transpose()?,
        })
    }

    fn asked(&self) -> waiting::ReleaseRequest<'_> {
        waiting::ReleaseRequest { owner: &self.owner, fence: self.fence, all: self.all }
    }
}
