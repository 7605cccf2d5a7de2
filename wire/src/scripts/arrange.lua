-- Makes a new arrangement of a limit's assignments effective. Its keys have been written before.
--
-- KEYS
-- 1. assignments
-- 2. the log of changes
--
-- ARGV
-- 1. limit, or its source
-- 2. the version of its assignments that the caller has read
-- 3. the arrangement, without its instant. Empty to remove all assignments of the limit
--
-- Reply {outcome, now, at}.
-- - 0 nothing was done, since assignments of the limit were changed meanwhile, or others removed this arrangement
-- - 1 done, and effective at the instant `at`
--
-- Laws  6, as for assign.lua.
assert(#KEYS == 2 and #ARGV == 3, 'arrange takes 2 keys and 3 arguments')
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local meta, own = KEYS[1], ' version ' .. ARGV[1]
local at, known = now + PLANS_AHEAD, tonumber(redis.call('HGET', meta, ' version') or 0)
if tonumber(redis.call('HGET', meta, own) or 0) ~= tonumber(ARGV[2]) then return {0, now, 0} end
local version = string.format('%.0f', math.max(now, known + 1))
if ARGV[3] == '' then
  redis.call('HDEL', meta, ARGV[1], own)
else
  local idle, former = ' idle ' .. ARGV[1] .. ' ', redis.call('HGET', meta, ARGV[1])
  if redis.call('HDEL', meta, idle .. string.match(ARGV[3], '^%d+')) == 0 then return {0, now, 0} end
  if former then
    local number, size = string.match(former, '^(%d+) (%d+ %d+)')
    -- Workers that do not know yet read it for some time.
    redis.call('HSET', meta, idle .. number, size .. ' ' .. string.format('%.0f', now))
  end
  redis.call('HSET', meta, ARGV[1], ARGV[3] .. ' ' .. string.format('%.0f', at), own, version)
end
redis.call('HSET', meta, ' version', version, ' since', version)
redis.call('UNLINK', KEYS[2])
return {1, now, at}
