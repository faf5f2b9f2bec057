-- skip_leases.lua: numbers of leases go on beyond all that this server may have forgotten, whatever its clock says.
-- ARGV[1] the run of the server, of which this is done once   ARGV[2] how many numbers are passed over
-- returns 1, or 0 when somebody has looked at this run already
if redis.call('GET', SERVER) == ARGV[1] then return 0 end
local given = max(tonumber(redis.call('GET', SEQUENCE)) or 0, now * 8)
redis.call('SET', SEQUENCE, string.format('%d', given + tonumber(ARGV[2])))
return 1
