-- Begins, renews or ends the definition of a limit by code. Its record is another script's work.
--
-- KEYS
-- 1. definitions
-- 2. their ends
-- 3. registry
-- 4. claims
--
-- ARGV
-- 1. operation
--    - hold: begins or renews, and brings no end nearer
--    - change: notes that a change is under way, until `done`
--    - done: the change is made
--    - end: lets the definition end now
-- 2. the limit's name
-- 3. its owner
-- 4. time to live (µs)
-- 5. most definitions
--
-- Reply {outcome, now, until, owner}: now and until in µs.
-- - 0 done: the definition was there
-- - 1 done: it is new, or a change of it was not announced
-- - 2 another owner has it
-- - 3 a config has the limit: owner, where one claims it
-- - 4 there are too many
-- - 5 another owner's has ended, and its keys are still to be removed
-- - 6 there is none
--
-- Laws  8. A definition takes no limit from a config, and none from another owner.
assert(#KEYS == 4 and #ARGV == 5, 'define takes 4 keys, an operation, 2 names, a time and a number')
local definitions, ends, registry, claims = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local operation, name, owner = ARGV[1], ARGV[2], ARGV[3]
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local function whole(number) return string.format('%.0f', number) end
for i, expected in ipairs({'hash', 'zset'}) do
  local found = redis.call('TYPE', KEYS[i]).ok
  if found ~= expected and found ~= 'none' then redis.call('UNLINK', KEYS[i]) end
end
-- The mark of a change stands behind a space, which no name has.
local held, changing = redis.call('HGET', definitions, name) or nil, false
if held and string.sub(held, -2) == ' !' then held, changing = string.sub(held, 1, -3), true end
local until_ = math.floor(tonumber(redis.call('ZSCORE', ends, name) or 0))
if held and held ~= owner then
  return {until_ > now and 2 or 5, now, until_, held}
end
if not held and operation ~= 'hold' then return {6, now, 0, ''} end
if operation == 'change' then
  redis.call('HSET', definitions, name, owner .. ' !')
elseif operation == 'done' then
  redis.call('HSET', definitions, name, owner)
elseif operation == 'end' then
  until_ = now
  redis.call('ZADD', ends, whole(now), name)
end
if operation ~= 'hold' then return {0, now, until_, owner} end
if not held then
  local rows = redis.pcall('HGETALL', claims)
  if rows.err then rows = {} end
  local claim = name .. ' '
  for i = 1, #rows, 2 do
    if string.sub(rows[i], 1, #claim) == claim then return {3, now, 0, string.sub(rows[i], #claim + 1)} end
  end
  if redis.call('HGET', registry, name) then return {3, now, 0, ''} end
  if redis.call('HLEN', definitions) >= tonumber(ARGV[5]) then return {4, now, 0, ''} end
  -- The record is announced once it is written.
  redis.call('HSET', definitions, name, owner .. ' !')
end
-- Workers that know of a later end apply the limit until then.
until_ = math.max(held and until_ or 0, now + tonumber(ARGV[4]))
redis.call('ZADD', ends, whole(until_), name)
-- The registry entry comes before the first key, so that an unfinished limit can be removed.
redis.call('HSET', registry, name, 1)
return {held and not changing and 0 or 1, now, until_, owner}
