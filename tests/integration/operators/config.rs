//! Settings: `CONFIG SET`, the configuration file, and arguments of `loadmodule`; loading and unloading.

use crate::support::{Client, Server, Setup, module_path};

#[track_caller]
fn setting(client: &mut Client, name: &str) -> i64 {
    let (_name, value): (String, i64) = client.ask(&format!("CONFIG GET {name}"));
    value
}

#[test]
fn a_value_out_of_range_is_refused_and_the_old_one_stays() {
    let (_server, mut client) = Server::and_client();
    client.ask::<()>("CONFIG SET lock.default-lease 5000 lock.max-lease 6000");
    for (line, range) in [
        ("CONFIG SET lock.default-lease 0", "argument must be between 1 and 9007199254740991 inclusive"),
        ("CONFIG SET lock.default-lease -1", "argument must be between 1 and 9007199254740991 inclusive"),
        (
            "CONFIG SET lock.default-lease 9007199254740992",
            "argument must be between 1 and 9007199254740991 inclusive",
        ),
        ("CONFIG SET lock.max-lease -1", "argument must be between 0 and 9007199254740991 inclusive"),
        (
            "CONFIG SET lock.max-lease 9007199254740992",
            "argument must be between 0 and 9007199254740991 inclusive",
        ),
        ("CONFIG SET lock.max-holders -1", "inclusive"),
        ("CONFIG SET lock.max-lease 1s", "argument couldn't be parsed into an integer"),
    ] {
        let error = client.refused(line);
        assert!(error.starts_with("ERR CONFIG SET failed") && error.ends_with(range), "{line}: {error}");
    }
    assert_eq!(setting(&mut client, "lock.default-lease"), 5000);
    assert_eq!(setting(&mut client, "lock.max-lease"), 6000);
}

#[test]
fn arguments_of_loadmodule_set_in_any_case_and_order() {
    let (_server, mut client) =
        Setup::new().module_args("MAX-lease 9000 default-lease 5000").start_and_client();
    assert_eq!(client.acquire("k", "").unwrap().lease, 5000);
    assert_eq!(setting(&mut client, "lock.default-lease"), 5000);
    assert_eq!(setting(&mut client, "lock.max-lease"), 9000);
    client.refused("LOCK.ACQUIRE l PX 9001");
    client.ask::<()>("CONFIG SET lock.default-lease 6000");
    assert_eq!(client.acquire("l", "").unwrap().lease, 6000);
}

#[test]
fn a_rewritten_configuration_file_goes_before_an_argument_over_a_restart() {
    let mut server = Setup::new().module_args("default-lease 5000").start();
    let mut client = server.client();
    client.ask::<()>("CONFIG SET lock.default-lease 7000 lock.max-lease 8000");
    client.ask::<()>("CONFIG REWRITE");
    server.kill_and_restart();
    let mut client = server.client();
    assert_eq!(client.acquire("k", "").unwrap().lease, 7000);
    assert_eq!(setting(&mut client, "lock.default-lease"), 7000);
    assert_eq!(setting(&mut client, "lock.max-lease"), 8000);
}

#[test]
fn a_wrong_argument_keeps_the_server_from_starting_and_its_log_says_why() {
    for (args, reason) in [
        ("lease 5", "not loaded: unknown argument 'lease'"),
        ("default-lease", "not loaded: 'default-lease' needs a whole number"),
        ("default-lease 5s", "not loaded: 'default-lease' needs a whole number"),
        ("default-lease 99999999999999999999", "not loaded: 'default-lease' needs a whole number"),
        ("default-lease 0", "not loaded: 'default-lease' must be between 1 and 9007199254740991"),
        ("max-lease -1", "not loaded: 'max-lease' must be between 0 and 9007199254740991"),
        ("max-lease 9007199254740992", "not loaded: 'max-lease' must be between 0 and 9007199254740991"),
        ("max-lease 5 MAX-LEASE 5", "not loaded: 'MAX-LEASE' is given twice"),
        (r#""%s%n\x00\r\n\xff" 5"#, "not loaded: unknown argument '%s%n"),
    ] {
        let Err(log) = Setup::new().module_args(args).try_start() else {
            panic!("{args}: the server started")
        };
        assert_eq!(log.lines().filter(|line| line.contains(reason)).count(), 1, "{args}: {log}");
    }
}

#[test]
fn a_wrong_value_in_the_configuration_file_keeps_the_server_from_starting() {
    for (name, value) in [("lock.default-lease", "0"), ("lock.max-lease", "x"), ("lock.nothing", "5")] {
        assert!(Setup::new().set(name, value).try_start().is_err(), "{name} {value}");
    }
}

#[test]
fn a_running_server_refuses_a_wrong_argument_and_then_takes_a_right_one() {
    let (_server, mut client) = Setup::new().without_module().start_and_client();
    let path = module_path().to_str().unwrap();
    for args in ["default-lease 0", "nothing 5", "max-lease 5 max-lease 5"] {
        client.refused(&format!("MODULE LOAD {path} {args}"));
        client.refused("LOCK.ACQUIRE k");
        client.refused("CONFIG SET lock.default-lease 5");
    }
    client.ask::<()>(&format!("MODULE LOAD {path} default-lease 5000"));
    assert_eq!(client.acquire("k", "OWNER alice").unwrap().lease, 5000);
}

#[test]
fn a_second_load_and_an_unload_are_refused_and_the_locks_stay() {
    let (_server, mut client) = Server::held();
    let before = client.snapshot();
    client.refused(&format!("MODULE LOAD {}", module_path().display()));
    let error = client.refused("MODULE UNLOAD lock");
    assert!(error.contains("data types, can't unload"), "{error}");
    assert_eq!(client.snapshot(), before);
    assert_eq!(client.acquire("k", "OWNER alice").unwrap().holds, 2);
}
