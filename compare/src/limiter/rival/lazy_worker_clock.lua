-- A token bucket refilled by whoever takes, by the clock of whoever takes; forgotten after a minute.
-- KEYS 1 bucket   ARGV 1 capacity, 2 tokens per span, 3 span in us, 4 count, 5 now in us   Reply 1 allowed, 0 denied
local capacity, rate, count, now = tonumber(ARGV[1]), ARGV[2] / ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'last')
local tokens, last = tonumber(bucket[1]) or capacity, tonumber(bucket[2]) or now
tokens = math.min(capacity, tokens + math.max(0, now - last) * rate)
local allowed = tokens >= count
if allowed then tokens = tokens - count end
redis.call('HSET', KEYS[1], 'tokens', string.format('%.9f', tokens), 'last', string.format('%.0f', now))
redis.call('EXPIRE', KEYS[1], 60)
return allowed and 1 or 0
