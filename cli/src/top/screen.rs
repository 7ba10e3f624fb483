//! Draws a view.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Row, Table, TableState};

use crate::locks::shown;
use crate::text::{printable, time};
use crate::top::view::{Order, View};

const KEYS: &str = "q quit  w waiters  h held  a wait  / filter  up down Enter look into  Esc back";

/// The fewest columns of a text in the list.
const LEAST: u16 = 10;
/// The fewest rows and columns of a frame around the list, with the whole summary and the keys.
const ROOMY: (u16, u16) = (9, 60);

pub(crate) fn draw(frame: &mut Frame<'_>, view: &View) {
    let roomy = frame.area().height >= ROOMY.0 && frame.area().width >= ROOMY.1;
    let last = match (&view.trouble, view.types) {
        (Some(trouble), _) => Some(Line::styled(printable(trouble), colour(Color::Red))),
        (None, true) => Some(Line::raw(format!("filter: {}_", printable(&view.filter)))),
        (None, false) => roomy.then(|| Line::styled(KEYS, Style::new().add_modifier(Modifier::DIM))),
    };
    let [head, body, foot] = Layout::vertical([
        Constraint::Length(if roomy { 4 } else { 1 }),
        Constraint::Fill(1),
        Constraint::Length(last.is_some().into()),
    ])
    .areas(frame.area());
    let title = match view.filter.as_str() {
        "" => format!("{} locks", view.shown()),
        filter => format!("{} locks with {}", view.shown(), printable(filter)),
    };
    if roomy {
        frame.render_widget(Paragraph::new(summary(view)), head);
    } else {
        frame.render_widget(Line::raw(title.as_str()), head);
    }
    let block =
        |title: &str| if roomy { Block::bordered().title(format!(" {title} ")) } else { Block::new() };
    match view.detail() {
        Some(lock) => {
            let wide = block("").inner(body).width;
            let text =
                if lock.is_object() { shown(lock, Some(wide.into())) } else { "it is free now".to_owned() };
            frame.render_widget(Paragraph::new(text).block(block("a lock")), body);
        }
        None => locks(frame, view, body, block(&title)),
    }
    if let Some(last) = last {
        frame.render_widget(Paragraph::new(last), foot);
    }
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
            time(view.longest_held()),
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

fn locks(frame: &mut Frame<'_>, view: &View, area: Rect, block: Block<'_>) {
    // For each column: its position in the row, the heading, and the width, or a minimum. Narrow screens drop the last columns first.
    let columns = [
        (0, "LOCK", None, Constraint::Fill(3)),
        (4, "WAITERS", Some(Order::Waiters), Constraint::Length(9)),
        (2, "HELD", Some(Order::Held), Constraint::Length(9)),
        (1, "HOLDER", None, Constraint::Fill(3)),
        (5, "LONGEST WAIT", Some(Order::Wait), Constraint::Length(14)),
        (6, "WHO", None, Constraint::Fill(2)),
        (3, "HOLDERS", None, Constraint::Length(8)),
    ];
    let mut left = block.inner(area).width;
    let mut columns: Vec<_> = columns
        .into_iter()
        .take_while(|(place, .., width)| {
            let wide = if let Constraint::Length(wide) = width { *wide } else { LEAST };
            let rest = left.checked_sub(wide);
            left = rest.unwrap_or_default().saturating_sub(1);
            rest.is_some() || *place == 0
        })
        .collect();
    columns.sort_by_key(|(place, ..)| *place);
    let heading = columns.iter().map(|(_, name, order, _)| match order {
        Some(order) if *order == view.order => format!("{name} v"),
        _ => (*name).to_owned(),
    });
    let rows = view.locks.iter().map(|lock| {
        let style = if lock.waiters > 0 { colour(Color::Yellow) } else { Style::new() };
        Row::new(columns.iter().map(|(_, name, ..)| match *name {
            "LOCK" => printable(&lock.key),
            "HOLDER" => lock.holder.clone(),
            "HELD" => time(lock.held_ms),
            "HOLDERS" => lock.holders.to_string(),
            "WAITERS" => lock.waiters.to_string(),
            "LONGEST WAIT" if lock.wait_ms == 0 => String::new(),
            "LONGEST WAIT" => time(lock.wait_ms),
            _ => lock.waiter.clone(),
        }))
        .style(style)
    });
    let table = Table::new(rows, columns.iter().map(|(.., width)| *width))
        .header(Row::new(heading).style(Style::new().add_modifier(Modifier::BOLD)))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
        .block(block);
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
            down: None,
            found: 1,
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
