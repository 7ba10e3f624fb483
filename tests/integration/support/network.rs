//! A test's own network (see `apart`), which loses packets by nftables rules on the loopback interface, by port.

use super::apart::run;

/// Which packets a rule is about.
#[derive(Clone, Copy)]
pub(crate) enum Way {
    /// Packets to a port.
    To(u16),
    /// Packets from a port.
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

    /// From now on, loses these parts of these packets, in thousandths, and no others.
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
