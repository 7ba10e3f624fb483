//! What costs more than it may. Each is to be within the bound one day.

use super::attacks;

attacks! {
    /// The budget is used up by the first of these locks, but nobody looks: what holders are told is counted for the turn alone.
    #[ignore = "does more than one lock's work beyond the budget"]
    a_command_for_locks_that_were_deleted_whose_holders_have_channels: "
        1 l SUBSCRIBE told
        300 a LOCK.MACQUIRE 100 k*100 OWNER o$ SHARED PX 3600000 NOTIFY told
        1 a MULTI
        1 a DEL k*100
        1 a LOCK.MACQUIRE 100 k*100 OWNER h PX 3600000
        1 a EXEC
        until lock_keys 100
    ";
    /// Each lock is left free only after one such place has been given up, which is in 100 queues.
    #[ignore = "does more than one lock's work beyond the budget"]
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
    /// Each of 1,000 holders is looked at 16 times, whatever is left of the budget.
    #[ignore = "one lock is 16,000 units of work"]
    a_lock_is_touched_whose_holders_wait_for_more: "
        1 l SUBSCRIBE told
        1 a LOCK.ACQUIRE z OWNER h PX 3600000
        1000 a LOCK.ACQUIRE k OWNER o$ SHARED PX 3600000
        16000 n$/4000 LOCK.MACQUIRE 2 k z OWNER o$%1000 SHARED BLOCK 0 NOTIFY told
        1 a PEXPIRE k 3000000
        until lock_waiters 16000
    ";
    #[ignore = "one lock is 8,000 units of work, and the next one is begun all the same"]
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
    /// What a lock's sessions are given back is counted for the turn alone.
    #[ignore = "does more than one lock's work beyond the budget"]
    a_command_for_locks_whose_sessions_outlive_a_standstill: "
        100 a LOCK.MACQUIRE 100 k*100 OWNER o$ SHARED PX 3000 SESSION
        1 a MULTI
        1 a DEBUG SLEEP 4
        1 a EXEC
        1 a LOCK.MACQUIRE 100 k*100 OWNER new SHARED PX 3600000 BLOCK 0 NOTIFY told
        until lock_waiters 0
        until lock_sessions 10000
        until lock_lapses 0
    ";
    /// Clearing up stops by the clock alone: how much work that is depends on the machine.
    #[ignore = "a turn clears up for a millisecond, however much that is"]
    a_swap_of_databases: "
        1 l SUBSCRIBE told
        9000 a LOCK.ACQUIRE k$ OWNER h PX 3600000
        9000 n LOCK.ACQUIRE k$ OWNER w BLOCK 0 NOTIFY told
        1 a SWAPDB 0 1
        until lock_handovers 9000
    ";
    /// Clearing up stops by the clock alone: how much work that is depends on the machine.
    #[ignore = "a turn clears up for a millisecond, however much that is"]
    a_close_with_sessions_on_locks_with_waiters: "
        1 l SUBSCRIBE told
        100 a LOCK.MACQUIRE 100 k*100 OWNER o$ SHARED PX 3600000 SESSION
        9000 n LOCK.ACQUIRE k$%100 OWNER w$ LIMIT 50 BLOCK 0 NOTIFY told
        close a
        until lock_sessions_ended 10000
        until lock_handovers 5000
    ";
    #[ignore = "a turn clears up for a millisecond, however much that is"]
    waits_for_many_locks_that_end_while_all_is_flushed_again_and_again: "
        200 b$/100 LOCK.MACQUIRE 100 k z$%100.*99 OWNER w$ PX 1000 SHARED BLOCK 400 NOTIFY told DETECT
        1 l SUBSCRIBE told
        1 d LOCK.MACQUIRE 100 k z0.*99 OWNER o PX 1000 BLOCK 0 NOTIFY told SESSION
        100 b LOCK.MACQUIRE 100 k z$.*99 OWNER w$ PX 1000 SHARED BLOCK 400 NOTIFY told DETECT
        10000 a FLUSHALL
        until lock_waiters 0
    ";
}
