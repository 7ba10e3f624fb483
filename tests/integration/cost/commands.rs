//! Tests the most work that each command can cause.

use super::attacks;

attacks! {
    a_release_to_many_readers: "
        1 l SUBSCRIBE told
        1 a LOCK.ACQUIRE k OWNER h PX 3600000
        5000 n LOCK.ACQUIRE k OWNER w$ SHARED BLOCK 0 NOTIFY told
        1 a LOCK.RELEASE k h
        until lock_handovers 1000
        until lock_waiters 4000
    ";
    a_release_of_as_many_as_can_be: "
        1 l SUBSCRIBE told
        1 a CONFIG SET lock.max-keys 1000
        1 a LOCK.MACQUIRE 1000 k*1000 OWNER h PX 3600000
        9000 n LOCK.ACQUIRE k$%1000 OWNER w$/1000 SHARED BLOCK 0 NOTIFY told
        1 a LOCK.MRELEASE 1000 k*1000 h
        until lock_handovers 9000
    ";
    an_acquire_of_as_many_as_can_be_with_lapsed_holders: "
        1 l SUBSCRIBE told
        1 a CONFIG SET lock.max-keys 1000
        1 a LOCK.MACQUIRE 1000 k*1000 OWNER keeper SHARED PX 3600000
        20 a LOCK.MACQUIRE 1000 k*1000 OWNER o$ SHARED PX 600000
        1000 a PEXPIRE k$ 1000000
        1 a LOCK.MACQUIRE 1000 k*1000 OWNER new SHARED PX 3600000 BLOCK 0 NOTIFY told
        until lock_lapses 20000
        until lock_waiters 0
    ";
    an_extension_of_locks_with_lapsed_holders: "
        1 a LOCK.MACQUIRE 100 k*100 OWNER keeper SHARED PX 3600000
        200 a LOCK.MACQUIRE 100 k*100 OWNER o$ SHARED PX 600000
        100 a PEXPIRE k$ 1000000
        1 a LOCK.MEXTEND 100 k*100 keeper PX 3600000
        until lock_extensions 100
        100 a LOCK.ACQUIRE k$ OWNER new SHARED
        until lock_lapses 20000
    ";
    a_break_of_many_holders_with_many_waiters: "
        1 l SUBSCRIBE told
        1000 a LOCK.ACQUIRE k OWNER o$ SHARED PX 3600000
        1 a LOCK.ACQUIRE k OWNER writer BLOCK 0 NOTIFY told
        1000 a LOCK.ACQUIRE k OWNER w$ SHARED BLOCK 0 NOTIFY told
        1 a LOCK.BREAK k
        until lock_handovers 1
        1 a LOCK.BREAK k
        until lock_handovers 1001
    ";
    a_leave_of_many_locks_that_were_granted: "
        1 l SUBSCRIBE told
        1 a LOCK.ACQUIRE k0 OWNER h PX 3600000
        1 a LOCK.MACQUIRE 100 k*100 OWNER w SHARED BLOCK 0 NOTIFY told
        6000 n LOCK.ACQUIRE k$%100 OWNER w$ SHARED BLOCK 0 NOTIFY told
        1 a LOCK.RELEASE k0 h
        until lock_waiters 0
        1 a LOCK.LEAVE k0 w
        until lock_places 6000
    ";
    a_claim_of_many_grants: "
        1 l SUBSCRIBE told
        1 a LOCK.ACQUIRE k OWNER h PX 3600000
        3000 n LOCK.ACQUIRE k OWNER w BLOCK 0 NOTIFY told
        1 a LOCK.RELEASE k h
        until lock_waiters 2968
        1 a LOCK.ACQUIRE k OWNER w ONCE
        until lock_waiters 2936
        1 a LOCK.EXTEND k w
        until lock_waiters 2904
        until lock_grants 2
    ";
    once_asks_again_with_many_places: "
        1 l SUBSCRIBE told
        1 a LOCK.MACQUIRE 100 k*100 OWNER h PX 3600000
        1000 n$/100 LOCK.MACQUIRE 100 k*99 y$ OWNER waiter BLOCK 0 NOTIFY told
        1 q LOCK.MACQUIRE 100 k*99 y999 OWNER waiter BLOCK 0 NOTIFY told ONCE
        1 q LOCK.MACQUIRE 100 k*99 y1000 OWNER waiter BLOCK 0 NOTIFY told ONCE
        until lock_places 1001
    ";
    an_upgrade_behind_a_thousand_places: "
        1 l SUBSCRIBE told
        1 a LOCK.ACQUIRE z OWNER other PX 3600000
        1 a LOCK.ACQUIRE k OWNER a SHARED PX 3600000
        1 a LOCK.ACQUIRE k OWNER b SHARED PX 3600000
        1000 a LOCK.MACQUIRE 2 k z OWNER a SHARED BLOCK 0 NOTIFY told
        1 a LOCK.ACQUIRE k OWNER a BLOCK 0 NOTIFY told
        1 a LOCK.RELEASE k b
        until lock_upgrades 1
        until lock_waiters 1000
    ";
    upgrades_that_would_never_end: "
        1 l SUBSCRIBE told
        1000 a LOCK.ACQUIRE k OWNER o$ SHARED PX 3600000
        1000 a LOCK.ACQUIRE k OWNER o$ BLOCK 0 NOTIFY told
        until lock_deadlocks 999
        1000 a LOCK.RELEASE k o$ ALL
        until lock_keys 0
    ";
    detect_behind_many_holders: "
        1 l SUBSCRIBE told
        300 a LOCK.MACQUIRE 99 k*99 OWNER o$ SHARED PX 3600000
        1 a LOCK.ACQUIRE z OWNER h SHARED PX 3600000
        1 a LOCK.MACQUIRE 100 z k*99 OWNER waiter BLOCK 0 NOTIFY told
        1 a LOCK.ACQUIRE z OWNER asker BLOCK 0 NOTIFY told DETECT
        until lock_waiters 2
    ";
    detect_of_many_locks: "
        1 l SUBSCRIBE told
        300 a LOCK.MACQUIRE 100 k*100 OWNER o$ SHARED PX 3600000
        1000 a LOCK.ACQUIRE k0 OWNER w$ BLOCK 0 NOTIFY told
        1 a LOCK.MACQUIRE 100 k*100 OWNER asker BLOCK 0 NOTIFY told DETECT
        until lock_waiters 1001
    ";
    looks_at_everything: "
        1 l SUBSCRIBE told
        1000 a LOCK.ACQUIRE k OWNER o$ SHARED PX 3600000
        1000 a LOCK.ACQUIRE k OWNER w$ BLOCK 0 NOTIFY told
        1 a LOCK.INFO k FULL
        1 a LOCK.WAITS COUNT 1000
        1 a LOCK.WAITS TOP
        until lock_waiters 1000
    ";
}
