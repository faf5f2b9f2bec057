-- configure_host.lua: an operator's word on a host; stronger than what jobs ask for.
-- ARGV[1] host   ARGV[2] rate ('' = as the job says, 0 = unlimited)   ARGV[3] burst that goes with it, '' likewise
-- ARGV[4] parallel ('' = as the job says, 0 = unlimited)   ARGV[5] hold_ms: ask it for nothing during this time,
-- '' leaves a hold as it is
-- returns 1
local host = ARGV[1]
local touched = {}
for i, field in ipairs({ 'rate', 'burst', 'parallel' }) do
  if ARGV[i + 1] == '' then
    redis.call('HDEL', host_key(host), field)
  else
    redis.call('HSET', host_key(host), field, ARGV[i + 1])
  end
end
if ARGV[5] ~= '' then redis.call('HSET', host_key(host), 'hold', now + tonumber(ARGV[5])) end
host_returned(host, 0, touched)
finish_moves(touched)
return 1
