-- A log of what was allowed within the last window.
-- KEYS 1 log   ARGV 1 most in a window, 2 window in microseconds   Reply 1 allowed, 0 denied
local most, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - window))
local count = redis.call('ZCARD', KEYS[1])
if count >= most then return 0 end
-- Two within one microsecond are two.
redis.call('ZADD', KEYS[1], string.format('%.0f', now), string.format('%.0f:%d:%d', now, count, math.random(1000000)))
redis.call('PEXPIRE', KEYS[1], math.ceil(window / 1000))
return 1
