//! `redislock top`: the locks that are held and waited for, live.

mod look;
mod screen;
mod view;

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use serde_json::Value;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::connect::Target;
use crate::failure::{Failure, USAGE};
use crate::options::Top;
use crate::run::code_of_signal;
use crate::top::look::{Looks, Seen};
use crate::top::view::{Order, View};

/// What the view asks the looking thread for: the filter, and the lock to show in detail.
type Wanted = (String, Option<String>);
type Shown = Result<(Seen, Option<Value>), Failure>;

/// How long the loop may sleep before it handles keys and signals.
const TURN: Duration = Duration::from_millis(50);

pub(crate) fn main(target: &Target, asked: &Top) -> Result<u8, Failure> {
    if !std::io::stdout().is_terminal() {
        return Err(Failure::new(USAGE, "top wants a terminal: for programs there is redislock ls --json"));
    }
    let mut looks = Looks::new(target, &asked.filter)?;
    let address = target.address();
    let address = if looks.is_partial() { format!("{address}, one node: say --cluster") } else { address };
    let mut view = View::new(address, asked.filter.clone());
    view.seen(looks.look()?);
    let every = asked.every.max(Duration::from_millis(100));
    let (want, wanted) = channel();
    let (show, shown) = channel();
    // The looks run in their own thread, so that keys and signals are handled while a server does not answer.
    thread::spawn(move || look(looks, every, &wanted, &show));
    let signal = Arc::new(AtomicUsize::new(0));
    for number in [SIGHUP, SIGINT, SIGTERM] {
        let value = usize::try_from(number).unwrap_or_default();
        flag::register_usize(number, Arc::clone(&signal), value).map_err(Failure::output)?;
    }
    let mut terminal = ratatui::try_init().map_err(Failure::output)?;
    let ended = go(&mut terminal, &mut view, &want, &shown, &signal);
    ratatui::restore();
    ended?;
    let number = i32::try_from(signal.load(Ordering::Relaxed)).unwrap_or_default();
    Ok(if number == 0 { 0 } else { code_of_signal(number) })
}

fn look(mut looks: Looks, every: Duration, wanted: &Receiver<Wanted>, show: &Sender<Shown>) {
    let mut into: Option<String> = None;
    loop {
        match wanted.recv_timeout(every) {
            Ok(last) => {
                let (filter, chosen) = wanted.try_iter().last().unwrap_or(last);
                looks.filter(filter);
                into = chosen;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let seen = looks
            .look()
            .and_then(|seen| Ok((seen, into.as_deref().map(|key| looks.detail(key)).transpose()?)));
        // An error does not end the view: it connects again, for example after a failover.
        if (seen.is_err() || !looks.down.is_empty())
            && let Ok(again) = looks.again()
        {
            looks = again;
        }
        drop(show.send(seen));
    }
}

fn go(
    terminal: &mut ratatui::DefaultTerminal,
    view: &mut View,
    want: &Sender<Wanted>,
    shown: &Receiver<Shown>,
    signal: &AtomicUsize,
) -> Result<(), Failure> {
    let mut wanted = (view.filter.clone(), None);
    while signal.load(Ordering::Relaxed) == 0 {
        terminal.draw(|frame| screen::draw(frame, view)).map_err(Failure::output)?;
        if event::poll(TURN).map_err(Failure::output)?
            && let Event::Key(key) = event::read().map_err(Failure::output)?
            && key.kind != KeyEventKind::Release
        {
            let control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
            if control_c || !pressed(view, key.code) {
                return Ok(());
            }
        }
        let now = (view.filter.clone(), view.looked_into());
        if now != wanted {
            wanted = now.clone();
            drop(want.send(now));
        }
        for seen in shown.try_iter() {
            match seen {
                Ok((seen, lock)) => {
                    view.seen(seen);
                    if let Some(lock) = lock.filter(|_| view.looked_into().is_some()) {
                        view.detail_is(lock);
                    }
                }
                Err(failure) => view.trouble = Some(failure.to_string()),
            }
        }
    }
    Ok(())
}

/// Handles a key. Returns whether the program goes on.
fn pressed(view: &mut View, code: KeyCode) -> bool {
    if view.types {
        match code {
            KeyCode::Enter | KeyCode::Esc => view.types = false,
            KeyCode::Backspace => drop(view.filter.pop()),
            KeyCode::Char(char) => view.filter.push(char),
            _ => {}
        }
        return true;
    }
    match code {
        KeyCode::Char('q') => return false,
        KeyCode::Esc if view.close() => {}
        KeyCode::Esc => view.filter.clear(),
        KeyCode::Char('/') => view.types = true,
        KeyCode::Char('w') => view.order(Order::Waiters),
        KeyCode::Char('h') => view.order(Order::Held),
        KeyCode::Char('a') => view.order(Order::Wait),
        KeyCode::Down | KeyCode::Char('j') => view.move_selection(1),
        KeyCode::Up | KeyCode::Char('k') => view.move_selection(-1),
        KeyCode::Enter => view.open(),
        _ => {}
    }
    true
}
