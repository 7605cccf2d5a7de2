-- Assigns keys of a limit to plans, or takes assignments back. A change takes effect later, at an instant that all
-- workers know ahead.
--
-- KEYS
-- 1. assignments
-- 2. the log of changes
-- 3. filter of the limit
-- 4. and on, the hash of each key
--
-- ARGV
-- 1. limit, or its source
-- 2. the limit's arrangement as the caller knows it, and as it is to be where there is none
-- 3. most entries of the log
-- 4. number of bits that a key sets
-- 5. µs for which assignments before matter for tokens
-- 6. and on, of each key: the key, its plan or -, the end of the assignment in µs or empty, and its bits
--
-- Reply {outcome, now, at, changed}.
-- - 0 nothing was done, since the arrangement is another
-- - 1 done. The changes take effect at `at`, for so many keys as `changed` says
-- - 2 nothing was done: another change of a key takes effect first, at `at`. Not all workers would know in time that
--   it is taken back
--
-- Laws  6. Until that instant, the terms before hold for all workers, and from then on for none.
assert(#KEYS >= 4 and #ARGV >= 5, 'assign takes 4 keys and 5 arguments at least')
local meta, log, filter = KEYS[1], KEYS[2], KEYS[3]
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local at, shape = now + PLANS_AHEAD, redis.call('HGET', meta, ARGV[1])
if shape and shape ~= ARGV[2] then return {0, now, 0, 0} end
if not shape then redis.call('HSET', meta, ARGV[1], ARGV[2]) end
local effective = tonumber(string.match(ARGV[2], ' (%d+)$'))
local version = math.max(now, tonumber(redis.call('HGET', meta, ' version') or 0) + 1)
local bits, changed, held = tonumber(ARGV[4]), 0, {}
local since = now - tonumber(ARGV[5])
local function wanted(i)
  local first = 6 + (i - 1) * (3 + bits)
  local ends = ARGV[first + 2]
  return first, ARGV[first], ARGV[first + 1] .. (ends ~= '' and '~' .. ends or '')
end
for i = 1, #KEYS - 3 do
  local _, key, target = wanted(i)
  local own, before, past = string.match(redis.call('HGET', KEYS[3 + i], key) or '-', '^([^<]*)<?([^<]*)(.*)$')
  local was_at = before ~= '' and (tonumber(string.match(before, '@(%d+)$')) or effective) or 0
  if own ~= target and was_at > now and was_at <= at then return {2, now, was_at, 0} end
  held[i] = {own = own, before = string.match(before, '^[^@]*'), at = was_at, past = past}
end
-- The assignments before `one`, the newest first, as far as they matter for tokens.
local function past_of(one)
  local past = {}
  if one.at > math.max(since, 0) and one.at <= at then
    past[1] = '<' .. one.before .. '@' .. string.format('%.0f', one.at)
  end
  for entry, till in string.gmatch(one.past, '(<[^<]*@(%d+))') do
    if tonumber(till) > since then past[#past + 1] = entry end
  end
  -- The first of them stays, since a key that is not used has its tokens there. The ones behind it are lost.
  if #past > MOST_PAST then
    past[#past - 2] = '<?' .. string.match(past[#past - 2], '@%d+$')
    table.remove(past, #past - 1)
  end
  return table.concat(past)
end
for i = 1, #KEYS - 3 do
  local hash, first, key, target = KEYS[3 + i], wanted(i)
  -- The assignment until then, with its end.
  local own = held[i].own
  local till = tonumber(string.match(own, '~(%d+)$'))
  local before = till and till <= math.min(now, since) and '-' or own
  if own ~= target then
    redis.call('HSET', hash, key, target .. '<' .. before .. '@' .. string.format('%.0f', at) .. past_of(held[i]))
    for bit = first + 3, first + 2 + bits do redis.call('SETBIT', filter, ARGV[bit], 1) end
    redis.call('ZADD', log, version, ARGV[1] .. ' ' .. key)
    changed = changed + 1
  end
end
if changed > 0 then
  version = string.format('%.0f', version)
  redis.call('HSET', meta, ' version', version, ' version ' .. ARGV[1], version)
  local more = redis.call('ZCARD', log) - tonumber(ARGV[3])
  if more > 0 then
    -- Workers that know less than the log tells read the filter again.
    local last = redis.call('ZRANGE', log, more - 1, more - 1, 'WITHSCORES')
    redis.call('HSET', meta, ' since', last[2])
    redis.call('ZREMRANGEBYSCORE', log, '-inf', last[2])
  end
end
return {1, now, at, changed}
