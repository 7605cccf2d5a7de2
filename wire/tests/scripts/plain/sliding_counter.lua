-- A sliding counter as articles write it.
--
-- KEYS
-- 1. state
--
-- ARGV
-- 1. limit
-- 2. window in ms
-- 3. count
local limit, window, count = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local index = math.floor(now / window)
local current = KEYS[1] .. ':' .. index
local taken = tonumber(redis.call('GET', current) or 0)
local before = tonumber(redis.call('GET', KEYS[1] .. ':' .. (index - 1)) or 0)
local weight = 1 - (now - index * window) / window
local used = taken + before * weight
if used + count > limit then return {0, math.max(0, math.floor(limit - used))} end
redis.call('INCRBY', current, count)
if taken == 0 then redis.call('PEXPIRE', current, 2 * window) end
return {1, math.floor(limit - used - count)}
