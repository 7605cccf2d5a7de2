-- A bucket that leaks: a take pours one token in, unless the bucket would run over.
-- KEYS 1 bucket   ARGV 1 capacity, 2 tokens per second   Reply 1 allowed, 0 denied
local capacity, rate = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local bucket = redis.call('HMGET', KEYS[1], 'level', 'at')
local level, at = tonumber(bucket[1]) or 0, tonumber(bucket[2]) or now
level = math.max(0, level - math.max(0, now - at) * rate) + 1
if level > capacity then return 0 end
redis.call('HSET', KEYS[1], 'level', string.format('%.6f', level), 'at', string.format('%.6f', now))
redis.call('PEXPIRE', KEYS[1], math.ceil(level / rate * 1000))
return 1
