-- Settles one bucket: every operation on it but the native commands. A worker settles a bucket that it has seen empty,
-- or does not know to be below full. Runs after settle_packed.lua, time.lua, bucket.lua, schedule.lua, rest.lua and
-- token_bucket.lua.
--
-- KEYS
-- 1. state
-- 2. record
-- 3. due index
-- 4. previous index; under gcra only the first two
--
-- ARGV
-- 1. operation: take, peek, share, charge, reserve, refund or reset. Also put-in and fill, which are refund and reset
--    of a bucket that other workers take from, too
-- 2. count, up to 2^53. A take is all or nothing, a peek tells the reply to a take, and a share takes up to count. A
--    charge takes up to count, also of an empty bucket, which is in debt after it. A reserve takes count ahead of time:
--    they are good once the debt is repaid
-- 3. 1 if a bucket at rest may become a counter, else 0
-- 4. tokens in doubt: this worker has taken them, and the bucket may not miss them. 0 if not given
--    - charge: the most debt after it
--    - reserve: the longest time in µs until its tokens are good. Beyond it, a reserve is a take
--    - put-in, fill: the instant in µs at which the bucket is full if no other worker has taken since. 0 if not known
-- 5. given if the reply is to be all numbers
--    - put-in, fill, reserve: the longest time in µs for which a worker has tokens in hand
-- 6. the instant in µs at which the bucket that the tokens in doubt were taken of is full. While it is that one, it
--    misses them. 0, or not given: they are taken off in any case
--    - put-in, fill: tokens that no caller got. They are lost where other workers have taken since
--    - reserve: µs whose tokens the bucket forfeits. Its own are good for as much longer
-- 7. put-in, fill: further tokens that no caller got. They are lost where callers have put tokens in since
-- 8. put-in, fill: the instant in µs after which those of 7 were taken. Earlier versions give neither 7 nor 8
--
-- Reply {verdict, tokens, capacity, wait, headroom, now, granted, counting}. If a bucket with a rate and catch-up has
--       granted all of a take or a share, only one number: headroom * 2 + counting.
-- - verdict: 1 allowed or done, 0 denied, -1 no such limit, -2 count above capacity, 2 to be put in again after
--   `wait`
-- - wait: µs until a denied take would be allowed, or where no token is left, until the next one. Of a reserve that was
--   allowed, until its tokens are good
-- - headroom: µs for which the bucket stays below full if nothing more is taken
-- - granted: tokens taken
-- - counting: 1 if the bucket is a counter after it, else 0
--
-- Laws  those of token_bucket.lua.
local puts = ARGV[1] == 'put-in' or ARGV[1] == 'fill'
assert(#KEYS >= 2 and #KEYS ~= 3 and #KEYS <= 4 and #ARGV >= 3 and (#ARGV <= 6 and not puts
    or (#ARGV == 6 or #ARGV == 8) and puts),
  'settle takes 4 or 2 keys and 3 to 8 arguments')
local reply, rests = token_bucket(#KEYS == 4 and 'token-bucket' or 'gcra', KEYS[1], KEYS[2], KEYS[3], KEYS[4],
  microseconds(), ARGV[1], tonumber(ARGV[2]), ARGV[3] == '1', tonumber(ARGV[4]), tonumber(ARGV[5]),
  tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]))
local taken = (ARGV[1] == 'take' or ARGV[1] == 'share') and reply[1] == 1 and reply[7] == tonumber(ARGV[2])
if taken and rests and #ARGV < 5 and reply[5] < LONGEST_SHORT_HEADROOM then return reply[5] * 2 + reply[8] end
return reply
