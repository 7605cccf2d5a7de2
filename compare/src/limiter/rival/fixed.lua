-- A counter per window.
-- KEYS 1 counter   ARGV 1 most in a window, 2 window in ms, 3 count   Reply 1 allowed, 0 denied
local so_far = redis.call('INCRBY', KEYS[1], ARGV[3])
if so_far == tonumber(ARGV[3]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return so_far <= tonumber(ARGV[1]) and 1 or 0
