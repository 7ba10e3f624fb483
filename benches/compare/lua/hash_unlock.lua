-- Gives back one hold of the lock in hash_lock.lua; with the last one, tells those who wait.
-- KEYS: lock, channel. ARGV: message, lease in ms, owner.
if redis.call('HEXISTS', KEYS[1], ARGV[3]) == 0 then
    return nil
end
local holds = redis.call('HINCRBY', KEYS[1], ARGV[3], -1)
if holds > 0 then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    return 0
end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', KEYS[2], ARGV[1])
return 1
