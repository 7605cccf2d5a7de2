-- The same as gcra.lua for two buckets: all or nothing.
-- KEYS 1, 2 buckets   ARGV 1 capacity, 2 microseconds per token   Reply 1 allowed, or minus the microseconds to wait
local token = tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local held = redis.call('MGET', KEYS[1], KEYS[2])
local first = math.max(tonumber(held[1]) or now, now) + token
local second = math.max(tonumber(held[2]) or now, now) + token
local wait = math.max(first, second) - now - ARGV[1] * token
if wait > 0 then return -math.ceil(wait) end
redis.call('SET', KEYS[1], string.format('%.0f', first), 'PX', math.max(1, math.ceil((first - now) / 1000)))
redis.call('SET', KEYS[2], string.format('%.0f', second), 'PX', math.max(1, math.ceil((second - now) / 1000)))
return 1
