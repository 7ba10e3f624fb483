//! Writes to the server's log.

use redis_module::raw;

/// The level of a line in the server's log.
#[derive(Clone, Copy)]
pub(crate) enum LogLevel {
    Verbose,
    Notice,
    Warning,
}

/// Writes a line to the server's log. Control characters, which would end or break the line, are escaped.
pub(super) fn log(ctx: *mut raw::RedisModuleCtx, level: LogLevel, line: &str) {
    let level = match level {
        LogLevel::Verbose => c"verbose",
        LogLevel::Notice => c"notice",
        LogLevel::Warning => c"warning",
    };
    let mut text = String::with_capacity(line.len() + 1);
    // Nearly all lines need no escape, and take this fast path. Work on a line is often in vain, because the server's `loglevel` keeps most
    // lines out of the log.
    if line.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
        text.push_str(line);
    } else {
        for character in line.chars() {
            match character {
                control if control.is_control() => text.extend(control.escape_default()),
                other => text.push(other),
            }
        }
    }
    text.push('\0');
    // SAFETY: the server takes a null context or a valid one. Level, format and text end in NUL, and the format takes one string. The text
    // has no other NUL, because control characters are escaped.
    unsafe { api!(RedisModule_Log(ctx, level.as_ptr(), c"%s".as_ptr(), text.as_ptr())) };
}
