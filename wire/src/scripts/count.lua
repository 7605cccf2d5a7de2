-- Adds to what is counted of a limit.
-- KEYS  1 record  2 counts
-- ARGV  1 and on, in pairs: a field, and how much more it is; of largest_difference, how much it is at least
-- Reply 1; 0 when there is no such limit, and nothing was done.
-- Laws  4. Of a limit that was removed meanwhile no key comes back.
assert(#KEYS == 2 and #ARGV >= 2 and #ARGV % 2 == 0, 'count takes 2 keys and pairs of fields and numbers')
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
for i = 1, #ARGV, 2 do
  if ARGV[i] ~= 'largest_difference' then
    redis.call('HINCRBY', KEYS[2], ARGV[i], ARGV[i + 1])
  elseif tonumber(ARGV[i + 1]) > tonumber(redis.call('HGET', KEYS[2], ARGV[i]) or 0) then
    redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1])
  end
end
return 1
