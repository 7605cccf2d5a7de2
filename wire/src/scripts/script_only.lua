-- Settles one bucket of an algorithm that only a script takes from: every operation on it. Runs after take_packed.lua,
-- time.lua, bucket.lua and the file of the algorithm, which sets `settle` to its function.
--
-- KEYS
-- 1. record
-- 2. state
--
-- ARGV
-- 1. operation: take, peek, share, charge, refund or reset
-- 2. count, up to 2^53, as in settle.lua
-- 3. the most debt after a charge, or the longest delay in µs of a reserve (an operation of leaky_bucket.lua). For any
--    other operation on a fixed window, `uncovered` of fixed_window.lua, if there is any
--
-- Reply as of settle.lua, always all numbers. There is no headroom, since no native command may take.
--
-- Laws  those of the algorithm.
local third = ARGV[1] == 'reserve' or ARGV[1] == 'charge'
local may_have_third = third or #KEYS == 2 and string.byte(KEYS[2], #KEYS[1] - 4) == FIXED_WINDOW_LETTER
assert(#KEYS == 2 and (#ARGV == 3 and may_have_third or #ARGV == 2 and not third),
  'script_only takes 2 keys and 2 or 3 arguments')
return settle(KEYS[1], KEYS[2], microseconds(), ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]))
