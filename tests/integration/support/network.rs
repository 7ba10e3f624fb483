//! A network of a test's own (see `apart`), in which packets get lost: by rules of nftables on the loopback, by port.

use super::apart::run;

/// Which packets.
#[derive(Clone, Copy)]
pub(crate) enum Way {
    /// Those to a port.
    To(u16),
    /// Those from it.
    From(u16),
}

pub(crate) struct Network;

impl Network {
    pub(crate) fn new() -> Self {
        run("ip", &["link", "set", "lo", "up"]);
        run(
            "nft",
            &["add table inet trouble; add chain inet trouble in { type filter hook input priority 0; }"],
        );
        Self
    }

    /// From now on that part of these packets gets lost, in thousandths; and of others none.
    pub(crate) fn lose(&self, ways: impl IntoIterator<Item = (Way, u32)>) {
        let mut rules = String::from("flush chain inet trouble in;");
        for (way, part) in ways {
            let (end, port) = match way {
                Way::To(port) => ("dport", port),
                Way::From(port) => ("sport", port),
            };
            let some = if part < 1000 { format!("numgen random mod 1000 < {part} ") } else { String::new() };
            rules += &format!("add rule inet trouble in tcp {end} {port} {some}drop;");
        }
        run("nft", &[&rules]);
    }
}
