-- Makes time pass: every instant kept in Redis moves back, or forward when the clock is to step back.
-- KEYS  1 record  2 due index  3 former index
-- ARGV  1 µs to pass
local by = tonumber(ARGV[1])
local function earlier(instant) return string.format('%.0f', instant - by) end

for i = 2, 3 do
  local scored = redis.call('ZRANGE', KEYS[i], 0, -1, 'WITHSCORES')
  for j = 1, #scored, 2 do redis.call('ZADD', KEYS[i], earlier(scored[j + 1]), scored[j]) end
end
for _, field in ipairs({'since', 'anchored', 'filled', 'fills', 'was_filled'}) do
  local instant = tonumber(redis.call('HGET', KEYS[1], field) or 0)
  -- 0 is none, and 2^53 never.
  if instant > 0 and instant < 9007199254740992 then redis.call('HSET', KEYS[1], field, earlier(instant)) end
end
local quick = string.gsub(redis.call('HGET', KEYS[1], 'quick') or '', 'l(%d+)$', function(since)
  return 'l' .. earlier(since)
end)
redis.call('HSET', KEYS[1], 'quick', quick)
-- Of scripted algorithms, the last of the packed terms is an instant.
local packed = redis.call('HGET', KEYS[1], 'packed')
if packed and #packed == 40 and struct.unpack('<d', packed, 33) > 0 then
  local instant = struct.unpack('<d', packed, 33)
  redis.call('HSET', KEYS[1], 'packed', string.sub(packed, 1, 32) .. struct.pack('<d', instant - by))
end
return redis.status_reply('OK')
