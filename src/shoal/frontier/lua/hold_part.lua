-- hold_part.lua: a part that was claimed stays so for longer, or not at all; one that has moved begins to count anew.
-- The time until which somebody has a part is his token: who claims it later has it for longer.
-- ARGV[1] extraction   ARGV[2] part   ARGV[3] ms until when the caller has it   ARGV[4] ms from now; 0 gives it back
-- ARGV[5] 1 = it has moved
-- returns ms until when he has it now, or 0 when the part is somebody else's, or not there any more
local key, part = parts_key(ARGV[1]), ARGV[2]
if tonumber(redis.call('ZSCORE', key, part) or 0) ~= tonumber(ARGV[3]) then return 0 end
local till = now + tonumber(ARGV[4])
redis.call('ZADD', key, 'XX', till, part)
if ARGV[5] == '1' then redis.call('HDEL', claims_key(ARGV[1]), part) end
return till
