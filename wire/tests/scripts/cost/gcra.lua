-- The generic cell rate algorithm as one writes it by hand: what a settle is measured by.
--
-- KEYS
-- 1. state: the theoretical arrival time
--
-- ARGV
-- 1. µs per token
-- 2. burst
-- 3. count
--
-- Reply tokens left, or the µs to wait, below 0
local tat = tonumber(redis.call('GET', KEYS[1]))
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval, burst, count = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
if not tat or tat < now then tat = now end
local after = tat + interval * count
local left = math.floor((now + burst * interval - after) / interval)
if left < 0 then return now + burst * interval - after end
redis.call('SET', KEYS[1], string.format('%.0f', after), 'PX', math.ceil((after - now) / 1000))
return left
