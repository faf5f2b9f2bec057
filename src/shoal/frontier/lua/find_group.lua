-- find_group.lua: a lease group that has no deadline any more gets one that is past, so that it is reaped.
-- ARGV[1] group
-- returns 1 when it had none
if redis.call('EXISTS', lease_key(ARGV[1])) == 0 then return 0 end
return redis.call('ZADD', LEASES, 'NX', now, ARGV[1])
