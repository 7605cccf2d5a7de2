-- Mends the keys that all limits share.
--
-- KEYS
-- 1. registry
-- 2. generation
-- 3. index of daemons
-- 4. details of this daemon
-- 5. definitions by code
-- 6. their ends
-- 7. change log
--
-- ARGV
-- 1. the generation that the caller knows, 0 if none
--
-- Reply {alive, generation, what, ...}. The number of daemons whose heartbeat is good, the generation if it was
--       mended, else 0, and the name of each thing that was mended.
assert(#KEYS == 7 and #ARGV == 1, 'mend_shared takes 7 keys and a generation')
-- A generation is at most so many ms ahead of the clock, a heartbeat so many µs: far more than clocks step back.
local GENERATION_AHEAD, BEAT_AHEAD = 86400000, 10000000
-- More daemons than anyone has, and more limits than this script reads.
local MOST_DAEMONS, MOST_LIMITS = 10000, 10000
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local done, lost = {}, false
local types = {
  {'registry', 'hash'}, {'generation', 'string'}, {'index of daemons', 'zset'}, {'details of this daemon', 'hash'},
  {'definitions', 'hash'}, {'ends of definitions', 'zset'}, {'change log', 'zset'},
}
for i, expected in ipairs(types) do
  local found = redis.call('TYPE', KEYS[i]).ok
  if found ~= expected[2] and found ~= 'none' then
    redis.call('UNLINK', KEYS[i])
    lost = lost or i == 2
    done[#done + 1] = expected[1] .. ' of type ' .. found
  end
end

if redis.call('HLEN', KEYS[1]) <= MOST_LIMITS then
  local rows = redis.call('HGETALL', KEYS[1])
  for i = 1, #rows, 2 do
    local shards = string.find(rows[i + 1], '^%d+$') and tonumber(rows[i + 1]) or 0
    if shards < 1 or shards > MOST_SHARDS then
      redis.call('HDEL', KEYS[1], rows[i])
      done[#done + 1] = 'registry entry ' .. string.format('%q', string.sub(rows[i], 1, 32))
    end
  end
end

-- A definition without an end ends with its record.
if redis.call('HLEN', KEYS[5]) > redis.call('ZCARD', KEYS[6]) then
  local rows = redis.call('HGETALL', KEYS[5])
  for i = 1, #rows, 2 do
    if not redis.call('ZSCORE', KEYS[6], rows[i]) then
      redis.call('ZADD', KEYS[6], string.format('%.0f', now), rows[i])
      done[#done + 1] = 'end of definition ' .. string.format('%q', string.sub(rows[i], 1, 64))
    end
  end
end

local text, ms, mended = redis.call('GET', KEYS[2]), math.floor(now / 1000), 0
local function is_sound(number)
  return number and number <= ms + GENERATION_AHEAD
end
if lost or text and not (string.find(text, '^%d+$') and #text <= 16 and is_sound(tonumber(text))) then
  local known = tonumber(ARGV[1])
  mended = is_sound(known) and math.max(known + 1, ms) or ms
  redis.call('SET', KEYS[2], string.format('%.0f', mended))
  if text then done[#done + 1] = 'generation ' .. string.sub(text, 1, 32) end
end

-- A living daemon is back with its next heartbeat.
local ahead = redis.call('ZCOUNT', KEYS[3], now + BEAT_AHEAD, '+inf')
if redis.call('ZCARD', KEYS[3]) > MOST_DAEMONS then
  redis.call('UNLINK', KEYS[3])
  done[#done + 1] = 'index of too many daemons'
elseif ahead > 0 then
  redis.call('ZREMRANGEBYSCORE', KEYS[3], now + BEAT_AHEAD, '+inf')
  done[#done + 1] = 'heartbeats ahead of the clock'
end
return {redis.call('ZCOUNT', KEYS[3], now, '+inf'), mended, unpack(done)}
