-- CL.THROTTLE of the module redis-cell, on a server without it: the same replies to the same calls.
--
-- KEYS
-- 1. state: "µs ns", the theoretical arrival time to the ns
--
-- ARGV
-- 1. max_burst
-- 2. count
-- 3. period in seconds
-- 4. quantity
--
-- Reply {limited, limit, remaining, retry_after, reset_after}.
-- - limited: 0 or 1
-- - limit: max_burst + 1
-- - retry_after: whole seconds until the same call would be allowed, -1 if it was, or never would be
-- - reset_after: whole seconds until nothing of the key counts any more
--
-- Laws  1 (with no tick) 5 7. A call that takes longer than 285 years is an error and changes nothing.
--
-- The module counts in ns. Doubles cannot hold these, so a time here is two numbers: whole µs, and 0 to 999 ns beyond.
assert(#KEYS == 1 and #ARGV == 4, 'throttle takes 1 key and 4 arguments')
local state, max_burst, count = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local period, quantity = tonumber(ARGV[3]), tonumber(ARGV[4])

local function sum(us, ns, more_us, more_ns)
  us, ns = us + more_us, ns + more_ns
  local whole = math.floor(ns / 1000)
  return us + whole, ns - whole * 1000
end
local function less(us, ns, by_us, by_ns)
  return sum(us, ns, -by_us, -by_ns)
end
local function times(us, ns, factor)
  local whole = math.floor(ns * factor / 1000)
  return us * factor + whole, ns * factor - whole * 1000
end
-- Whole µs, towards 0, as the module rounds.
local function truncated(us, ns)
  return us < 0 and ns > 0 and us + 1 or us
end
local function seconds(us, ns)
  us = truncated(us, ns)
  return us < 0 and math.ceil(us / 1000000) or math.floor(us / 1000000)
end

local now = microseconds()
-- The module computes this the same way, and rounds above 2^53 ns.
local interval = math.floor(period * 1000000000 / count)
local each_ns = math.fmod(interval, 1000)
local each_us = math.floor((interval - each_ns) / 1000 + 0.5)
local most_us, most_ns = times(each_us, each_ns, max_burst + 1)
local more_us, more_ns = times(each_us, each_ns, quantity)
if most_us + more_us + now >= EXACT then
  return redis.error_reply('ERR such a throttle takes longer than can be reckoned: use a shorter period')
end

local held_us, held_ns = string.match(redis.call('GET', state) or '', '^(%d+) (%d+)$')
local tat_us, tat_ns = tonumber(held_us) or now, tonumber(held_ns) or 0
local from_us, from_ns = tat_us, tat_ns
if now > tat_us then from_us, from_ns = now, 0 end
local new_us, new_ns = sum(from_us, from_ns, more_us, more_ns)

-- The rest of the burst after this call. Below zero, the call is too early.
local early_us, early_ns = less(most_us, most_ns, less(new_us, new_ns, now, 0))
local limited, retry = early_us < 0, -1
local wait_us, wait_ns
if limited then
  wait_us, wait_ns = less(tat_us, tat_ns, now, 0)
  if more_us < most_us or more_us == most_us and more_ns <= most_ns then
    retry = seconds(less(0, 0, early_us, early_ns))
  end
else
  wait_us, wait_ns = less(new_us, new_ns, now, 0)
  if wait_us > 0 or wait_ns > 0 then
    local till = whole(math.ceil((new_us + 1) / 1000))
    redis.call('SET', state, whole(new_us) .. ' ' .. whole(new_ns), 'PXAT', till)
  end
end

local remaining = 0
local next_us, next_ns = less(most_us, most_ns, wait_us, wait_ns)
local beyond_us, beyond_ns = sum(next_us, next_ns, each_us, each_ns)
if beyond_us > 0 or beyond_us == 0 and beyond_ns > 0 then
  remaining = truncated(next_us, next_ns) / each_us
  remaining = remaining < 0 and math.ceil(remaining) or math.floor(remaining)
end
return {limited and 1 or 0, max_burst + 1, remaining, retry, seconds(wait_us, wait_ns)}
