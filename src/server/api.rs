//! How the functions of the module API are called.

use std::panic::resume_unwind;

/// Calls a function of the module API. The server fills the table of functions when it loads the module; one that
/// it lacks unwinds to the guard of the callback, as a panic would. Must be used inside `unsafe`.
macro_rules! api {
    ($function:ident($($argument:expr),* $(,)?)) => {
        match ::redis_module::raw::$function {
            Some(function) => function($($argument),*),
            None => $crate::server::api::missing(stringify!($function)),
        }
    };
}

/// The function that this server does not have.
pub(super) struct Missing(pub(super) &'static str);

/// Ends a callback that needs what this server does not have.
#[cold]
pub(super) fn missing(function: &'static str) -> ! {
    resume_unwind(Box::new(Missing(function)))
}
