//! Draws the picture of `redislock top` that the pages show, from a real screen under load. By hand:
//! `cargo test --test integration program::picture -- --ignored`

use std::fmt::Write as _;

use super::top::Screen;
use super::{Running, redislock, url};
use crate::support::{root, wait_for};

/// A character's size, in the units of the picture.
const WIDE: u16 = 8;
const HIGH: u16 = 17;

#[test]
#[ignore = "draws docs/pictures/top.svg anew, by hand"]
fn make() {
    let (server, mut client) = super::with_client();
    let mut running = Vec::new();
    let mut run = |key: &str, label: &str, options: &[&str], seconds: &str| {
        let words = [&["run", key, "--label", label], options, &["--", "sleep", seconds]].concat();
        running.push(Running::start(&server, &words));
    };
    for host in ["web-1", "web-2", "web-3"] {
        run("deploy:shop", &format!("{host} deploy"), &[], "60");
        run("report:2026-11", &format!("{host} reader"), &["--shared"], "60");
    }
    run("report:2026-11", "db-1 writer", &[], "60");
    for number in 1..=5 {
        run("transcode", &format!("worker-{number}"), &["--limit", "3"], "60");
    }
    run("invoice:4711", "billing-2", &[], "60");
    run("backup", "db-1 nightly", &[], "60");
    wait_for("all to hold or wait", || {
        let info: String = client.ask("INFO lock");
        info.contains("lock_waiters:5") && info.contains("lock_keys:5")
    });
    // Others take turns meanwhile.
    let load: Vec<Running> = (0..2).map(|_| Running::start(&server, &["bench", "--time", "20s"])).collect();
    let screen = Screen::start(&url(&server), &["top", "--every", "500ms"]);
    wait_for("handovers", || screen.text().contains("handovers ") && !screen.text().contains("handovers 0 "));
    wait_for("a moment of it", || client.holders("backup").first().is_some_and(|holder| holder.held > 4_200));
    let picture = screen.with(drawn);
    drop((screen, load, running));
    std::fs::create_dir_all(root().join("docs/pictures")).unwrap();
    std::fs::write(root().join("docs/pictures/top.svg"), picture).unwrap();
    assert_eq!(redislock(&server, &["--version"]).code, Some(0));
}

fn drawn(screen: &vt100::Screen) -> String {
    let (rows, columns) = screen.size();
    let (rows, columns) = (rows.get(), columns.get());
    let (width, height) = (columns * WIDE + 20, rows * HIGH + 20);
    let mut svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' font-family='monospace' font-size='13.29'>\n\
         <rect width='{width}' height='{height}' rx='8' fill='#16181d'/>\n"
    );
    for row in 0..rows {
        let mut column = 0;
        while column < columns {
            let style = |at: u16| {
                let cell = screen.cell(row, at).unwrap();
                (cell.fgcolor(), cell.bold(), cell.dim(), cell.inverse())
            };
            let (begin, look) = (column, style(column));
            let mut text = String::new();
            while column < columns && style(column) == look {
                let cell = screen.cell(row, column).unwrap().contents();
                text += if cell.is_empty() { " " } else { cell };
                column += 1;
            }
            let (x, y) = (begin * WIDE + 10, row * HIGH + 23);
            if look.3 {
                let wide = (column - begin) * WIDE;
                writeln!(svg, "<rect x='{x}' y='{}' width='{wide}' height='{HIGH}' fill='#d7dae0'/>", y - 13)
                    .unwrap();
            }
            if text.trim().is_empty() {
                continue;
            }
            let colour = match look {
                (_, _, _, true) => "#16181d",
                (vt100::Color::Idx(3), ..) => "#e5c07b",
                (_, _, true, _) => "#8b93a1",
                _ => "#d7dae0",
            };
            let bold = if look.1 { " font-weight='bold'" } else { "" };
            let length = (column - begin) * WIDE;
            let text = text.replace('&', "&amp;").replace('<', "&lt;");
            writeln!(
                svg,
                "<text x='{x}' y='{y}' fill='{colour}'{bold} textLength='{length}' xml:space='preserve'>{text}</text>"
            )
            .unwrap();
        }
    }
    svg + "</svg>\n"
}
