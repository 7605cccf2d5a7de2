-- A daemon takes its turn at the source of a limit's assignments, and tells what came of it. One daemon at a time has
-- the turn, until it dies or gives the turn up. Two that see different content therefore do not undo each other's work.
--
-- KEYS
-- 1. index of daemons
-- 2. sources
--
-- ARGV
-- 1. the daemon's id
-- 2. limit
-- 3. and on, fields and values to tell. An empty value removes the field
--
-- Reply {turn, now, applied}.
-- - turn: 1 if this daemon has it. 0 if another daemon alive has it, and nothing was done
-- - applied: the hash of the rows that Redis has, empty unless it has all of them
assert(#KEYS == 2 and #ARGV >= 2 and #ARGV % 2 == 0, 'source takes 2 keys, an id, a limit and pairs')
local t = redis.call('TIME')
local now, sources, limit = t[1] * 1000000 + t[2], KEYS[2], ARGV[2] .. ' '
local holder = redis.call('HGET', sources, limit .. 'daemon')
if holder and holder ~= ARGV[1] and tonumber(redis.call('ZSCORE', KEYS[1], holder) or 0) >= now then
  return {0, now, ''}
end
redis.call('HSET', sources, limit .. 'daemon', ARGV[1])
for i = 3, #ARGV, 2 do
  local field, value = ARGV[i], ARGV[i + 1]
  if field == 'problem' and value == '' then
    redis.call('HDEL', sources, limit .. 'since')
  elseif field == 'problem' and not redis.call('HGET', sources, limit .. 'problem') then
    redis.call('HSET', sources, limit .. 'since', string.format('%.0f', now))
  end
  if value == '' then
    redis.call('HDEL', sources, limit .. field)
  else
    redis.call('HSET', sources, limit .. field, value)
  end
end
return {1, now, redis.call('HGET', sources, limit .. 'applied') or ''}
