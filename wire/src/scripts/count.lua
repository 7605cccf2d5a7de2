-- Adds to the counts of limits.
--
-- KEYS
-- 1. and on, in pairs, the record of a limit and its counts. All in one hash slot where Redis is a cluster
--
-- ARGV
-- 1. and on, for each pair of keys, a number n, then n pairs of a field and its increase. The field
--    `largest_difference` comes with a lower bound instead
--
-- Reply the number of limits that were counted. A limit without a record is not.
--
-- Laws  4. A limit that was removed meanwhile gets no key back.
assert(#KEYS >= 2 and #KEYS % 2 == 0, 'count takes pairs of keys')
local starts, at = {}, 1
for i = 1, #KEYS, 2 do
  starts[i] = at
  at = at + 1 + 2 * (tonumber(ARGV[at]) or #ARGV)
end
assert(at == #ARGV + 1, 'count takes for each pair of keys a number of fields, then fields and numbers')
-- A key or a field that is broken begins anew.
local function add(counts, field, more)
  if type(redis.pcall('HINCRBY', counts, field, more)) == 'table' then redis.call('HSET', counts, field, more) end
end
local t = redis.call('TIME')
local window = math.floor((t[1] * 1000000 + t[2]) / COUNT_WINDOW)
local counted = 0
for i = 1, #KEYS, 2 do
  local counts, start = KEYS[i + 1], starts[i]
  if redis.call('EXISTS', KEYS[i]) == 1 then
    counted = counted + 1
    local known = redis.pcall('HGET', counts, 'window')
    if type(known) == 'table' then redis.call('DEL', counts) end
    known = tonumber(known) or 0
    if known ~= window then
      local before = {0, 0}
      if known == window - 1 then before = redis.call('HMGET', counts, 'window_allowed', 'window_denied') end
      redis.call('HSET', counts, 'window', window, 'window_allowed', 0, 'window_denied', 0,
        'before_allowed', before[1] or 0, 'before_denied', before[2] or 0)
    end
    for j = start + 1, start + 2 * ARGV[start], 2 do
      local field, more = ARGV[j], ARGV[j + 1]
      if field ~= 'largest_difference' then
        add(counts, field, more)
        if field == 'allowed' or field == 'denied' then add(counts, 'window_' .. field, more) end
      elseif tonumber(more) > (tonumber(redis.call('HGET', counts, field)) or 0) then
        redis.call('HSET', counts, field, more)
      end
    end
  end
end
return counted
