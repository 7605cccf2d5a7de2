-- A fixed window as articles write it that tell for how long it lasts.
--
-- KEYS
-- 1. state
--
-- ARGV
-- 1. limit
-- 2. window in ms
-- 3. count
local limit, window, count = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local taken = redis.call('INCRBY', KEYS[1], count)
local left = redis.call('PTTL', KEYS[1])
if left < 0 then redis.call('PEXPIRE', KEYS[1], window) left = tonumber(window) end
if taken > limit then return {0, 0, left} end
return {1, limit - taken, left}
