-- A count of the present window, which begins with its first take.
-- KEYS 1 count   ARGV 1 most in a window, 2 window in milliseconds   Reply 1 allowed, 0 denied
local count = redis.call('INCR', KEYS[1])
if count == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return count <= tonumber(ARGV[1]) and 1 or 0
