-- The end of a defined limit in its record: moves it, or drops a record that has ended.
-- KEYS  1 record  2 index of holds  3 index of permits
-- ARGV  1 'drop', or the instant at which the limit ends (µs)
-- Reply 1 done: the record ends then, or is gone. 0 nothing done: there is no record to end, or it has not ended yet.
-- Laws  8. A record of a config has no end, and stays.
assert(#KEYS == 3 and #ARGV == 1, 'expire takes 3 keys and an instant')
local record = KEYS[1]
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local kind = redis.call('TYPE', record).ok
if ARGV[1] ~= 'drop' then
  if kind ~= 'hash' or not redis.call('HGET', record, 'expires') then return 0 end
  redis.call('HSET', record, 'expires', ARGV[1])
  return 1
end
if kind == 'hash' then
  local expires = tonumber(redis.call('HGET', record, 'expires') or nil)
  if not expires or expires > now then return 0 end
end
redis.call('UNLINK', unpack(KEYS))
return 1
