-- Removes states that no script may use any more.
--
-- KEYS
-- 1. record
-- 2. and on, states of one algorithm
--
-- ARGV
-- 1. the algorithm
--
-- Reply keys removed; 0 while the record is of that algorithm.
--
-- Laws  4 6. A limit that was published again meanwhile keeps its tokens.
assert(#KEYS >= 2 and #ARGV == 1, 'sweep_states takes at least 2 keys and an algorithm')
local record = KEYS[1]
if redis.call('TYPE', record).ok == 'hash' and redis.call('HGET', record, 'algorithm') == ARGV[1] then return 0 end
return redis.call('UNLINK', unpack(KEYS, 2))
