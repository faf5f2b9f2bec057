-- sweep.lua: hosts that nobody has asked for a day leave the list; those with an operator's word stay.
-- ARGV[1] at most this many
-- returns how many left
local left = 0
for _, host in ipairs(redis.call('ZRANGEBYSCORE', HOSTS, '-inf', now - DAY_S * 1000, 'LIMIT', 0, tonumber(ARGV[1]))) do
  if read_host(host).set then
    redis.call('ZADD', HOSTS, now, host)
  else
    redis.call('ZREM', HOSTS, host)
    left = left + 1
  end
end
return left
