-- Returns a lock only if the token is the caller's: what the server's own documentation of SET shows.
-- KEYS: lock. ARGV: token.
if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
end
return 0
