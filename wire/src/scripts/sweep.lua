-- Removes one slice of counters that nothing may take from any more.
-- KEYS  1 record  2 due or former index  3... counters of the buckets in the slice
-- ARGV  1 bytes before the member in a counter's key
-- Reply buckets removed from the index: 0 while the record says that the limit is a token bucket.
-- Laws  4, and 6: a limit published again meanwhile, by another daemon, keeps its tokens.
assert(#KEYS >= 3 and #ARGV == 1, 'sweep takes at least 3 keys and 1 argument')
if redis.call('HGET', KEYS[1], 'algorithm') == 'token-bucket' then return 0 end
local members = {}
for i = 3, #KEYS do members[i - 2] = string.sub(KEYS[i], ARGV[1] + 1) end
redis.call('UNLINK', unpack(KEYS, 3))
return redis.call('ZREM', KEYS[2], unpack(members))
