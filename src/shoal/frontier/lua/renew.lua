-- renew.lua: a worker still works on these lease groups; move their deadlines.
-- ARGV[1] lease_ms   ARGV[2..] groups
-- returns the groups that are lost
local lost = {}
for i = 2, #ARGV do
  if redis.call('ZSCORE', LEASES, ARGV[i]) then
    redis.call('ZADD', LEASES, 'XX', now + tonumber(ARGV[1]), ARGV[i])
  else
    lost[#lost + 1] = ARGV[i]
  end
end
return lost
