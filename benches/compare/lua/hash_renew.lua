-- Renews the lease of the lock in hash_lock.lua: what that client's watchdog sends for each lock.
-- KEYS: lock. ARGV: lease in ms, owner.
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then
    return redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return 0
