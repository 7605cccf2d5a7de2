-- Every operation on one bucket but the bare DECR: a worker that does not know the bucket to be below full, or has
-- seen it empty, settles it here. Runs after quick.lua, time.lua, bucket.lua and token_bucket.lua.
-- KEYS  1 record  2 due index  3 former index  4 counter
-- ARGV  1 member  2 operation: take, peek, share, refund or reset  3 count, up to 2^53 (take is all or nothing; peek:
--       what a take would be told; share: one token each for so many, as far as they go)  4 of a refund, if it is one
--       of tokens nobody else has reckoned with: the instant, in µs, at which the bucket is full if nobody has taken
--       since
-- Reply {verdict, tokens, capacity, wait, headroom, now, granted}: verdict 1 allowed or done, 0 denied, -1 no such
--       limit, -2 count above capacity; wait: µs until a denied take would be allowed, or, when none is left, the next
--       of one token; headroom: µs for which the bucket stays below full if nothing more is taken; granted: tokens
--       taken.
-- Laws  those of token_bucket.lua.
assert(#KEYS == 4 and (#ARGV == 3 or #ARGV == 4 and ARGV[2] == 'refund'),
  'settle takes 4 keys and 3 arguments, or 4 for a refund')
return token_bucket(KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1], microseconds(), ARGV[2], tonumber(ARGV[3]),
  tonumber(ARGV[4]))
