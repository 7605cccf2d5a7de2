-- A token bucket refilled by whoever takes.
-- KEYS 1 bucket   ARGV 1 capacity, 2 tokens per span, 3 span in us, 4 count   Reply 1 allowed, 0 denied
local capacity, rate, count = tonumber(ARGV[1]), ARGV[2] / ARGV[3], tonumber(ARGV[4])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'last')
local tokens, last = tonumber(bucket[1]) or capacity, tonumber(bucket[2]) or now
tokens = math.min(capacity, tokens + math.max(0, now - last) * rate)
local allowed = tokens >= count
if allowed then tokens = tokens - count end
redis.call('HSET', KEYS[1], 'tokens', string.format('%.9f', tokens), 'last', string.format('%.0f', now))
redis.call('PEXPIRE', KEYS[1], math.ceil(capacity / rate / 1000) + 1000)
return allowed and 1 or 0
