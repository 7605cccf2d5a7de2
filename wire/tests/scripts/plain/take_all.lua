-- Several limits, all or nothing, as articles write it. The script looks at each limit first, then writes each.
--
-- KEYS
-- 1. and on, states
--
-- ARGV
-- 1. count, then of each kind, capacity, and tokens a second or window in ms
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local levels, count = #KEYS, tonumber(ARGV[1])
local kept = {}
for i = 1, levels do
  local kind, capacity, rate = ARGV[3 * i - 1], tonumber(ARGV[3 * i]), tonumber(ARGV[3 * i + 1])
  if kind == 'lazy' then
    local held = redis.call('HMGET', KEYS[i], 'tokens', 'at')
    local tokens, at = tonumber(held[1]) or capacity, tonumber(held[2]) or now
    tokens = math.min(capacity, tokens + math.max(0, now - at) * rate)
    if tokens < count then return {0, i} end
    kept[i] = tokens - count
  elseif kind == 'fixed' then
    local taken = tonumber(redis.call('GET', KEYS[i]) or 0)
    if taken + count > capacity then return {0, i} end
    kept[i] = taken
  else
    redis.call('ZREMRANGEBYSCORE', KEYS[i], 0, now - rate / 1000)
    local used = redis.call('ZCARD', KEYS[i])
    if used + count > capacity then return {0, i} end
  end
end
for i = 1, levels do
  local kind, capacity, rate = ARGV[3 * i - 1], tonumber(ARGV[3 * i]), tonumber(ARGV[3 * i + 1])
  if kind == 'lazy' then
    redis.call('HSET', KEYS[i], 'tokens', kept[i], 'at', now)
    redis.call('PEXPIRE', KEYS[i], math.ceil(capacity / rate * 1000))
  elseif kind == 'fixed' then
    redis.call('INCRBY', KEYS[i], count)
    if kept[i] == 0 then redis.call('PEXPIRE', KEYS[i], rate) end
  else
    redis.call('ZADD', KEYS[i], now, now)
    redis.call('PEXPIRE', KEYS[i], rate)
  end
end
return {1}
