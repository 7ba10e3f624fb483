//! Commands: how they are made anew, and how somebody would type them.

use std::process::Command;

pub(super) type Words = (Vec<std::ffi::OsString>, Vec<(std::ffi::OsString, std::ffi::OsString)>);

/// A command, to make it anew.
pub(super) fn words(command: &Command) -> Words {
    let program = std::iter::once(command.get_program()).chain(command.get_args());
    let set = command.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
    (program.map(ToOwned::to_owned).collect(), set.collect())
}

pub(super) fn again((words, set): &Words) -> Command {
    let mut words = words.iter();
    let mut command = Command::new(words.next().map_or_else(Default::default, Clone::clone));
    command.args(words).envs(set.iter().map(|(name, value)| (name, value)));
    command
}

/// As somebody would type it.
pub(super) fn told(command: &Command) -> String {
    let (words, set) = words(command);
    let set = set.iter().map(|(name, value)| format!("{}={}", name.display(), value.display()));
    let words = words.iter().map(|word| word.display().to_string());
    let line = set.chain(words).collect::<Vec<_>>().join(" ");
    // A script within is too long to be told.
    line.lines().next().unwrap_or_default().to_owned()
}
