-- A fixed window as articles write it.
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
if taken == count then redis.call('PEXPIRE', KEYS[1], window) end
if taken > limit then return {0, 0} end
return {1, limit - taken}
