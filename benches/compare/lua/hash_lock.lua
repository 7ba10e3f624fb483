-- The re-entrant lock of Java's best-known client: a hash, its field the owner, its value the holds.
-- Answers nil where the caller has it now, else how long the lease still lasts.
-- KEYS: lock. ARGV: lease in ms, owner.
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then
    redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
    redis.call('PEXPIRE', KEYS[1], ARGV[1])
    return nil
end
return redis.call('PTTL', KEYS[1])
