-- The end of a defined limit in its record: moves it to a later instant, ends the record, or drops one that has ended.
--
-- KEYS
-- 1. record
-- 2. index of holds
-- 3. index of permits
--
-- ARGV
-- 1. 'drop', 'end', or the instant at which the limit ends (µs). The later of two instants holds, since calls of
--    several definers come in any order
-- 2. for 'end', the end that the record had when the caller still had the definition. '' for any
--
-- Reply
-- - 1 the record ends then or later, has ended, or is gone
-- - 0 nothing was done, since there is no record to end, or it has not ended yet, or is of another definition
--
-- Laws  8. A record of a config has no end, and stays.
assert(#KEYS == 3 and #ARGV == 2, 'expire takes 3 keys and 2 instants')
local record = KEYS[1]
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local kind = redis.call('TYPE', record).ok
if ARGV[1] ~= 'drop' then
  local expires = kind == 'hash' and redis.call('HGET', record, 'expires')
  if not expires then return 0 end
  local held = tonumber(expires) or 0
  if ARGV[1] == 'end' then
    if ARGV[2] ~= '' and ARGV[2] ~= expires then return 0 end
    redis.call('HSET', record, 'expires', 1)
  else
    if not (held < 2 ^ 53 and held >= tonumber(ARGV[1])) then redis.call('HSET', record, 'expires', ARGV[1]) end
    -- A removal that has passed a new record leaves it. It stays no longer than its first end then.
    if tonumber(ARGV[1]) > now then redis.call('PERSIST', record) end
  end
  return 1
end
if kind == 'hash' then
  local expires = tonumber(redis.call('HGET', record, 'expires') or nil)
  if not expires or expires > now then return 0 end
end
redis.call('UNLINK', unpack(KEYS))
return 1
