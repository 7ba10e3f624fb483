//! What costs more than it may. Each is to be within the bound one day.

use super::attacks;

attacks! {
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
}
