-- A lazy token bucket as articles write it.
--
-- KEYS
-- 1. state
--
-- ARGV
-- 1. capacity
-- 2. tokens a second
-- 3. count
local capacity, rate, count = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local held = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local tokens, at = tonumber(held[1]) or capacity, tonumber(held[2]) or now
tokens = math.min(capacity, tokens + math.max(0, now - at) * rate)
local allowed = tokens >= count
if allowed then tokens = tokens - count end
redis.call('HSET', KEYS[1], 'tokens', tokens, 'at', now)
redis.call('PEXPIRE', KEYS[1], math.ceil(capacity / rate * 1000))
return {allowed and 1 or 0, math.floor(tokens)}
