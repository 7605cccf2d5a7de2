-- Every operation on one bucket of an algorithm that needs nothing but its script. Runs after light.lua, time.lua,
-- bucket.lua and the file of the algorithm, which says what it answers with: a function of its name.
-- KEYS  1 record  2 state
-- ARGV  1 operation: take, peek, share, refund or reset  2 count, up to 2^53, as settle.lua's  3 the longest delay, in
--       µs, of a reserve: an operation of leaky_bucket.lua; of no other
-- Reply as settle.lua's, always all numbers, with no headroom: nothing but this script may take.
-- Laws  those of the algorithm.
assert(#KEYS == 2 and #ARGV == (ARGV[1] == 'reserve' and 3 or 2), 'scripted takes 2 keys and 2 arguments')
return scripted(KEYS[1], KEYS[2], microseconds(), ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]))
