-- Assigns keys of a limit to plans, or takes assignments back. A change takes effect later, at an instant that all
-- workers know ahead.
-- KEYS  1 assignments  2 the log of changes  3 filter of the limit  4... the hash of each key
-- ARGV  1 limit  2 the limit's arrangement as the caller knows it, and as it is to be where there is none
--       3 most entries of the log  4 number of bits that a key sets
--       then, of each key, the key, its plan or -, the end of the assignment in µs or empty, and its bits
-- Reply {outcome, now, at, changed}.
--       0 nothing was done, since the arrangement is another
--       1 done. The changes take effect at `at`, for so many keys as `changed` says
-- Laws  6. Until that instant, the terms before hold for all workers, and from then on for none.
assert(#KEYS >= 4 and #ARGV >= 4, 'assign takes 4 keys and 4 arguments at least')
local meta, log, filter = KEYS[1], KEYS[2], KEYS[3]
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local at, shape = now + PLANS_AHEAD, redis.call('HGET', meta, ARGV[1])
if shape and shape ~= ARGV[2] then return {0, now, 0, 0} end
if not shape then redis.call('HSET', meta, ARGV[1], ARGV[2]) end
local effective = tonumber(string.match(ARGV[2], ' (%d+)$'))
local version = math.max(now, tonumber(redis.call('HGET', meta, ' version') or 0) + 1)
local bits, changed = tonumber(ARGV[4]), 0
for i = 1, #KEYS - 3 do
  local hash, first = KEYS[3 + i], 5 + (i - 1) * (3 + bits)
  local key, target, ends = ARGV[first], ARGV[first + 1], ARGV[first + 2]
  if ends ~= '' then ends = '~' .. ends end
  local held = redis.call('HGET', hash, key)
  local own, before = string.match(held or '-', '^([^<]*)<?(.*)$')
  local word, was_at = string.match(before, '^([^@]*)@?(%d*)$')
  -- The terms until then: those before a change that is not in force yet.
  if before ~= '' and (tonumber(was_at) or effective) > now then
    before = word
  else
    local plan, till = string.match(own, '^([^~]*)~?(%d*)$')
    before = tonumber(till) and tonumber(till) <= now and '-' or plan
  end
  if own ~= target .. ends then
    redis.call('HSET', hash, key, target .. ends .. '<' .. before .. '@' .. string.format('%.0f', at))
    for bit = first + 3, first + 2 + bits do redis.call('SETBIT', filter, ARGV[bit], 1) end
    redis.call('ZADD', log, version, ARGV[1] .. ' ' .. key)
    changed = changed + 1
  end
end
if changed > 0 then
  redis.call('HSET', meta, ' version', string.format('%.0f', version))
  local more = redis.call('ZCARD', log) - tonumber(ARGV[3])
  if more > 0 then
    -- Workers that know less than the log tells read the filter again.
    local last = redis.call('ZRANGE', log, more - 1, more - 1, 'WITHSCORES')
    redis.call('HSET', meta, ' since', last[2])
    redis.call('ZREMRANGEBYSCORE', log, '-inf', last[2])
  end
end
return {1, now, at, changed}
