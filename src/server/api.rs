//! The macro `api!`, which calls a function of the module API.

/// Calls a function of the module API that is in the list `required!`. The macro must be used inside `unsafe`.
///
/// There is no check that the server has the function, because an acquire and a release together make some thirty calls, and each check
/// would take time.
#[cfg(not(fuzzing))]
macro_rules! api {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        let () = $crate::server::required::Required::$function;
        // SAFETY: the server fills the table of functions when it loads the module, and `load` refuses the module if a function of the list
        // is absent, before it calls any of these functions. The function's own conditions are the caller's to meet.
        (match ::redis_module::raw::$function {
            Some(function) => function,
            None => ::std::hint::unreachable_unchecked(),
        })($($argument),*)
    }};
}

/// Calls a function of the module API in a fuzzer, where no server has loaded the module. Panics if `fuzzing.rs` lacks the function.
#[cfg(fuzzing)]
macro_rules! api {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        let () = $crate::server::required::Required::$function;
        match ::redis_module::raw::$function {
            Some(function) => function($($argument),*),
            None => panic!("{}", stringify!($function)),
        }
    }};
}
