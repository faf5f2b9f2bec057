-- hold_part.lua: a part that was claimed stays so for longer, or not at all; one that has moved begins to count anew.
-- ARGV[1] extraction   ARGV[2] part   ARGV[3] ms; 0 gives it back   ARGV[4] 1 = it has moved
-- returns 1, or 0 when the part is not there any more
local key, part = parts_key(ARGV[1]), ARGV[2]
if not redis.call('ZSCORE', key, part) then return 0 end
redis.call('ZADD', key, 'XX', now + tonumber(ARGV[3]), part)
if ARGV[4] == '1' then redis.call('HDEL', claims_key(ARGV[1]), part) end
return 1
