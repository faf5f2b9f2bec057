-- configure_host.lua: an operator's word on a host; stronger than what jobs ask for.
-- ARGV[1] host   ARGV[2..] pairs: rate, burst, parallel (0 = unlimited), paused (1), or hold (ms from now);
-- '' takes the word back
-- returns 1
local host, touched = ARGV[1], {}
local rate = redis.call('HGET', host_key(host), 'rate')
for i = 2, #ARGV, 2 do
  local field, value = ARGV[i], ARGV[i + 1]
  if value == '' then
    redis.call('HDEL', host_key(host), field)
  else
    redis.call('HSET', host_key(host), field, field == 'hold' and now + tonumber(value) or value)
  end
end
-- A slot that was booked at another rate binds nobody, and jobs that were put off may ask again at once.
if redis.call('HGET', host_key(host), 'rate') ~= rate then redis.call('HDEL', host_key(host), 'slot') end
for _, job in ipairs(redis.call('SMEMBERS', JOBS)) do
  if redis.call('ZADD', ready_key(job), 'XX', 'LT', 'CH', now, host) == 1 then touched[job] = true end
end
local words = redis.call('HMGET', host_key(host), 'rate', 'parallel', 'paused')
if words[1] or words[2] or words[3] then
  redis.call('HSET', host_key(host), 'set', 1)
else
  redis.call('HDEL', host_key(host), 'set')
end
host_returned(host, 0, touched)
finish_moves(touched)
return 1
