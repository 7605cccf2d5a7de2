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
-- 3. the most debt after a charge, or the longest delay in µs of a reserve (an operation of leaky_bucket.lua)
--
-- Reply as of settle.lua, always all numbers. There is no headroom, since no native command may take.
--
-- Laws  those of the algorithm.
assert(#KEYS == 2 and #ARGV == ((ARGV[1] == 'reserve' or ARGV[1] == 'charge') and 3 or 2),
  'script_only takes 2 keys and 2 arguments')
return settle(KEYS[1], KEYS[2], microseconds(), ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]))
