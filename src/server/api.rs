//! How the functions of the module API are called.

/// Calls a function of the module API that is in the list of `required`. Must be used inside `unsafe`.
///
/// That the server has it is not asked again: some thirty such calls are made for an acquire and a release.
#[cfg(not(fuzzing))]
macro_rules! api {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        let () = $crate::server::required::Required::$function;
        // SAFETY: the server fills the table of functions when it loads the module, and `load` refuses where one of the list is
        // absent, before any of them is called. What the function itself asks for is the caller's to answer.
        (match ::redis_module::raw::$function {
            Some(function) => function,
            None => ::std::hint::unreachable_unchecked(),
        })($($argument),*)
    }};
}

/// Calls a function of the module API where no server has loaded the module. If the fuzzers did not put the function into the table, that
/// is a find.
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
