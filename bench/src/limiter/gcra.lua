-- A token bucket kept as one instant: when it is full again.
-- KEYS 1 bucket   ARGV 1 capacity, 2 microseconds per token   Reply 1 allowed, or minus the microseconds to wait
local token = tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local full = math.max(tonumber(redis.call('GET', KEYS[1])) or now, now) + token
local wait = full - now - ARGV[1] * token
if wait > 0 then return -math.ceil(wait) end
redis.call('SET', KEYS[1], string.format('%.0f', full), 'PX', math.max(1, math.ceil((full - now) / 1000)))
return 1
