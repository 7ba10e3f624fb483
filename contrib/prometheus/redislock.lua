#!lua flags=no-writes,allow-stale
-- For redis_exporter's --script: the fields of `INFO lock` as metrics for Prometheus, with its conventions for names and
-- units. It only reads this section of INFO. prometheus.yml turns the label `key` into the metric's name.
-- A server without the module has no such section, and so no metrics.

-- The fields that show the current state. All others are counters.
local gauges = { keys = true, waiters = true, sessions = true, places = true, syncing = true, most_work = true,
                 oldest_wait_ms = true, longest_held_ms = true, grace_ms = true }
local seconds = { ms = 0.001, s = 1 }
local metrics = {}

local function add(name, value)
    metrics[#metrics + 1] = 'redis_lock_' .. name
    metrics[#metrics + 1] = value
end

local function in_seconds(ms)
    return string.format('%.3f', ms / 1000)
end

for field, value in string.gmatch(redis.call('INFO', 'lock'), '\nlock_([%w_]+):(%d+)') do
    local bound, unit = string.match(field, '^waits_le_(%d+)(m?s)$')
    if bound then
        add('wait_seconds_bucket{le="' .. tostring(bound * seconds[unit]) .. '"}', value)
    elseif field == 'waits_all' then
        add('wait_seconds_bucket{le="+Inf"}', value)
        add('wait_seconds_count', value)
    elseif field == 'waits_ms' then
        add('wait_seconds_sum', in_seconds(value))
    elseif gauges[field] then
        local milliseconds = string.match(field, '^(.+)_ms$')
        add(milliseconds and milliseconds .. '_seconds' or field, milliseconds and in_seconds(value) or value)
    else
        add(field .. '_total', value)
    end
end
return metrics
