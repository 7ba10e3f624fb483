//! Completion of the command line: subcommands, options, and names of locks, for which the server is asked.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use clap::{CommandFactory as _, FromArgMatches as _};
use clap_complete::Shell;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter};
use clap_complete::env::{CompleteEnv, Elvish, EnvCompleter, Fish, Powershell, Shells, Zsh};

use crate::connect::Target;
use crate::failure::Failure;
use crate::locks::scan;
use crate::options::{Options, Place};
use crate::text::Name;

/// With this variable, a shell asks for completions.
const VARIABLE: &str = "REDISLOCK_COMPLETE";
const SHELLS: Shells<'_> = Shells(&[&Bash, &Elvish, &Fish, &Powershell, &Zsh]);
/// How long somebody who has pressed Tab waits for names.
const PATIENCE: Duration = Duration::from_secs(1);
/// How many names one SCAN command looks at.
const SCAN_COUNT: usize = 1_000;

/// Prints completions if a shell asks for them. Returns whether one does.
pub(crate) fn answered() -> bool {
    let folder = std::env::current_dir().ok();
    let asked = CompleteEnv::with_factory(Options::command).var(VARIABLE).shells(SHELLS);
    // An error message would be of no use to a shell, so errors are ignored.
    asked.try_complete(std::env::args_os(), folder.as_deref()).unwrap_or(true)
}

/// Prints the completion script for this shell.
pub(crate) fn script(shell: Shell) -> Result<(), Failure> {
    let (name, mut script) = ("redislock", Vec::new());
    if let Some(shell) = SHELLS.completer(&shell.to_string()) {
        shell.write_registration(VARIABLE, name, name, name, &mut script).map_err(Failure::output)?;
    }
    if shell == Shell::Zsh {
        // When zsh autoloads this script, the first call has to complete at once, and not only define the function.
        script.extend(b"[[ $funcstack[1] != _redislock ]] || _clap_dynamic_completer_redislock\n");
    }
    io::stdout().write_all(&script).map_err(Failure::output)
}

/// Completes the paths of files: any file may be the command to run, or its argument.
pub(crate) fn files() -> ArgValueCompleter {
    ArgValueCompleter::new(PathCompleter::any())
}

/// The names of locks that are held.
pub(crate) fn names() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| {
        let Some(begun) = begun.to_str().filter(|begun| begun.is_empty() || is_plain(begun)) else {
            return Vec::new();
        };
        let (tell, told) = channel();
        let (pattern, end) = (Name::from(OsString::from(format!("{begun}*"))), Instant::now() + PATIENCE);
        thread::spawn(move || look(&pattern, &tell));
        let mut names = Vec::new();
        while let Ok(more) = told.recv_timeout(end.saturating_duration_since(Instant::now())) {
            names.extend(more);
        }
        names.sort();
        names.dedup();
        names.into_iter().map(CompletionCandidate::new).collect()
    })
}

/// Whether every shell reads the name literally, so that it needs no quotes.
fn is_plain(name: &str) -> bool {
    let inside = |char: char| char.is_ascii_alphanumeric() || "_:/{}.-@%+=".contains(char);
    name.chars().all(inside) && !name.starts_with(['-', '=', '%', '+', '@']) && !name.contains("..")
}

/// Sends the names of locks that match, from the server that the words already typed select.
fn look(pattern: &Name, tell: &Sender<Vec<String>>) -> Option<()> {
    let words = std::env::args_os().skip_while(|word| word != "--").skip(1);
    let words = Options::command().ignore_errors(true).try_get_matches_from(words).ok()?;
    let target = Target::new(&Place::from_arg_matches(&words).ok()?).ok()?;
    for mut node in target.nodes().ok()?.0 {
        let mut cursor = 0;
        loop {
            let names;
            (cursor, names) = scan(&mut node, cursor, pattern, SCAN_COUNT).ok()?;
            let names = names.into_iter().filter_map(|name| String::from_utf8(name).ok());
            tell.send(names.filter(|name| is_plain(name)).collect()).ok()?;
            if cursor == 0 {
                break;
            }
        }
    }
    Some(())
}

/// Bash as in clap, except for names with colons, at which bash splits words.
struct Bash;

impl EnvCompleter for Bash {
    fn name(&self) -> &'static str {
        "bash"
    }

    fn is(&self, name: &str) -> bool {
        name == self.name()
    }

    fn write_registration(
        &self,
        variable: &str,
        _: &str,
        _: &str,
        _: &str,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        out.write_all(BASH.replace("VARIABLE", variable).as_bytes())
    }

    fn write_complete(
        &self,
        command: &mut clap::Command,
        words: Vec<OsString>,
        folder: Option<&Path>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let at = words.len().saturating_sub(1);
        for candidate in clap_complete::engine::complete(command, words, at, folder)? {
            writeln!(out, "{}", candidate.get_value().to_string_lossy())?;
        }
        Ok(())
    }
}

const BASH: &str = r#"_redislock() {
    local line=${COMP_LINE:0:COMP_POINT} words split=
    read -ra words <<<"$line"
    [[ $line != *[[:space:]] ]] || words+=('')
    local word=${words[${#words[@]} - 1]}
    mapfile -t COMPREPLY < <(VARIABLE=bash "$1" -- "${words[@]}" 2>/dev/null)
    # Bash replaces only what follows the last of these.
    [[ $COMP_WORDBREAKS != *:* ]] || split+=:
    [[ $COMP_WORDBREAKS != *=* ]] || split+==
    [[ -z $split || $word != *["$split"]* ]] || COMPREPLY=("${COMPREPLY[@]#"${word%"${word##*["$split"]}"}"}")
    [[ ${#COMPREPLY[@]} != 1 || ${COMPREPLY[0]} != *[/=] ]] || compopt -o nospace
}
complete -o bashdefault -o default -F _redislock redislock
"#;

#[cfg(test)]
mod tests {
    use super::is_plain;

    #[test]
    fn only_what_every_shell_leaves_alone_is_offered() {
        for name in ["invoice:42", "{order}:1", "a/b.c-d_e@f%g+h=i"] {
            assert!(is_plain(name), "{name}");
        }
        for name in
            ["a b", "$(rm)", "a;b", "`a`", "a'b", "-x", "~", "=ls", "{a,b}", "{1..3}", "a\nb", "\u{f6}", "*"]
        {
            assert!(!is_plain(name), "{name}");
        }
    }
}
