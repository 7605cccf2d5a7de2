-- Every operation on one bucket but the bare commands: a worker that does not know the bucket to be below full, or has
-- seen it empty, settles it here. Runs after quick.lua, time.lua, bucket.lua, rest.lua and token_bucket.lua.
-- KEYS  1 state  2 record  3 due index  4 former index; of a bucket under gcra the first two
-- ARGV  1 operation: take, peek, share, refund or reset; put-in and fill, which are refund and reset of a bucket that
--       others take from too; put-back, of tokens taken ahead of their takers, lost where others have taken since
--       2 count, up to 2^53 (take is all or nothing; peek: what a take would be told; share: one token each for so
--       many, as far as they go)
--       3 1 when a bucket at rest may become a counter, else 0
--       4 tokens this worker took by bare commands that may have met a full bucket, 0 when not given; of put-in, fill
--       and put-back: the instant, in µs, at which the bucket is full if nobody else has taken since, 0 when not known
--       5 given when the reply is to be all numbers; of put-in and fill: the longest, in µs, that a worker has tokens
--       in hand
-- Reply headroom * 2, and 1 more when the bucket is a counter after it: all of a take or a share was granted, of a
--       bucket with a rate and catch-up. Otherwise {verdict, tokens, capacity, wait, headroom, now, granted, counting}:
--       verdict 1 allowed or done, 0 denied, -1 no such limit, -2 count above capacity, 2 to be put in again after
--       wait; wait: µs until a denied take would be allowed, or, when none is left, the next of one token; headroom: µs
--       for which the bucket stays below full if nothing more is taken; granted: tokens taken; counting: 1 when the
--       bucket is a counter after it.
-- Laws  those of token_bucket.lua.
local fifth = ARGV[1] == 'put-in' or ARGV[1] == 'fill'
assert(#KEYS >= 2 and #KEYS ~= 3 and #KEYS <= 4 and #ARGV >= 3 and #ARGV <= 5 and (not fifth or ARGV[5])
  and (ARGV[1] ~= 'put-back' or ARGV[4]),
  'settle takes 4 or 2 keys and 3 to 5 arguments')
local reply, rests = token_bucket(#KEYS == 4 and 'token-bucket' or 'gcra', KEYS[1], KEYS[2], KEYS[3], KEYS[4],
  microseconds(), ARGV[1], tonumber(ARGV[2]), ARGV[3] == '1', tonumber(ARGV[4]), tonumber(ARGV[5]))
local taken = (ARGV[1] == 'take' or ARGV[1] == 'share') and reply[1] == 1 and reply[7] == tonumber(ARGV[2])
if taken and rests and #ARGV < 5 and reply[5] < EXACT / 2 then return reply[5] * 2 + reply[8] end
return reply
