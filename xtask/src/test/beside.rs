//! Runs steps side by side that mostly wait.

use std::collections::VecDeque;
use std::process::Command;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

use super::process::{Limits, Ran, run};

/// As many at a time.
const BESIDE: usize = 4;

/// Runs them; tells what each said, in the order in which they ended. Those whose names are the same up to a comma build in one folder,
/// so they run one after the other.
pub(super) fn together(steps: Vec<(String, Command)>, limits: Limits) -> Vec<(String, Command, Ran)> {
    let count = steps.len();
    let waiting: Mutex<Waiting> = Mutex::new((steps.into(), Vec::new()));
    let (changed, ended) = (Condvar::new(), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..BESIDE.min(count) {
            scope.spawn(|| {
                while let Some((name, mut command)) = next(&waiting, &changed) {
                    let ran = run(&mut command, false, limits);
                    let mut held = waiting.lock().unwrap_or_else(PoisonError::into_inner);
                    held.1.retain(|busy| busy != folder(&name));
                    drop(held);
                    changed.notify_all();
                    ended.lock().unwrap_or_else(PoisonError::into_inner).push((name, command, ran));
                }
            });
        }
    });
    ended.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// The steps that have not begun, and the folders of those that run.
type Waiting = (VecDeque<(String, Command)>, Vec<String>);

/// What its build has to itself.
fn folder(name: &str) -> &str {
    name.split(',').next().unwrap_or(name)
}

/// The next step whose folder is free, once one is; None when all have begun.
fn next(waiting: &Mutex<Waiting>, changed: &Condvar) -> Option<(String, Command)> {
    let mut held = waiting.lock().unwrap_or_else(PoisonError::into_inner);
    while !held.0.is_empty() {
        let (steps, busy) = &mut *held;
        let free = steps.iter().position(|(name, _)| !busy.iter().any(|busy| busy == folder(name)));
        if let Some(step) = free.and_then(|at| steps.remove(at)) {
            busy.push(folder(&step.0).to_owned());
            return Some(step);
        }
        held = changed.wait(held).unwrap_or_else(PoisonError::into_inner);
    }
    None
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn all_run_and_those_of_one_folder_one_after_the_other() {
        let folder = std::env::temp_dir().join(format!("xtask-beside-{}", std::process::id()));
        // It fails if another one has it at the same time.
        let script = format!("mkdir {0} && sleep 0.2 && rmdir {0}", folder.display());
        let one = |name: &str| (name.to_owned(), super::super::lints::bash(&script));
        let other = |name: &str| (name.to_owned(), Command::new("true"));
        let steps =
            vec![one("go, redis-7.0"), one("go, valkey-9"), other("php, redis-7.0"), one("go, redis-8.6")];
        let limits = Limits { whole: None, test: Duration::from_secs(300) };
        let ended = together(steps, limits);
        assert_eq!(ended.len(), 4);
        assert!(ended.iter().all(|(_, _, ran)| ran.status == 0));
    }
}
