//! `redislock top`: the locks that are held and waited for, live.

mod look;
mod screen;
mod view;

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};

use crate::connect::Target;
use crate::failure::{Failure, USAGE};
use crate::options::Top;
use crate::top::look::Looks;
use crate::top::view::{Order, View};

pub(crate) fn main(target: &Target, asked: &Top) -> Result<u8, Failure> {
    if !std::io::stdout().is_terminal() {
        return Err(Failure::new(USAGE, "top wants a terminal: for programs there is redislock ls --json"));
    }
    let mut looks = Looks::new(target)?;
    let mut view = View::new(target.address(), asked.filter.clone());
    view.seen(looks.look()?);
    let mut terminal = ratatui::try_init().map_err(Failure::output)?;
    let ended = go(&mut terminal, &mut looks, &mut view, asked.every.max(Duration::from_millis(100)));
    ratatui::restore();
    ended.map(|()| 0)
}

fn go(
    terminal: &mut ratatui::DefaultTerminal,
    looks: &mut Looks,
    view: &mut View,
    every: Duration,
) -> Result<(), Failure> {
    let mut next = Instant::now() + every;
    loop {
        terminal.draw(|frame| screen::draw(frame, view)).map_err(Failure::output)?;
        if event::poll(next.saturating_duration_since(Instant::now())).map_err(Failure::output)? {
            let Event::Key(key) = event::read().map_err(Failure::output)? else { continue };
            if key.kind == KeyEventKind::Release {
                continue;
            }
            let control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
            if control_c || !pressed(view, key.code) {
                return Ok(());
            }
            into(looks, view);
            continue;
        }
        next = Instant::now() + every;
        match looks.look() {
            Ok(seen) => view.seen(seen),
            // After a failover, for example, the view goes on when the server is back.
            Err(failure) => {
                view.trouble = Some(failure.to_string());
                *looks = match looks.again() {
                    Ok(looks) => looks,
                    Err(_) => continue,
                };
            }
        }
        into(looks, view);
    }
}

fn into(looks: &Looks, view: &mut View) {
    if let Some(key) = view.looked_into() {
        view.detail_is(looks.detail(key));
    }
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
        view.sort();
        return true;
    }
    match code {
        KeyCode::Char('q') => return false,
        KeyCode::Esc if view.close() => {}
        KeyCode::Esc => {
            view.filter.clear();
            view.sort();
        }
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
