-- A worker says that it is alive, and asks how many are. Only workers with a limit whose outage policy is `local` do.
--
-- KEYS
-- 1. index of workers
--
-- ARGV
-- 1. this worker's id
-- 2. ms for which it counts
--
-- Reply the number of workers alive.
assert(#KEYS == 1 and #ARGV == 2, 'workers takes 1 key, an id and a time')
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('ZADD', KEYS[1], now + ARGV[2] * 1000, ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('ZCARD', KEYS[1])
