-- For a user who may read records, and not write them. EVALSHA asks for the right to write every key in KEYS, so the
-- records come as arguments. This stands before the text of a script, and puts the records into KEYS. Without
-- functions.
--
-- ARGV
-- 1. the number of records, r
-- 2. to 2r + 1, in pairs, a position in KEYS and the record there. Then the arguments of the script
for i = 2, 2 * ARGV[1], 2 do table.insert(KEYS, tonumber(ARGV[i]), ARGV[i + 1]) end
local ARGV = {unpack(ARGV, 2 * ARGV[1] + 2)}
