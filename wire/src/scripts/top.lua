-- Adds denied takes to keys of a limit, in the slice of time that is now.
--
-- KEYS
-- 1. the record of the limit
-- 2. and on, its slices, each a sorted set
--
-- ARGV
-- 1. most keys of a slice
-- 2. the most denied takes of any key that are not told here
-- 3. and on, in pairs, a key of the limit and its denied takes
--
-- Reply 1 done. 0 nothing was done, since the limit has no record.
--
-- State of a slice: the score of the member '' bounds the denied takes that any key of the slice lacks. A slice is gone
-- before its turn comes again.
--
-- Laws  4. A limit that was removed meanwhile gets no key back.
assert(#KEYS >= 3 and #ARGV >= 4 and #ARGV % 2 == 0, 'top takes a record, slices, 2 numbers, and pairs')
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local slices = #KEYS - 1
local number = math.floor(redis.call('TIME')[1] * 1000000 / TOP_SLICE)
local slice = KEYS[2 + number % slices]
if redis.call('TYPE', slice).ok ~= 'zset' then redis.call('DEL', slice) end
local function add(member, more)
  local score = tonumber(redis.call('ZSCORE', slice, member) or 0)
  redis.call('ZADD', slice, score + more, member)
end
for i = 3, #ARGV, 2 do
  if ARGV[i] ~= '' then add(ARGV[i], tonumber(ARGV[i + 1])) end
end
local lacks = tonumber(ARGV[2])
local missing = tonumber(redis.call('ZSCORE', slice, '') or 0)
redis.call('ZREM', slice, '')
local over = redis.call('ZCARD', slice) - tonumber(ARGV[1])
if over > 0 then
  local lowest = redis.call('ZRANGE', slice, 0, over - 1, 'WITHSCORES')
  for i = 1, #lowest, 2 do redis.call('ZREM', slice, lowest[i]) end
  lacks = lacks + lowest[#lowest]
end
redis.call('ZADD', slice, missing + lacks, '')
redis.call('PEXPIREAT', slice, (number + slices - 1) * TOP_SLICE / 1000)
return 1
