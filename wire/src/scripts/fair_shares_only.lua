-- Settles one part of a limit with fair shares: every operation on it. Runs after
-- fair_shares_packed.lua, time.lua, bucket.lua and fair_shares.lua.
--
-- KEYS
-- 1. record
-- 2. state
--
-- ARGV
-- 1. operation: take, peek, share, charge, refund or reset
-- 2. count, up to 2^53, as in settle.lua
-- 3. the key
-- 4. `parts`, optional, for a peek that lists all parts
--
-- Reply as of script_only.lua. The capacity is that of the key's part. A list is {now, names, numbers}, with three
--       numbers of each part: its capacity, tokens and loan. Both are empty if no such limit is published.
--
-- Laws  those of fair_shares.lua.
assert(#KEYS == 2 and (#ARGV == 3 or #ARGV == 4), 'fair_shares_only takes 2 keys and 3 or 4 arguments')
return fair_shares(KEYS[1], KEYS[2], microseconds(), ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4] == 'parts')
