//! Draws a view.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Row, Table, TableState};

use crate::locks::shown;
use crate::text::{printable, time};
use crate::top::view::{Order, View};

const KEYS: &str = "q quit  w waiters  h held  a wait  / filter  up down Enter look into  Esc back";

pub(crate) fn draw(frame: &mut Frame<'_>, view: &View) {
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(4), Constraint::Min(3), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(Paragraph::new(summary(view)), head);
    match view.detail() {
        Some(lock) if lock.is_object() => {
            frame.render_widget(
                Paragraph::new(shown(lock, Some(body.width.saturating_sub(2).into())))
                    .block(Block::bordered().title(" a lock ")),
                body,
            );
        }
        Some(_) => frame
            .render_widget(Paragraph::new("it is free now").block(Block::bordered().title(" a lock ")), body),
        None => locks(frame, view, body),
    }
    let last = match (&view.trouble, view.types) {
        (Some(trouble), _) => Line::styled(printable(trouble), colour(Color::Red)),
        (None, true) => Line::raw(format!("filter: {}_", printable(&view.filter))),
        (None, false) => Line::styled(KEYS, Style::new().add_modifier(Modifier::DIM)),
    };
    frame.render_widget(Paragraph::new(last), foot);
}

fn colour(colour: Color) -> Style {
    match std::env::var_os("NO_COLOR") {
        Some(value) if !value.is_empty() => Style::new(),
        _ => Style::new().fg(colour),
    }
}

fn summary(view: &View) -> Vec<Line<'static>> {
    let count = |name: &str| view.count(name);
    let rate = |name: &str| view.rate(name);
    vec![
        Line::styled(
            format!("redislock top  {}", printable(&view.address)),
            Style::new().add_modifier(Modifier::BOLD),
        ),
        Line::raw(format!(
            "locks {}  waiters {}  sessions {}  longest held {}  oldest wait {}",
            count("lock_keys"),
            count("lock_waiters"),
            count("lock_sessions"),
            time(count("lock_longest_held_ms")),
            time(count("lock_oldest_wait_ms")),
        )),
        Line::raw(format!(
            "a second: grants {}  handovers {}  refusals {}  timeouts {}  lapses {}  largest turn {}",
            rate("lock_grants"),
            rate("lock_handovers"),
            rate("lock_refusals"),
            rate("lock_timeouts"),
            rate("lock_lapses"),
            count("lock_most_work"),
        )),
    ]
}

fn locks(frame: &mut Frame<'_>, view: &View, area: ratatui::layout::Rect) {
    let mark =
        |order: Order, name: &str| if view.order == order { format!("{name} v") } else { name.to_owned() };
    let heading = Row::new([
        "LOCK".to_owned(),
        "HOLDER".to_owned(),
        mark(Order::Held, "HELD"),
        "HOLDERS".to_owned(),
        mark(Order::Waiters, "WAITERS"),
        mark(Order::Wait, "LONGEST WAIT"),
        "WHO".to_owned(),
    ])
    .style(Style::new().add_modifier(Modifier::BOLD));
    let rows = view.locks.iter().map(|lock| {
        let style = if lock.waiters > 0 { colour(Color::Yellow) } else { Style::new() };
        let wait = if lock.wait_ms == 0 { String::new() } else { time(lock.wait_ms) };
        let (key, holder, waiter) = (printable(&lock.key), lock.holder.clone(), lock.waiter.clone());
        Row::new([
            key,
            holder,
            time(lock.held_ms),
            lock.holders.to_string(),
            lock.waiters.to_string(),
            wait,
            waiter,
        ])
        .style(style)
    });
    let widths = [
        Constraint::Fill(3),
        Constraint::Fill(3),
        Constraint::Length(9),
        Constraint::Length(8),
        Constraint::Length(9),
        Constraint::Length(14),
        Constraint::Fill(2),
    ];
    let title = match view.filter.as_str() {
        "" => " locks ".to_owned(),
        filter => format!(" locks with {} ", printable(filter)),
    };
    let table = Table::new(rows, widths)
        .header(heading)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
        .block(Block::bordered().title(title));
    let mut state = TableState::new().with_selected((!view.locks.is_empty()).then_some(view.at));
    frame.render_stateful_widget(table, area, &mut state);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Instant;

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::top::look::{Lock, Seen};

    #[test]
    fn a_view_is_drawn() {
        let mut view = View::new("redis://here".to_owned(), String::new());
        let lock = Lock {
            key: "invoice\u{1b}:42".to_owned(),
            holder: "web-1".to_owned(),
            held_ms: 65_000,
            holders: 1,
            waiters: 2,
            wait_ms: 1_500,
            waiter: "web-2".to_owned(),
        };
        view.seen(Seen {
            at: Instant::now(),
            counters: BTreeMap::from([("lock_keys".to_owned(), 1)]),
            locks: vec![lock],
        });
        let mut terminal = Terminal::new(TestBackend::new(100, 9)).unwrap();
        terminal.draw(|frame| draw(frame, &view)).unwrap();
        let text = terminal.backend().to_string();
        for part in ["locks 1", "invoice\\x1b:42", "web-1", "1m 5s", "1.5s", "WAITERS v", "q quit"] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }
}
