//! Tests the most work that each kind of event can cause: other commands on keys, closed connections, and the passing of time.
//!
//! For a millisecond, a turn clears up after a flush or a close without counting the work. So each program here leaves no more such work
//! than fits into the bound.

use super::attacks;

attacks! {
    a_close_with_many_sessions: "
        4000 a LOCK.ACQUIRE k$ OWNER o PX 3600000 SESSION
        close a
        until lock_sessions_ended 4000
        until lock_keys 0
    ";
    a_close_with_many_sessions_on_one_lock: "
        1000 a LOCK.ACQUIRE k OWNER o$ SHARED PX 3600000 SESSION
        close a
        until lock_sessions_ended 1000
        until lock_keys 0
    ";
    a_close_with_many_places: "
        1 l SUBSCRIBE told
        1 a LOCK.ACQUIRE k OWNER h PX 3600000
        4000 n LOCK.ACQUIRE k OWNER w$ BLOCK 0 NOTIFY told
        1 a LOCK.ACQUIRE k OWNER last BLOCK 0 NOTIFY told
        close n
        1 a LOCK.RELEASE k h
        until lock_handovers 1
        until lock_places 1
    ";
    a_close_with_places_for_many_locks: "
        1 l SUBSCRIBE told
        1 a LOCK.ACQUIRE k0 OWNER h PX 3600000
        1000 n$/100 LOCK.MACQUIRE 100 k*100 OWNER w$ BLOCK 0 NOTIFY told
        close n$
        1 a LOCK.MACQUIRE 99 k1*99 OWNER new BLOCK 0 NOTIFY told
        until lock_waiters 0
    ";
    a_flush_with_many_places: "
        1 l SUBSCRIBE told
        4000 a LOCK.ACQUIRE k$ OWNER h PX 3600000
        4000 n LOCK.ACQUIRE k$ OWNER w BLOCK 0 NOTIFY told
        1 a FLUSHALL
        until lock_handovers 4000
    ";
    a_flush_of_one_lock_with_very_many_sessions: "
        1 b CONFIG SET lock.max-holders 50000
        1 b CONFIG SET lock.max-places 0
        20000 a LOCK.ACQUIRE k OWNER o$ SHARED PX 3600000 SESSION
        1 b FLUSHALL
        until lock_sessions 0
    ";
    a_demotion_with_many_sessions_and_a_promotion: "
        1 l SUBSCRIBE told
        9000 a LOCK.ACQUIRE k$ OWNER o PX 3600000 SESSION
        9000 n LOCK.ACQUIRE k$ OWNER w BLOCK 0 NOTIFY told
        1 b REPLICAOF 127.0.0.1 1
        1 b REPLICAOF NO ONE
        until lock_sessions 0
        until lock_waiters 0
        9000 a LOCK.ACQUIRE k$ OWNER o PX 3600000 SESSION
        9000 n LOCK.ACQUIRE k$ OWNER w BLOCK 0 NOTIFY told
    ";
    a_demotion_with_very_many_sessions_on_one_lock: "
        1 b CONFIG SET lock.max-holders 50000
        1 b CONFIG SET lock.max-places 0
        20000 a LOCK.ACQUIRE k OWNER o$ SHARED PX 3600000 SESSION
        1 b REPLICAOF 127.0.0.1 1
        1 b REPLICAOF NO ONE
        until lock_sessions 0
    ";
    a_flush_with_many_waiters_of_one_lock: "
        1 l SUBSCRIBE told
        1 a LOCK.ACQUIRE k OWNER h PX 3600000
        9000 n LOCK.ACQUIRE k OWNER w$ SHARED BLOCK 0 NOTIFY told
        1 a FLUSHALL
        until lock_handovers 1000
    ";
    a_deletion_of_locks_with_queues: "
        1 l SUBSCRIBE told
        1 a LOCK.MACQUIRE 100 k*100 OWNER h PX 3600000
        9000 n LOCK.ACQUIRE k$%100 OWNER w$ SHARED BLOCK 0 NOTIFY told
        1 a DEL k*100
        until lock_handovers 9000
    ";
    another_value_in_place_of_a_lock_with_a_queue: "
        1 l SUBSCRIBE told
        1 a LOCK.ACQUIRE k OWNER h PX 3600000
        9000 n LOCK.ACQUIRE k OWNER w$ SHARED BLOCK 0 NOTIFY told
        1 a SET k x
        until lock_waiters 0
    ";
    a_lock_that_is_renamed: "
        1 l SUBSCRIBE told
        1000 a LOCK.ACQUIRE k OWNER o$ SHARED PX 3600000 SESSION
        1000 n LOCK.ACQUIRE z OWNER w$ BLOCK 0 NOTIFY told
        1000 n LOCK.ACQUIRE k OWNER w$ SHARED BLOCK 0 NOTIFY told
        1 a RENAME k z
        until lock_sessions 0
    ";
    leases_of_one_lock_that_end_together: "
        1 l SUBSCRIBE told
        1 a MULTI
        1 a LOCK.ACQUIRE k OWNER keeper SHARED PX 3600000
        999 a LOCK.ACQUIRE k OWNER o$ SHARED PX 500
        1000 a LOCK.ACQUIRE k OWNER w$ SHARED BLOCK 0 NOTIFY told
        1 a EXEC
        until lock_lapses 999
        until lock_handovers 999
    ";
    locks_of_many_holders_that_expire_together: "
        200 a LOCK.MACQUIRE 100 k*100 OWNER o$ SHARED PX 3600000
        1 a MULTI
        100 a PEXPIRE k$ 50
        1 a EXEC
        until lock_keys 0
    ";
    leases_of_many_locks_that_end_when_a_wait_does: "
        1 l SUBSCRIBE told
        1 a MULTI
        1 a LOCK.MACQUIRE 100 k*100 OWNER keeper SHARED PX 3600000
        64 a LOCK.MACQUIRE 100 k*100 OWNER o$ SHARED PX 500
        1 a LOCK.MACQUIRE 100 k*100 OWNER w BLOCK 503 NOTIFY told
        1 a EXEC
        until lock_timeouts 1
        until lock_lapses 6400
    ";
    waits_that_end_together: "
        1 l SUBSCRIBE told
        1 a LOCK.ACQUIRE k OWNER h PX 3600000
        9000 n LOCK.ACQUIRE k OWNER w$ BLOCK 1500 NOTIFY told
        until lock_timeouts 9000
        until lock_waiters 0
    ";
    many_waiters_for_many_locks: "
        1 l SUBSCRIBE told
        1 a LOCK.ACQUIRE k0 OWNER h PX 3600000
        90 n LOCK.MACQUIRE 100 k*100 OWNER w$ SHARED BLOCK 0 NOTIFY told
        1 a LOCK.RELEASE k0 h
        until lock_handovers 9000
    ";
    many_clients_that_are_blocked: "
        1 a LOCK.ACQUIRE k OWNER h PX 3600000
        600 w$ LOCK.ACQUIRE k OWNER w$ SHARED BLOCK 0
        until blocked_clients 600
        1 a LOCK.RELEASE k h
        until blocked_clients 0
        until lock_handovers 600
    ";
    sessions_that_are_renewed_together: "
        100 a LOCK.MACQUIRE 100 k*100 OWNER o$ SHARED PX 5000 SESSION
        pass 2000
        until lock_lapses 0
        until lock_sessions 10000
    ";
    confirmations_that_do_not_come: "
        300 w$ LOCK.ACQUIRE k$ OWNER o SYNC 1 200
        until lock_syncs_failed 300
        until lock_keys 0
    ";
    /// The module has to notify all holders of each lock.
    a_command_for_locks_that_were_deleted_whose_holders_have_channels: "
        1 l SUBSCRIBE told
        300 a LOCK.MACQUIRE 100 k*100 OWNER o$ SHARED PX 3600000 NOTIFY told
        1 a MULTI
        1 a DEL k*100
        1 a LOCK.MACQUIRE 100 k*100 OWNER h PX 3600000
        1 a EXEC
        until lock_keys 100
    ";
    /// Each lock becomes free only after a place has been given up that is in 100 queues.
    a_release_of_locks_whose_first_waiters_have_gone: "
        1 l SUBSCRIBE told
        1 a ACL SETUSER gone on nopass ~* &* +@all
        1 a LOCK.MACQUIRE 100 k*100 OWNER h PX 3600000
        1 b AUTH gone x
        100 b LOCK.MACQUIRE 100 k$ f*99 OWNER w BLOCK 0 NOTIFY told
        1 a MULTI
        1 a CLIENT KILL USER gone
        1 a LOCK.MRELEASE 100 k*100 h
        1 a EXEC
        until lock_waiters 0
    ";
    several_locks_are_touched_whose_holders_wait_for_more: "
        1 l SUBSCRIBE told
        1 a LOCK.ACQUIRE z OWNER h PX 3600000
        1000 a LOCK.MACQUIRE 10 k*10 OWNER o$ SHARED PX 3600000
        8000 n$/800 LOCK.MACQUIRE 11 k*10 z OWNER o$%1000 SHARED BLOCK 0 NOTIFY told
        1 a MULTI
        10 a PEXPIRE k$ 3000000
        1 a LOCK.MEXTEND 10 k*10 o0 PX 3600000
        1 a EXEC
        until lock_waiters 8000
    ";
    a_swap_of_databases: "
        1 l SUBSCRIBE told
        9000 a LOCK.ACQUIRE k$ OWNER h PX 3600000
        9000 n LOCK.ACQUIRE k$ OWNER w BLOCK 0 NOTIFY told
        1 a SWAPDB 0 1
        until lock_handovers 9000
    ";
    a_close_with_sessions_on_locks_with_waiters: "
        1 l SUBSCRIBE told
        100 a LOCK.MACQUIRE 100 k*100 OWNER o$ SHARED PX 3600000 SESSION
        9000 n LOCK.ACQUIRE k$%100 OWNER w$ LIMIT 50 BLOCK 0 NOTIFY told
        close a
        until lock_sessions_ended 10000
        until lock_handovers 5000
    ";
    waits_for_many_locks_that_end_while_all_is_flushed_again_and_again: "
        200 b$/100 LOCK.MACQUIRE 100 k z$%100.*99 OWNER w$ PX 1000 SHARED BLOCK 400 NOTIFY told DETECT
        1 l SUBSCRIBE told
        1 d LOCK.MACQUIRE 100 k z0.*99 OWNER o PX 1000 BLOCK 0 NOTIFY told SESSION
        100 b LOCK.MACQUIRE 100 k z$.*99 OWNER w$ PX 1000 SHARED BLOCK 400 NOTIFY told DETECT
        10000 a FLUSHALL
        until lock_waiters 0
    ";
}
