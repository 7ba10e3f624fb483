//! Helpers of the tests: a server for each test, clients, and waiting for a condition.

mod apart;
mod client;
mod clock;
mod crowd;
mod disk;
mod files;
mod holders;
mod ledger;
mod link;
mod listener;
mod load;
mod mailbox;
mod module;
mod network;
mod pace;
mod payload;
mod port;
mod preload;
mod proxy;
mod refusals;
mod server;
mod signal;
mod soak;
mod wait;
mod waiter;
mod work;

pub(crate) use apart::{Own, apart};
pub(crate) use client::{Client, Grant, convert, grant};
pub(crate) use clock::WallClock;
pub(crate) use crowd::{allow_open_files, sockets};
pub(crate) use disk::{SmallDisk, Syncs};
pub(crate) use files::in_each_kind_of_file;
pub(crate) use holders::Holder;
pub(crate) use ledger::{Belief, Ledger, instant_of};
pub(crate) use link::{Link, Outcome};
pub(crate) use listener::Listener;
pub(crate) use load::{Load, Route};
pub(crate) use mailbox::{Mailbox, heard};
pub(crate) use module::{
    cli_program, meddler_path, module_path, path_in, program_path, root, server_program,
};
pub(crate) use network::{Network, Way};
pub(crate) use pace::{SOON, Stopwatch, halted_lately};
pub(crate) use payload::{Item, Part, Payload, reader, restore_from_primary, seal};
pub(crate) use port::Port;
pub(crate) use proxy::Proxy;
pub(crate) use refusals::{FREE, HELD_BY_ANOTHER, OTHER_FENCE, no_integer, not_positive, syntax_at};
pub(crate) use server::{Server, Setup};
pub(crate) use signal::{busy_script, freeze, is_closed_by_client, wake, while_stopped};
pub(crate) use soak::{Ends, Rng, figure, size};
pub(crate) use wait::{PATIENCE, wait_for, wall_clock};
pub(crate) use waiter::{
    Waiter, all_along, blocked_clients, held, is_left_of, lease_end_after, owners, processor_time,
    processor_time_in, queue, server_time, soon, transaction, wait_until, wait_until_gone,
};
pub(crate) use work::Work;
