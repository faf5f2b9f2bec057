-- glance.lua: is there work for a worker of these queues? Changes nothing.
-- ARGV queues
-- returns {expired leases, ms until something is due for each queue (-1 = nothing waits), …}
local waits = {}
for i, queue in ipairs(ARGV) do
  local first = redis.call('ZRANGE', due_key(queue), 0, 0, 'WITHSCORES')
  waits[i] = first[2] and math.max(0, math.ceil(tonumber(first[2]) - now)) or -1
end
return { redis.call('ZCOUNT', LEASES, '-inf', now), unpack(waits) }
