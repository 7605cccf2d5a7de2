-- Makes a new arrangement of a limit's assignments effective. Its keys have been written before.
-- KEYS  1 assignments  2 the log of changes
-- ARGV  1 limit  2 the version of the assignments that the caller has read
--       3 the arrangement, without its instant. Empty to remove all assignments of the limit
-- Reply {outcome, now, at}.
--       0 nothing was done, since other assignments were changed meanwhile
--       1 done, and effective at the instant `at`
-- Laws  6, as for assign.lua.
assert(#KEYS == 2 and #ARGV == 3, 'arrange takes 2 keys and 3 arguments')
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local at, known = now + PLANS_AHEAD, tonumber(redis.call('HGET', KEYS[1], ' version') or 0)
if known ~= tonumber(ARGV[2]) then return {0, now, 0} end
local version = string.format('%.0f', math.max(now, known + 1))
if ARGV[3] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[3] .. ' ' .. string.format('%.0f', at))
end
redis.call('HSET', KEYS[1], ' version', version, ' since', version)
redis.call('UNLINK', KEYS[2])
return {1, now, at}
