-- A sliding window, estimated from the counts of two fixed ones. Times are in milliseconds.
--
-- KEYS
-- 1. count of this window
-- 2. count of the window before
--
-- ARGV
-- 1. most in a window
-- 2. window
-- 3. now by the worker's clock
--
-- Reply 1 allowed, 0 denied
local most, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local count = tonumber(redis.call('GET', KEYS[1])) or 0
local before = tonumber(redis.call('GET', KEYS[2])) or 0
if count + math.floor(before * (1 - ARGV[3] % window / window)) >= most then return 0 end
if redis.call('INCR', KEYS[1]) == 1 then redis.call('PEXPIRE', KEYS[1], 2 * window) end
return 1
