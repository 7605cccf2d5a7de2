-- Adds to the trial metrics of a limit.
-- KEYS  1 record  2 counts
-- ARGV  1 and on, in pairs: a field and its increase; for largest_difference, a lower bound
-- Reply 1; 0 if there is no such limit, and nothing was done.
-- Laws  4. A limit that was removed meanwhile gets no key back.
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
