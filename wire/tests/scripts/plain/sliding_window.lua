-- A log of takes as articles write it.
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
local now = time[1] * 1000000 + time[2]
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - window * 1000)
local used = redis.call('ZCARD', KEYS[1])
if used + count > limit then return {0, limit - used} end
for i = 1, count do redis.call('ZADD', KEYS[1], now, now .. ':' .. i) end
redis.call('PEXPIRE', KEYS[1], window)
return {1, limit - used - count}
