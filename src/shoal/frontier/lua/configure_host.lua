-- configure_host.lua: an operator's word on a host; stronger than what jobs ask for.
-- ARGV[1] host, or bucket of a domain   ARGV[2..] pairs: rate, parallel (0 = unlimited), paused (1), or hold (ms from now);
-- '' takes the word back
-- returns 1
local host, touched = ARGV[1], {}
local rate = redis.call('HGET', host_key(host), 'rate')
local words = {}
for i = 2, #ARGV, 2 do
  local field, value = ARGV[i], ARGV[i + 1]
  words[#words + 1] = field .. (value == '' and ' back' or ' ' .. value)
  if value == '' then
    redis.call('HDEL', host_key(host), field)
  else
    redis.call('HSET', host_key(host), field, field == 'hold' and now + tonumber(value) or value)
  end
end
-- A slot that was booked at another rate binds nobody, and jobs that were put off may ask again at once.
if redis.call('HGET', host_key(host), 'rate') ~= rate then redis.call('HDEL', host_key(host), 'slot') end
for _, job in ipairs(redis.call('SMEMBERS', JOBS)) do wake(job, host, touched) end
wake_waiters(host, 100000, touched)
note(host, 'set', 'an operator: ' .. table.concat(words, ', '))
local said = redis.call('HMGET', host_key(host), 'rate', 'parallel', 'paused')
if said[1] or said[2] or said[3] then
  redis.call('HSET', host_key(host), 'set', 1)
else
  redis.call('HDEL', host_key(host), 'set')
end
host_returned(host, read_host(host), 0, touched)
finish_moves(touched)
return 1
